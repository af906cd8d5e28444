/** Abandons a backfill: none of its windows begins any more, and those that are unfinished are never published. */

import { mapConcurrently } from '../core/concurrency.ts';
import { ExportError } from '../core/errors.ts';
import { emptyState, type ExportState, type Plan, type Run, type RunFailure, type RunId } from '../core/model.ts';
import type { Executions, PageLog, Runtime, StoreReader } from '../core/ports.ts';
import { type StateChange, updateState } from '../core/steps/export-state.ts';
import { manifestKey } from '../core/storage/keys.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import type { Backfill, BackfillStore } from './store.ts';
import { isDone, readWindowStates } from './window-states.ts';
import { parseWindowName, type Window, windowName, windowsOf } from './windows.ts';

export interface BackfillDependencies {
  readonly log: PageLog;
  readonly backfills: BackfillStore;
  readonly runtime: Pick<Runtime, 'now'>;
}

/** How many states of windows are written at the same time. */
export const writeConcurrency = 16;

export interface AbandonedBackfill {
  readonly backfill: Backfill;
  /** How many unfinished runs were abandoned. */
  readonly abandonedRuns: number;
  /** Windows whose runs have begun to be published, and were not abandoned. */
  readonly publishing: readonly PublishingWindow[];
}

/**
 * `running`: it is being published now. `published`: it has its manifest, and only its state does not say so yet. `failed`, `interrupted`: no
 * execution is working on it, but an invocation that outlives its execution may still publish it.
 */
type PublishingState = 'running' | 'published' | 'failed' | 'interrupted';

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
export async function abandonWindows(
  { log, backfills }: Pick<BackfillDependencies, 'log' | 'backfills'>,
  backfill: Backfill,
  findPublishingState: (run: Run) => Promise<PublishingState | undefined> = async () => 'interrupted',
): Promise<Omit<AbandonedBackfill, 'backfill'>> {
  const { export: exportName, plan: id, requestChecksum, abandonedAt } = backfill;
  const states = await readWindowStates(backfills, exportName);
  const windows = new Map([...windowsOf(backfill)].map((window) => [windowName(exportName, window), window]));
  // Of an earlier backfill, a window may still be published.
  for (const [name, { active }] of states) {
    const window = active && parseWindowName(name)?.window;
    if (window !== undefined) windows.set(name, window);
  }
  const ends = await mapConcurrently([...windows], writeConcurrency, async ([name, window]) => {
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
  if (lastFailure === undefined) return 'interrupted';
  return runtime.now() - epochMsOf(lastFailure.at) < maxInvocationMs ? 'failed' : undefined;
}
