/**
 * The domain model: runs, pages, and what is recorded about them.
 * All of it is plain, read-only, JSON-safe data, so that every store can keep it as it is.
 */

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/**
 * The service's continuation value, exactly as received in the response header. It is opaque: never parsed and never
 * constructed (docs/service-contract.md, section 2.2). Only the service client creates one; stores restore their own.
 */
export type Cursor = Branded<'Cursor'>;
export const asCursor = (value: string): Cursor => value as Cursor;

/**
 * The maximum length of a cursor as it is stored, in ASCII characters. A page-log entry has up to three cursors: 192 of the 400 KB
 * that an item of DynamoDB may have.
 */
export const maxCursorLength = 64 * 1024;

/** A UTC instant in canonical ISO 8601 form: `2026-11-20T02:00:00Z`, with `.mmm` only if the milliseconds are not zero. */
export type Instant = Branded<'Instant'>;

/**
 * What kind of document a page is, by the name of its root element: `reports`, or `{http://example.com/ns}reports` in a namespace; of
 * CSV, by its first row.
 * The pages of an export all have the same one (`document-root.ts`).
 */
export type DocumentRoot = Branded<'DocumentRoot'>;

/** `20261120T020000Z-1f3a5c`: the second in which the run began, and six random hexadecimal digits. Sorts by time. */
export type RunId = Branded<'RunId'>;
export const asRunId = (value: string): RunId => value as RunId;

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

/** What a run requests from the service. The same for each of its pages (docs/service-contract.md, section 4.1). */
export interface ExportRequest {
  /** The service: its base URL, or `simulator`. Cursors and watermarks are valid only for the service they came from. */
  readonly source: string;
  /** The filter without `date.gte`, which each request takes from the run's `since`. */
  readonly filter: JsonObject;
  readonly format: string;
  readonly container: string;
  /** Reports per page, 1 to 10. Absent: the service's default, at most 100 (docs/service-contract.md, section 4.1). */
  readonly size?: number | undefined;
  /** What else decides what is requested, of the service's settings. Headers may be confidential: only checksums are kept. */
  readonly api: {
    /**
     * Where responses have the next page, and what is there, such as `body cursor`. Set if the service is another API,
     * which the settings describe (docs/apis.md). The filter then has values for its requests.
     */
    readonly pagination?: string | undefined;
    /** Changes with everything that decides what is requested, what a page is, and how the next one is requested. */
    readonly sha256: string;
    /** Changes with what selects reports: the description of requests, headers, and the public parts of credentials. */
    readonly requestSha256: string;
  };
}

/** How a run's `since` is chosen if the start input does not specify one. */
type SincePolicy =
  | {
      readonly from: 'watermark';
      /** Where the first run starts. Absent: with the oldest report, or at the `since` of an explicit first start. */
      readonly initial?: Instant | undefined;
      /** How far before the watermark a run starts. */
      readonly overlapMs: number;
    }
  | {
      readonly from: 'lookback';
      /** How far before its scheduled time a run starts. It starts at the watermark if that is earlier. */
      readonly lookbackMs: number;
    };

/** The reports of a half-open interval: dated at or after `since`, and before `until`. */
export interface Bounds {
  readonly since: Instant;
  readonly until: Instant;
}

/** How a run is divided into slices that are walked at the same time (`slices.ts`). */
export interface Slicing {
  /** How many slices are walked at the same time. */
  readonly parallel: number;
  /** How long a slice is. Absent: chosen for each run. */
  readonly lengthMs?: number | undefined;
}

/** What the dates of requests can express. */
export interface RequestDates {
  /** The milliseconds between two dates that a request can have. */
  readonly unitMs: number;
  /** What excludes reports from a date on, for messages: `date.lt`, or `{until}`. Absent: requests have no upper bound. */
  readonly upperBound?: string | undefined;
}

/** How pages are compressed in the store. */
export type Compression = 'gzip';

