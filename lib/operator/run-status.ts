/** The status of exports and of their runs, as the status, doctor and report commands show it. */

import { mapConcurrently } from '../core/concurrency.ts';
import { parseBoundedStateName } from '../core/bounded-runs.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import { msWithoutReports } from '../core/expected-reports.ts';
import {
  type ExportState,
  type Instant,
  type PageEntry,
  type Run,
  type RunFailure,
  type RunId,
  type RunTotals,
  type Series,
  type SetAsideSlice,
  sumTotals,
  totalsOf,
  zeroTotals,
} from '../core/model.ts';
import type { PageLog, RunRef, SliceCounts } from '../core/ports.ts';
import { isDone, readProgress } from '../core/run-progress.ts';
import { manifestKey, runFolder, runLocation, startOf } from '../core/storage/keys.ts';
import { findManifest, findSummary } from '../core/storage/published-runs.ts';
import type { ManifestHeader } from '../core/storage/published-schemas.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import {
  type ExportTarget,
  type Incident,
  type ScheduleState,
  type UnreadableExport,
  unreadableExport,
} from '../target/target.ts';

/**
 * `running`: an execution is working on the run. `failed`, `interrupted`: none is, and the next start resumes it.
 * `completed`: it is published. `empty`: it found no reports and is not published, because publishEmptyRuns is false.
 * `damaged`: it was published, but its manifest is missing or was changed. `abandoned`: it never will be published.
 */
export type RunState = 'running' | 'failed' | 'interrupted' | 'completed' | 'empty' | 'damaged' | 'abandoned';

export interface RunStatus {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  /** null if it is no longer known, as for an abandoned run. */
  readonly since: Instant | null;
  /** Where it ends. Absent: it has no upper bound, or this is no longer known. */
  readonly until?: Instant | undefined;
  readonly bounded?: true | undefined;
  /** Set if the run has several slices, and is published or unfinished. */
  readonly slices?: SlicesStatus | undefined;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** The service's clock at the request for the first page; null if it is not known, as for an unpublished run. */
  readonly serviceStartedAt: Instant | null;
  /** When it was completed, or the next run began after it was abandoned; null if it has not ended or this is unknown. */
  readonly endedAt: Instant | null;
  /** When its newest page was logged; null if it has none. */
  readonly lastPageAt: Instant | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** The key of the run's folder. */
  readonly folder: string;
  /** The key of its manifest; null if the run is not published. */
  readonly manifest: string | null;
  /** What delayed or stopped an unfinished run last, or why the newest run was abandoned; null if that is not known. */
  readonly lastIncident: Incident | null;
}

export interface SlicesStatus extends SliceCounts {
  /** Why slices were not exported to their end at the newest attempt: at most ten, the oldest slices. */
  readonly setAside: readonly SetAsideSlice[];
}

/** What a state says of its newest run. Without a run, its values are null and its totals 0. */
interface NewestRun extends RunTotals {
  /**
   * `failed`: the newest run has failed, and the next start resumes it, or begins a new one if it can never complete; or the
   * newest start has begun no run. `damaged` is known only if runs are read. `never`: no run has completed or is unfinished.
   */
  readonly state: Exclude<RunState, 'empty' | 'abandoned'> | 'never';
  readonly run: RunId | null;
  readonly since: Instant | null;
  readonly startedAt: Instant | null;
  /** null unless the run is unfinished and has several slices. */
  readonly slices: SlicesStatus | null;
  /** Why the newest run or start has failed; null if it has not. */
  readonly lastFailure: RunFailure | null;
}

/** An export, its newest run and its bounded runs. */
export interface ExportStatus extends NewestRun {
  readonly export: string;
  /** The name of its service in a stack; the address of its service in a directory. */
  readonly service: string;
  /** Whether its schedule is enabled, and its newest completed run is older than `freshnessSeconds`, or there is none. */
  readonly stale: boolean;
  /** The maximum age of the newest completed run; null if it has none. */
  readonly freshnessSeconds: number | null;
  /** When the newest completed run with reports was completed. Until there is one: when the first completed run began. */
  readonly lastReportsAt: Instant | null;
  /** Of `expect.reportsEvery`; null if it is not set. */
  readonly reportsEverySeconds: number | null;
  /** Whether no completed run has had reports for `reportsEverySeconds` or longer. */
  readonly reportsOverdue: boolean;
  readonly watermark: Instant | null;
  /** When the newest completed run was completed. */
  readonly completedAt: Instant | null;
  readonly schedule: ScheduleState;
  /** Why the newest start has begun no run, in a directory; null if it has. */
  readonly failedStart: RunFailure | null;
  /** Count neither for `state` nor for `stale`. */
  readonly bounded: BoundedRuns;
  /** Newest first, without bounded ones. Absent if no runs are read. */
  readonly runs?: readonly RunStatus[] | undefined;
}

