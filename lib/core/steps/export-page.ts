/**
 * Exports the next page, or pages: load, fetch, store, record.
 *
 * Two idempotent writes commit a page, and no lock is needed. The store comes first: its one atomic step makes body and
 * continuation visible together. The page log comes second: a page counts once it stands there. A crash before the first
 * leaves nothing, between the two a page to adopt, after the second an entry to go on from (design, "How a page is
 * committed").
 */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, Invocation, LoopState, PageEntry, Run } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { conflict } from './commit-page.ts';
import { detectCycle } from './cycle-detection.ts';
import { ownedRun } from './export-state.ts';
import { type DraftEntry, exportPages, type Walk } from './page-pipeline.ts';
import { restartRun } from './restart-run.ts';
import { nextWait } from './retry-after.ts';

export type ExportPageDependencies = Pick<
  StepDependencies,
  'definition' | 'service' | 'store' | 'log' | 'runtime' | 'emit'
>;

export type ExportPageOutcome =
  | ({ readonly next: 'page' | 'continue' | 'finish' } & LoopState)
  | ({ readonly next: 'wait'; readonly waitSeconds: number } & LoopState);

/**
 * Exports the next page of the run that `execution` owns, or as many as the settings and its time allow, and says how the
 * run goes on. Repeated for a page that is logged already, it changes nothing and answers the same.
 *
 * @throws ExportError with any name of `../errors.ts`; RunSupersededError where the execution owns no run any more.
 */
export async function exportPage(
  deps: ExportPageDependencies,
  command: { readonly loop: LoopState; readonly execution: string } & Invocation,
): Promise<ExportPageOutcome> {
  const { definition, log } = deps;
  const run = ownedRun(await log.exportState(definition.name), command.execution, definition.name);
  assertSameService(run, definition);
  const isOfTurn = run.run === command.loop.run;
  const last = await log.last(run);
  const { iterations, waits } = command.loop;
  const page = (last?.page ?? 0) + 1;
  const loop: LoopState = {
    export: run.export,
    run: run.run,
    executionNumber: run.executionNumber,
    page,
    iterations,
    waits,
  };
  if (last !== undefined) {
    const next = nextOutcome(definition, loop, last);
    // A repeated invocation finds its page logged: the answer follows from the log alone.
    const logged = isOfTurn && last.page >= command.loop.page;
    if (logged || next.next === 'finish') return next;
  }
  // Only behind a wait: a page that uses the budget up says so itself.
  if (iterations >= definition.limits.iterationsPerExecution) return { next: 'continue', ...loop };
  let newest = last;
  const commit: Walk['commit'] = async (draft) => {
    newest = await logPage(deps, draft);
    return newest;
  };
  // Behind a turn that ended well nothing is left. An attempt that is repeated may have left something, but asking for that
  // would cost every turn what so seldom is of use: it is met when the page is stored.
  const checkExisting = iterations === 0 || !isOfTurn;
  const walk: Walk = {
    run,
    execution: command.execution,
    last,
    checkExisting,
    draft: toLogEntry(run.export),
    commit,
    hasNextPage,
  };
  try {
    return nextOutcome(definition, loop, await exportPages(deps, walk, command));
  } catch (error) {
    if (isExportError(error, 'ServiceThrottledError') && error.retryAfterSeconds !== undefined) {
      // A page that was exported before the wait is one between it and the wait before.
      const waiting = newest === last ? loop : { ...loop, page: (newest?.page ?? 0) + 1, waits: 0 };
      return nextWait(deps, run, waiting, error, error.retryAfterSeconds);
    }
    if (isExportError(error, 'CursorRejectedError')) return restartRun(deps, run, loop, command.execution, error);
    throw error;
  }
}

/** A deployment may have moved the export while the run was under way; another service's pages do not continue it. */
function assertSameService({ run, request }: Run, definition: ExportDefinition): void {
  if (request.source === definition.request.source) return;
  throw new ExportError(
    'ConfigurationError',
    `Run ${run} was begun at ${request.source}, and the export is at ${definition.request.source} now. Its cursors mean ` +
      'nothing there: put the address back to finish the run, or start with restart to abandon it',
  );
}

/** The second of the two writes: the page counts from here on. */
async function logPage(deps: ExportPageDependencies, draft: DraftEntry): Promise<PageEntry> {
  const entry = await deps.log.append({ ...draft, loggedAt: instantOf(deps.runtime.now()) });
  if (entry.sha256 !== draft.sha256 || entry.nextCursor !== draft.nextCursor) {
    throw conflict(draft, 'the page log names another');
  }
  deps.emit({
    event: draft.timing === null ? 'page-adopted' : 'page-exported',
    export: entry.export,
    run: entry.run,
    page: entry.page,
    bytes: entry.bytes,
    reports: entry.reports,
    totalReports: entry.totals.reports,
    totalBytes: entry.totals.bytes,
  });
  return entry;
}

const toLogEntry =
  (exportName: string): Walk['draft'] =>
  ({ run, page, cursor }, { stored, nextCursor, timing }, last) => {
    const before = last?.totals ?? { reports: 0, bytes: 0 };
    const followed = nextCursor === null ? undefined : detectCycle(last?.cycle ?? null, nextCursor);
    const { key, bytes, sha256, revision, reports, serviceTime } = stored;
    return {
      export: exportName,
      run,
      page,
      key,
      bytes,
      sha256,
      revision,
      reports,
      cursor,
      nextCursor,
      serviceTime,
      timing,
      totals: {
        reports: before.reports === null || reports === null ? null : before.reports + reports,
        bytes: before.bytes + bytes,
      },
      cycle: followed?.state ?? null,
      repeats: followed?.repeats ?? false,
    };
  };

/** Whether a page follows at all: a last page, or a walk in circles, is for the answer to tell. */
const hasNextPage = ({ nextCursor, repeats }: DraftEntry): boolean => nextCursor !== null && !repeats;

/** How the run goes on behind a logged page. Depends on nothing but the entry, so a repetition answers the same. */
function nextOutcome({ limits }: ExportDefinition, loop: LoopState, entry: PageEntry): ExportPageOutcome {
  const next: LoopState = { ...loop, page: entry.page + 1, iterations: loop.iterations + 1, waits: 0 };
  if (entry.nextCursor === null) return { next: 'finish', ...next };
  if (entry.repeats) {
    throw new ExportError(
      'ContractError',
      `Page ${entry.page} of run ${entry.run} handed out a cursor this run has met before: the pages go in circles. ` +
        'The run is given up and never published; the next one starts afresh',
    );
  }
  if (limits.maxPages !== undefined && entry.page >= limits.maxPages) {
    throw new ExportError(
      'ConfigurationError',
      `Run ${entry.run} has come to page ${entry.page} and the service offers more, but no more than ${limits.maxPages} are allowed ` +
        '(maxPages). Allow more and start again: the run goes on where it stopped',
    );
  }
  return { next: next.iterations >= limits.iterationsPerExecution ? 'continue' : 'page', ...next };
}
