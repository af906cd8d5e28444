/**
 * What the steps need from the world, each as small as it can be. Adapters are made by factory functions and pass the
 * suites in `test/contracts`; nothing here knows AWS, HTTP or a disk.
 */

import type {
  Cursor,
  ExportDefinition,
  ExportRequest,
  ExportState,
  FailedRun,
  Instant,
  LatestPointer,
  PageEntry,
  Run,
  RunId,
  RunResult,
  StoredPage,
} from './model.ts';

/** Asks the Report Export Service for one page (contract, section 4.1). */
export interface ReportService {
  /**
   * Sends one request. Resolves once the response's status and headers are known to be good; the body is still to come.
   * Never retries, but for one refresh of the key after a 401 or 403.
   *
   * @throws ExportError by the design's table: ConfigurationError, ServiceUnavailableError, ServiceThrottledError,
   *   RequestRejectedError, CursorRejectedError, ContractError
   */
  fetchPage(request: PageRequest, signal?: AbortSignal): Promise<FetchedPage>;
}

export interface PageRequest {
  readonly request: ExportRequest;
  readonly since: Instant;
  /** null asks for the first page. */
  readonly cursor: Cursor | null;
  /** For error messages only: `page 7 of run 20261120T020000Z-1f3a5c`. */
  readonly label: string;
}

export interface FetchedPage {
  /** null: the service names no further page. Trust it only when the body has been read to its end without an error. */
  readonly nextCursor: Cursor | null;
  /** The service's Date less the time it took to answer, in whole seconds, rounded up; null where it sent none. */
  readonly serviceTime: Instant | null;
  /** As sent, or `application/octet-stream` where the service names none. */
  readonly contentType: string;
  /**
   * The page's bytes, to be read once. Ends normally only if the response is complete and, for XML, one whole
   * well-formed UTF-8 document; otherwise the iteration throws an ExportError and the page must not be kept.
   */
  readonly body: AsyncIterable<Uint8Array>;
  /** Child elements of the root, null where the format is not XML. Only valid once `body` has ended normally. */
  reports(): number | null;
}

/** A page that is being answered, on its way into the store. */
interface PageToStore extends FetchedPage {
  /** It shows only when this has resolved; all that can be done before is done meanwhile. Left out: as soon as it is whole. */
  readonly predecessorStored?: Promise<unknown>;
}

/** Keeps pages, manifests and the pointer to the newest one. A key once written never changes, but for `latest`. */
export interface PageStore {
  /**
   * The page at `key` as a former attempt left it, or undefined.
   * @throws PageConflictError where its facts are not what was written with it, or not those of its bytes.
   */
  find(key: string): Promise<StoredPage | undefined>;
  /**
   * Stores the page whole, or not at all: body and facts become visible in one step, and an existing page is never
   * overwritten but returned (`stored: false`), whoever wrote it. When it resolves, the page survives a power cut.
   * If the body throws, or the page's turn rejects, nothing is visible and the error passes through unchanged.
   */
  put(identity: PageIdentity, page: PageToStore): Promise<{ readonly stored: boolean; readonly page: StoredPage }>;
  /**
   * Writes the manifest whole, or not at all, streaming. Writing the same bytes again changes nothing.
   * @throws PageConflictError where other bytes already stand there.
   */
  putManifest(key: string, chunks: AsyncIterable<string>): Promise<void>;
  /**
   * Points `key` at the newest manifest; a pointer with a higher sequence is left as it is. One that cannot be read, or
   * that claims a sequence which `hasBegun` denies, leads nobody anywhere and gives way.
   */
  putLatest(key: string, latest: LatestPointer, hasBegun: (sequence: number) => Promise<boolean>): Promise<void>;
  /**
   * What a reader sees who lists `folder`: the objects that lie directly in it, in any order, without holding them all
   * in memory. Shows every write that has resolved.
   */
  list(folder: string): AsyncIterable<ListedObject>;
  /** Where a person finds `key`: a path or an `s3://` address. */
  locate(key: string): string;
}

/** Reads what runs have left in the store. */
export interface StoreReader extends Pick<PageStore, 'find' | 'list' | 'locate'> {
  /** The bytes at `key`, page or not, from the first to the last; undefined where there is nothing. */
  read(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
}

/** An object as a listing shows it; page or not. */
export interface ListedObject extends Pick<StoredPage, 'bytes' | 'revision'> {
  readonly key: string;
}

export interface PageIdentity {
  readonly key: string;
  readonly run: RunId;
  readonly page: number;
  readonly cursor: Cursor | null;
}

/**
 * Remembers where exports stand and how far runs have come. Every read sees every write that has resolved.
 * @throws PageConflictError from every read that meets a value which is not as it was written.
 */
export interface PageLog {
  exportState(exportName: string): Promise<ExportState | undefined>;
  /**
   * Compare-and-set: writes `head` only if the stored one has version `head.version - 1` (none, for version 1).
   * Resolves to whether it was written.
   */
  replaceState(head: ExportState): Promise<boolean>;
  /** Appends `entry`, or, where the run's page is already logged, leaves it and returns what stands there. */
  append(entry: PageEntry): Promise<PageEntry>;
  /** The run's entry with the highest page. */
  last(run: RunRef): Promise<PageEntry | undefined>;
  /** The run's entries in page order, without holding them all in memory. */
  entries(run: RunRef): AsyncIterable<PageEntry>;
}

/** Which runs there have been, as far back as the page log remembers. */
export interface RunHistory {
  /** The last entry of each run of the export that has logged a page; the newest run first. */
  runs(exportName: string): AsyncIterable<PageEntry>;
}

export type RunRef = Pick<Run, 'export' | 'run'>;

/** Whether an execution, ours or another's, is still at work. */
export interface Executions {
  isRunning(execution: string): Promise<boolean>;
}

/** Time and chance, from outside, so that hours of waiting take a test milliseconds. */
export interface Runtime {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** `length` random lower-case hexadecimal digits. */
  randomHex(length: number): string;
}

export type Clock = Pick<Runtime, 'now' | 'sleep'>;

/** One fact about a run, for logs and progress. The same words stand in alarms and in the runbook. */
export type ExportEvent =
  | ({ readonly event: 'run-started' | 'run-resumed' } & RunProgress)
  | (OfRun & { readonly event: 'run-restarted'; readonly abandoned: RunId; readonly reason: string })
  | { readonly event: 'run-skipped'; readonly export: string; readonly reason: string }
  | ({ readonly event: 'page-exported' | 'page-adopted' } & PageProgress)
  | (OfRun & {
      readonly event: 'service-asked-to-wait';
      readonly page: number;
      readonly seconds: number;
      /** Whether the wait is sat out in the invocation; otherwise in the Wait state. */
      readonly inside: boolean;
    })
  | ({ readonly event: 'run-completed' } & RunResult)
  | ({ readonly event: 'run-failed' } & FailedRun);

interface OfRun {
  readonly export: string;
  readonly run: RunId;
}

interface RunProgress extends OfRun {
  readonly since: Instant;
  readonly executionNumber: number;
  /** The page to fetch next. */
  readonly page: number;
  /** What is logged already. */
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
}

interface PageProgress extends OfRun {
  readonly page: number;
  readonly bytes: number;
  readonly reports: number | null;
  /** Of the run, this page included. */
  readonly totalReports: number | null;
  readonly totalBytes: number;
}

export type EventSink = (event: ExportEvent) => void;

/** All that the steps need; each takes its part. */
export interface StepDependencies {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  readonly store: PageStore;
  readonly log: PageLog;
  readonly executions: Executions;
  readonly runtime: Runtime;
  readonly emit: EventSink;
}
