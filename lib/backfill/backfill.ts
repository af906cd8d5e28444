/**
 * A backfill: the history of an export, cut into windows that are exported independently of each other, in any order and several at
 * a time. Each window is a run with bounds of its own, published as soon as it is whole (docs/backfill.md).
 */

import { mapConcurrently } from '../core/concurrency.ts';
import { ExportError } from '../core/errors.ts';
import {
  type DocumentRoot,
  emptyState,
  type ExportState,
  type Instant,
  type Plan,
  type Run,
  type RunFailure,
  type RunId,
} from '../core/model.ts';
import type { Executions, PageLog, Runtime, StoreReader } from '../core/ports.ts';
import { type StateChange, updateState } from '../core/steps/export-state.ts';
import { manifestKey, startOf } from '../core/storage/keys.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { findLostWindows, type LostWindowsDependencies } from './lost-windows.ts';
import type { Backfill, BackfillStore } from './store.ts';
import { windowRequestChecksum } from './window-definition.ts';
import { countWindows, parseWindowName, type Window, windowName, windowsOf } from './windows.ts';

export interface BackfillRequest extends Pick<Backfill, 'from' | 'to' | 'windowMs' | 'parallel'> {}

/** For a person's sake, who looks at the list of windows; and each start reads the states of all windows. */
export const maxWindows = 10_000;

/** What is wrong with the bounds of a backfill at the time `now`; undefined if nothing is. */
export function findBackfillProblem(
  request: Pick<BackfillRequest, 'from' | 'to' | 'windowMs'>,
  now: number,
): string | undefined {
  if (epochMsOf(request.from) >= epochMsOf(request.to)) return '--to: must be after --from';
  if (epochMsOf(request.to) > now) {
    return '--to: must not be in the future: a window is exported once, so its later reports would never be exported';
  }
  const windows = countWindows(request);
  if (windows <= maxWindows) return undefined;
  return `--window: results in ${windows.toLocaleString('en')} windows, more than ${maxWindows.toLocaleString('en')}. Choose longer windows, or a shorter period`;
}

export const defaultParallel = 4;

interface ParallelLimits {
  readonly maxConcurrentPages?: number | undefined;
  readonly spareConcurrency?: number | undefined;
}

/**
 * How many windows are exported at the same time: `wanted`; if that is undefined, four, or as many as the service and the function allow.
 * @throws ConfigurationError if these allow fewer than `wanted`, or the function none
 */
export function chooseParallel(wanted: number | undefined, limits: ParallelLimits): number {
  const { maxConcurrentPages = Number.POSITIVE_INFINITY, spareConcurrency = Number.POSITIVE_INFINITY } = limits;
  const reject = (problem: string) => {
    throw new ExportError('ConfigurationError', problem);
  };
  if (spareConcurrency < 1) {
    reject(
      'A backfill is not possible: exportPage.reservedConcurrency leaves no invocation for a window beside one for each export of the ' +
        'service. Raise exportPage.reservedConcurrency and deploy the stack again',
    );
  }
  const parallel = wanted ?? Math.min(defaultParallel, maxConcurrentPages, spareConcurrency);
  if (parallel > maxConcurrentPages) {
    reject(
      `--parallel: must be at most ${maxConcurrentPages}, because the service allows so many requests at the same time (maxConcurrentPages)`,
    );
  }
  if (parallel > spareConcurrency) {
    reject(
      `--parallel: must be at most ${spareConcurrency}, because exportPage.reservedConcurrency leaves so many invocations beside one for ` +
        'each export of the service',
    );
  }
  return parallel;
}

interface BackfillDependencies {
  readonly log: PageLog;
  readonly backfills: BackfillStore;
  readonly runtime: Pick<Runtime, 'now'>;
}

interface NewBackfill extends BackfillDependencies, LostWindowsDependencies {}

/** How many states of windows are written at the same time. */
const concurrency = 16;

/**
 * Records a backfill and plans its windows, or continues the one with these bounds. What its windows have exported already is not
 * exported again, also if only the store still knows. `root` is that of the service's responses, if they have one.
 *
 * The backfill is recorded first. So if this ends half-way, the same request plans the windows that are left, and `abandonBackfill`
 * knows all of them.
 * @throws ConfigurationError if another backfill is unfinished, or has exported a part of these windows, or these with another request;
 *   or if this one is abandoned meanwhile. PageConflictError if what says so in the store was changed
 */
