/** What operators see of exports and their runs. It is read here, and shown by `status`, `doctor`, `report` and `verify`. */

import { parseBoundedStateName } from '../core/bounded-runs.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import { msWithoutReports } from '../core/expected-reports.ts';
import { filterOf } from '../core/filter.ts';
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

/** A run, regular or bounded, unfinished or ended. What is not known of it is null. */
export interface RunView extends RunTotals {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  readonly since: Instant | null;
  /** Absent: it has no upper bound, or this is not known. */
  readonly until?: Instant | undefined;
  readonly bounded?: true | undefined;
  /** The series that an unfinished bounded run is part of. */
  readonly series: Pick<Series, 'until' | 'each'> | null;
  /** null if it has one slice. */
  readonly slices: SlicesView | null;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** When it was completed or, if it was not published, its newest page was logged; null if it is unfinished. */
  readonly endedAt: Instant | null;
  /** The service's clock at the request for the first page. */
  readonly serviceStartedAt: Instant | null;
  readonly lastPageAt: Instant | null;
  /** The key of the run's folder. */
  readonly folder: string;
  /** The key of its manifest; null if the run is not published. */
  readonly manifest: string | null;
  readonly request: RequestView | null;
  /** Why it failed. */
  readonly lastFailure: RunFailure | null;
  /** That failure or, of an unfinished run, what its execution has recorded of a retry or a wait. */
  readonly lastIncident: Incident | null;
}

interface SlicesView extends SliceCounts {
  /** Why slices were not exported to their end at the newest attempt: at most ten, the oldest slices. */
  readonly setAside: readonly SetAsideSlice[];
}

interface RequestView {
  readonly service: string;
  /** As JSON, with the lower bound of the date. */
  readonly filter: string;
  readonly format: string;
  readonly container: string;
  /** Reports per page; null for the service's default. */
  readonly size: number | null;
}

type Nullable<Fields> = { readonly [Key in keyof Fields]: Fields[Key] | null };

/** An export and its newest run. Without a run, that has null values and no pages. */
export interface ExportView extends RunTotals, Nullable<Pick<RunView, 'run' | 'since' | 'startedAt'>> {
  readonly export: string;
  /** The name of its service in a stack; the address of its service in a directory. */
  readonly service: string;
  /**
   * `failed`: the newest run has failed, and the next start resumes it, or begins a new one if it can never complete; or the
   * newest start has begun no run. `damaged` is known only if runs are read. `never`: no run has completed or is unfinished.
   */
  readonly state: Exclude<RunState, 'empty' | 'abandoned'> | 'never';
  /** null unless the run is unfinished and has several slices. */
  readonly slices: SlicesView | null;
  /** Why the newest run or start has failed; null if it has not. */
  readonly lastFailure: RunFailure | null;
  /** Why the newest start has begun no run, in a directory; null if it has. */
  readonly failedStart: RunFailure | null;
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
  /** These count neither for `state` nor for `stale`. */
  readonly bounded: {
    /** By `since`. */
    readonly unfinished: readonly RunView[];
    /** How many are completed. */
    readonly completed: number;
    /** The one that was completed last; null if there is none. */
    readonly newest: RunView | null;
  };
  /** Newest first, without bounded ones. Absent if no runs are read. */
  readonly runs?: readonly RunView[] | undefined;
}

/** An export whose state cannot be read does not hide the others. */
export type ViewedExport = ExportView | UnreadableExport;

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

export function categoryOf(entry: ViewedExport): Category {
  if ('error' in entry) return 'unreadable';
  const { state, stale, reportsOverdue } = entry;
  const isWorse = state === 'failed' || state === 'interrupted' || state === 'damaged';
  return (stale || reportsOverdue) && !isWorse ? 'stale' : state;
}

/** Whether someone should look at the export. */
export const needsAttention = (entry: ViewedExport): boolean =>
  categories.indexOf(categoryOf(entry)) <= categories.indexOf('stale');

/** What needs attention first, then running exports, then the others; each by name. */
export function sortExports(entries: readonly ViewedExport[]): ViewedExport[] {
  // Completed exports and those that have never run are equally fine.
  const lastRank = categories.indexOf('completed');
  const rankOf = (entry: ViewedExport) => Math.min(categories.indexOf(categoryOf(entry)), lastRank);
  return entries.toSorted((one, other) => rankOf(one) - rankOf(other) || (one.export < other.export ? -1 : 1));
}

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

