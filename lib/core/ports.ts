/**
 * The interfaces through which the steps reach the outside world. Nothing here knows AWS, HTTP or a file system:
 * adapters are created by factory functions, and those of the page store and the page log pass the suites in
 * `test/contracts`.
 */

import type {
  Cursor,
  EndEntry,
  ExportDefinition,
  ExportRequest,
  ExportState,
  FailedRun,
  Instant,
  JobRecord,
  LatestPointer,
  LogEntry,
  PageEntry,
  PageTiming,
  ProgressRecord,
  Run,
  RunId,
  RunRef,
  RunResult,
  RunTotals,
  SetAsideSlice,
  SliceRef,
  StoredPage,
} from './model.ts';

/** Fetches pages from the Report Export Service (docs/service-contract.md, section 4.1). */
export interface ReportService {
  /**
   * Sends one request and passes the page's bytes to `sink`. Resolves once the response is complete, `sink` has all of
   * it and, for XML, it is a single well-formed UTF-8 document. If it rejects, the page must not be stored. Resolves to
   * an end if the response says that there is no such page. What `sink` has received then is no page. Does not
   * retry, except once with refreshed credentials that had been rejected: the API key, a client certificate, those for
   * a proxy.
   *
   * @throws ConfigurationError, ServiceUnavailableError, ServiceUnreachableError, ServiceThrottledError,
   *   RequestRejectedError, CursorRejectedError or ContractError (`errors.ts`); errors of `sink` unchanged
   */
  readonly fetch: (request: PageRequest, options: FetchOptions) => Promise<Received>;
  /** Absent: its pages can be requested at once. */
  readonly jobs?: JobService | undefined;
}

/** The report jobs of a service, whose results are requested as pages. */
export interface JobService {
  /**
   * Creates a job. An end says that the parent is gone.
   * @throws as `ReportService.fetch`. After ConfigurationError, ServiceUnreachableError, ServiceThrottledError and
   *   RequestRejectedError there is no job, after any other error there may be one
   */
  readonly create: (request: PageRequest, options: JobOptions) => Promise<CreatedJob | ReceivedEnd>;
  /** Asks for the job `request.job`. @throws as `ReportService.fetch`; ConfigurationError if no condition holds */
  readonly poll: (request: PageRequest, options: JobOptions) => Promise<PolledJob>;
}

type JobOptions = { readonly signal?: AbortSignal | undefined };

export interface CreatedJob {
  readonly kind: 'created';
  readonly id: string;
  /** When the service responded, less the time that the response took: the job may not have what appeared since. */
  readonly serviceTime: Instant | null;
}

export interface PolledJob {
  /** `unknown`: the service does not know the job. */
  readonly kind: 'waiting' | 'done' | 'empty' | 'failed' | 'unknown';
  /** What its response says, for people: `IN_PROGRESS`. */
  readonly status: string;
  /** What requests for the result send as `{job}`, if it is not the ID of the job. */
  readonly resultId?: string | undefined;
  /** From its Retry-After. */
  readonly retryAfterMs?: number | undefined;
}

export interface FetchOptions {
  /**
   * Reads the page's bytes to their end. Called at most once, when the headers have been validated. An error that the
   * iteration throws must be rethrown.
   */
  readonly sink: (body: AsyncIterable<Uint8Array>) => Promise<unknown>;
  /**
   * Called once the next cursor is known, never before `fetch` has returned: before the body is read if the headers
   * have it, otherwise after that. The page may still turn out to be invalid.
   */
  readonly onNextCursor?: (nextCursor: Cursor | null) => void;
  readonly signal?: AbortSignal | undefined;
}

export interface PageRequest {
  readonly request: ExportRequest;
  /** Inclusive. */
  readonly since: Instant;
  /** Exclusive. Absent: there is no upper bound. */
  readonly until?: Instant;
  /** When the run began: the upper bound of requests that need one, if there is no `until`. */
  readonly begunAt: Instant;
  /** The value of `{parent}`, if the export has parents. */
  readonly parent?: string | undefined;
  /** The values of `{parent.NAME}`, by name. */
  readonly parentAlso?: Readonly<Record<string, string>> | undefined;
  /** The value of `{job}`, if the pages are the result of one. */
  readonly job?: string | undefined;
  /** null requests the first page. */
  readonly cursor: Cursor | null;
  /** For error messages only: `page 7 of run 20261120T020000Z-1f3a5cb2d407`. */
  readonly label: string;
  /**
   * Called right before the request is sent, and before each repetition of it, once its credentials are known. What it
   * takes is no part of the request's time. If it rejects, nothing is sent, and its error is rethrown unchanged.
   */
  readonly beforeSend?: () => Promise<void>;
}