export interface BoundedRuns {
  /** Those that run, and those that have failed or were interrupted, by `since`. */
  readonly unfinished: readonly BoundedRun[];
  /** How many are completed. */
  readonly completed: number;
  /** The one that was completed last; null if there is none. */
  readonly newest: BoundedRun | null;
}

export interface BoundedRun extends NewestRun {
  readonly since: Instant;
  readonly until: Instant;
  readonly completedAt: Instant | null;
  /** The series that it is part of; null if it is not. */
  readonly series: Pick<Series, 'until' | 'each'> | null;
}

/** An export whose state cannot be read does not hide the others. */
export type StatusEntry = ExportStatus | UnreadableExport;

/** What an export counts as: the first of these that applies. Also their order in an overview. */
export const categories = [
  'unreadable',
  'damaged',
  'failed',
  'interrupted',
  'stale',
  'running',
  'completed',
  'never',
] as const;
export type Category = (typeof categories)[number];

export function categoryOf(entry: StatusEntry): Category {
  if ('error' in entry) return 'unreadable';
  const { state, stale, reportsOverdue } = entry;
  const isWorse = state === 'failed' || state === 'interrupted' || state === 'damaged';
  return (stale || reportsOverdue) && !isWorse ? 'stale' : state;
}

/** Whether someone should look at the export. */
export const needsAttention = (entry: StatusEntry): boolean =>
  categories.indexOf(categoryOf(entry)) <= categories.indexOf('stale');

/** What needs attention first, then running exports, then the others; each by name. */
export function sortStatuses(entries: readonly StatusEntry[]): StatusEntry[] {
  // Completed exports and those that have never run are equally fine.
  const lastRank = categories.indexOf('completed');
  const rankOf = (entry: StatusEntry) => Math.min(categories.indexOf(categoryOf(entry)), lastRank);
  return entries.toSorted((one, other) => rankOf(one) - rankOf(other) || (one.export < other.export ? -1 : 1));
}

const concurrency = 8;

/** The status of each export, with at most `maxRuns` of its newest runs. Without runs, no manifests are read. */
export async function readStatuses(
  exports: readonly (ExportTarget | UnreadableExport)[],
  maxRuns: number,
  now: number,
): Promise<readonly StatusEntry[]> {
  return await mapConcurrently(exports, concurrency, async (opened) => {
    if ('error' in opened) return opened;
    try {
      return await readExportStatus(opened, maxRuns, now);
    } catch (error) {
      // Any other error, such as a denied request, is not one of this export.
      if (!isExportError(error, 'PageConflictError')) throw error;
      return unreadableExport(opened.name, opened.serviceName, error);
    }
  });
}

/** The export with its newest runs, at most `maxRuns`; if that is 0, without them. */
export async function readExportStatus(deployed: ExportTarget, maxRuns: number, now: number): Promise<ExportStatus> {
  const { name, serviceName, definition, freshnessSeconds = null, failedStart } = deployed;
  const state = await deployed.log.exportState(name);
  const boundedStates = await readBoundedStates(deployed);
  const reportsEveryMs = definition.expect?.reportsEveryMs;
  const active = state?.active && (await activeRunStatus(deployed, state.active));
  const runs: RunStatus[] = [];
  if (maxRuns > 0) {
    for await (const run of listRuns(deployed, state, { active, boundedStates })) {
      if (runs.push(run) >= maxRuns) break;
    }
  }
  const schedule = await deployed.readSchedule();
  const completedAt = state?.lastCompleted?.completedAt ?? null;
  const ageMs = completedAt === null ? Number.POSITIVE_INFINITY : now - epochMsOf(completedAt);
  return {
    export: name,
    service: serviceName,
    ...newestRun(state, active, runs),
    // A start that fails beside a run in progress is shown once that has ended.
    ...(failedStart && active?.state !== 'running' && { state: 'failed', lastFailure: failedStart }),
    failedStart: failedStart ?? null,
    stale: schedule.kind === 'scheduled' && freshnessSeconds !== null && ageMs > freshnessSeconds * 1_000,
    freshnessSeconds,
    lastReportsAt: state?.lastCompleted?.lastReportsAt ?? null,
    reportsEverySeconds: reportsEveryMs === undefined ? null : reportsEveryMs / 1_000,
    reportsOverdue: (msWithoutReports(state?.lastCompleted, now) ?? 0) >= (reportsEveryMs ?? Number.POSITIVE_INFINITY),
    watermark: state?.watermark?.instant ?? null,
    completedAt,
    schedule,
    bounded: await boundedRuns(deployed, boundedStates),
    runs: maxRuns === 0 ? undefined : runs,
  };
}