/** What is exported, under which name, and the limits of its runs. */
export interface ExportDefinition {
  /** In keys, manifests and events. */
  readonly name: string;
  /** The name of its state: `name`; of bounded runs, one that names their bounds, too (`bounded-runs.ts`). */
  readonly stateName: string;
  readonly request: ExportRequest;
  readonly dates: RequestDates;
  readonly since: SincePolicy;
  /** How long after its date a report may still appear. A run ends that long before it begins. 0: a run has no upper bound. */
  readonly lagMs: number;
  readonly slicing: Slicing;
  /** Set for bounded runs: an operator has named what they export. */
  readonly bounds?: Bounds | undefined;
  /** Whether a run without reports is published. In any case it moves the watermark. */
  readonly publishEmptyRuns: boolean;
  /** Absent: nothing. */
  readonly expect?: ReportExpectations | undefined;
  /** The root of every page. Absent: that of the runs before; the first run may have any. */
  readonly documentRoot?: DocumentRoot | undefined;
  /** Of the pages of new runs. Absent: they are not compressed. */
  readonly compression?: Compression | undefined;
  readonly limits: RunLimits;
}

/** What runs should find. */
interface ReportExpectations {
  /** A run with fewer reports fails, and is not published. */
  readonly minReports?: number | undefined;
  /** If no run has had reports for so long, someone should know. */
  readonly reportsEveryMs?: number | undefined;
}

export interface RunLimits {
  /** A run with more pages than this fails. Absent: no limit. */
  readonly maxPages?: number | undefined;
  /** A run with so many consecutive pages without reports fails: it may never end. */
  readonly maxEmptyPages: number;
  /** Iterations of the loop after which the run continues in a new execution. */
  readonly iterationsPerExecution: number;
  /** How many pages one invocation exports at most, while its time allows. */
  readonly pagesPerInvocation: number;
  /** How often a run may start over because the service rejected its own cursor. */
  readonly maxCursorRestarts: number;
  /** A Retry-After of up to this many seconds is waited out inside the invocation, a longer one in the Wait state. */
  readonly maxInlineWaitSeconds: number;
  /** A Retry-After of more than this many seconds fails the run. */
  readonly maxRetryAfterSeconds: number;
  /** How many Wait states may follow each other without a page between them before the run fails. */
  readonly maxConsecutiveWaits: number;
}

/** One run of an export, from its first page to its last, as the export state holds it while it is active. */
export interface Run {
  readonly export: string;
  readonly run: RunId;
  /** Increases with every run that has the same state: the newest manifest has the highest. */
  readonly sequence: number;
  readonly since: Instant;
  /** The run's reports are dated before it. Absent: the run has no upper bound. */
  readonly until?: Instant | undefined;
  /** Whether an operator has named its bounds. Such a run moves no watermark, and consumers do not catch up with it. */
  readonly bounded?: true | undefined;
  /** Set for a bounded run that is part of a series: where the series ends, and how long its parts are. */
  readonly series?: Series | undefined;
  /** That of the definition when the run began: the watermark stays so long before the clocks. */
  readonly lagMs: number;
  /** Absent: the run has one slice, from `since` to `until`. */
  readonly slices?: RunSlices | undefined;
  readonly request: ExportRequest;
  /** That of the definition when the run began: all its pages have the same form. */
  readonly compression?: Compression | undefined;
  /** By our own clock. Its day is the run's `date=` partition. */
  readonly startedAt: Instant;
  /** The execution that began the run. */
  readonly startedBy: string;
  /** The execution that owns the run. Every other execution is superseded. */
  readonly execution: string;
  /** Numbers the executions of the run, from 1. */
  readonly executionNumber: number;
  readonly scheduledTime?: string | undefined;
  /** How often this run started over because the service rejected its own cursor. */
  readonly cursorRestarts: number;
  /** Set if it started over: the root of the pages before. */
  readonly documentRoot?: DocumentRoot | undefined;
  /** Decided once, before anything is published, so that a repeated attempt writes the same bytes, also with other settings. */
  readonly completion?: RunCompletion | undefined;
  /** Why the run's last execution failed, for the operator. */
  readonly lastFailure?: RunFailure | undefined;
  /** The page that was not accepted (ContractError) when the execution before this one failed. */
  readonly refusedPage?: number | undefined;
}