export async function beginBackfill(
  deps: NewBackfill,
  request: BackfillRequest,
  root: DocumentRoot | undefined,
): Promise<Backfill> {
  const { log, backfills, definition } = deps;
  for (;;) {
    const previous = await backfills.read(definition.name);
    // The command that abandoned it may have ended half-way.
    if (previous?.abandonedAt !== undefined) await abandonWindows(deps, previous);
    const states = await readWindowStates(backfills, definition.name);
    const lost = await findLostWindows(deps, states);
    for (const state of lost) states.set(state.export, state);
    const next = nextBackfill(deps, request, previous, states);
    // First, so that no window of the backfill is exported again.
    const written = await mapConcurrently(lost, concurrency, (state) => log.replaceState(state));
    if (!written.every(Boolean) || !(await backfills.replace(next))) continue;
    await planWindows(log, next, states, root);
    return next;
  }
}

/** Writes the plan to the states of the windows that do not have it. They take from the export what their runs need of it. */
async function planWindows(
  log: PageLog,
  backfill: Backfill,
  states: WindowStates,
  root: DocumentRoot | undefined,
): Promise<void> {
  const { export: exportName, plan: id, requestChecksum } = backfill;
  const ofExport = await recordRoot(log, exportName, root);
  const windows = [...windowsOf(backfill)].map((window) => ({ window, name: windowName(exportName, window) }));
  await mapConcurrently(windows, concurrency, async ({ window, name }) => {
    const decide = (state: ExportState): StateChange<void> => {
      const { plan } = state;
      if (plan !== undefined && (plan.id > id || (plan.id === id && plan.abandonedAt !== undefined))) {
        throw new ExportError(
          'ConfigurationError',
          `The backfill of export ${exportName} was abandoned while it was started. Start it again to continue it`,
        );
      }
      assertSameRequest(exportName, window, state, requestChecksum);
      const documentRoot = ofExport.documentRoot ?? state.documentRoot;
      const isPlanned = plan?.id === id && plan.requestChecksum === requestChecksum;
      if (isPlanned && state.documentRoot === documentRoot) return { result: undefined };
      const sequence = Math.max(state.sequence, ofExport.sequence);
      const change = { ...state, sequence, documentRoot, plan: { id, requestChecksum } };
      return { change, result: undefined };
    };
    await updateState(log, name, decide, states.get(name) ?? emptyState(name));
  });
}

/** The state of the export, which has the root of its windows, so that its first run is compared with them. */
async function recordRoot(log: PageLog, exportName: string, root: DocumentRoot | undefined): Promise<ExportState> {
  return await updateState(log, exportName, (state) => {
    if (root === undefined || state.documentRoot !== undefined) return { result: state };
    const change = { ...state, documentRoot: root };
    return { change, result: change };
  });
}

export interface PlannedWindow extends Window {
  readonly done: boolean;
}

/** The windows that `beginBackfill` would begin with, the oldest first. Only reads. @throws as `beginBackfill` */
export async function planBackfill(deps: NewBackfill, request: BackfillRequest): Promise<readonly PlannedWindow[]> {
  const { backfills, definition } = deps;
  const previous = await backfills.read(definition.name);
  const states = await readWindowStates(backfills, definition.name);
  if (previous?.abandonedAt !== undefined) {
    // A start abandons these windows.
    for (const [name, { active, plan, ...idle }] of states) {
      const abandoned = plan && { ...plan, abandonedAt: previous.abandonedAt };
      if (active?.completion === undefined) states.set(name, { ...idle, plan: abandoned });
    }
  }
  for (const state of await findLostWindows(deps, states)) states.set(state.export, state);
  const next = nextBackfill(deps, request, previous, states);
  return [...windowsOf(next)].map((window) => ({ ...window, done: isDone(states, next.export, window) }));
}

