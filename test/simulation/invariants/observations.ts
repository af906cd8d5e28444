/**
 * What the checks look at: the simulated services, and items and objects as an outsider reads them. The shapes are
 * repeated here on purpose, so that the checks do not share a mistake with the code they check.
 */

import type { PageMetadata, StoredCursor } from '../../../lib/core/model.ts';
import type { GivenExport } from '../../../lib/settings/settings.ts';
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import type { ExportScenario } from '../histories/scenario.ts';
import type { SimulatedExecution, StepFunctions } from '../step-functions/step-functions.ts';
import { recordOf, type SimulatedDynamoDb } from '../world/dynamodb.ts';
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
  readonly versions: readonly GivenExport[];
  /** Every version that a function has before this moment has the expectations (`expect`) of the scenario. */
  readonly reportsExpectedUntil: number;
  /** What the requests of the version that the invocation has got contain (`Version.requestMark`). */
  readonly requestMark: (processId: string) => string | undefined;
  /** The state machine of the service, as far as this export is concerned. */
  readonly stepFunctions: Pick<StepFunctions, 'start' | 'stop' | 'redrive' | 'find' | 'executions'>;
  /** The parents that an operator has skipped in some run. */
  readonly skipped: Set<string>;
  /** Runs whose completion was put on the event bus. */
  readonly announcedRuns: ReadonlySet<string>;
}

/** A half-open interval of report dates, in milliseconds since the epoch. `until` may be infinite. */
export interface Bounds {
  readonly since: number;
  readonly until: number;
}

/** The export that an input names, also if it names one of its bounded runs. */
export const exportOf = (input: unknown): string | undefined => stateNameIn(input)?.split('/')[0];

/** The export or the bounded run that an input names. */
export const stateNameIn = (input: unknown): string | undefined =>
  (input as { readonly export?: string } | undefined)?.export;

/** Whether an input is that of a bounded run: of its start, or of a later step. */
export const isBounded = (input: unknown): boolean =>
  (stateNameIn(input) ?? '').includes('/') ||
  Object.keys((input as object | undefined) ?? {}).some((field) => field === 'until' || field === 'parents');

/** Where the state of an export, or of a bounded run, is in its partition. */
export function stateSortKey(stateName: string): string {
  const [, ...bounds] = stateName.split('/');
  return bounds.length === 0 ? 'state' : `bounded#${bounds.join('/')}`;
}

export interface Observations {
  readonly world: World;
  /** 0 if there is no limit. */
  readonly maxConcurrentPages: number;
  /** The milliseconds between two dates that a request can have. */
  readonly dateUnitMs: number;
  /** The largest difference between a function's clock and virtual time. */
  readonly maxSkewMs: number;
  /** The prefix of all keys. */
  readonly prefix: string;
  readonly s3: () => SimulatedS3;
  readonly dynamoDb: () => SimulatedDynamoDb;
  readonly exports: ReadonlyMap<string, ObservedExport>;
  /** The process whose request is being processed. */
  readonly writer: () => Process;
  readonly findExecution: (arn: string) => SimulatedExecution | undefined;
  /** When the process has listed the store; undefined: never. */
  readonly listedAt: (processId: string) => number | undefined;
  /** Every run, as its state last had it, by its ID. */
  readonly runs: Map<string, ActiveRun>;
  /** Whether the process has looked at the object and seen one that no function had written. */
  readonly hasSeenForeign: (processId: string, key: string) => boolean;
}

