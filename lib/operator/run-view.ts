/** Exports and their runs as operators see them. `status`, `doctor`, `report` and `verify` show what is read here. */

import { parseStateName, stateNameOfRun } from '../core/bounded-runs.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { type ErrorName, ExportError, isExportError } from '../core/errors.ts';
import { msWithoutReports } from '../core/expected-reports.ts';
import { filterOf } from '../core/filter.ts';
import {
  asRunId,
  type ExportState,
  type Instant,
  type JobRecord,
  type Run,
  type RunFailure,
  type RunId,
  runIdPattern,
  type RunTotals,
  type SetAsideSlice,
  zeroTotals,
} from '../core/model.ts';
import type { SliceCounts } from '../core/ports.ts';
import { parentsOfRun } from '../core/parents/run-parents.ts';
import { readProgress, type RunProgress } from '../core/run-progress.ts';
import { numberOf, sliceOf } from '../core/slices.ts';
import { manifestKey, runFolder, runLocation, runsPrefix, startOf } from '../core/storage/keys.ts';
import { parentRunOf } from '../core/storage/manifest.ts';
import { findManifest, findSummary } from '../core/storage/published-runs.ts';
import type { ManifestHeader, RunSummary } from '../core/storage/published-schemas.ts';
import { foldersIn } from '../core/storage/run-list.ts';
import { epochMsOf } from '../core/timestamps.ts';
import { type ExportTarget, type ScheduleState, type UnreadableExport, unreadableExport } from './target.ts';
import type { Incident } from '../aws/step-functions/history.ts';

/**
 * `running`: an execution is working on the run. `failed`, `interrupted`: none is, and the next start resumes or
 * replaces it. `completed`: it is published. `empty`: it found no reports and is not published, because
 * publishEmptyRuns is false. `damaged`: it was published, but its manifest is missing or was changed.
 */
export type RunState = 'running' | 'failed' | 'interrupted' | 'completed' | 'empty' | 'damaged';

/** A slice that is set aside. `parent` is its value, if it is known. */
type ViewedSlice = SetAsideSlice & { readonly parent?: string | undefined };

/** The report job that a slice of an unfinished run waits for, or whose result it exports. */
export interface ViewedJob extends Pick<JobRecord, 'phase' | 'createdAt' | 'status' | 'statusSince'> {
  /** null: the run has one slice. */
  readonly slice: number | null;
  /** Absent: the job may exist, but no response has its ID yet. */
  readonly id?: string | undefined;
}

/** A run, regular or bounded, unfinished or ended. What is not known of it is null. */
export interface RunView extends RunTotals {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  readonly since: Instant | null;
  /** Absent: it has no upper bound, or this is not known. */
  readonly until?: Instant | undefined;
  readonly bounded?: true | undefined;
  /** The run of another export whose reports are the parents. Absent: there is none, or it is not known. */
  readonly parentRun?: { readonly export: string; readonly run: string } | undefined;
  /** null if it has one slice. `setAside` has at most ten slices that the newest attempt has not completed. */
  readonly slices: (SliceCounts & { readonly setAside: readonly ViewedSlice[] }) | null;
  /** The jobs of at most ten slices that are not complete. Absent: the run has none. */
  readonly jobs?: readonly ViewedJob[] | undefined;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** The service's clock at the request for the first page. */
  readonly serviceStartedAt: Instant | null;
  /** When the newest page of an unfinished run was logged. */
  readonly lastPageAt: Instant | null;
  readonly folder: string;
  /** The key of its manifest; null if the run is not published. */
  readonly manifest: string | null;
  /** `filter` is JSON, with the lower bound of the date. `size` is null for the service's default. */
  readonly request:
    | (Record<'service' | 'filter' | 'format' | 'container', string> & { readonly size: number | null })
    | null;
  readonly lastFailure: RunFailure | null;
  /** That failure or, of an unfinished run, what its execution has recorded of a retry or a wait. */
  readonly lastIncident: Incident | null;
}

/** The newest run of an export, as an overview shows it. Without a run, it has null values and no pages. */
interface NewestRun extends RunTotals {
  /** `failed` also if the newest start has begun none. */
  readonly state: Exclude<RunState, 'empty'> | 'never';
  readonly run: RunId | null;
  readonly since: Instant | null;
  readonly startedAt: Instant | null;
  /** null unless the run is unfinished and has several slices. */
  readonly slices: RunView['slices'];
  readonly lastFailure: RunFailure | null;
  /** Why the newest start has begun no run; null if it has. */
  readonly failedStart: RunFailure | null;
}