/** The slices of a run, as it began. Every attempt sees the same ones. */
export interface RunSlices {
  readonly count: number;
  /** They are cut at multiples of it since 1970. */
  readonly lengthMs: number;
  /** How many are walked at the same time: that of the newest start. */
  readonly parallel: number;
  /** The attempts of slices that have started over, by slice number. The others are in their first one. */
  readonly attempts?: Readonly<Record<string, number>> | undefined;
  /**
   * How often the service has rejected cursors of slices since the newest start, by slice number. More often than `maxCursorRestarts`: the
   * next start begins the slice from its beginning.
   */
  readonly restarts?: Readonly<Record<string, number>> | undefined;
  /** Why slices were not exported to their end at the newest attempt: at most ten, the oldest slices. */
  readonly setAside?: readonly SetAsideSlice[] | undefined;
}

export interface SetAsideSlice {
  readonly slice: number;
  readonly error: string;
  readonly message: string;
}

/** Consecutive bounded runs that one start exports one after the other. */
export interface Series {
  readonly until: Instant;
  /** `P7D`, or `month`. */
  readonly each: string;
  readonly again?: boolean | undefined;
  readonly parallel?: number | undefined;
  /** In milliseconds. */
  readonly slice?: number | undefined;
}

export interface RunCompletion {
  readonly at: Instant;
  /** The watermark after the run, which is for the run's request. Absent: the export has none. */
  readonly watermark?: Instant | undefined;
  /** Whether the run gets a manifest. Not if it found no reports and `publishEmptyRuns` is false. */
  readonly isPublished: boolean;
}

export interface RunFailure {
  readonly error: string;
  readonly message: string;
  readonly at: Instant;
}

/** The lower bound of the next run. It applies only to the service, its settings and the filter it was measured with. */
export interface Watermark {
  readonly instant: Instant;
  readonly source: string;
  readonly filter: JsonObject;
  /** That of the request's `api`. */
  readonly requestSha256: string;
}

/** How much a run has exported. `reports` is null if they are not counted. */
export interface RunTotals {
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
}

export const zeroTotals: RunTotals = { pages: 0, reports: 0, bytes: 0 };

/** The totals of several slices. */
export const sumTotals = (all: readonly RunTotals[]): RunTotals =>
  all.reduce(
    (sum, { pages, reports, bytes }) => ({
      pages: sum.pages + pages,
      reports: sum.reports === null || reports === null ? null : sum.reports + reports,
      bytes: sum.bytes + bytes,
    }),
    zeroTotals,
  );

/** The reports and bytes of `totals` and one more page. */
export function addPage(
  totals: Omit<RunTotals, 'pages'>,
  { reports, bytes }: Pick<PageMetadata, 'reports' | 'bytes'>,
): Omit<RunTotals, 'pages'> {
  return {
    reports: totals.reports === null || reports === null ? null : totals.reports + reports,
    bytes: totals.bytes + bytes,
  };
}

/** The totals of a slice whose last log entry is `last`. */
export function totalsOf(last: PageEntry | undefined): RunTotals {
  return last === undefined ? zeroTotals : { pages: last.page, reports: last.totals.reports, bytes: last.totals.bytes };
}

/** The outcome of a completed run. */
export interface RunResult extends RunTotals {
  readonly export: string;
  readonly run: RunId;
  readonly since: Instant;
  readonly until?: Instant | undefined;
  readonly bounded?: true | undefined;
  /** Where the next scheduled run starts, before its overlap is subtracted. null: there is none, or the run is bounded. */
  readonly watermark: Instant | null;
  /** The manifest's key, relative to the store's root; null if the run found no reports and was not published. */
  readonly manifest: string | null;
  /** The start input of the next run, if this one is part of a series and not its last. */
  readonly rest?: SeriesInput | undefined;
}

/** A start input that continues a series. */
export interface SeriesInput extends Omit<Series, 'slice'> {
  readonly export: string;
  readonly since: Instant;
  /** A duration. */
  readonly slice?: string | undefined;
}

