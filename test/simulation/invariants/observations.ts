/**
 * What the checks look at: the simulated services, and items and objects as an outsider reads them. The shapes are repeated
 * here on purpose, so that the checks do not share a mistake with the code they check.
 */

import type { ExportSettings } from '../../../lib/settings/settings.ts';
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { ExportScenario } from '../histories/scenario.ts';
import type { SimulatedExecution, StepFunctions } from '../step-functions/step-functions.ts';
import type { SimulatedDynamoDb } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { ServedPage, SimulatedService } from '../world/report-service.ts';
import type { ReportTimeline, SimulatedReport } from '../world/reports.ts';
import type { SimulatedS3, StoredObject } from '../world/s3.ts';
import type { World } from '../world/world.ts';

/** One export of the history, and what simulates its surroundings. */
export interface ObservedExport {
  readonly name: string;
  /** What the names of its executions begin with: different for each deployment. */
  readonly label: string;
  readonly scenario: ExportScenario;
  readonly service: SimulatedService;
  readonly timeline: ReportTimeline;
  /** The settings of each version that is deployed; those of the scenario are the first. */
  readonly versions: readonly ExportSettings[];
  /** Every version that a function has before this moment has the expectations (`expect`) of the scenario. */
  readonly reportsExpectedUntil: number;
  /** What the requests of the version that the invocation has got contain (`Version.requestMark`). */
  readonly requestMark: (processId: string) => string | undefined;
  /** The state machine of the service, as far as this export is concerned. */
  readonly stepFunctions: Pick<StepFunctions, 'start' | 'stop' | 'redrive' | 'find' | 'executions'>;
  /** Runs whose completion was put on the event bus. */
  readonly announcedRuns: ReadonlySet<string>;
}

/** A half-open interval of report dates, in milliseconds since the epoch. */
export interface WindowBounds {
  readonly since: number;
  readonly until: number;
}

/** The export that an input names, also if it names one of its windows. */
export const exportOf = (input: unknown): string | undefined => stateNameIn(input)?.split('/')[0];

/** The export or the window that an input names. */
export const stateNameIn = (input: unknown): string | undefined =>
  (input as { readonly export?: string } | undefined)?.export;

/** The window that an input names; undefined if it names an export. */
export const windowIn = (input: unknown): WindowBounds | undefined => parseBounds(stateNameIn(input) ?? '');

