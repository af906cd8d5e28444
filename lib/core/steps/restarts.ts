/**
 * Starts over what cannot continue, because the service has rejected a cursor of its own: one of several slices in a new attempt, or the
 * whole of a run with one slice as a new run.
 */

import type { ExportError } from '../errors.ts';
import type { LoopState, Run, RunSlices } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { isDone, type RunProgress } from '../run-progress.ts';
import { type Slice, sliceOf } from '../slices.ts';
import { identifyRun, ownedRun, updateState } from './export-state.ts';
import type { ExportPageOutcome } from './loop-outcome.ts';

interface Restart {
  /** The run to continue with; undefined if it is the one before, which is being published. */
  readonly replacement: Run | undefined;
  readonly isNew: boolean;
}

/**
 * Replaces `run`, which cannot continue because of `error`, by a new run with the same `since` in the same execution. The pages of the
 * abandoned run stay in the store and are never published. A run that is being published is not replaced: a concurrent invocation has
 * exported its last page.
 * @throws `error` if the run has used up `maxCursorRestarts`
 */
export async function restartRun(
  { definition, log, runtime, emit }: Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>,
  run: Run,
  { slices: [only] }: RunProgress,
  loop: LoopState,
  execution: string,
  error: ExportError,
): Promise<ExportPageOutcome> {
  if (run.cursorRestarts >= definition.limits.maxCursorRestarts) throw error;
  const { replacement, isNew } = await updateState<Restart>(log, definition.stateName, (state) => {
    const active = ownedRun(state, execution, definition.name);
    // A concurrent invocation of the same execution has restarted the run already: its replacement stays.
    if (active.run !== run.run) return { result: { replacement: active, isNew: false } };
    if (active.completion !== undefined) return { result: { replacement: undefined, isNew: false } };
    const next: Run = {
      ...active,
      // Of the run before.
      lastFailure: undefined,
      refusedPage: undefined,
      ...identifyRun(state, runtime),
      cursorRestarts: active.cursorRestarts + 1,
      documentRoot: only?.last?.documentRoot ?? active.documentRoot,
    };
    return { change: { ...state, sequence: next.sequence, active: next }, result: { replacement: next, isNew: true } };
  });
  const restarted = { ...loop, delays: undefined };
  if (replacement === undefined) return { next: 'finish', ...restarted };
  if (isNew) {
    const { run: abandoned } = run;
    emit({ event: 'run-restarted', export: run.export, run: replacement.run, abandoned, reason: error.message });
  }
  return { next: 'page', ...restarted, run: replacement.run, page: 1, iterations: loop.iterations + 1, waits: 0 };
}

/**
 * The slices of the run once `slice` has started over, in this invocation or in a concurrent one of the same execution.
 * Undefined: it must not, because it has used up `maxCursorRestarts`, or a concurrent invocation has exported its last page.
 */
export async function restartSlice(
  { definition, log, emit }: Pick<StepDependencies, 'definition' | 'log' | 'emit'>,
  run: Run,
  { slice: number = 1, attempt = 1 }: Slice,
  execution: string,
  error: ExportError,
): Promise<RunSlices | undefined> {
  const slices = await updateState<RunSlices | undefined>(log, definition.stateName, async (state) => {
    const active = ownedRun(state, execution, definition.name, run.run);
    if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
    const known = sliceOf(active, number);
    if (known.attempt !== attempt) return { result: active.slices };
    if (isDone(await log.last(known))) return { result: undefined };
    const { restarts = {}, attempts } = active.slices;
    const count = (restarts[number] ?? 0) + 1;
    const mayRestart = count <= definition.limits.maxCursorRestarts;
    // Also noted if it must not: then the next start begins the slice from its beginning.
    const noted = { ...active.slices, restarts: { ...restarts, [number]: count } };
    const change = mayRestart ? { ...noted, attempts: { ...attempts, [number]: attempt + 1 } } : noted;
    return { change: { ...state, active: { ...active, slices: change } }, result: mayRestart ? change : undefined };
  });
  if (slices !== undefined) {
    const reason = error.message;
    emit({ event: 'slice-restarted', export: run.export, run: run.run, slice: number, attempt: attempt + 1, reason });
  }
  return slices;
}