/** How old the newest completed run is, and the newest one with reports, and how old they may become. */
interface Freshness {
  readonly completedAt: Instant | null;
  readonly freshnessSeconds: number | null;
  /** Whether a run is expected, and its newest completed run is older than `freshnessSeconds`, or there is none. */
  readonly stale: boolean;
  readonly lastReportsAt: Instant | null;
  /** The limit in `expect.reportsEvery`. */
  readonly reportsEverySeconds: number | null;
  readonly reportsOverdue: boolean;
}

export interface ExportView extends NewestRun, Freshness {
  readonly export: string;
  readonly service: string;
  readonly watermark: Instant | null;
  readonly schedule: ScheduleState;
  /** These runs count neither for `state` nor for `stale`. */
  readonly bounded: {
    readonly unfinished: readonly RunView[];
    readonly completed: number;
    readonly newest: RunView | null;
  };
  /** Newest first, without bounded ones. Absent if no runs are read. */
  readonly runs?: readonly RunView[] | undefined;
}

/** An export whose state cannot be read does not hide the others. */
export type ViewedExport = ExportView | UnreadableExport;

/**
 * Whether the next start resumes the run. If the message of its failure names a restart, it would fail again until
 * something else is done, which the message says.
 */
export const canResume = ({ state, lastFailure }: RunView): boolean =>
  (state === 'failed' || state === 'interrupted') && !(lastFailure?.message.includes('--restart') ?? false);

const corrected: ReadonlySet<string> = new Set<ErrorName>([
  'ConfigurationError',
  'RequestRejectedError',
  'PageConflictError',
]);

/** Whether a start fails again with this error, until a person has changed something. */
export const needsCorrection = (error: string): boolean => corrected.has(error);

const outages: ReadonlySet<string> = new Set<ErrorName>([
  'ServiceUnavailableError',
  'ServiceUnreachableError',
  'ServiceThrottledError',
]);

/** Whether the error passes, and says nothing about the settings. */
export const isOutage = (error: string): boolean => outages.has(error);

/** Display categories in the order of an overview; the first match wins. */
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

export function categoryOf(entry: ViewedExport): Category {
  if ('error' in entry) return 'unreadable';
  const { stale, reportsOverdue, bounded } = entry;
  // A backfill before the first regular run.
  const state = entry.state === 'never' && bounded.newest !== null ? 'completed' : entry.state;
  return (stale || reportsOverdue) && rankOf(state) > rankOf('stale') ? 'stale' : state;
}

const rankOf = (category: Category): number => categories.indexOf(category);

export const needsAttention = (entry: ViewedExport): boolean => rankOf(categoryOf(entry)) <= rankOf('stale');

/** What needs attention first, each category by name. */
export const sortExports = (entries: readonly ViewedExport[]): ViewedExport[] =>
  entries.toSorted(
    (one, other) => rankOf(categoryOf(one)) - rankOf(categoryOf(other)) || (one.export < other.export ? -1 : 1),
  );

const concurrency = 8;

/** Every export as {@link readExport} reads it. One whose state, or that of a run, was changed is unreadable. */
export async function readExports(
  exports: readonly (ExportTarget | UnreadableExport)[],
  maxRuns: number,
  now: number,
): Promise<readonly ViewedExport[]> {
  return await mapConcurrently(exports, concurrency, async (opened) => {
    if ('error' in opened) return opened;
    try {
      return await readExport(opened, maxRuns, now);
    } catch (error) {
      // Any other error, such as a denied request, is not one of this export.
      if (!isExportError(error, 'PageConflictError')) throw error;
      return unreadableExport(opened.name, opened.serviceName, error);
    }
  });
}

/** The export with its newest runs, at most `maxRuns`. With 0, no manifests and no histories are read. */
export async function readExport(target: ExportTarget, maxRuns: number, now: number): Promise<ExportView> {
  const states = await readStates(target);
  const { state } = states;
  const newest = await viewNewest(target, state, maxRuns > 0);
  const runs = await readRuns(target, states, newest, maxRuns);
  const schedule = await target.readSchedule();
  return {
    export: target.name,
    service: target.serviceName,
    ...newestRun(newest, runs, state?.failedStart ?? null),
    ...freshness(target, schedule, state?.lastCompleted, now),
    watermark: state?.watermark?.instant ?? null,
    schedule,
    bounded: await viewBounded(target, states),
    runs: maxRuns === 0 ? undefined : runs,
  };
}