/** What the checks have seen so far. */
export interface Seen {
  readonly manifests: Map<string, Manifest>;
  /** When the first page of each run was logged. */
  readonly firstPagesAt: Map<string, number>;
  /** When each run began, by the service's clock; if its pages are counted, the first pass of them. */
  readonly begunAt: Map<string, number>;
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
  /** By run: the response that showed that the service honors its upper bound; undefined: requests were rejected. */
  readonly proofs: Map<string, ServedPage | undefined>;
  /** What the requests of each run must contain (`Version.requestMark`). */
  readonly requestMarks: Map<string, string | undefined>;
  /** The executions that have begun or resumed a run, without those that continue another one. */
  readonly runOwners: Set<string>;
  /** When each state was last written, by export and sort key. */
  readonly statesWrittenAt: Map<string, number>;
  /** Since when each invocation that begins must know the root element, by the name of the export, or by the run. */
  readonly rootsKnownSince: Map<string, number>;
  /** What is known of exports whose parents are reports of another export, by name. */
  readonly coverages: Map<string, Coverage>;
  /** The runs whose start, or that of a run that they replace, has named a `since`. */
  readonly namedSince: Set<string>;
  /** The runs that were the newest one of their export, and since when, by export. */
  readonly newestRuns: Map<string, readonly { readonly run: string; readonly at: number }[]>;
}

interface Coverage {
  /** Up to where the children of each parent are in completed runs: at least, and at most. */
  readonly covered: Map<string, readonly [least: number, most: number]>;
  /** The parents whose children the newest run has. */
  walked: ReadonlySet<string>;
}

export interface Completion {
  /** The name of the state of the export, or of a bounded run. */
  readonly stateName: string;
  readonly run: string;
  readonly execution: string;
  readonly at: number;
  readonly isPublished: boolean;
}

export interface ActiveRun {
  readonly export: string;
  readonly run: string;
  readonly execution: string;
  readonly startedBy: string;
  readonly sequence: number;
  readonly since: string;
  readonly until?: string;
  readonly bounded?: true;
  /** Only if the parents are reports of another export. */
  readonly parents?: {
    readonly run?: string;
    readonly isNamed?: true;
    readonly parts?: readonly string[];
  };
  readonly lagMs: number;
  readonly slices?: {
    readonly count: number;
    /** Absent: each slice is of a parent, and has all of the period. */
    readonly lengthMs?: number;
  };
  readonly attempts?: Readonly<Record<string, number>>;
  readonly restarts?: Readonly<Record<string, number>>;
  readonly generation?: number;
  readonly passes?: object;
  readonly request: { readonly format: string; readonly api: { readonly pagination?: string } };
  readonly startedAt: string;
  readonly compression?: string;
  readonly completion?: object;
  readonly lastFailure?: object;
  readonly documentRoot?: string;
}

export interface StateItem {
  /** The field that a later release adds. */
  readonly addedBy?: string;
  readonly version: number;
  readonly sequence: number;
  readonly export: string;
  /** The bounded run that is about to begin. */
  readonly beginning?: { readonly execution: string };
  readonly active?: ActiveRun;
  readonly watermark?: { readonly instant: string };
  readonly documentRoot?: string;
  readonly lastCompleted?: {
    readonly execution: string;
    readonly result: Pick<ActiveRun, 'run' | 'since' | 'until'> & {
      readonly manifest: string | null;
      readonly watermark: string | null;
    };
  };
}

/** What is recorded of the slices of a run beside its state. */
export interface ProgressItem {
  readonly run: string;
  readonly generation: number;
  readonly begun: number;
  readonly open: readonly number[];
  readonly setAside: readonly number[];
  readonly failures: readonly { readonly error: string }[];
  readonly done: { readonly pages: number; readonly bytes: number };
}

/** One attempt of a slice. The first one of the only slice of a run has neither number. */
export interface Chain {
  readonly slice?: number | undefined;
  readonly attempt?: number | undefined;
}

export interface LogEntry extends Chain {
  readonly kind: 'page';
  readonly export: string;
  readonly run: string;
  readonly page: number;
  readonly parent?: string;
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
  readonly failedAttempts?: number;
  readonly waitedSeconds?: number;
}

/** In the place of a page: the service has none for the cursor of the last page. */
export interface EndEntry extends Pick<LogEntry, 'export' | 'run' | 'page' | 'slice' | 'attempt'> {
  readonly kind: 'end';
  readonly reason: string;
  readonly parent?: string;
  readonly status: number;
  readonly cursor: string | null;
  readonly totals: { readonly reports: number | null; readonly bytes: number };
}