/** The outcome of a failed execution. `run` and, unless it is fixed, `since` are null if the execution did not own a run. */
export interface FailedRun extends RunTotals {
  /** null if the start input names no export of the service. */
  readonly export: string | null;
  readonly run: RunId | null;
  readonly since: Instant | null;
  readonly until?: Instant | undefined;
  readonly bounded?: true | undefined;
  readonly error: string;
  readonly message: string;
  /** Whether the next start resumes this run. */
  readonly resumable: boolean;
}

/** The state of an export: one item, always replaced as a whole, by compare-and-set on `version`. */
export interface ExportState {
  /** `ExportDefinition.stateName`. */
  readonly export: string;
  /** 1 for the first state ever written. Each replacement adds one. */
  readonly version: number;
  /** The sequence of the newest run that began. */
  readonly sequence: number;
  readonly active?: Run | undefined;
  readonly watermark?: Watermark | undefined;
  /** Of the pages of completed runs. */
  readonly documentRoot?: DocumentRoot | undefined;
  /** The newest scheduled time that a run had. The scheduler delivers a time at least once, and not always in order. */
  readonly lastScheduledTime?: string | undefined;
  /** The newest completed run, when it was completed, and the execution that completed it. */
  readonly lastCompleted?:
    | {
        readonly execution: string;
        readonly completedAt: Instant;
        readonly result: RunResult;
        /** When the newest run with reports was completed; until there is one, when the first run began. */
        readonly lastReportsAt?: Instant | undefined;
      }
    | undefined;
  /** The newest executions that have begun or resumed a run, newest first, without those that continue another one. None begins another run. */
  readonly recentExecutions?: readonly string[] | undefined;
  /** The newest run, if it has failed and can never complete, so that it was abandoned. The next run removes it. */
  readonly lastAbandoned?: AbandonedRun | undefined;
}

export interface AbandonedRun extends RunTotals {
  readonly run: RunId;
  readonly since: Instant;
  readonly failure: RunFailure;
}

/** The state of an export that has never run. It is not stored: the first write replaces version 0. */
export const emptyState = (exportName: string): ExportState => ({ export: exportName, version: 0, sequence: 0 });

/** The constant-size state of Brent's cycle detection over the cursors of a run. */
export interface CycleState {
  readonly tortoise: Cursor;
  readonly power: number;
  readonly steps: number;
}

/** The object of a compressed page. Of any other page, no field is set: the object has the bytes of the page. */
export interface CompressedForm {
  readonly compression?: Compression | undefined;
  /** The size of the object. */
  readonly storedBytes?: number | undefined;
  /** The SHA-256 of the object, in lower-case hexadecimal. Two attempts may compress the same page differently. */
  readonly storedSha256?: string | undefined;
}

/** Which slice a page belongs to, and which attempt of it. The pages of a run with one slice have neither. */
export interface SliceRef {
  /** From 1. */
  readonly slice?: number | undefined;
  /** From 1. Each attempt has pages, a log and keys of its own. */
  readonly attempt?: number | undefined;
}

/** What is stored with a page's bytes, and becomes visible with them in one atomic step. */
export interface PageMetadata extends CompressedForm, SliceRef {
  readonly key: string;
  readonly run: RunId;
  /** From 1, within its slice. */
  readonly page: number;
  /** The size of the page, before it was compressed. */
  readonly bytes: number;
  /** Of the page, before it was compressed, in lower-case hexadecimal. */
  readonly sha256: string;
  /** The number of reports; null if they are not counted. */
  readonly reports: number | null;
  /** null if the format has none, or the page has no bytes. */
  readonly documentRoot: DocumentRoot | null;
  /** The cursor of the request for this page; null for page 1. */
  readonly cursor: StoredCursor;
  /** The cursor of the next page; null if this is the last one. */
  readonly nextCursor: Cursor | null;
  /** The service's clock at the time of the request; null if the response had no Date. */
  readonly serviceTime: Instant | null;
  /** The size of the body as it travelled, if the service compressed it. */
  readonly transferredBytes?: number | undefined;
}