function newestRun(newest: RunView | undefined, runs: readonly RunView[], failedStart: RunFailure | null): NewestRun {
  const { run = null, since = null, startedAt = null, slices = null, lastFailure = null } = newest ?? {};
  const { pages, reports, bytes } = newest ?? zeroTotals;
  const isDamaged = runs.some((each) => each.run === run && each.state === 'damaged');
  const ofRun = newest === undefined ? 'never' : isDamaged ? 'damaged' : overviewState(newest.state);
  const known = { run, since, startedAt, slices, pages, reports, bytes, failedStart };
  // A start that fails beside a run in progress is shown once that has ended.
  if (failedStart === null || ofRun === 'running') return { ...known, state: ofRun, lastFailure };
  return { ...known, state: 'failed', lastFailure: failedStart };
}

function freshness(
  { definition, freshnessSeconds = null }: ExportTarget,
  schedule: ScheduleState,
  lastCompleted: ExportState['lastCompleted'],
  now: number,
): Freshness {
  const completedAt = lastCompleted?.completedAt ?? null;
  const ageMs = completedAt === null ? Number.POSITIVE_INFINITY : now - epochMsOf(completedAt);
  const reportsEveryMs = definition.expect?.reportsEveryMs;
  return {
    completedAt,
    freshnessSeconds,
    stale: expectsRuns(schedule) && freshnessSeconds !== null && ageMs > freshnessSeconds * 1_000,
    lastReportsAt: lastCompleted?.lastReportsAt ?? null,
    reportsEverySeconds: reportsEveryMs === undefined ? null : reportsEveryMs / 1_000,
    reportsOverdue: (msWithoutReports(lastCompleted, now) ?? 0) >= (reportsEveryMs ?? Number.POSITIVE_INFINITY),
  };
}

/** An enabled schedule starts runs. In a directory, something else does, such as cron. */
const expectsRuns = (schedule: ScheduleState): boolean =>
  schedule.kind === 'scheduled' || (schedule.kind === 'manual' && schedule.awsSchedule !== undefined);

const overviewState = (state: RunState): Exclude<RunState, 'empty'> => (state === 'empty' ? 'completed' : state);

/** The newest run of the state, and the published runs with a folder, newest first: at most `maxRuns`, none bounded. */
async function readRuns(
  target: ExportTarget,
  { state, bounded }: States,
  newest: RunView | undefined,
  maxRuns: number,
): Promise<readonly RunView[]> {
  const runs: RunView[] = [];
  const seen = new Set(bounded.keys());
  const add = async (run: RunId) => {
    if (seen.has(run)) return;
    seen.add(run);
    const view = newest?.run === run && newest.manifest === null ? newest : await viewEnded(target, state, run);
    if (view !== undefined && !view.bounded) runs.push(view);
  };
  if (newest !== undefined && maxRuns > 0) await add(newest.run);
  if (runs.length >= maxRuns) return runs;
  const days = await foldersIn(target.store, target.name, runsPrefix(target.name));
  for (const day of days.sort().reverse()) {
    const prefix = `${day}/run=`;
    for (const folder of (await foldersIn(target.store, day, prefix)).sort().reverse()) {
      const id = folder.slice(prefix.length);
      if (runIdPattern.test(id)) await add(asRunId(id));
      if (runs.length >= maxRuns) return runs;
    }
  }
  return runs;
}

/** A run of the export, bounded or not: published, unfinished, or the newest one; undefined if it is none of these. */
export async function findRun(target: ExportTarget, run: RunId): Promise<RunView | undefined> {
  const state = stateOfRun(await readStates(target), run);
  return state?.active?.run === run
    ? await viewUnfinished(target, state.active, true)
    : await viewEnded(target, state, run);
}

/** The error of a command with `--run` if there is no newest regular run. `purpose` is, for example, `to verify`. */
export async function noRunError(target: ExportTarget, purpose: string): Promise<ExportError> {
  const bounded = [...(await readStates(target)).bounded.keys()].sort().at(-1);
  const choice = bounded === undefined ? '' : `. To choose a bounded run: --run ${bounded}`;
  return new ExportError('ConfigurationError', `Export ${target.name} has no run ${purpose} yet${choice}`);
}

