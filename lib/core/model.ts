/**
 * The words of an export as types: what a run is, what a page is, what is remembered of them.
 * Everything here is a value: plain, JSON-safe and read-only, so that every store can keep it whole.
 */

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/**
 * The service's continuation value, exactly as it came in the response header. Opaque: never parsed, never built here
 * (contract, section 2.2). Only the service client turns a header into one, and stores read theirs back.
 */
export type Cursor = Branded<'Cursor'>;
export const asCursor = (value: string): Cursor => value as Cursor;

/** A moment in UTC, ISO 8601, in its canonical form: `2026-11-20T02:00:00Z`, with `.mmm` only where not zero. */
export type Instant = Branded<'Instant'>;

/** `20261120T020000Z-1f3a5c`: when the run began, and six random hexadecimal digits. Sorts by time. */
export type RunId = Branded<'RunId'>;
export const asRunId = (value: string): RunId => value as RunId;

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

/** What a run asks the service for; the same on each of its pages (contract, section 4.1, rule 6). */
export interface ExportRequest {
  /** Which service this is for: its base URL, or `simulator`. Cursors and watermarks of one mean nothing to another. */
  readonly source: string;
  /** Filter fields beside `date.gte`; the run's `since` is merged in when the request is sent. */
  readonly filter: JsonObject;
  readonly format: string;
  readonly container: string;
  /** Reports per page, 1 to 10; absent: the service's own page size, at most 100 (contract, section 4.1, rules 4 and 5). */
  readonly size?: number | undefined;
}

/** How a run's `since` is chosen when the start input does not name one. */
type SincePolicy =
  | {
      readonly from: 'watermark';
      /** Where the first run starts; absent: everything, or wherever a first explicit `since` starts. */
      readonly initial?: Instant | undefined;
      /** How far a run reaches back behind the watermark, in milliseconds. */
      readonly overlapMs: number;
    }
  | {
      readonly from: 'lookback';
      /** How far before its scheduled time a run starts, in milliseconds; at the watermark, where that lies further back. */
      readonly lookbackMs: number;
    };

/** A named export and the limits its runs keep. */
export interface ExportDefinition {
  readonly name: string;
  readonly request: ExportRequest;
  readonly since: SincePolicy;
  readonly limits: RunLimits;
}

export interface RunLimits {
  /** A run with more pages than this fails; absent: no limit. */
  readonly maxPages?: number | undefined;
  /** Turns (invocations and waits) after which the run continues in a new execution. */
  readonly iterationsPerExecution: number;
  /** Pages that one invocation exports at most, as long as its time allows. */
  readonly pagesPerInvocation: number;
  /** How often one run may start afresh because the service dropped its cursor. */
  readonly maxCursorRestarts: number;
  /** A Retry-After up to this many seconds is waited out inside the invocation; a longer one in the Wait state. */
  readonly maxInlineWaitSeconds: number;
  /** A Retry-After over this many seconds fails the run. */
  readonly maxRetryAfterSeconds: number;
  /** Long waits in a row, without a page between them, after which the run fails. */
  readonly maxConsecutiveWaits: number;
}

/** One walk of an export from its first page to its last, as the head item remembers it while it is active. */
export interface Run {
  readonly export: string;
  readonly run: RunId;
  /** Grows with every run of an export; the newest manifest is the one with the highest. */
  readonly sequence: number;
  readonly since: Instant;
  readonly request: ExportRequest;
  /** By our own clock; its day is the run's `date=` partition. */
  readonly startedAt: Instant;
  /** The execution that began the run. */
  readonly startedBy: string;
  /** The execution that owns the run; any other is superseded. */
  readonly execution: string;
  /** Counts the executions of the run from 1. */
  readonly executionNumber: number;
  readonly scheduledTime?: string | undefined;
  /** How often this walk was started afresh because the service dropped its cursor. */
  readonly cursorRestarts: number;
  /** Set once, before the manifest is written, so that a manifest written twice has the same bytes. */
  readonly completedAt?: Instant | undefined;
  /** Why the run's last execution failed, for the person who looks. */
  readonly lastFailure?: RunFailure | undefined;
}

interface RunFailure {
  readonly error: string;
  readonly message: string;
  readonly at: Instant;
}

/** The lower bound that completed runs have moved forward, and for what: another service or filter is not bound by it. */
export interface Watermark {
  readonly instant: Instant;
  readonly source: string;
  readonly filter: JsonObject;
}

/** What a completed run amounts to. */
export interface RunResult {
  readonly export: string;
  readonly run: RunId;
  readonly since: Instant;
  /** Where the next scheduled run starts, before its overlap. */
  readonly watermark: Instant | null;
  readonly pages: number;
  /** null where the format is not XML: then reports cannot be counted. */
  readonly reports: number | null;
  readonly bytes: number;
  /** The manifest's key, relative to the store's root. */
  readonly manifest: string;
}

