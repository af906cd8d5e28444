/** Starts a run over because the service no longer accepts its cursor. */

import type { ExportError } from '../errors.ts';
import type { LoopState, PageEntry, Run } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { identifyRun, ownedRun, updateState } from './export-state.ts';

interface Restart {
  /** The run to continue with; undefined if it is the one before, which is being published. */
  readonly replacement: Run | undefined;
  readonly isNew: boolean;
}

/**
 * Replaces `run`, whose last logged page is `last`, and which cannot continue because of `error`, by a new run with the same `since` in the same execution. The
 * pages of the abandoned run stay in the store and are never published. A run that is being published is not replaced: a
 * concurrent invocation has exported its last page.
 * @throws `error` if the run has used up `maxCursorRestarts`
 */
export async function restartRun(
  { definition, log, runtime, emit }: Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>,
  run: Run,
  last: PageEntry | undefined,
  loop: LoopState,
  execution: string,
  error: ExportError,
): Promise<{ readonly next: 'page' | 'finish' } & LoopState> {
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
      ...identifyRun(definition, state, runtime),
      cursorRestarts: active.cursorRestarts + 1,
      documentRoot: last?.documentRoot ?? active.documentRoot,
    };
    return {
      change: { ...state, sequence: next.sequence, active: next },
      result: { replacement: next, isNew: true },
    };
  });
  if (replacement === undefined) return { next: 'finish', ...loop };
  if (isNew) {
    emit({
      event: 'run-restarted',
      export: run.export,
      run: replacement.run,
      abandoned: run.run,
      reason: error.message,
    });
  }
  return { next: 'page', ...loop, run: replacement.run, page: 1, iterations: loop.iterations + 1, waits: 0 };
}