/** The states of bounded runs, by the runs that they name. */
type BoundedStates = ReadonlyMap<RunId, ExportState>;

export async function readBoundedStates({ log, name }: ExportTarget): Promise<BoundedStates> {
  const states = new Map<RunId, ExportState>();
  for await (const state of log.boundedStates(name)) {
    const { active, lastCompleted, lastAbandoned } = state;
    for (const run of [active?.run, lastCompleted?.result.run, lastAbandoned?.run]) {
      if (run !== undefined) states.set(run, state);
    }
  }
  return states;
}

/** The bounded runs of the export. */
export const readBoundedRuns = async (deployed: ExportTarget): Promise<BoundedRuns> =>
  await boundedRuns(deployed, await readBoundedStates(deployed));

/** The error of a command that acts on the newest regular run, if there is none. `purpose` is for example `to verify`. */
export async function noRunError(deployed: ExportTarget, purpose: string): Promise<ExportError> {
  const states = [...(await readBoundedStates(deployed)).values()];
  const problem = states.some(({ lastCompleted }) => lastCompleted !== undefined)
    ? 'no regular run yet. Choose a bounded one with --run: runs --bounded lists them'
    : `no run ${purpose} yet`;
  return new ExportError('ConfigurationError', `Export ${deployed.name} has ${problem}`);
}

async function boundedRuns(deployed: ExportTarget, byRun: BoundedStates): Promise<BoundedRuns> {
  const states = [...new Set(byRun.values())];
  const isUnfinished = ({ active, lastAbandoned }: ExportState) => (active ?? lastAbandoned) !== undefined;
  const completed = states.filter((state) => !isUnfinished(state));
  const [newest] = completed.toSorted((one, other) => completedMs(other) - completedMs(one));
  const unfinished = await mapConcurrently(states.filter(isUnfinished), concurrency, (state) =>
    boundedRun(deployed, state),
  );
  return {
    unfinished: unfinished.sort((one, other) => epochMsOf(one.since) - epochMsOf(other.since)),
    completed: completed.length,
    newest: newest === undefined ? null : await boundedRun(deployed, newest),
  };
}

const completedMs = ({ lastCompleted }: ExportState): number =>
  lastCompleted === undefined ? 0 : epochMsOf(lastCompleted.completedAt);

async function boundedRun(deployed: ExportTarget, state: ExportState): Promise<BoundedRun> {
  const bounds = parseBoundedStateName(state.export)?.bounds;
  if (bounds === undefined) throw new Error(`${state.export} is not the name of a bounded run`);
  const active = state.active && (await activeRunStatus(deployed, state.active));
  const newest = newestRun(state, active);
  const completedAt = newest.state === 'completed' ? (state.lastCompleted?.completedAt ?? null) : null;
  const { until, each } = state.active?.series ?? {};
  const series = until === undefined || each === undefined ? null : { until, each };
  return { ...newest, ...bounds, completedAt, series };
}

function newestRun(
  { active: activeRun, lastAbandoned, lastCompleted }: Partial<ExportState> = {},
  active: ActiveRunStatus | undefined,
  runs: readonly RunStatus[] = [],
): NewestRun {
  if (active !== undefined) {
    const { state, run, since, startedAt, slices = null, pages, reports, bytes } = active;
    return { state, run, since, startedAt, slices, pages, reports, bytes, lastFailure: activeRun?.lastFailure ?? null };
  }
  if (lastAbandoned !== undefined) {
    const { failure, run, ...rest } = lastAbandoned;
    return { state: 'failed', run, startedAt: startOf(run), slices: null, ...rest, lastFailure: failure };
  }
  const none = { slices: null, lastFailure: null };
  if (lastCompleted !== undefined) {
    const { run, since, pages, reports, bytes } = lastCompleted.result;
    const isDamaged = runs.some((each) => each.run === run && each.state === 'damaged');
    const state = isDamaged ? 'damaged' : 'completed';
    return { state, run, since, startedAt: startOf(run), pages, reports, bytes, ...none };
  }
  return { state: 'never', run: null, since: null, startedAt: null, ...zeroTotals, ...none };
}

/**
 * The runs of the export that the page log still has, newest first. Without bounded runs: where they begin and end says nothing about
 * the others. Of one that was abandoned, that is no longer known. What has been read already is not read again.
 */