/** For the event and the person it wakes. `run` is null where the execution failed before it owned one. */
export interface FailedRun {
  readonly export: string;
  readonly run: RunId | null;
  readonly since: Instant | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  readonly error: string;
  readonly message: string;
  /** Whether the next start goes on with this run. */
  readonly resumable: boolean;
}

/** The one item that says where an export stands. Replaced as a whole, by compare-and-set on `version`. */
export interface ExportState {
  readonly export: string;
  /** 1 for the first head ever written; each replacement adds one. */
  readonly version: number;
  /** The sequence of the newest run begun. */
  readonly sequence: number;
  readonly active?: Run | undefined;
  readonly watermark?: Watermark | undefined;
  /** The scheduled time of the newest run that had one: the scheduler delivers at least once. */
  readonly lastScheduledTime?: string | undefined;
  /** The newest completed run, and the execution that completed it. */
  readonly lastCompleted?: { readonly execution: string; readonly result: RunResult } | undefined;
}

/** Constant state of Brent's cycle search over the cursors of a run. */
export interface CycleState {
  readonly tortoise: Cursor;
  readonly power: number;
  readonly steps: number;
}

/** What is kept with a page's bytes: the page's own facts and where the run goes from it. */
export interface PageMetadata {
  readonly key: string;
  readonly run: RunId;
  readonly page: number;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  /** Child elements of the document's root; null where the format is not XML. */
  readonly reports: number | null;
  /** The cursor the page was asked for with; null for page 1. */
  readonly cursor: StoredCursor;
  /** Where the run goes from here; null: this was the last page. */
  readonly nextCursor: StoredCursor;
  /** The service's clock when the page was asked for; null where it sent no Date. */
  readonly serviceTime: Instant | null;
}

/** A page as the page store holds it. */
export interface StoredPage extends PageMetadata {
  /** What the store calls this very object, never given to one with other bytes; null where it gives no such name. */
  readonly revision: string | null;
}

/** A cursor as a store holds it: whole, or, where the store cannot hold it whole, as its lower-case hexadecimal SHA-256. */
export type StoredCursor = Cursor | { readonly sha256: string } | null;

/** How long the service took over a page, by our clock. */
export interface PageTiming {
  /** When the request was sent that brought the page. */
  readonly requestedAt: Instant;
  /** Until the answer's headers were there, in milliseconds. */
  readonly latencyMs: number;
}

/** One line of the page log. A page counts as exported once it stands here. */
export interface PageEntry {
  readonly export: string;
  readonly run: RunId;
  /** From 1, without gaps. */
  readonly page: number;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Of the object that was committed: one that takes its place later has another. */
  readonly revision: string | null;
  readonly reports: number | null;
  readonly cursor: Cursor | null;
  readonly nextCursor: Cursor | null;
  readonly serviceTime: Instant | null;
  readonly loggedAt: Instant;
  /** null for a page that was not fetched by whoever logged it, but found in the store. */
  readonly timing: PageTiming | null;
  /** Totals of the run up to and with this page, so that the last entry knows the run. */
  readonly totals: { readonly reports: number | null; readonly bytes: number };
  readonly cycle: CycleState | null;
  /** True where `nextCursor` was met before: the walk goes in circles and the run must never be published. */
  readonly repeats: boolean;
}

/** `latest.json`: which manifest is the newest. */
export interface LatestPointer {
  readonly export: string;
  readonly run: RunId;
  readonly sequence: number;
  readonly completedAt: Instant;
  /** The manifest's key, relative to the store's root. */
  readonly manifest: string;
}

// MERGED turn.ts: What travels from state to state, and what bounds one turn of the loop.

/** Identity and small counters. The page log is the truth about everything else. */
export interface LoopState {
  readonly export: string;
  readonly run: string;
  readonly executionNumber: number;
  /** The page to fetch next. */
  readonly page: number;
  /** Turns this execution has made; one with a wait counts twice. */
  readonly iterations: number;
  /** Long waits in a row before this turn. */
  readonly waits: number;
}

/** The bounds of one invocation. */
export interface Invocation {
  /** Interrupts the fetch and any waiting; the page is then not exported. */
  readonly signal?: AbortSignal | undefined;
  /** Until when short Retry-Afters may be sat out here, in milliseconds since the epoch; the others are for the Wait state. */
  readonly retryAfterDeadline?: number | undefined;
  /** How many pages may be on their way at once, where an invocation exports several; two by default. */
  readonly maxInFlight?: number | undefined;
  /** Whether there is time left to begin another page. Absent: there is. */
  readonly hasTime?: (() => boolean) | undefined;
}