export type Received = ReceivedPage | ReceivedEnd;

/** What the response says of a page that has been received completely. */
export interface ReceivedPage extends Pick<
  StoredPage,
  'nextCursor' | 'serviceTime' | 'transferredBytes' | 'reports' | 'documentRoot'
> {
  readonly kind: 'page';
  readonly timing: PageTiming;
  /** A digest of its reports without what surrounds them, such as the next cursor. Absent: all bytes are compared. */
  readonly reportsDigest?: string | undefined;
  /** As received, or `application/octet-stream` if the response has none. */
  readonly contentType: string;
  /** The name of the document root, for messages: without secrets. */
  readonly documentRootText: () => string;
  /** How the body begins, for messages: short, printable and without secrets. */
  readonly excerpt: () => string;
  readonly hints: () => PageHints;
}

/** What may be wrong with the description of the end, for a person. */
export interface PageHints {
  /** What contradicts that the page is the last one. */
  readonly doubtfulEnd?: string;
  /** The path of a flag that `last` does not name, and its value on the last page. */
  readonly flag?: { readonly at: string; readonly is: boolean };
}

/** A response that is no page. After a cursor, the page before was the last one; without one, there is no page. */
export interface ReceivedEnd extends Pick<EndEntry, 'kind'> {
  readonly reason: Exclude<EndEntry['reason'], 'skipped'>;
  readonly status: number;
}

/** Reads values of the reports in a stored page. */
export interface ReportReader {
  /**
   * The values at the paths in each report of the page, in their order.
   * @throws ContractError if the bytes are no page of the export's description
   */
  read(page: AsyncIterable<Uint8Array>, paths: readonly string[]): Promise<readonly ReportValues[]>;
}

/** The values of a report, in the order of the paths. Undefined: nothing is there. */
export type ReportValues = readonly (ReportValue | undefined)[];

/**
 * A value as it is written: `1.0` stays `1.0`. That of an object or an array has no text, except for a whole report: a
 * digest of it.
 */
export interface ReportValue {
  readonly type: 'string' | 'number' | 'boolean' | 'null' | 'object' | 'array';
  readonly text: string;
}

