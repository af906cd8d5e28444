/** Starts a walk afresh whose cursor the service dropped. */

import type { ExportError } from '../errors.ts';
import type { LoopState, Run } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { createRunId } from '../storage/keys.ts';
import { instantOf } from '../timestamps.ts';
import { nextSequence, ownedRun, updateState } from './export-state.ts';

/**
 * Gives up a walk that cannot be finished, because of `error`, and begins a new one from the same `since` under a new
 * run id, in the same execution; the pages of the old one stay where they are and are never published.
 * @throws `error` where the run has used up its restarts
 */
export async function restartRun(
  { definition, log, runtime, emit }: Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>,
  run: Run,
  loop: LoopState,
  execution: string,
  error: ExportError,
): Promise<{ readonly next: 'page' } & LoopState> {
  if (run.cursorRestarts >= definition.limits.maxCursorRestarts) throw error;
  const now = runtime.now();
  const { fresh, abandoned } = await updateState(log, definition.name, (head) => {
    const active = ownedRun(head, execution, definition.name);
    // An invocation that overlaps this one was here first: its new run is not to be given up for another.
    if (active.run !== run.run) return { result: { fresh: active, abandoned: false } };
    const next: Run = {
      ...active,
      run: createRunId(now, runtime.randomHex(6)),
      sequence: nextSequence(head, now),
      startedAt: instantOf(now),
      cursorRestarts: active.cursorRestarts + 1,
    };
    return { change: { ...head, sequence: next.sequence, active: next }, result: { fresh: next, abandoned: true } };
  });
  if (abandoned) {
    emit({ event: 'run-restarted', export: run.export, run: fresh.run, abandoned: run.run, reason: error.message });
  }
  return { next: 'page', ...loop, run: fresh.run, page: 1, iterations: loop.iterations + 1, waits: 0 };
}