/** The export with its newest runs, at most `maxRuns`. If that is 0, no manifests and no histories of executions are read. */
export async function readExport(target: ExportTarget, maxRuns: number, now: number): Promise<ExportView> {
  const { name, serviceName, definition, freshnessSeconds = null, failedStart = null } = target;
  const states = await readStates(target);
  const { active, lastCompleted, watermark } = states.state ?? {};
  const reportsEveryMs = definition.expect?.reportsEveryMs;
  const runs = active === undefined ? [] : [await viewUnfinished(target, active, maxRuns > 0)];
  if (runs.length < maxRuns) {
    for await (const last of target.log.runs(name)) {
      if (last.run === active?.run || states.bounded.has(last.run)) continue;
      const run = await viewEnded(target, states.state, last, [last]);
      if (!run.bounded && runs.push(run) >= maxRuns) break;
    }
  }
  const schedule = await target.readSchedule();
  const completedAt = lastCompleted?.completedAt ?? null;
  const ageMs = completedAt === null ? Number.POSITIVE_INFINITY : now - epochMsOf(completedAt);
  const newest = newestRun(states.state, runs);
  return {
    export: name,
    service: serviceName,
    ...newest,
    // A start that fails beside a run in progress is shown once that has ended.
    ...(failedStart !== null && newest.state !== 'running' && { state: 'failed', lastFailure: failedStart }),
    failedStart,
    stale: schedule.kind === 'scheduled' && freshnessSeconds !== null && ageMs > freshnessSeconds * 1_000,
    freshnessSeconds,
    lastReportsAt: lastCompleted?.lastReportsAt ?? null,
    reportsEverySeconds: reportsEveryMs === undefined ? null : reportsEveryMs / 1_000,
    reportsOverdue: (msWithoutReports(lastCompleted, now) ?? 0) >= (reportsEveryMs ?? Number.POSITIVE_INFINITY),
    watermark: watermark?.instant ?? null,
    completedAt,
    schedule,
    bounded: await viewBounded(target, states),
    runs: maxRuns === 0 ? undefined : runs,
  };
}

type NewestRun = Pick<ExportView, keyof RunTotals | 'state' | 'run' | 'since' | 'startedAt' | 'slices' | 'lastFailure'>;

/** The next start of a run that was abandoned because it can never complete begins a new one. */
const overviewStates: Partial<Record<RunState, RunState>> = { abandoned: 'failed', empty: 'completed' };

/** The newest run of the export: of an ended one, what the state has of it. */
function newestRun(state: ExportState | undefined, runs: readonly RunView[]): NewestRun {
  const none = { state: 'never', run: null, since: null, startedAt: null, ...zeroTotals } as const;
  const [first] = runs;
  const view = state?.active === undefined ? viewRecorded(state) : first;
  if (view === undefined) return { ...none, slices: null, lastFailure: null };
  const { run, since, startedAt, slices, pages, reports, bytes, lastFailure } = view;
  const isDamaged = runs.some((each) => each.run === run && each.state === 'damaged');
  const shown = isDamaged ? 'damaged' : (overviewStates[view.state] ?? view.state);
  return { state: shown as NewestRun['state'], run, since, startedAt, slices, pages, reports, bytes, lastFailure };
}

/** One run of the export, bounded or not; undefined if neither the page log nor the store has anything of it. */
export async function findRun(target: ExportTarget, run: RunId): Promise<RunView | undefined> {
  const state = stateOfRun(await readStates(target), run);
  if (state?.active?.run === run) return await viewUnfinished(target, state.active, true);
  const slices = await findLoggedSlices(target.log, { export: target.name, run });
  const view = await viewEnded(target, state, { export: target.name, run }, slices);
  return slices.length === 0 && view.state === 'abandoned' ? undefined : view;
}

