/**
 * Exports the next page, or pages: load, fetch, store, record.
 *
 * Two idempotent writes commit a page, and no lock is needed. The store comes first: its one atomic step makes body and
 * continuation visible together. The page log comes second: a page counts once it stands there. A crash before the first
 * leaves nothing, between the two a page to adopt, after the second an entry to go on from (design, "How a page is
 * committed").
 */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, Invocation, PageEntry, Run, Turn } from '../model.ts';
import type { StepNeeds } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { conflict } from './commit-page.ts';
import { followCursor } from './cycle-detection.ts';
import { ownedRun } from './export-state.ts';
import { type DraftEntry, type Walk, walkOn } from './page-pipeline.ts';
import { restartRun } from './restart-run.ts';
import { waitOrGiveUp } from './retry-after.ts';

export type ExportPageNeeds = Pick<StepNeeds, 'definition' | 'service' | 'store' | 'log' | 'surroundings' | 'emit'>;

export type ExportPageOutcome =
  | ({ readonly next: 'page' | 'continue' | 'finish' } & Turn)
  | ({ readonly next: 'wait'; readonly waitSeconds: number } & Turn);

/**
 * Exports the next page of the run that `execution` owns, or as many as the settings and its time allow, and says how the
 * run goes on. Repeated for a page that is logged already, it changes nothing and answers the same.
 *
 * @throws ExportError with any name of `../errors.ts`; RunSupersededError where the execution owns no run any more.
 */
export async function exportPage(
  needs: ExportPageNeeds,
  command: { readonly turn: Turn; readonly execution: string } & Invocation,
): Promise<ExportPageOutcome> {
  const { definition, log } = needs;
  const run = ownedRun(await log.head(definition.name), command.execution, definition.name);
  mustBeItsService(run, definition);
  const isOfTurn = run.run === command.turn.run;
  const last = await log.last(run);
  const { turns, waits } = command.turn;
  const page = (last?.page ?? 0) + 1;
  const turn: Turn = { export: run.export, run: run.run, segment: run.segment, page, turns, waits };
  if (last !== undefined) {
    const next = afterPage(definition, turn, last);
    // A repeated invocation finds its page logged: the answer follows from the log alone.
    const logged = isOfTurn && last.page >= command.turn.page;
    if (logged || next.next === 'finish') return next;
  }
  // Only behind a wait: a page that uses the budget up says so itself.
  if (turns >= definition.limits.turnsPerExecution) return { next: 'continue', ...turn };
  let newest = last;
  const commit: Walk['commit'] = async (draft) => {
    newest = await logPage(needs, draft);
    return newest;
  };
  // Behind a turn that ended well nothing is left. An attempt that is repeated may have left something, but asking for that
  // would cost every turn what so seldom is of use: it is met when the page is stored.
  const mayBeThere = turns === 0 || !isOfTurn;
  const walk: Walk = {
    run,
    execution: command.execution,
    last,
    mayBeThere,
    draft: draftOf(run.export),
    commit,
    goesOn,
  };
  try {
    return afterPage(definition, turn, await walkOn(needs, walk, command));
  } catch (error) {
    if (isExportError(error, 'ServiceThrottledError') && error.retryAfterSeconds !== undefined) {
      // A page that was exported before the wait is one between it and the wait before.
      const waiting = newest === last ? turn : { ...turn, page: (newest?.page ?? 0) + 1, waits: 0 };
      return waitOrGiveUp(needs, run, waiting, error, error.retryAfterSeconds);
    }
    if (isExportError(error, 'CursorRejectedError')) return restartRun(needs, run, turn, command.execution, error);
    throw error;
  }
}

/** A deployment may have moved the export while the run was under way; another service's pages do not continue it. */
function mustBeItsService({ run, request }: Run, definition: ExportDefinition): void {
  if (request.source === definition.request.source) return;
  throw new ExportError(
    'ConfigurationError',
    `Run ${run} was begun at ${request.source}, and the export is at ${definition.request.source} now. Its cursors mean ` +
      'nothing there: put the address back to finish the run, or start with restart to abandon it',
  );
}

/** The second of the two writes: the page counts from here on. */
async function logPage(needs: ExportPageNeeds, draft: DraftEntry): Promise<PageEntry> {
  const entry = await needs.log.append({ ...draft, loggedAt: instantOf(needs.surroundings.now()) });
  if (entry.sha256 !== draft.sha256 || entry.nextCursor !== draft.nextCursor) {
    throw conflict(draft, 'the page log names another');
  }
  needs.emit({
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

const draftOf =
  (exportName: string): Walk['draft'] =>
  ({ run, page, cursor }, { stored, nextCursor, timing }, last) => {
    const before = last?.totals ?? { reports: 0, bytes: 0 };
    const followed = nextCursor === null ? undefined : followCursor(last?.cycle ?? null, nextCursor);
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
const goesOn = ({ nextCursor, repeats }: DraftEntry): boolean => nextCursor !== null && !repeats;

/** How the run goes on behind a logged page. Depends on nothing but the entry, so a repetition answers the same. */
function afterPage({ limits }: ExportDefinition, turn: Turn, entry: PageEntry): ExportPageOutcome {
  const next: Turn = { ...turn, page: entry.page + 1, turns: turn.turns + 1, waits: 0 };
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
  return { next: next.turns >= limits.turnsPerExecution ? 'continue' : 'page', ...next };
}
