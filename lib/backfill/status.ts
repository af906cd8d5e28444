/** How far a backfill has come: the state of each window. */

import { mapConcurrently } from '../core/concurrency.ts';
import type { ExportState, Instant, RunFailure, RunId } from '../core/model.ts';
import type { Executions, PageLog } from '../core/ports.ts';
import { startOf } from '../core/storage/keys.ts';
import { epochMsOf } from '../core/timestamps.ts';
import type { Backfill, BackfillStore } from './store.ts';
import { readWindowStates, type WindowStates } from './window-states.ts';
import { type Window, windowName, windowsOf } from './windows.ts';

/** `waiting`: it has not begun. `failed`, `interrupted`: it has begun, and no execution is working on it. */
export type WindowState = 'done' | 'running' | 'failed' | 'interrupted' | 'waiting';

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
  /** null if they are not counted. */
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

/** How many windows that have begun and are not done are read at the same time. */
const readConcurrency = 16;

/** The newest backfill of the export; undefined if it has none. */
export async function readBackfillStatus(
  { log, backfills, executions }: StatusDependencies,
  exportName: string,
): Promise<BackfillStatus | undefined> {
  const backfill = await backfills.read(exportName);
  if (backfill === undefined) return undefined;
  const states = await readWindowStates(backfills, exportName);
  const windows = await mapConcurrently([...windowsOf(backfill)], readConcurrency, (window) =>
    windowStatus({ log, executions }, window, states.get(windowName(exportName, window))),
  );
  const counts = { done: 0, running: 0, failed: 0, interrupted: 0, waiting: 0 };
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
      state: hasFailed ? 'failed' : isRunning ? 'running' : 'interrupted',
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