export interface Manifest {
  readonly run: string;
  readonly sequence: number;
  readonly since: string;
  readonly until?: string;
  readonly bounded?: boolean;
  readonly slices?: readonly {
    readonly since: string;
    readonly until: string | null;
    readonly pages: number;
    readonly bytes: number;
    readonly reports: number | null;
  }[];
  readonly parents?: Readonly<Record<'count' | 'withoutPages' | 'gone' | 'skipped', number>> & {
    readonly export?: string;
    readonly run?: string;
    readonly missing?: { readonly key: string; readonly bytes: number; readonly sha256: string };
  };
  readonly totals: { readonly pages: number; readonly bytes: number; readonly reports: number | null };
  readonly pages: readonly {
    readonly page: number;
    readonly slice?: number | undefined;
    readonly parent?: string | undefined;
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

/** The content of `run.json`, or of `bounded.json`. */
export interface RunSummary {
  readonly run: string;
  readonly sequence: number;
  readonly since: string;
  readonly watermark: string | null;
  readonly pages: number;
  readonly bytes: number;
  readonly reports: number | null;
  readonly manifest: string;
}

/** The key of the `run.json` beside the manifest at `key`. */
export const summaryKeyBeside = (key: string): string => key.replace(/manifest\.json$/, 'run.json');

/** The partition of an export in the table. */
export const partitionOf = (exportName: string): string => `acme/${exportName}`;

/** The slices of a run in their newest attempts, the oldest first. */
export function chainsOf({ runs }: Pick<Observations, 'runs'>, run: string): readonly Chain[] {
  const { slices, attempts = {} } = runs.get(run) ?? {};
  const chainOf = (slice: number): Chain => ({ slice, attempt: attempts[slice] ?? 1 });
  if (slices === undefined) return [attempts[1] === undefined ? {} : chainOf(1)];
  return Array.from({ length: slices.count }, (_, index) => chainOf(index + 1));
}

/** The intervals of the slices of a run. They are cut at multiples of a length since 1970, in UTC. */
export function cutsOf({ since, until, slices }: ActiveRun): readonly Bounds[] {
  const from = Date.parse(since);
  const to = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until);
  if (slices === undefined) return [{ since: from, until: to }];
  const { count, lengthMs } = slices;
  if (lengthMs === undefined) return Array.from({ length: count }, () => ({ since: from, until: to }));
  const firstCut = from - (from % lengthMs) + lengthMs;
  const cuts = Array.from({ length: count - 1 }, (_, index) => firstCut + index * lengthMs);
  const ends = [...cuts, to];
  return [from, ...cuts].map((each, index) => ({ since: each, until: ends[index] ?? to }));
}

export const boundsOf = ({ since, until = '' }: { readonly since: string; readonly until?: string }): Bounds => ({
  since: Date.parse(since),
  until: Date.parse(until),
});

export const overlaps = (one: Bounds, other: Bounds): boolean => one.since < other.until && other.since < one.until;

/** The unfinished bounded runs of an export, and the newest completed ones. */
export const boundedRuns = ({ items }: Pick<SimulatedDynamoDb, 'items'>, exportName: string) =>
  items(partitionOf(exportName), 'bounded#')
    .map(recordOf<StateItem>)
    .flatMap(({ active, lastCompleted }) => [active, lastCompleted?.result])
    .filter((run) => run !== undefined);

/** The bounds in requests for such an interval: whole seconds, or days. */
export function requestedBounds(
  { since, until }: Bounds,
  { startedAt }: ActiveRun,
  { service }: Pick<ObservedExport, 'service'>,
): Bounds {
  if (service.listsAll) return { since: 0, until: Number.POSITIVE_INFINITY };
  const end = Number.isFinite(until) || !service.needsUpperBound ? until : Date.parse(startedAt);
  const { dateUnitMs } = service;
  return { since: Math.floor(since / dateUnitMs) * dateUnitMs, until: Math.ceil(end / dateUnitMs) * dateUnitMs };
}

function itemsOfChain(
  { dynamoDb }: Pick<Observations, 'dynamoDb'>,
  exportName: string,
  run: string,
  { slice, attempt }: Chain,
): (LogEntry | EndEntry)[] {
  const ofSlice =
    slice === undefined
      ? ''
      : `slice#${String(slice).padStart(6, '0')}.${String(1_000_000 - (attempt ?? 1)).padStart(6, '0')}#`;
  return dynamoDb()
    .items(partitionOf(exportName), `run#${run}#${ofSlice}page#`)
    .map(recordOf<LogEntry | EndEntry>);
}

/** The logged pages of one attempt of a slice, in order. */
export const entriesOfChain = (...chain: Parameters<typeof itemsOfChain>): LogEntry[] =>
  itemsOfChain(...chain).filter((entry) => entry.kind === 'page');

/** The end in the place of the page after the last one, if the log has it. */
export const endOfChain = (...chain: Parameters<typeof itemsOfChain>): EndEntry | undefined =>
  itemsOfChain(...chain).find((entry) => entry.kind === 'end');

/** Whether the slice has its last page. */
const isWholeChain = (...chain: Parameters<typeof itemsOfChain>): boolean =>
  endOfChain(...chain) !== undefined || entriesOfChain(...chain).at(-1)?.nextCursor === null;

/** The page log of a run, in the order of its manifest. */
export const entriesOf = (observations: Observations, exportName: string, run: string): LogEntry[] =>
  chainsOf(observations, run).flatMap((chain) => entriesOfChain(observations, exportName, run, chain));

/** Whether each slice of the run has its last page. */
export const isWhole = (observations: Observations, exportName: string, run: string): boolean =>
  chainsOf(observations, run).every((chain) => isWholeChain(observations, exportName, run, chain));

export const sha256Of = (body: Buffer | string): string => createHash('sha256').update(body).digest('hex');

/** The name of the state of the run. */
export const stateNameOf = ({ export: name, since, until, bounded, parents }: ActiveRun): string =>
  parents?.isNamed ? `${name}/parents/${parents.run}` : bounded ? `${name}/${since}/${until}` : name;

/** The parents of a run, one for each slice: those of the settings, or those that the run of their export has. */
export function parentsOf(
  observations: Pick<Observations, 'dynamoDb' | 'exports' | 'runs'>,
  { scenario }: Pick<ObservedExport, 'scenario'>,
  run: string,
): readonly string[] {
  const { values = [], export: listName = '' } = scenario.settings.parents ?? {};
  const list = observations.exports.get(listName);
  if (list === undefined) return values;
  const listed = observations.runs.get(run)?.parents?.run ?? '';
  const pages = chainsOf(observations, listed).flatMap((chain) =>
    entriesOfChain(observations, listName, listed, chain),
  );
  const reports = pages.flatMap((entry) => findServedPage(list.service, entry)?.reports ?? []);
  return [...new Set(reports.map(({ id }) => id))];
}

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
  request: Partial<Pick<ServedPage, 'since' | 'until' | 'parent' | 'requestMark'>> = {},
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

/** The metadata of the page in an object; empty if it has none. */
export const pageMetadataOf = ({ metadata }: Pick<StoredObject, 'metadata'>): Partial<PageMetadata> =>
  metadata.page === undefined ? {} : (JSON.parse(metadata.page) as Partial<PageMetadata>);

/** Whether metadata hold this cursor, or its hash if it is too long for them. */
export const holdsCursor = (stored: StoredCursor | undefined, cursor: string | null): boolean =>
  typeof stored === 'object' && stored !== null
    ? cursor !== null && stored.sha256 === sha256Of(cursor)
    : stored === cursor;