/** @throws ConfigurationError if `previous` is unfinished, or has exported a part of the windows, or them with another request */
function nextBackfill(
  { runtime, definition, untilOperator }: NewBackfill,
  request: BackfillRequest,
  previous: Backfill | undefined,
  states: WindowStates,
): Backfill {
  const isContinued = previous !== undefined && previous.abandonedAt === undefined && hasSameWindows(previous, request);
  if (previous !== undefined && !isContinued) assertReplaceable(previous, states);
  // Of the states, too: someone may have deleted the record of the backfill.
  const newest = [...states.values()].reduce((id, { plan }) => Math.max(id, plan?.id ?? 0), previous?.plan ?? 0);
  const next: Backfill = {
    export: definition.name,
    version: (previous?.version ?? 0) + 1,
    plan: isContinued && previous.plan === newest ? newest : newest + 1,
    ...request,
    requestChecksum: windowRequestChecksum(definition, untilOperator),
    startedAt: isContinued ? previous.startedAt : instantOf(runtime.now()),
  };
  assertNoOverlap(next, states);
  return next;
}

type Bounds = Pick<BackfillRequest, 'from' | 'to' | 'windowMs'>;

/**
 * Must hold of a request while something else exports the windows of the newest backfill.
 * @throws ConfigurationError if that has other windows
 */
export function assertSameBackfill(running: Backfill | undefined, request: BackfillRequest): void {
  if (running === undefined || hasSameWindows(running, request)) return;
  const { export: exportName, from, to } = running;
  throw new ExportError(
    'ConfigurationError',
    `The windows of the backfill of export ${exportName} from ${from} to ${to} are being exported. Wait for its end, or abandon it ` +
      '(abandon --backfill)',
  );
}

const hasSameWindows = (one: Bounds, other: Bounds): boolean =>
  one.from === other.from && one.to === other.to && one.windowMs === other.windowMs;

function assertReplaceable(backfill: Backfill, states: WindowStates): void {
  if (backfill.abandonedAt !== undefined) return;
  const { export: exportName, from, to } = backfill;
  const left = [...windowsOf(backfill)].filter((window) => !isDone(states, exportName, window)).length;
  if (left === 0) return;
  throw new ExportError(
    'ConfigurationError',
    `The backfill of export ${exportName} from ${from} to ${to} is unfinished: ${left.toLocaleString('en')} of its windows are left. ` +
      'Continue it with the same --from, --to and --window, or abandon it first (abandon --backfill)',
  );
}

/** A report must not be in two windows: consumers of the windows would see it twice. Nor may windows of one backfill have several requests. */
function assertNoOverlap(backfill: Backfill, states: WindowStates): void {
  const { export: exportName, from, to, requestChecksum } = backfill;
  const windows = new Set([...windowsOf(backfill)].map((window) => windowName(exportName, window)));
  const overlapping: Window[] = [];
  for (const [name, state] of states) {
    const window = parseWindowName(name)?.window;
    if (window === undefined) continue;
    const isOutside = epochMsOf(window.until) <= epochMsOf(from) || epochMsOf(window.since) >= epochMsOf(to);
    if (isOutside) continue;
    if (windows.has(name)) assertSameRequest(exportName, window, state, requestChecksum);
    // A window that is left of another backfill could still begin, if someone has deleted the record of that.
    else if (hasBegun(state) || state.plan?.abandonedAt === undefined) overlapping.push(window);
  }
  const [first] = overlapping;
  if (first === undefined) return;
  const end = overlapping.reduce((latest, { until }) => (epochMsOf(until) > epochMsOf(latest) ? until : latest), from);
  throw new ExportError(
    'ConfigurationError',
    `An earlier backfill of export ${exportName} has begun to export ${first.since} to ${first.until}, which is none of these ` +
      'windows. Its reports would be exported twice. Use the same --from, --to and --window as before' +
      (epochMsOf(end) < epochMsOf(to) ? `, or --from ${end} for what follows` : ', or choose other bounds'),
  );
}

const hasBegun = ({ active, lastCompleted }: ExportState): boolean =>
  active !== undefined || lastCompleted !== undefined;

