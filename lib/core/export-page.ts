/**
 * Exports one page: load, fetch, store, record.
 *
 * Two idempotent writes commit a page, and no lock is needed. The store comes first: its one atomic step makes body and
 * continuation visible together. The page log comes second: a page counts once it stands there. A crash before the first
 * leaves nothing, between the two a page to adopt, after the second an entry to go on from (design, "How a page is
 * committed").
 */

import { createHash } from 'node:crypto';
import type { Turn } from './begin-run.ts';
import { followCursor } from './cycle.ts';
import { ExportError, isExportError } from './errors.ts';
import { changeHead, ownedRun } from './head.ts';
import { instantOf } from './instants.ts';
import { pageKey, runIdOf } from './layout.ts';
import type { Continuation, Cursor, ExportDefinition, PageEntry, Run, StoredPage } from './model.ts';
import type { EventSink, FetchedPage, PageIdentity, PageLog, PageStore, ReportService, Surroundings } from './ports.ts';

export interface ExportPageNeeds {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  readonly store: PageStore;
  readonly log: PageLog;
  readonly surroundings: Surroundings;
  readonly emit: EventSink;
}

export type ExportPageOutcome =
  | ({ readonly next: 'page' | 'continue' | 'finish' } & Turn)
  | ({ readonly next: 'wait'; readonly waitSeconds: number } & Turn);

/** The bounds of one invocation. */
export interface Invocation {
  /** Interrupts the fetch and any waiting; the page is then not exported. */
  readonly signal?: AbortSignal | undefined;
  /** How long short Retry-Afters may be sat out here; what would outlast it is left to the Wait state. */
  readonly patienceMs?: number | undefined;
}

/**
 * Exports the next page of the run that `execution` owns, and says how the run goes on. Repeated for a page that is
 * logged already, it changes nothing and answers the same.
 *
 * @throws ExportError with any name of `errors.ts`; RunSupersededError where the execution owns no run any more.
 */
export async function exportPage(
  needs: ExportPageNeeds,
  command: { readonly turn: Turn; readonly execution: string } & Invocation,
): Promise<ExportPageOutcome> {
  const { definition, log } = needs;
  const run = ownedRun(await log.head(definition.name), command.execution, definition.name);
  const last = await log.last(run);
  const { turns, waits } = command.turn;
  const turn: Turn = {
    export: run.export,
    run: run.run,
    segment: run.segment,
    page: (last?.page ?? 0) + 1,
    turns,
    waits,
  };
  try {
    // A repeated invocation finds its page logged: the answer follows from the log alone.
    const logged = last !== undefined && last.page >= command.turn.page && run.run === command.turn.run;
    const entry = logged ? last : await exportNext(needs, run, last, command);
    return afterPage(definition, turn, entry);
  } catch (error) {
    if (isExportError(error, 'ServiceThrottledError') && error.retryAfterSeconds !== undefined) {
      return waitOrGiveUp(needs, run, turn, error, error.retryAfterSeconds);
    }
    if (isExportError(error, 'CursorRejectedError')) return restartRun(needs, run, turn, command.execution, error);
    throw error;
  }
}

async function exportNext(
  needs: ExportPageNeeds,
  run: Run,
  last: PageEntry | undefined,
  command: Invocation,
): Promise<PageEntry> {
  if (last !== undefined && (last.nextCursor === null || last.repeats)) return last;
  const page = (last?.page ?? 0) + 1;
  const identity: PageIdentity = { key: pageKey(run, page), run: run.run, page, cursor: last?.nextCursor ?? null };
  const { stored, nextCursor, adopted } = await storePage(needs, run, identity, command);
  const entry = await needs.log.append(entryOf(run, identity, stored, nextCursor, last, needs.surroundings.now()));
  if (entry.sha256 !== stored.sha256 || entry.nextCursor !== nextCursor)
    throw conflict(identity, 'the page log names another');
  needs.emit({
    event: adopted ? 'page-adopted' : 'page-exported',
    export: run.export,
    run: run.run,
    page,
    bytes: entry.bytes,
    reports: entry.reports,
    totalReports: entry.totals.reports,
    totalBytes: entry.totals.bytes,
  });
  return entry;
}

/** The page as it lies in the store, put there now or by a former attempt, and the cursor that follows it. */
async function storePage(
  needs: ExportPageNeeds,
  run: Run,
  identity: PageIdentity,
  command: Invocation,
): Promise<{ stored: StoredPage; nextCursor: Cursor | null; adopted: boolean }> {
  const found = await needs.store.find(identity.key);
  if (found !== undefined) {
    mustBelong(found, identity);
    const { nextCursor } = found;
    if (nextCursor === null || typeof nextCursor === 'string') return { stored: found, nextCursor, adopted: true };
    // The store holds only the hash of a long cursor: asking again tells the cursor, and the hash tells if it is the one.
  }
  const fetched = await fetchPatiently(needs, run, identity, command);
  const { stored, page } = await needs.store.put(identity, fetched);
  if (stored) return { stored: page, nextCursor: fetched.nextCursor, adopted: false };
  mustBelong(page, identity);
  if (page.nextCursor === null || typeof page.nextCursor === 'string') {
    return { stored: page, nextCursor: page.nextCursor, adopted: true };
  }
  if (!sameCursor(page.nextCursor, fetched.nextCursor)) {
    throw conflict(identity, 'it goes on with another cursor than the service gives now');
  }
  return { stored: page, nextCursor: fetched.nextCursor, adopted: true };
}