/** The state of an export, and the states of its bounded runs by the runs that they name. */
interface States {
  readonly state: ExportState | undefined;
  readonly bounded: ReadonlyMap<RunId, ExportState>;
}

export async function readStates({ log, name }: ExportTarget): Promise<States> {
  const state = await log.exportState(name);
  const bounded = new Map<RunId, ExportState>();
  for await (const each of log.boundedStates(name)) {
    const { active, lastCompleted } = each;
    for (const run of [active?.run, lastCompleted?.result.run]) {
      if (run !== undefined) bounded.set(run, each);
    }
  }
  return { state, bounded };
}

/** The state that names `run`, if it is that of a bounded run; else that of the export, which may not name it. */
export const stateOfRun = ({ state, bounded }: States, run: RunId): ExportState | undefined =>
  bounded.get(run) ?? state;

async function viewBounded(target: ExportTarget, { bounded }: States): Promise<ExportView['bounded']> {
  const views = await mapConcurrently([...new Set(bounded.values())], concurrency, async (state) => {
    const view = await viewNewest(target, state, false);
    return view === undefined ? [] : [{ ...view, state: overviewState(view.state) }];
  });
  const known: readonly RunView[] = views.flat();
  const by = (field: 'since' | 'completedAt') => (one: RunView, other: RunView) =>
    epochMsOf(one[field] ?? one.startedAt) - epochMsOf(other[field] ?? other.startedAt);
  const completed = known.filter(({ state }) => state === 'completed').sort(by('completedAt'));
  return {
    unfinished: known.filter(({ state }) => state !== 'completed').sort(by('since')),
    completed: completed.length,
    newest: completed.at(-1) ?? null,
  };
}

/** The newest run of the state: the unfinished one, or what is recorded of the last one. */
const viewNewest = async (
  target: ExportTarget,
  state: ExportState | undefined,
  withIncident: boolean,
): Promise<RunView | undefined> =>
  state?.active === undefined ? viewRecorded(state) : await viewUnfinished(target, state.active, withIncident);

const aView = (known: Pick<RunView, 'export' | 'run' | 'state'> & RunTotals & Partial<RunView>): RunView => ({
  since: null,
  slices: null,
  startedAt: startOf(known.run),
  completedAt: null,
  serviceStartedAt: null,
  lastPageAt: null,
  folder: runFolder(runLocation(known.export, known.run)),
  manifest: null,
  request: null,
  lastFailure: null,
  lastIncident: known.lastFailure ? { kind: 'failed-run', ...known.lastFailure } : null,
  ...known,
});

async function viewUnfinished(target: ExportTarget, active: Run, withIncident: boolean): Promise<RunView> {
  const { log, executions } = target;
  const { export: name, run, since, until, bounded, startedAt, lastFailure, request, execution } = active;
  const [progress, status] = await Promise.all([readProgress(log, active), executions.status(execution)]);
  const view = aView({
    export: name,
    run,
    state: status === 'running' ? 'running' : lastFailure === undefined ? 'interrupted' : 'failed',
    ...progress.totals,
    since,
    until,
    bounded,
    parentRun: parentRunOf(active),
    slices:
      active.slices === undefined
        ? null
        : { ...progress.counts, setAside: await withParents(target, active, progress.failures) },
    ...(active.hasJobs === true && { jobs: await readJobs(target, active, progress) }),
    startedAt,
    lastPageAt: progress.loggedAt,
    request: requestOf(request, filterOf(request, since)),
    lastFailure: lastFailure ?? null,
  });
  if (!withIncident || view.lastIncident !== null) return view;
  return { ...view, lastIncident: (await target.lastIncident?.(execution)) ?? null };
}

const maxViewedJobs = 10;

async function readJobs(
  { log }: Pick<ExportTarget, 'log'>,
  run: Run,
  { open, isComplete }: RunProgress,
): Promise<readonly ViewedJob[]> {
  const first = isComplete ? [] : [{ slice: sliceOf(run, 1) }];
  const slices = run.slices === undefined ? first : open.slice(0, maxViewedJobs);
  const jobs = await Promise.all(
    slices.map(async ({ slice }): Promise<readonly ViewedJob[]> => {
      const { content } = await log.job(stateNameOfRun(run), numberOf(slice)).read();
      if (content?.run !== run.run || content.attempt !== (slice.attempt ?? 1)) return [];
      const { phase, id, createdAt, status, statusSince } = content;
      return [{ slice: slice.slice ?? null, phase, id, createdAt, status, statusSince }];
    }),
  );
  return jobs.flat();
}