/** @throws ConfigurationError if the window has begun with another request */
function assertSameRequest(
  exportName: string,
  { since, until }: Window,
  state: ExportState,
  requestChecksum: string,
): void {
  if (!hasBegun(state) || state.plan?.requestChecksum === requestChecksum) return;
  const isExported = state.lastCompleted !== undefined;
  const remedy = isExported
    ? 'Restore the settings to export the rest; or give the export another name in the settings, to export the period again'
    : 'Restore the settings, or abandon the backfill first (abandon --backfill)';
  throw new ExportError(
    'ConfigurationError',
    `A backfill of export ${exportName} has ${isExported ? 'exported' : 'begun to export'} ${since} to ${until} with another service, filter ` +
      `or format. ${remedy}`,
  );
}

export type WindowStates = ReadonlyMap<string, ExportState>;

/** The states of the windows that were planned, by name. */
export async function readWindowStates(
  backfills: Pick<BackfillStore, 'windowStates'>,
  exportName: string,
): Promise<Map<string, ExportState>> {
  const states = new Map<string, ExportState>();
  for await (const state of backfills.windowStates(exportName)) states.set(state.export, state);
  return states;
}

const isDone = (states: WindowStates, exportName: string, window: Window): boolean =>
  states.get(windowName(exportName, window))?.lastCompleted !== undefined;

/** The windows of the backfill that no run has exported yet, the oldest first. */
export async function remainingWindows(
  backfills: Pick<BackfillStore, 'windowStates'>,
  backfill: Backfill,
): Promise<readonly Window[]> {
  const states = await readWindowStates(backfills, backfill.export);
  return [...windowsOf(backfill)].filter((window) => !isDone(states, backfill.export, window));
}

export interface BackfillProgress {
  /** How many windows are done, also by earlier starts. */
  readonly done: number;
  readonly windows: number;
}

export const progressOf = (backfill: Backfill, states: WindowStates): BackfillProgress => {
  const windows = [...windowsOf(backfill)];
  return { windows: windows.length, done: windows.filter((window) => isDone(states, backfill.export, window)).length };
};

/** `waiting`: it has not begun. `failed`, `stopped`: it has begun, and no execution is working on it. */
export type WindowState = 'done' | 'running' | 'failed' | 'stopped' | 'waiting';

export interface WindowStatus extends Window {
  readonly state: WindowState;
  /** Its newest run; null if it has none. */
  readonly run: RunId | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  readonly lastFailure: RunFailure | null;
}

/** `completed`: all windows are done. `unfinished`: start it again to export the rest, unless it is running. */
type BackfillState = 'running' | 'unfinished' | 'completed' | 'abandoned';

export interface BackfillStatus extends Pick<
  Backfill,
  'export' | 'from' | 'to' | 'windowMs' | 'parallel' | 'startedAt'
> {
  readonly state: BackfillState;
  readonly abandonedAt: Instant | null;
  readonly counts: Readonly<Record<WindowState, number>>;
  readonly pages: number;
  /** null if the format is not XML. */
  readonly reports: number | null;
  readonly bytes: number;
  /** Seconds until it is completed, from how long the windows took that are done; null if that is not known. */
  readonly remainingSeconds: number | null;
  readonly windows: readonly WindowStatus[];
}

interface StatusDependencies {
  readonly log: Pick<PageLog, 'last'>;
  readonly backfills: BackfillStore;
  readonly executions: Executions;
}

/** The newest backfill of the export; undefined if it has none. */
export async function readBackfillStatus(
  { log, backfills, executions }: StatusDependencies,
  exportName: string,
): Promise<BackfillStatus | undefined> {
  const backfill = await backfills.read(exportName);
  if (backfill === undefined) return undefined;
  const states = await readWindowStates(backfills, exportName);
  const windows: WindowStatus[] = [];
  for (const window of windowsOf(backfill)) {
    windows.push(await windowStatus({ log, executions }, window, states.get(windowName(exportName, window))));
  }
  const counts = { done: 0, running: 0, failed: 0, stopped: 0, waiting: 0 };
  for (const { state } of windows) counts[state] += 1;
  const { from, to, windowMs, parallel, startedAt, abandonedAt } = backfill;
  return {
    export: exportName,
    from,
    to,
    windowMs,
    parallel,
    startedAt,
    abandonedAt: abandonedAt ?? null,
    state: backfillState(backfill, counts, windows.length),
    counts,
    pages: sum(windows, ({ pages }) => pages),
    reports: windows.some(({ reports }) => reports === null) ? null : sum(windows, ({ reports }) => reports ?? 0),
    bytes: sum(windows, ({ bytes }) => bytes),
    remainingSeconds: estimateSeconds(backfill, states, windows),
    windows,
  };
}