export async function* listRuns(
  deployed: ExportTarget,
  state: ExportState | undefined,
  { active, boundedStates }: { readonly active?: ActiveRunStatus; readonly boundedStates?: BoundedStates } = {},
): AsyncGenerator<RunStatus> {
  const activeRun = state?.active;
  const bounded = boundedStates ?? (await readBoundedStates(deployed));
  let nextStartedAt: Instant | null = null;
  if (activeRun !== undefined) {
    yield await withLastIncident(deployed, activeRun, active);
    nextStartedAt = activeRun.startedAt;
  }
  for await (const last of deployed.log.runs(deployed.name)) {
    if (last.run === activeRun?.run || bounded.has(last.run)) continue;
    const run = await pastRunStatus(deployed, state, last, nextStartedAt);
    if (run.bounded) continue;
    yield run;
    nextStartedAt = run.startedAt;
  }
}

/** One run of the export, bounded or not; undefined if the page log does not have it. `state` is that of `findStateOf`. */
export async function findRunStatus(
  deployed: ExportTarget,
  state: ExportState | undefined,
  run: RunId,
): Promise<RunStatus | undefined> {
  if (state?.active?.run === run) return await withLastIncident(deployed, state.active);
  const last = (await findLoggedSlices(deployed.log, { export: deployed.name, run })).at(-1);
  if (last === undefined) return undefined;
  const past = await pastRunStatus(deployed, state, last, null);
  if (past.bounded || past.endedAt !== null) return past;
  return { ...past, endedAt: await nextRunStartedAt(deployed, state, run) };
}

/** The state that names `run`, if it is that of a bounded run; else that of the export, which may not name it. */
export async function findStateOf(deployed: ExportTarget, run: RunId): Promise<ExportState | undefined> {
  const state = await deployed.log.exportState(deployed.name);
  const isNamed = run === state?.active?.run || run === state?.lastCompleted?.result.run;
  return isNamed ? state : ((await readBoundedStates(deployed)).get(run) ?? state);
}

/** When the run after `run` began; null if there is none. */
async function nextRunStartedAt(
  deployed: ExportTarget,
  state: ExportState | undefined,
  run: RunId,
): Promise<Instant | null> {
  const { log, name } = deployed;
  const bounded = await readBoundedStates(deployed);
  let nextStartedAt = state?.active?.startedAt ?? null;
  for await (const last of log.runs(name)) {
    if (last.run === run) break;
    if (last.run !== state?.active?.run && !bounded.has(last.run)) nextStartedAt = startOf(last.run);
  }
  return nextStartedAt;
}

/**
 * The last page of each slice that the page log has pages of, in its newest attempt, the oldest slice first. For a run whose state is
 * gone: it is published, or was abandoned.
 */
export async function findLoggedSlices(
  log: Pick<PageLog, 'last' | 'lastSlice'>,
  { export: name, run }: RunRef,
): Promise<readonly PageEntry[]> {
  const count = await log.lastSlice({ export: name, run });
  const numbers = count === 0 ? [undefined] : Array.from({ length: count }, (_, index) => index + 1);
  const found = await mapConcurrently(numbers, concurrency, async (slice) => {
    if (slice === undefined) return await log.last({ export: name, run });
    let newest: PageEntry | undefined;
    for (let attempt = 1; ; attempt += 1) {
      const last = await log.last({ export: name, run, slice, attempt });
      if (last === undefined) return newest;
      newest = last;
    }
  });
  return found.filter((last) => last !== undefined);
}

interface ActiveRunStatus extends RunStatus {
  readonly state: 'running' | 'failed' | 'interrupted';
}

/** Without its last incident, which may take a further request. */
async function activeRunStatus({ log, executions }: ExportTarget, run: Run): Promise<ActiveRunStatus> {
  const [progress, isRunning] = await Promise.all([readProgress(log, run), executions.isRunning(run.execution)]);
  const logged = progress.slices.flatMap(({ last }) => (last === undefined ? [] : [epochMsOf(last.loggedAt)]));
  const { setAside = [] } = run.slices ?? {};
  return {
    export: run.export,
    run: run.run,
    state: isRunning ? 'running' : run.lastFailure === undefined ? 'interrupted' : 'failed',
    since: run.since,
    until: run.until,
    bounded: run.bounded,
    slices: run.slices && { ...progress.counts, setAside },
    startedAt: run.startedAt,
    completedAt: null,
    serviceStartedAt: null,
    endedAt: null,
    ...progress.totals,
    lastPageAt: logged.length === 0 ? null : instantOf(Math.max(...logged)),
    folder: runFolder(run),
    manifest: null,
    lastIncident: null,
  };
}