/** Stores pages, manifests and the pointer to the newest manifest. An object never changes, except for the pointer. */
export interface PageStore {
  /**
   * The page that an earlier attempt stored at `key`, or undefined.
   * @throws PageConflictError if its metadata was changed, or does not match its bytes, or if its next cursor is
   *   missing
   */
  find(key: string): Promise<StoredPage | undefined>;
  /** Takes the bytes of a page while they arrive. Nothing of it is visible. Dispose of it in any case. */
  spool(identity: PageIdentity): PageSpool;
  /**
   * Streams a JSON document into the store, atomically: a manifest, or the summary of a run. Writing the same bytes
   * again changes nothing.
   * @throws PageConflictError if `key` already has other content
   */
  putDocument(key: string, chunks: AsyncIterable<string>): Promise<void>;
  /**
   * Makes `key` point to the newest manifest. A pointer with a higher sequence stays, unless it is unreadable or
   * `hasBegun` returns false for its sequence: then no run can have written it, and it is replaced.
   */
  putLatest(key: string, latest: LatestPointer, hasBegun: (sequence: number) => Promise<boolean>): Promise<void>;
  /** The objects directly in `folder`, in any order, streamed. Includes every write that has resolved. */
  list(folder: string): AsyncIterable<ListedObject>;
  /** The content of any object; undefined if there is none. */
  read(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** The address of `key` for messages: a path or an `s3://` URL. */
  locate(key: string): string;
}

/** A page on its way into the store. Disposing of it removes what is left of it. */
export interface PageSpool extends AsyncDisposable {
  /** Takes all bytes of the page. Call it once. An error that `body` throws is rethrown unchanged. */
  readonly fill: (body: AsyncIterable<Uint8Array>) => Promise<void>;
  /**
   * Stores the page atomically: body and metadata become visible in one step. An existing page is never overwritten,
   * but returned with `stored: false`. Once this resolves, the page is durable.
   */
  readonly put: (received: ReceivedPage) => Promise<{ readonly stored: boolean; readonly page: StoredPage }>;
}

/** Read access to the store, for operators' commands. */
export interface StoreReader extends Pick<PageStore, 'find' | 'list' | 'read' | 'locate'> {
  /**
   * The keys of the folders directly in `folder`, in any order, without a slash at the end. What is in them is not
   * listed: a run may have a million pages.
   */
  listFolders(folder: string): AsyncIterable<string>;
}

/** An object in a listing: a page, a manifest or a foreign object. `bytes` is the size of the stored object. */
export type ListedObject = Pick<StoredPage, 'key' | 'bytes' | 'revision'>;

/** The facts of a page before it is requested. */
export type PageIdentity = SliceRef & Pick<PageEntry, 'key' | 'run' | 'page' | 'cursor' | 'compression'>;

/**
 * Stores the state of each export and the progress of each run. Reads are strongly consistent.
 * @throws PageConflictError from every read of a value that was changed since it was written
 */
export interface PageLog {
  exportState(stateName: string): Promise<ExportState | undefined>;
  /**
   * Compare-and-set: writes `state` only if the stored state has version `state.version - 1` (none, for version 1).
   * Resolves to whether it was written.
   */
  replaceState(state: ExportState): Promise<boolean>;
  /**
   * Appends `entry` and returns it. If there is an entry under the number of its page, of either kind, returns that one
   * and changes nothing.
   */
  append(entry: LogEntry): Promise<LogEntry>;
  /** The entry of the slice with the highest page number. */
  last(chain: ChainRef): Promise<LogEntry | undefined>;
  /** The entries of the slice in page order, streamed. */
  entries(chain: ChainRef): AsyncIterable<LogEntry>;
  /** All entries of slices after `after`, streamed: by slice, the newest attempt first, and page. */
  runEntries(run: RunRef, after?: number): AsyncIterable<LogEntry>;
  /** How far the newest run of a state has come. A write of it may be lost. */
  progress(stateName: string): SharedRecord<ProgressRecord>;
  /** The newest job of a chain. A write survives a power loss. */
  job(stateName: string, slice: number): SharedRecord<JobRecord>;
  /** For operators' commands: the states of bounded runs of the export, by their names. */
  boundedStates(exportName: string): AsyncIterable<ExportState>;
  /** Whether the entry of a page that was logged at `loggedAt` may have expired. Entries expire in any order. */
  mayHaveExpired(loggedAt: Instant): boolean;
}

/**
 * A small record that several processes share: the progress of a run, the slots of a service, its rate. Reads are
 * strongly consistent.
 */
export interface SharedRecord<Content> {
  /** A damaged record must not stop the exports: it counts as one without content. */
  read(): Promise<Versioned<Content>>;
  /**
   * Compare-and-set: writes `content` only if the record is still the one that was read. Resolves to the new record;
   * undefined if it was not written.
   */
  replace(read: Versioned<Content>, content: Content): Promise<Versioned<Content> | undefined>;
}

export interface Versioned<Content> {
  /** Changes with each write. Undefined: there is no record, or it is damaged. */
  readonly revision: string | undefined;
  /** Undefined: there is no record, or it is damaged. */
  readonly content: Content | undefined;
}

/** Pages that follow from each other: those of one attempt of a slice, or of a run with one slice. */
export type ChainRef = RunRef & SliceRef;

export interface Executions {
  /** The status of any execution, some seconds old. `unknown`: it ended long ago, never existed, or just started. */
  status(execution: string): Promise<'running' | 'ended' | 'unknown'>;
}

/** Time and randomness, injected so that a test of hours of waiting takes milliseconds. */
export interface Runtime {
  /** Milliseconds since the epoch. The clock may be wrong, and may be set while the process runs. */
  readonly now: () => number;
  /** Milliseconds since some moment. Measures how long something takes: setting the clock does not change it. */
  readonly monotonicNow: () => number;
  /** Resolves after `ms`, or rejects with the signal's reason when it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** `length` random lower-case hexadecimal digits. */
  randomHex(length: number): string;
}

export type Clock = Pick<Runtime, 'now' | 'monotonicNow' | 'sleep'>;

/** `pages`, `reports` and `bytes` count what is logged already. */
interface BegunRun extends RunRef, RunTotals, Pick<Run, 'since' | 'until' | 'bounded' | 'executionNumber'> {
  /** Set if the run has several slices. */
  readonly slices?: SliceCounts | undefined;
  /** The page to export next. */
  readonly page: number;
}

/** How many slices a run has, and how many have all their pages. */
export interface SliceCounts {
  readonly done: number;
  readonly count: number;
  /** Set if each slice is of a parent: how many have no page, as they are gone, or were skipped. */
  readonly parents?: { readonly gone: number; readonly skipped: number } | undefined;
}

interface LoggedPage extends RunRef, Pick<PageEntry, 'page' | 'slice' | 'bytes' | 'reports'> {
  readonly slices?: SliceCounts | undefined;
  /** The totals of the run, including this page. */
  readonly totalPages: number;
  readonly totalReports: number | null;
  readonly totalBytes: number;
  /** From the request to the response headers. Absent for an adopted page. */
  readonly latencyMs?: number | undefined;
}

/** What each event says. Alarms and the runbook use the same names. */
interface Events {
  /** `withoutJobsOf`: the unfinished run that it replaces, whose report jobs are in vain. */
  'run-started': BegunRun & { withoutJobsOf?: RunId | undefined };
  'run-resumed': BegunRun;
  /** The run has its parents. */
  'parents-planned': RunRef & { parentExport: string; parentRun: string; parents: number };
  /**
   * `isPass`: the pages were walked to their end, and are walked once more to prove them. `slice` is undefined if the
   * run has only one.
   */
  'slice-restarted': RunRef & { slice: number | undefined; attempt: number; isPass: boolean; reason: string };
  /** The slice is not exported to its end in this invocation; the others are. */
  'slice-set-aside': RunRef & SetAsideSlice & { readonly slices: SliceCounts };
  /** The slice has no page: its parent is gone, was skipped, or has no reports. */
  'slice-ended': RunRef & { slice: number; reason: EndEntry['reason']; slices: SliceCounts };
  'run-skipped': { export: string; reason: string };
  'page-exported': LoggedPage;
  'page-adopted': LoggedPage;
  /** `page` is one of `slice`, if that is known. `inside`: the invocation waits; otherwise the Wait state does. */
  'service-asked-to-wait': RunRef & { page: number; slice?: number | undefined; seconds: number; inside: boolean };
  /** The chain waits for its report job, and the run for the earliest such time once nothing else is left to do. */
  'waiting-for-job': RunRef & { slice?: number | undefined; seconds: number } & {
    job?: string | undefined;
    status?: string | undefined;
    statusSince?: Instant | undefined;
  };
  /** The service receives as many requests as `maxConcurrentPages` or `rate` allow. */
  'waiting-for-turn': RunRef & { page: number; seconds: number };
  /** The newest of `emptyPages` consecutive pages. The run may never end. */
  'pages-without-reports': RunRef & { page: number; emptyPages: number };
  /** `secondsWithoutReports`: since the newest run with reports; 0 if this one has some. With `expect.reportsEvery`. */
  'run-completed': RunResult & { secondsWithoutReports?: number | undefined };
  /** `page` is the one to export next; null if there is none, or one for each slice. Absent if it is not known. */
  'run-failed': FailedRun & { page?: number | null | undefined };
}

/** One fact about a run, for logs and progress output. */
export type ExportEvent = {
  [Name in keyof Events]: { readonly event: Name } & Readonly<Events[Name]>;
}[keyof Events];

/** Limits how many pages of a service are requested at the same time, over all its exports. */
export interface PageSlots {
  /**
   * A slot for the next pages of an export, or of one of its slices, held until it is released or until `leaseMs` have
   * passed. Undefined: none has become free in time. `isRenewal`: the caller has just released one, so others that wait
   * go first.
   */
  acquire(options: {
    readonly leaseMs: number;
    readonly signal?: AbortSignal | undefined;
    readonly isRenewal?: boolean;
  }): Promise<PageSlot | undefined>;
}

export interface PageSlot {
  /** When its lease began, in milliseconds since the epoch. Taking the slot may have lasted longer than the lease. */
  readonly grantedAt: number;
  /** Returns the slot. Never rejects: a slot that cannot be returned becomes free when its lease ends. */
  release(): Promise<void>;
}

/** Limits how many requests a service receives in a period, over all its exports. */
export interface RequestRate {
  /**
   * Waits until the next request may be sent, and must be sent at once.
   * @throws NotYet if it has to wait, until after `waitUntil`, by the monotonic clock, or for more than a minute
   */
  take(options?: { readonly waitUntil?: number | undefined; readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** No request is sent for so long, at most five minutes: the service has sent a Retry-After. */
  holdBack(seconds: number): Promise<void>;
}

export type EventSink = (event: ExportEvent) => void;

/** The dependencies of all steps. Each step picks those it needs. */
export interface StepDependencies {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  readonly store: PageStore;
  readonly log: PageLog;
  readonly executions: Executions;
  readonly runtime: Runtime;
  readonly emit: EventSink;
  /** Absent: any number of pages may be requested at the same time. */
  readonly slots?: PageSlots | undefined;
  /** Reads the pages of the export of the parents. Absent: the parents are not reports of another export. */
  readonly reportReader?: ReportReader | undefined;
  /** Reads the pages of this export. Absent: nothing in them proves that they are complete. */
  readonly pageReader?: ReportReader | undefined;
  /** Absent: any number of requests may be sent in a period. */
  readonly rate?: RequestRate | undefined;
}