/** A page as the page store holds it. */
export interface StoredPage extends PageMetadata {
  /** Identifies this version of the object, like an ETag: an object with other bytes has another revision. null if the store has no revisions. */
  readonly revision: string | null;
}

/** The cursor of a page as a store holds it: whole, or as its lower-case hexadecimal SHA-256 if it is too long for the metadata. */
export type StoredCursor = Cursor | { readonly sha256: string } | null;

/** How long the service took to respond, by our clock. */
export interface PageTiming {
  /** When the successful request was sent. */
  readonly requestedAt: Instant;
  /** From the request to the response headers, in milliseconds. */
  readonly latencyMs: number;
}

/** What has delayed a page since the page before it was logged. Absent: nothing. */
export interface Delays {
  /** How many attempts to export it have failed. */
  readonly failedAttempts?: number;
  /** How long the run has waited because the service responded with Retry-After. */
  readonly waitedSeconds?: number;
}

/**
 * One entry of the page log: a stored page, and where it leaves the run. A page counts as exported once it is logged. Its `revision` is
 * that of the object that was logged: an object that replaces it has another.
 */
export interface PageEntry extends StoredPage, Delays {
  readonly export: string;
  readonly cursor: Cursor | null;
  readonly loggedAt: Instant;
  /** null for an adopted page: the attempt that logged it found it in the store. */
  readonly timing: PageTiming | null;
  /** Totals of the slice up to and including this page, so that its last entry has those of the slice. */
  readonly totals: Omit<RunTotals, 'pages'>;
  readonly cycle: CycleState | null;
  /** Whether `nextCursor` occurred earlier in the slice. Then its pages repeat, and it must never be published. */
  readonly repeats: boolean;
  /** Consecutive pages without reports up to and including this one; 0 if it has some, or they are not counted. */
  readonly emptyPages: number;
}

/** The content of `latest.json`: a pointer to the newest manifest. */
export interface LatestPointer {
  readonly export: string;
  readonly run: RunId;
  readonly sequence: number;
  readonly completedAt: Instant;
  /** The manifest's key, relative to the store's root. */
  readonly manifest: string;
}

/** What the state machine passes from state to state: identity and small counters. Everything else is in the page log. */
export interface LoopState {
  /** `ExportDefinition.stateName`. */
  readonly export: string;
  readonly run: string;
  readonly executionNumber: number;
  /** The page to export next; of a run with several slices, one more than it has. */
  readonly page: number;
  /** Set if the run has several slices. */
  readonly slices?: WalkedSlices | undefined;
  /** Iterations of this execution so far. One with a Wait state counts twice. */
  readonly iterations: number;
  /** Consecutive Wait states before this iteration. */
  readonly waits: number;
  /** Those that no page was logged with yet. */
  readonly delays?: Delays;
}

/** How far the slices of a run have come, so that an invocation need not read the log of each. It may be out of date. */
export interface WalkedSlices {
  /** Slices with a higher number have no page yet, unless this is out of date. */
  readonly begun: number;
  /** Those up to `begun` that have not reached their last page. */
  readonly open: readonly number[];
  /** The totals of the others up to `begun`. */
  readonly done: RunTotals;
}

/** The limits of one invocation. */
export interface Invocation {
  /** How many attempts of the step have failed before. Default: 0. */
  readonly retries?: number;
  /** Aborts the request and every wait. The page in flight is then not exported. */
  readonly signal?: AbortSignal | undefined;
  /** Until when a Retry-After may be waited out inside the invocation, by the monotonic clock. */
  readonly retryAfterDeadline?: number | undefined;
  /** How many pages may be in flight at once if an invocation exports several. Default: 2. */
  readonly maxInFlight?: number | undefined;
  /** Whether there is time to begin another page. Default: there is. */
  readonly hasTime?: (() => boolean) | undefined;
  /** How long a slot is held at most, in milliseconds: a request that begins while it is held ends by then. Default: 15 minutes. */
  readonly leaseMs?: number | undefined;
}