async function withLastIncident(deployed: ExportTarget, run: Run, active?: ActiveRunStatus): Promise<RunStatus> {
  const status = active ?? (await activeRunStatus(deployed, run));
  const lastIncident = failedRun(run.lastFailure) ?? (await deployed.lastIncident?.(run.execution)) ?? null;
  return { ...status, lastIncident };
}

const failedRun = (failure: RunFailure | undefined): Incident | undefined =>
  failure && { kind: 'failed-run', ...failure };

/**
 * What a run without a manifest is: `damaged` if it was published; `empty` if it found no reports and was not, because of
 * publishEmptyRuns. Only of the newest run is that recorded; others were published if they have a summary. `slices` are the last pages
 * of its slices.
 */
export async function stateWithoutManifest(
  { store, definition }: Pick<ExportTarget, 'store' | 'definition'>,
  run: RunRef,
  { slices, lastCompleted }: { readonly slices: readonly PageEntry[] } & Pick<ExportState, 'lastCompleted'>,
): Promise<'damaged' | 'empty' | 'abandoned'> {
  if (lastCompleted?.result.run === run.run) return lastCompleted.result.manifest === null ? 'empty' : 'damaged';
  // A run that has more pages was never published.
  if (!slices.every(isDone)) return 'abandoned';
  if ((await findSummary(store, run)) !== undefined) return 'damaged';
  const hasNoReports = slices.length > 0 && slices.every(({ totals }) => totals.reports === 0);
  return hasNoReports && !definition.publishEmptyRuns ? 'empty' : 'abandoned';
}

async function pastRunStatus(
  deployed: ExportTarget,
  exportState: ExportState | undefined,
  last: PageEntry,
  nextStartedAt: Instant | null,
): Promise<RunStatus> {
  const { store, log } = deployed;
  const { lastCompleted, lastAbandoned } = exportState ?? {};
  const location = runLocation(last.export, last.run);
  const manifest = manifestKey(location);
  const header = await readManifestHeader(store, manifest);
  const isSliced = last.slice !== undefined;
  const slices = header === undefined && isSliced ? await findLoggedSlices(log, last) : [last];
  const state =
    header === undefined
      ? await stateWithoutManifest(deployed, last, { slices, lastCompleted })
      : header === 'unreadable'
        ? 'damaged'
        : 'completed';
  // The summary repeats the manifest.
  const found = state === 'damaged' ? await findSummary(store, last) : header;
  const published = found === 'unreadable' ? undefined : found;
  const isEmpty = state === 'empty';
  const emptyResult = isEmpty && lastCompleted?.result.run === last.run ? lastCompleted : undefined;
  const completedAt = published?.completedAt ?? emptyResult?.completedAt ?? null;
  // The entries of an old log expire in any order, and `last` may be one of the first pages.
  const { pages, reports, bytes } = published ?? sumTotals(slices.map(totalsOf));
  const bounds = exportState && parseBoundedStateName(exportState.export)?.bounds;
  const { since = null, until } = published ?? emptyResult?.result ?? bounds ?? {};
  const count = published !== undefined && 'slices' in published ? published.slices?.length : undefined;
  return {
    export: last.export,
    run: last.run,
    state,
    since,
    until,
    bounded: published?.bounded || bounds !== undefined ? true : undefined,
    slices: count === undefined ? undefined : { done: count, count, setAside: [] },
    startedAt: published?.startedAt ?? startOf(last.run),
    completedAt,
    serviceStartedAt: published?.serviceStartedAt ?? (isEmpty && last.page === 1 ? last.serviceTime : null),
    endedAt: completedAt ?? (isEmpty ? last.loggedAt : nextStartedAt),
    pages,
    reports,
    bytes,
    lastPageAt: last.loggedAt,
    folder: runFolder(location),
    manifest: state === 'completed' || state === 'damaged' ? manifest : null,
    lastIncident: (lastAbandoned?.run === last.run && failedRun(lastAbandoned.failure)) || null,
  };
}

/** Reads the header only. A changed manifest is `unreadable`; the verify command reports why. */
async function readManifestHeader(
  store: ExportTarget['store'],
  manifest: string,
): Promise<(ManifestHeader & RunTotals) | 'unreadable' | undefined> {
  try {
    const found = await findManifest(store, manifest);
    if (found === undefined) return undefined;
    for await (const _ of found.pages) break;
    return { ...found.header, ...found.header.totals };
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unreadable';
    throw error;
  }
}