/** The bounds in `reports/2026-11-19T00:00:00Z/2026-11-20T00:00:00Z`, or after the first character of any other prefix. */
export function parseBounds(name: string): WindowBounds | undefined {
  const [, since = '', until = ''] = /[/#]([^/]+)\/([^/]+)$/.exec(name) ?? [];
  const bounds = { since: Date.parse(since), until: Date.parse(until) };
  return Number.isNaN(bounds.since) || Number.isNaN(bounds.until) ? undefined : bounds;
}

/** Where the state of an export, or of a window, is in its partition. */
export function stateSortKey(stateName: string): string {
  const [, ...bounds] = stateName.split('/');
  return bounds.length === 0 ? 'state' : `window#${bounds.join('/')}`;
}

export interface Observations {
  readonly world: World;
  /** 0 if there is no limit. */
  readonly maxConcurrentPages: number;
  /** The largest difference between a function's clock and virtual time. */
  readonly maxSkewMs: number;
  /** Of all keys. */
  readonly prefix: string;
  readonly s3: () => SimulatedS3;
  readonly dynamoDb: () => SimulatedDynamoDb;
  readonly exports: ReadonlyMap<string, ObservedExport>;
  /** The process whose request is being processed. */
  readonly writer: () => Process;
  readonly findExecution: (arn: string) => SimulatedExecution | undefined;
  /** When the process has listed the store; undefined: never. */
  readonly listedAt: (processId: string) => number | undefined;
  /** The settled abandonments of backfills. */
  readonly abandonments: Abandonments;
  /** Whether the process has looked at the object and seen one that no function had written. */
  readonly hasSeenForeign: (processId: string, key: string) => boolean;
}

/** By export: what a command that abandons a backfill has left when it returns. */
type Abandonments = Map<
  string,
  {
    /** Of the record of the backfill that the command has written. */
    readonly version: number;
    /** The windows that were published by then, or had begun to be. */
    readonly mayBePublished: ReadonlySet<string>;
  }
>;

/** What the checks have seen so far. */
export interface Seen {
  readonly manifests: Map<string, Manifest>;
  /** When the first page of each run was logged. */
  readonly firstPagesAt: Map<string, number>;
  /** When the page at each key was stored. */
  readonly pagesStoredAt: Map<string, number>;
  /** The content of `run.json`, by key. */
  readonly summaries: Map<string, RunSummary>;
  /** The sequence in `latest.json` as last written, by export. */
  readonly latestSequences: Map<string, number>;
  /** The reports in published runs, by export. */
  readonly publishedReports: Map<string, Set<SimulatedReport>>;
  /** Completed runs, in order. */
  readonly completions: Completion[];
  /** By export, from which date on it must miss nothing; absent before its first watermark. */
  readonly lowerBounds: Map<string, number>;
  /** The manifests of windows, by export. */
  readonly windows: Map<string, WindowManifest[]>;
  /** The windows that an operator has started with `restart`, by export and bounds. */
  readonly restartedWindows: Set<string>;
  /** The export or window that has each run, by export and run. */
  readonly runs: Map<string, string>;
  /** What the requests of each run must contain (`Version.requestMark`). */
  readonly requestMarks: Map<string, string | undefined>;
  /** The executions that have begun or resumed a run, without those that continue another one. */
  readonly runOwners: Set<string>;
  /** When each state was last written, by export and sort key. */
  readonly statesWrittenAt: Map<string, number>;
  /** Since when each invocation that begins must know the root element, by the name of the export or of the window. */
  readonly rootsKnownSince: Map<string, number>;
}

/** Identifies a window among all exports. */
export const windowKey = (exportName: string, { since, until }: WindowBounds): string =>
  `${exportName} ${since} ${until}`;

export interface WindowManifest extends WindowBounds {
  readonly run: string;
  readonly reports: readonly SimulatedReport[];
}

export interface Completion {
  readonly exportName: string;
  readonly run: string;
  readonly execution: string;
  readonly at: number;
  readonly isPublished: boolean;
}

export interface ActiveRun {
  readonly run: string;
  readonly execution: string;
  readonly startedBy: string;
  readonly sequence: number;
  readonly since: string;
  readonly until?: string;
  readonly cursorRestarts: number;
  readonly completion?: object;
  readonly lastFailure?: object;
  readonly documentRoot?: string;
}

export interface StateItem {
  /** The field that a later release adds. */
  readonly addedBy?: string;
  readonly version: number;
  readonly sequence: number;
  readonly active?: ActiveRun;
  readonly watermark?: { readonly instant: string };
  readonly documentRoot?: string;
  readonly plan?: { readonly id: number; readonly requestChecksum: string; readonly abandonedAt?: string };
  readonly lastCompleted?: {
    readonly execution: string;
    readonly result: { readonly run: string; readonly manifest: string | null; readonly watermark: string | null };
  };
}

export interface LogEntry {
  readonly export: string;
  readonly run: string;
  readonly page: number;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly compression?: string;
  readonly storedBytes?: number;
  readonly transferredBytes?: number;
  readonly storedSha256?: string;
  readonly revision: string | null;
  readonly cursor: string | null;
  readonly nextCursor: string | null;
  readonly reports: number | null;
  readonly repeats: boolean;
  readonly emptyPages: number;
}

export interface Manifest {
  readonly run: string;
  readonly sequence: number;
  readonly since: string;
  readonly until?: string;
  readonly totals: { readonly pages: number; readonly bytes: number; readonly reports: number | null };
  readonly pages: readonly {
    readonly page: number;
    readonly key: string;
    readonly bytes: number;
    readonly sha256: string;
    readonly compression?: string;
    readonly storedBytes?: number;
    readonly transferredBytes?: number;
    readonly storedSha256?: string;
    readonly cursor: string | null;
  }[];
}

/** The content of `run.json`, or of `window.json`, which has no watermark. */
export interface RunSummary {
  readonly run: string;
  readonly sequence: number;
  readonly since: string;
  readonly watermark?: string | null;
  readonly pages: number;
  readonly bytes: number;
  readonly reports: number | null;
  readonly manifest: string;
}

/** The key of the `run.json` beside the manifest at `key`. */
export const summaryKeyBeside = (key: string): string => key.replace(/manifest\.json$/, 'run.json');

/** The item of the newest backfill of an export, as an outsider reads it. */
export interface BackfillItem {
  readonly version: number;
  readonly plan: number;
  readonly from: string;
  readonly to: string;
  readonly windowMs: number;
  readonly abandonedAt?: string;
}

export function backfillOf({ dynamoDb }: Pick<Observations, 'dynamoDb'>, exportName: string): BackfillItem | undefined {
  const item = dynamoDb().item(partitionOf(exportName), 'backfill');
  return item && (unmarshall({ ...item }) as BackfillItem);
}

/** The partition of an export in the table. */
export const partitionOf = (exportName: string): string => `acme/${exportName}`;

/** The page log of a run, in order. */
export function entriesOf({ dynamoDb }: Observations, exportName: string, run: string): LogEntry[] {
  return dynamoDb()
    .items(partitionOf(exportName), `${/-[0-9a-f]{12}$/.test(run) ? 'once' : 'run'}#${run}#page#`)
    .map((item) => unmarshall({ ...item }) as LogEntry);
}

export const sha256Of = (body: Buffer): string => createHash('sha256').update(body).digest('hex');

/** The key of another page of the same run, in the same form. */
export const keyOfPage = (key: string, page: number): string =>
  key.replace(/\d{6}(?=\.[a-z]+(\.gz)?$)/, String(page).padStart(6, '0'));

/** The page in an object. */
export const contentOf = (body: Buffer, compression: string | undefined): Buffer =>
  compression === 'gzip' ? gunzipSync(body) : body;

/** The page that the service served with these bytes and cursors, in response to such a request, if there is one. */
export function findServedPage(
  service: SimulatedService,
  { cursor, sha256, nextCursor }: Pick<LogEntry, 'cursor' | 'sha256' | 'nextCursor'>,
  request: Partial<Pick<ServedPage, 'since' | 'until' | 'requestMark'>> = {},
): ServedPage | undefined {
  const expected = Object.entries({ sha256, nextCursor, ...request });
  return service
    .servedPages(cursor)
    .find((page) => expected.every(([field, value]) => page[field as keyof ServedPage] === value));
}

/** Whether the page is stored with the bytes that were logged. */
export function isStored({ prefix, s3 }: Observations, entry: LogEntry): boolean {
  const object = s3().objects.get(prefix + entry.key);
  return object !== undefined && isObjectOf(entry, object);
}

/** Whether the object has the bytes that were logged, and the page in it, too. */
export function isObjectOf(entry: LogEntry, { body }: Pick<StoredObject, 'body'>): boolean {
  const { bytes, sha256, storedBytes = bytes, storedSha256 = sha256 } = entry;
  if (body.length !== storedBytes || sha256Of(body) !== storedSha256) return false;
  const page = contentOf(body, entry.compression);
  return page.length === bytes && sha256Of(page) === sha256;
}

/** Whether someone has changed the object since this process, which is to notice it, has listed the store. */
export function isChangedTooLate({ s3, writer, listedAt }: Observations, key: string): boolean {
  const listed = listedAt(writer().id) ?? Number.POSITIVE_INFINITY;
  return s3().damages.some((damage) => damage.key === key && damage.at >= listed);
}

/** Whether metadata hold this cursor, or its hash if it is too long for them. */
export function holdsCursor(metadata: StoredObject['metadata'], name: string, cursor: string | null): boolean {
  const value = metadata[name];
  const hash = metadata[`${name}-sha256`];
  if (cursor === null) return value === undefined && hash === undefined;
  return value === cursor || hash === createHash('sha256').update(cursor).digest('hex');
}