const sum = <Item>(items: readonly Item[], amountOf: (item: Item) => number): number =>
  items.reduce((total, item) => total + amountOf(item), 0);

function backfillState(
  { abandonedAt }: Backfill,
  { done, running }: BackfillStatus['counts'],
  windows: number,
): BackfillState {
  if (done === windows) return 'completed';
  if (abandonedAt !== undefined) return 'abandoned';
  return running > 0 ? 'running' : 'unfinished';
}

async function windowStatus(
  { log, executions }: Pick<StatusDependencies, 'log' | 'executions'>,
  window: Window,
  state: ExportState | undefined,
): Promise<WindowStatus> {
  const { active, lastCompleted, lastAbandoned } = state ?? {};
  if (active !== undefined) {
    // One that has failed has no running execution; asking for hundreds of them would take long.
    const hasFailed = active.lastFailure !== undefined;
    const [last, isRunning] = await Promise.all([
      log.last(active),
      !hasFailed && executions.isRunning(active.execution),
    ]);
    return {
      ...window,
      state: hasFailed ? 'failed' : isRunning ? 'running' : 'stopped',
      run: active.run,
      pages: last?.page ?? 0,
      reports: last === undefined ? 0 : last.totals.reports,
      bytes: last?.totals.bytes ?? 0,
      lastFailure: active.lastFailure ?? null,
    };
  }
  if (lastCompleted !== undefined) {
    const { run, pages, reports, bytes } = lastCompleted.result;
    return { ...window, state: 'done', run, pages, reports, bytes, lastFailure: null };
  }
  return {
    ...window,
    state: lastAbandoned === undefined ? 'waiting' : 'failed',
    run: lastAbandoned?.run ?? null,
    pages: 0,
    reports: 0,
    bytes: 0,
    lastFailure: lastAbandoned?.failure ?? null,
  };
}

/** From the mean time that a finished window took. Windows differ, so this is no more than a hint. */
function estimateSeconds(
  { export: exportName, parallel }: Backfill,
  states: WindowStates,
  windows: readonly WindowStatus[],
): number | null {
  const durations = windows.flatMap((window) => {
    const completed = states.get(windowName(exportName, window))?.lastCompleted;
    return completed === undefined ? [] : [epochMsOf(completed.completedAt) - epochMsOf(startOf(completed.result.run))];
  });
  const left = windows.length - durations.length;
  if (left === 0) return 0;
  if (durations.length === 0) return null;
  const meanMs = durations.reduce((total, ms) => total + ms, 0) / durations.length;
  return Math.round((meanMs * left) / Math.min(parallel, left) / 1_000);
}

export interface AbandonedBackfill {
  readonly backfill: Backfill;
  /** How many unfinished runs were abandoned. */
  readonly abandonedRuns: number;
  /** Windows whose runs have begun to be published, and were not abandoned. */
  readonly publishing: readonly PublishingWindow[];
}

/**
 * `running`: it is being published now. `published`: it has its manifest, and only its state does not say so yet. `failed`, `stopped`: no
 * execution is working on it, but an invocation that outlives its execution may still publish it.
 */
type PublishingState = 'running' | 'published' | 'failed' | 'stopped';

export interface PublishingWindow extends Window {
  readonly state: PublishingState;
  readonly run: RunId;
  readonly lastFailure: RunFailure | null;
}

interface AbandonDependencies extends BackfillDependencies {
  readonly store: Pick<StoreReader, 'read'>;
  readonly executions: Executions;
  /** How long an invocation may outlive its execution, in milliseconds. 0: not at all. Default: an hour. */
  readonly maxInvocationMs?: number | undefined;
}

/** No invocation of a function on AWS lives for so long. */
export const maxFunctionMs = 3_600_000;

/**
 * Abandons the backfill, or repeats that: no further window begins, and no unfinished window is published. Windows that are published
 * stay. So does a window that may still be published: started again, it completes, unless that fails. If it has failed for
 * `maxInvocationMs`, it is abandoned, too.
 * @throws ConfigurationError if there is no backfill, or it is completed already
 */