/** The slices with their parents. Of another export, these are in the plan, which is read without settings, too. */
async function withParents(
  { definition, store }: Pick<ExportTarget, 'definition' | 'store'>,
  run: Run,
  slices: readonly SetAsideSlice[],
): Promise<readonly ViewedSlice[]> {
  const isOtherList = run.parents === undefined && definition.request.api.sha256 !== run.request.api.sha256;
  if (isOtherList) return slices;
  // A plan that was changed is a problem of the next start.
  const parentOf = parentsOfRun({ definition, store }, run);
  return await Promise.all(
    slices.map(async (slice) => ({ ...slice, parent: (await parentOf(slice).catch(() => undefined))?.id })),
  );
}

/** The newest run of a state without an unfinished one, from the state alone. */
function viewRecorded({ export: name = '', lastCompleted }: Partial<ExportState> = {}) {
  if (lastCompleted === undefined) return undefined;
  const { export: exportName, bounds, parentRun } = parseStateName(name);
  const isBounded = bounds !== undefined || parentRun !== undefined;
  const known = { export: exportName, ...bounds, bounded: isBounded ? (true as const) : undefined };
  const { completedAt, result } = lastCompleted;
  const { run, since, manifest, pages, reports, bytes } = result;
  const state = manifest === null ? 'empty' : 'completed';
  return aView({ ...known, run, state, since, completedAt, manifest, pages, reports, bytes });
}

/**
 * A run that is not unfinished, from its manifest. If that is missing or was changed, from its summary or its state.
 * Undefined: it is neither published nor the newest run of `state`, which is that of {@link stateOfRun}.
 */
async function viewEnded(
  { store, name }: ExportTarget,
  state: ExportState | undefined,
  run: RunId,
): Promise<RunView | undefined> {
  const newest = viewRecorded(state);
  const recorded = newest?.run === run ? newest : undefined;
  if (recorded?.manifest === null) return recorded;
  const view = recorded ?? aView({ export: name, run, state: 'damaged', ...zeroTotals });
  const manifest = manifestKey(view);
  const header = await readHeader(store, manifest);
  if (typeof header === 'object') return viewPublished(view, header, manifest);
  // The summary repeats the manifest, and is written after it: only a run that was published has one.
  const summary = await findSummary(store, view);
  if (header === undefined && summary === undefined && recorded === undefined) return undefined;
  return { ...view, ...(typeof summary === 'object' && publishedFacts(summary)), state: 'damaged', manifest };
}

function viewPublished(view: RunView, header: ManifestHeader, manifest: string): RunView {
  const parents = header.parents && { gone: header.parents.gone, skipped: header.parents.skipped };
  const count = header.parents?.count ?? header.slices?.length;
  return {
    ...view,
    ...publishedFacts({ ...header, ...header.totals }),
    state: 'completed',
    manifest,
    parentRun: parentRunOf(header),
    slices: count === undefined ? null : { done: count, count, ...(parents && { parents }), setAside: [] },
    request: requestOf(header, header.filter),
  };
}

type PublishedFacts = RunTotals &
  Pick<RunSummary, 'since' | 'until' | 'bounded' | 'startedAt' | 'completedAt' | 'serviceStartedAt'>;

/** What the manifest and the summary of a published run both have. */
function publishedFacts(published: PublishedFacts) {
  const { pages, reports, bytes, since, until, bounded, startedAt, completedAt, serviceStartedAt } = published;
  return { pages, reports, bytes, since, until, bounded, startedAt, completedAt, serviceStartedAt };
}

/** The header of a manifest. A changed one is `unreadable`; the verify command reports why. */
async function readHeader(
  store: ExportTarget['store'],
  manifest: string,
): Promise<ManifestHeader | 'unreadable' | undefined> {
  try {
    const found = await findManifest(store, manifest);
    // Leaving the loop closes the file.
    if (found !== undefined) for await (const _ of found.pages) break;
    return found?.header;
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unreadable';
    throw error;
  }
}

function requestOf(request: ManifestHeader | Run['request'], filter: object): RunView['request'] {
  const { source: service, format, container, size = null } = request;
  return { service, filter: JSON.stringify(filter), format, container, size };
}
