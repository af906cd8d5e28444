/**
 * Exports the next page of a run, or the next few, and decides how the run continues. How pages are fetched, stored and
 * logged is in `page-pipeline.ts` and `commit-page.ts`.
 */

import { type ExportError, isExportError } from '../errors.ts';
import type { DocumentRoot, ExportDefinition, ExportState, Invocation, LoopState, PageEntry, Run } from '../model.ts';
import type { PageLog, StepDependencies } from '../ports.ts';
import { assertRootOfSettings, rootOfFirstPage } from '../document-root.ts';
import { sliceOf } from '../slices.ts';
import { NoFreeSlot } from '../slots/held-slot.ts';
import { contradictionOf, identifyRun, ownedRun, updateState } from './export-state.ts';
import { exportSlices } from './export-slices.ts';
import {
  assertContinues,
  asOutage,
  type ExportPageOutcome,
  maxPagesError,
  pendingDelays,
  queue,
  wait,
} from './loop-outcome.ts';
import { type ExportPageDependencies, exportPages } from './page-pipeline.ts';
import { proveUpperBound, type UpperBoundProof } from './upper-bound.ts';

/**
 * Exports the next page of the run that `execution` owns, or as many as the settings and the invocation's time allow, and
 * returns how the run continues. Repeated for a page that is already logged, it changes nothing and returns the same.
 *
 * @throws RunSupersededError if the execution no longer owns the run
 * @throws ExportError with any other name of `errors.ts`
 */
export async function exportPage(
  deps: ExportPageDependencies,
  command: { readonly loop: LoopState; readonly execution: string } & Invocation,
): Promise<ExportPageOutcome> {
  const { definition, log } = deps;
  const { execution } = command;
  const state = await log.exportState(definition.stateName);
  const run = ownedRun(state, execution, definition.name);
  const isSameRun = run.run === command.loop.run;
  if (run.slices !== undefined) {
    const recordedRoot = await rootOfCompletedRuns(log, definition, state);
    return await exportSlices(deps, { ...run, slices: run.slices }, { ...command, recordedRoot });
  }
  const last = await log.last(run);
  const contradiction = contradictionOf(run, last?.nextCursor === null, definition);
  if (contradiction !== undefined) throw contradiction;
  const { iterations, waits } = command.loop;
  const page = (last?.page ?? 0) + 1;
  const loop: LoopState = {
    export: definition.stateName,
    run: run.run,
    executionNumber: run.executionNumber,
    page,
    iterations,
    waits,
  };
  const delays = pendingDelays(command, isSameRun && page > command.loop.page);
  if (last !== undefined) {
    assertRootOfSettings(definition, last);
    const outcome = nextOutcome(definition, { ...loop, delays: delays.current }, last);
    const isRepeated = isSameRun && last.page >= command.loop.page;
    if (isRepeated || outcome.next === 'finish') return outcome;
  }
  // Reached only after a wait: after a page, `nextOutcome` returns `continue`.
  if (iterations >= definition.limits.iterationsPerExecution) return { next: 'continue', ...loop };

  // An iteration that succeeded leaves nothing unlogged. A retried attempt may, but looking it up would cost every iteration
  // a request to the store for a rare case: such a page is found when it is stored again.
  const checkExisting = iterations === 0 || !isSameRun;
  const slice = sliceOf(run, 1);
  const recordedRoot = last === undefined ? await rootOfCompletedRuns(log, definition, state) : undefined;
  const known = last === undefined ? rootOfFirstPage(definition, recordedRoot, run) : undefined;
  const needsProof = last === undefined && run.bounded === true;
  const proof: UpperBoundProof = needsProof ? await proveUpperBound(deps, run, known, command) : { root: known };
  const firstRoot = proof.root;
  const pipeline = { run, slice, slot: proof.slot, execution, lastLogged: last, checkExisting, firstRoot, delays };
  const { lastLogged, failure } =
    proof.failure === undefined
      ? await exportPages(deps, pipeline, command)
      : { lastLogged: last, failure: proof.failure };
  if (failure === undefined && lastLogged !== undefined) return nextOutcome(definition, loop, lastLogged);
  const error = failure?.error;
  // If a page was exported, the count of consecutive waits starts over.
  const after = lastLogged === last ? loop : { ...loop, page: (lastLogged?.page ?? 0) + 1, waits: 0 };
  const waiting = { ...after, delays: delays.current };
  if (error instanceof NoFreeSlot) return queue(deps, run, waiting, error.waitSeconds);
  if (isExportError(error, 'ServiceThrottledError') && error.retryAfterSeconds !== undefined) {
    return wait(deps, run, waiting, error, error.retryAfterSeconds);
  }
  if (isExportError(error, 'CursorRejectedError')) return restartRun(deps, run, lastLogged, loop, execution, error);
  if (isExportError(error, 'ServiceUnreachableError') && hasFetchedPage(run, lastLogged)) throw asOutage(error);
  throw error;
}

/** The state of a bounded run has none: what scheduled runs have found applies to it, too. */
const rootOfCompletedRuns = async (
  log: Pick<PageLog, 'exportState'>,
  { name, stateName }: ExportDefinition,
  state: ExportState | undefined,
): Promise<DocumentRoot | undefined> => (stateName === name ? state : await log.exportState(name))?.documentRoot;

/** Whether the settings of the run are known to be right. A run that started over has fetched the pages before. */
const hasFetchedPage = (run: Run, lastLogged: PageEntry | undefined): boolean =>
  lastLogged !== undefined || run.cursorRestarts > 0;

/** How the run continues after a logged page. Depends on the log entry alone, so a retry returns the same. */
function nextOutcome(definition: ExportDefinition, loop: LoopState, entry: PageEntry): ExportPageOutcome {
  const { maxPages, iterationsPerExecution } = definition.limits;
  const next: LoopState = { ...loop, page: entry.page + 1, iterations: loop.iterations + 1, waits: 0 };
  if (entry.nextCursor === null) return { next: 'finish', ...next };
  assertContinues(definition, entry);
  if (maxPages !== undefined && entry.page >= maxPages) throw maxPagesError(definition, entry);
  return { next: next.iterations >= iterationsPerExecution ? 'continue' : 'page', ...next };
}

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
async function restartRun(
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
      ...identifyRun(state, runtime),
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