/** Fetches the page; a short Retry-After is waited out here, where it costs no turn of the state machine. */
async function fetchPatiently(
  { definition, service, surroundings, emit }: ExportPageNeeds,
  run: Run,
  { page, cursor }: PageIdentity,
  { signal, patienceMs = 0 }: Invocation,
): Promise<FetchedPage> {
  const request = { request: run.request, since: run.since, cursor, label: `page ${page} of run ${run.run}` };
  const patientUntil = surroundings.now() + patienceMs;
  for (;;) {
    try {
      return await service.fetchPage(request, signal);
    } catch (error) {
      if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
      const seconds = error.retryAfterSeconds;
      // At least a second: a Retry-After of nought must not become a tight loop.
      const waitMs = Math.max(1, seconds) * 1_000;
      if (seconds > definition.limits.shortWaitSeconds || surroundings.now() + waitMs > patientUntil) throw error;
      emit({ event: 'service-asked-to-wait', export: run.export, run: run.run, page, seconds, inside: true });
      await surroundings.sleep(waitMs, signal);
    }
  }
}

function entryOf(
  run: Run,
  identity: PageIdentity,
  stored: StoredPage,
  nextCursor: Cursor | null,
  last: PageEntry | undefined,
  now: number,
): PageEntry {
  const before = last?.totals ?? { reports: 0, bytes: 0 };
  const followed = nextCursor === null ? undefined : followCursor(last?.cycle ?? null, nextCursor);
  const { key, bytes, sha256, reports, serviceTime } = stored;
  return {
    export: run.export,
    run: run.run,
    page: identity.page,
    key,
    bytes,
    sha256,
    reports,
    cursor: identity.cursor,
    nextCursor,
    serviceTime,
    loggedAt: instantOf(now),
    totals: {
      reports: before.reports === null || reports === null ? null : before.reports + reports,
      bytes: before.bytes + bytes,
    },
    cycle: followed?.state ?? null,
    repeats: followed?.repeats ?? false,
  };
}

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
      `Run ${entry.run} has ${entry.page} pages and the service offers more, but at most ${limits.maxPages} are allowed ` +
        '(maxPages). Allow more and start again: the run goes on where it stopped',
    );
  }
  return { next: next.turns >= limits.turnsPerExecution ? 'continue' : 'page', ...next };
}

function waitOrGiveUp(
  { definition: { limits }, emit }: ExportPageNeeds,
  run: Run,
  turn: Turn,
  error: ExportError,
  retryAfterSeconds: number,
): ExportPageOutcome {
  const waitSeconds = Math.max(1, Math.ceil(retryAfterSeconds));
  // Retry-After is a floor, so a wait is never cut short: it is kept, or the run fails and a later start resumes it.
  if (waitSeconds > limits.longestWaitSeconds || turn.waits >= limits.waitsInARow) {
    const why =
      waitSeconds > limits.longestWaitSeconds
        ? `longer than the ${limits.longestWaitSeconds} s allowed`
        : `after ${turn.waits} waits in a row without a page between them`;
    throw new ExportError(
      'RequestRejectedError',
      `Report service asks to wait ${waitSeconds} s before page ${turn.page} of run ${run.run}, ${why}. ` +
        'The run stops here; the next start resumes it',
      { cause: error },
    );
  }
  emit({
    event: 'service-asked-to-wait',
    export: run.export,
    run: run.run,
    page: turn.page,
    seconds: waitSeconds,
    inside: false,
  });
  return { next: 'wait', ...turn, turns: turn.turns + 1, waits: turn.waits + 1, waitSeconds };
}

/**
 * The service dropped the cursor, so this walk cannot be finished. Starts a new walk from the same `since` under a new
 * run id, in the same execution; the pages of the old one stay where they are and are never published.
 */
async function restartRun(
  { definition, log, surroundings, emit }: ExportPageNeeds,
  run: Run,
  turn: Turn,
  execution: string,
  error: ExportError,
): Promise<ExportPageOutcome> {
  if (run.cursorRestarts >= definition.limits.cursorRestarts) throw error;
  const now = surroundings.now();
  const fresh = await changeHead(log, definition.name, (head) => {
    const active = ownedRun(head, execution, definition.name);
    const result: Run = {
      ...active,
      run: runIdOf(now, surroundings.randomHex(6)),
      sequence: head.sequence + 1,
      startedAt: instantOf(now),
      cursorRestarts: active.cursorRestarts + 1,
    };
    return { change: { ...head, sequence: result.sequence, active: result }, result };
  });
  emit({ event: 'run-restarted', export: run.export, run: fresh.run, abandoned: run.run, reason: error.message });
  return { next: 'page', ...turn, run: fresh.run, page: 1, turns: turn.turns + 1, waits: 0 };
}

function mustBelong(found: StoredPage, identity: PageIdentity): void {
  if (found.run !== identity.run || found.page !== identity.page) {
    throw conflict(identity, `it says it is page ${found.page} of run ${found.run}`);
  }
  if (!sameCursor(found.cursor, identity.cursor)) throw conflict(identity, 'it was asked for with another cursor');
}

function sameCursor(held: Continuation, cursor: Cursor | null): boolean {
  if (held === null || typeof held === 'string') return held === cursor;
  return cursor !== null && held.sha256 === createHash('sha256').update(cursor).digest('hex');
}

function conflict({ key, page, run }: PageIdentity, why: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `What is stored at ${key} is not page ${page} of run ${run}: ${why}. Nothing was changed; find out who wrote it`,
  );
}
