/**
 * Exports the next page of a run, or the next few, and decides how the run continues. How pages are fetched, stored and
 * logged is in `page-pipeline.ts` and `commit-page.ts`.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, Invocation, LoopState, PageEntry, Run } from '../model.ts';
import { assertRootOfSettings, rootOfFirstPage } from '../document-root.ts';
import { contradictionOf, ownedRun } from './export-state.ts';
import { NoFreeSlot } from '../slots/held-slot.ts';
import { type ExportPageDependencies, exportPages } from './page-pipeline.ts';
import { restartRun } from './restart-run.ts';

export type ExportPageOutcome =
  | ({ readonly next: 'page' | 'continue' | 'finish' } & LoopState)
  | ({ readonly next: 'wait' | 'queue'; readonly waitSeconds: number } & LoopState);

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
  const last = await log.last(run);
  const contradiction = contradictionOf(run, last, definition);
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
  if (last !== undefined) {
    assertRootOfSettings(definition, last);
    const outcome = nextOutcome(definition, loop, last);
    const isRepeated = isSameRun && last.page >= command.loop.page;
    if (isRepeated || outcome.next === 'finish') return outcome;
  }
  // Reached only after a wait: after a page, `nextOutcome` returns `continue`.
  if (iterations >= definition.limits.iterationsPerExecution) return { next: 'continue', ...loop };

  // An iteration that succeeded leaves nothing unlogged. A retried attempt may, but looking it up would cost every iteration
  // a request to the store for a rare case: such a page is found when it is stored again.
  const checkExisting = iterations === 0 || !isSameRun;
  const firstRoot = last === undefined ? rootOfFirstPage(definition, state?.documentRoot, run) : undefined;
  const pipeline = { run, execution, lastLogged: last, checkExisting, firstRoot };
  const { lastLogged, failure } = await exportPages(deps, pipeline, command);
  if (failure === undefined && lastLogged !== undefined) return nextOutcome(definition, loop, lastLogged);
  const error = failure?.error;
  // If a page was exported, the count of consecutive waits starts over.
  const waiting = lastLogged === last ? loop : { ...loop, page: (lastLogged?.page ?? 0) + 1, waits: 0 };
  if (error instanceof NoFreeSlot) return queue(deps, run, waiting, error.waitSeconds);
  if (isExportError(error, 'ServiceThrottledError') && error.retryAfterSeconds !== undefined) {
    return wait(deps, run, waiting, error, error.retryAfterSeconds);
  }
  if (isExportError(error, 'CursorRejectedError')) return restartRun(deps, run, lastLogged, loop, execution, error);
  if (isExportError(error, 'ServiceUnreachableError') && hasFetchedPage(run, lastLogged)) throw asOutage(error);
  throw error;
}

/** Whether the settings of the run are known to be right. A run that started over has fetched the pages before. */
const hasFetchedPage = (run: Run, lastLogged: PageEntry | undefined): boolean =>
  lastLogged !== undefined || run.cursorRestarts > 0;

const asOutage = ({ message, cause }: ExportError): ExportError =>
  new ExportError('ServiceUnavailableError', message, { cause });

/**
 * The outcome of an iteration that ends in a long Retry-After: the Wait state, then the same page.
 * @throws RequestRejectedError if the wait, or the number of consecutive waits, exceeds the settings
 */
function wait(
  { definition: { limits }, emit }: ExportPageDependencies,
  run: Run,
  loop: LoopState,
  error: ExportError,
  retryAfterSeconds: number,
): ExportPageOutcome {
  const waitSeconds = Math.max(1, Math.ceil(retryAfterSeconds));
  const tooLong = waitSeconds > limits.maxRetryAfterSeconds;
  if (tooLong || loop.waits >= limits.maxConsecutiveWaits) {
    const reason = tooLong
      ? `which exceeds maxRetryAfter (${limits.maxRetryAfterSeconds} s)`
      : `after ${loop.waits} consecutive waits without a page in between (maxConsecutiveWaits)`;
    throw new ExportError(
      'RequestRejectedError',
      `Report service requested a wait of ${waitSeconds} s before page ${loop.page} of run ${run.run}, ${reason}. ` +
        'The run stops here. The next start resumes it',
      { cause: error },
    );
  }
  emit({
    event: 'service-asked-to-wait',
    export: run.export,
    run: run.run,
    page: loop.page,
    seconds: waitSeconds,
    inside: false,
  });
  // Counts as two iterations: the Wait state adds two events to an execution history of limited length.
  return { next: 'wait', ...loop, iterations: loop.iterations + 2, waits: loop.waits + 1, waitSeconds };
}

/** The outcome of an iteration that found no free slot. Counts as two iterations, as a Wait state adds two events. */
function queue({ emit }: ExportPageDependencies, run: Run, loop: LoopState, waitSeconds: number): ExportPageOutcome {
  emit({ event: 'waiting-for-slot', export: run.export, run: run.run, page: loop.page, seconds: waitSeconds });
  return { next: 'queue', ...loop, iterations: loop.iterations + 2, waitSeconds };
}

/** How the run continues after a logged page. Depends on the log entry alone, so a retry returns the same. */
function nextOutcome({ limits, request }: ExportDefinition, loop: LoopState, entry: PageEntry): ExportPageOutcome {
  const next: LoopState = { ...loop, page: entry.page + 1, iterations: loop.iterations + 1, waits: 0 };
  if (entry.nextCursor === null) return { next: 'finish', ...next };
  if (entry.repeats) {
    throw new ExportError(
      'RepeatedCursorError',
      `Page ${entry.page} of run ${entry.run} returned a cursor that this run has already used, so its pages repeat. ` +
        'The run is never published; the next start begins a new one',
    );
  }
  if (limits.maxPages !== undefined && entry.page >= limits.maxPages) {
    throw new ExportError(
      'ConfigurationError',
      `Run ${entry.run} reached the limit of ${limits.maxPages} pages (maxPages), and the service has more. ` +
        'Raise maxPages and start again: the run resumes after its last page',
    );
  }
  if (entry.emptyPages >= limits.maxEmptyPages) {
    const hint =
      request.api.pagination === undefined
        ? ''
        : 'The end of its pages may be described wrongly (api.next.end): if so, correct it and start with --restart. ';
    throw new ExportError(
      'ConfigurationError',
      `Run ${entry.run} reached the limit of ${limits.maxEmptyPages} consecutive pages without reports (maxEmptyPages), and the ` +
        `service has more. ${hint}If so many pages can be empty, raise maxEmptyPages and start again: the run resumes ` +
        'after its last page',
    );
  }
  return { next: next.iterations >= limits.iterationsPerExecution ? 'continue' : 'page', ...next };
}