export async function abandonBackfill(deps: AbandonDependencies, exportName: string): Promise<AbandonedBackfill> {
  const { backfills, runtime } = deps;
  for (;;) {
    const backfill = await backfills.read(exportName);
    const states = await readWindowStates(backfills, exportName);
    const problem =
      backfill === undefined
        ? 'has no backfill to abandon'
        : [...windowsOf(backfill)].every((window) => isDone(states, exportName, window))
          ? 'has no unfinished backfill: all windows are done'
          : undefined;
    if (backfill === undefined || problem !== undefined) {
      throw new ExportError('ConfigurationError', `Export ${exportName} ${problem}`);
    }
    const { version, abandonedAt = instantOf(runtime.now()) } = backfill;
    // First: if this ends half-way, the next command for the backfill abandons the windows that are left.
    const abandoned = { ...backfill, version: version + 1, abandonedAt };
    if (!(await backfills.replace(abandoned))) continue;
    return { backfill: abandoned, ...(await abandonWindows(deps, abandoned, (run) => publishingState(deps, run))) };
  }
}

/**
 * Abandons the plan of each window, also of one whose state the command that began the backfill has not written yet, and with it the
 * unfinished run. A run that has begun to be published stays, unless `findPublishingState` finds that it can no longer be.
 */
async function abandonWindows(
  { log, backfills }: Pick<BackfillDependencies, 'log' | 'backfills'>,
  backfill: Backfill,
  findPublishingState: (run: Run) => Promise<PublishingState | undefined> = async () => 'stopped',
): Promise<Omit<AbandonedBackfill, 'backfill'>> {
  const { export: exportName, plan: id, requestChecksum, abandonedAt } = backfill;
  const states = await readWindowStates(backfills, exportName);
  const windows = new Map([...windowsOf(backfill)].map((window) => [windowName(exportName, window), window]));
  // Of an earlier backfill, a window may still be published.
  for (const [name, { active }] of states) {
    const window = active && parseWindowName(name)?.window;
    if (window !== undefined) windows.set(name, window);
  }
  const ends = await mapConcurrently([...windows], concurrency, async ([name, window]) => {
    const decide = async (state: ExportState): Promise<StateChange<'ended' | PublishingWindow | undefined>> => {
      const { active: run, ...idle } = state;
      const current = state.plan ?? { id, requestChecksum };
      // Another command may have begun a later backfill, while this one was suspended.
      if (current.id > id) return { result: undefined };
      const plan: Plan = { ...current, id, abandonedAt: current.abandonedAt ?? abandonedAt };
      const isAbandoned = current.id === id && current.abandonedAt !== undefined;
      const publishing = run?.completion === undefined ? undefined : await findPublishingState(run);
      if (run === undefined || publishing === undefined) {
        const isChanged = run !== undefined || !isAbandoned;
        return { ...(isChanged && { change: { ...idle, plan } }), result: run && 'ended' };
      }
      const result = { ...window, state: publishing, run: run.run, lastFailure: run.lastFailure ?? null };
      return { ...(!isAbandoned && { change: { ...state, plan } }), result };
    };
    return await updateState(log, name, decide, states.get(name) ?? emptyState(name));
  });
  return {
    abandonedRuns: ends.filter((end) => end === 'ended').length,
    publishing: ends.filter((end) => end !== undefined && end !== 'ended'),
  };
}

/** Of a run that has begun to be published; undefined if it is not published, and will not be unless it is started again. */
async function publishingState(
  { store, executions, runtime, maxInvocationMs = maxFunctionMs }: Omit<AbandonDependencies, 'log'>,
  run: Run,
): Promise<PublishingState | undefined> {
  const { lastFailure, execution } = run;
  if (await executions.isRunning(execution)) return 'running';
  const manifest = await store.read(manifestKey(run));
  if (manifest !== undefined) {
    for await (const _ of manifest) break;
    return 'published';
  }
  if (maxInvocationMs === 0) return undefined;
  // Nothing says when the execution ended.
  if (lastFailure === undefined) return 'stopped';
  return runtime.now() - epochMsOf(lastFailure.at) < maxInvocationMs ? 'failed' : undefined;
}