/** The error of a command that acts on the newest regular run, if there is none. `purpose` is for example `to verify`. */
export const noRunError = (exportName: string, purpose: string): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Export ${exportName} has no run ${purpose} yet. If it has bounded runs, choose one with --run: runs --bounded lists them`,
  );

/** The state of an export, and the states of its bounded runs by the runs that they name. */
export interface States {
  readonly state: ExportState | undefined;
  readonly bounded: ReadonlyMap<RunId, ExportState>;
}

export async function readStates({ log, name }: ExportTarget): Promise<States> {
  const state = await log.exportState(name);
  const bounded = new Map<RunId, ExportState>();
  for await (const each of log.boundedStates(name)) {
    const { active, lastCompleted, lastAbandoned } = each;
    for (const run of [active?.run, lastCompleted?.result.run, lastAbandoned?.run]) {
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
    const view = state.active === undefined ? viewRecorded(state) : await viewUnfinished(target, state.active, false);
    return view === undefined ? [] : [{ ...view, state: overviewStates[view.state] ?? view.state }];
  });
  const known = views.flat();
  const completed = known.filter(({ state }) => state === 'completed');
  const msOf = (instant: Instant | null) => (instant === null ? 0 : epochMsOf(instant));
  return {
    unfinished: known
      .filter(({ state }) => state !== 'completed')
      .sort((one, other) => msOf(one.since) - msOf(other.since)),
    completed: completed.length,
    newest: completed.sort((one, other) => msOf(other.completedAt) - msOf(one.completedAt))[0] ?? null,
  };
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

/** A view of the run with what is `known` of it. */
function aView(ref: RunRef, state: RunState, known: Partial<RunView> & RunTotals): RunView {
  const { export: name, run } = ref;
  return {
    export: name,
    run,
    state,
    since: null,
    series: null,
    slices: null,
    startedAt: startOf(run),
    completedAt: null,
    endedAt: known.completedAt ?? null,
    serviceStartedAt: null,
    lastPageAt: null,
    folder: runFolder(runLocation(name, run)),
    manifest: null,
    request: null,
    lastFailure: null,
    lastIncident: known.lastFailure ? { kind: 'failed-run', ...known.lastFailure } : null,
    ...known,
  };
}

async function viewUnfinished(target: ExportTarget, run: Run, withIncident: boolean): Promise<RunView> {
  const { log, executions } = target;
  const { since, until, bounded, series, startedAt, lastFailure, request } = run;
  const [progress, status] = await Promise.all([readProgress(log, run), executions.status(run.execution)]);
  const logged = progress.slices.flatMap(({ last }) => (last === undefined ? [] : [epochMsOf(last.loggedAt)]));
  const state = status === 'running' ? 'running' : lastFailure === undefined ? 'interrupted' : 'failed';
  const view = aView(run, state, {
    ...progress.totals,
    since,
    until,
    bounded,
    series: series === undefined ? null : { until: series.until, each: series.each },
    slices: run.slices === undefined ? null : { ...progress.counts, setAside: run.slices.setAside ?? [] },
    startedAt,
    lastPageAt: logged.length === 0 ? null : instantOf(Math.max(...logged)),
    request: requestView({ ...request, filter: filterOf(request, since) }),
    lastFailure: lastFailure ?? null,
  });
  if (!withIncident || view.lastIncident !== null) return view;
  return { ...view, lastIncident: (await target.lastIncident?.(run.execution)) ?? null };
}

/** The newest run of a state without an unfinished one, from the state alone. */
function viewRecorded({ export: name = '', lastAbandoned, lastCompleted }: Partial<ExportState> = {}) {
  const { export: exportName, bounds } = parseBoundedStateName(name) ?? { export: name };
  const bounded = bounds && { ...bounds, bounded: true as const };
  if (lastAbandoned !== undefined) {
    const { failure: lastFailure, ...known } = lastAbandoned;
    return aView({ export: exportName, run: known.run }, 'abandoned', { ...known, lastFailure, ...bounded });
  }
  if (lastCompleted === undefined) return undefined;
  const { completedAt, result } = lastCompleted;
  const { run, since, manifest, pages, reports, bytes } = result;
  const known = { since, completedAt, manifest, pages, reports, bytes, ...bounded };
  return aView({ export: exportName, run }, manifest === null ? 'empty' : 'completed', known);
}

/**
 * A run that is not unfinished, from its manifest; without one, from what else is left of it. `logged` are last pages of its slices, of
 * which the entries of an old log may have expired in any order. `state` is that of {@link stateOfRun}.
 */
async function viewEnded(
  { store, log, definition }: ExportTarget,
  state: ExportState | undefined,
  ref: RunRef,
  logged: readonly PageEntry[],
): Promise<RunView> {
  const manifest = manifestKey(runLocation(ref.export, ref.run));
  const header = await readManifestHeader(store, manifest);
  const lastPageAt = logged.at(-1)?.loggedAt ?? null;
  const recorded = viewRecorded(state);
  if (header === undefined && recorded?.run === ref.run && recorded.manifest === null)
    return { ...recorded, lastPageAt };
  const isSliced = header === undefined && logged.some(({ slice }) => slice !== undefined);
  const slices = isSliced ? await findLoggedSlices(log, ref) : logged;
  // The summary repeats the manifest, and is written after it: only a run that was published has one.
  const found = typeof header === 'object' ? header : await findSummary(store, ref);
  const isRecorded = state?.lastCompleted?.result.run === ref.run;
  const isEmpty = !definition.publishEmptyRuns && slices.length > 0 && slices.every(isLastWithoutReports);
  const wasPublished = header !== undefined || found !== undefined || isRecorded;
  const runState =
    typeof header === 'object' ? 'completed' : wasPublished ? 'damaged' : isEmpty ? 'empty' : 'abandoned';
  const published = found === 'unreadable' ? undefined : found;
  const { pages, reports, bytes } = published ?? sumTotals(slices.map(totalsOf));
  const { since = null, until, bounded } = published ?? { ...(recorded?.bounded && recorded) };
  const count = published !== undefined && 'slices' in published ? published.slices?.length : undefined;
  return aView(ref, runState, {
    pages,
    reports,
    bytes,
    since,
    until,
    bounded,
    slices: count === undefined ? null : { done: count, count, setAside: [] },
    startedAt: published?.startedAt ?? startOf(ref.run),
    completedAt: published?.completedAt ?? null,
    endedAt: published?.completedAt ?? lastPageAt,
    serviceStartedAt: published?.serviceStartedAt ?? null,
    lastPageAt,
    manifest: wasPublished ? manifest : null,
    request: published !== undefined && 'filter' in published ? requestView(published) : null,
  });
}

const isLastWithoutReports = (last: PageEntry): boolean => isDone(last) && last.totals.reports === 0;

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

const requestView = ({
  source: service,
  filter,
  format,
  container,
  size = null,
}: Pick<ManifestHeader, 'source' | 'format' | 'container'> & {
  readonly filter: object;
  readonly size?: number | null | undefined;
}): RequestView => ({ service, filter: JSON.stringify(filter), format, container, size });
