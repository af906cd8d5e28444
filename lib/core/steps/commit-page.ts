/**
 * Commits a page with two idempotent writes and no lock (docs/architecture.md, "How a page is committed").
 *
 * The page store comes first: one atomic write makes the body and the next cursor visible together. The page log comes
 * second: the page counts as exported once it is logged. Neither write overwrites. If the page is already stored, the
 * stored copy decides how the run continues, and is adopted, regardless of which attempt wrote it.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import {
  addPage,
  type Cursor,
  type EndEntry,
  type LogEntry,
  type PageEntry,
  type Run,
  type StoredCursor,
  type StoredPage,
  zeroTotals,
} from '../model.ts';
import type { PageIdentity, PageSpool, PageStore, ReceivedPage, StepDependencies } from '../ports.ts';
import { describePage } from '../storage/keys.ts';
import { instantOf } from '../timestamps.ts';
import { countEqualPages, detectCycle, maxEqualPages } from './repeated-cursors.ts';

/** A page that is durable in the page store. Its `timing` is that of its request; null if the page was adopted. */
export type DurablePage = StoredPage & Pick<PageEntry, 'timing' | 'reportsDigest'>;

type End = Pick<EndEntry, 'kind' | 'reason' | 'status'>;

/** A page-log entry that has not been logged yet. */
export type UnloggedEntry = Omit<PageEntry, 'loggedAt'>;

/**
 * The page as an earlier attempt stored it; undefined if there is none.
 * @throws PageConflictError if another page is stored under the key
 */
export async function findDurablePage(store: PageStore, identity: PageIdentity): Promise<DurablePage | undefined> {
  const stored = await store.find(identity.key);
  if (stored === undefined) return undefined;
  assertSamePage(stored, identity);
  return { ...stored, timing: null };
}

/**
 * Stores a page that was received, or adopts the one that another attempt has stored meanwhile.
 * @throws PageConflictError if another page is stored under the key
 */
export async function storePage(
  spool: PageSpool,
  identity: PageIdentity,
  received: ReceivedPage,
): Promise<DurablePage> {
  const { stored, page } = await spool.put(received);
  const { timing, reportsDigest } = received;
  if (stored) return { ...page, timing, ...(reportsDigest !== undefined && { reportsDigest }) };
  assertSamePage(page, identity);
  return { ...page, timing: null };
}

/** The log entry of a durable page. It continues the totals of the slice, and the search for repeated cursors. */
export function toLogEntry(
  { export: exportName }: Pick<Run, 'export'>,
  { cursor }: Pick<PageIdentity, 'cursor'>,
  durable: DurablePage,
  predecessor: PageEntry | undefined,
): UnloggedEntry {
  const { nextCursor, reports } = durable;
  const cycle = nextCursor === null ? undefined : detectCycle(predecessor?.cycle ?? null, nextCursor);
  const equalPages = countEqualPages(durable, predecessor);
  return {
    kind: 'page',
    ...durable,
    export: exportName,
    cursor,
    totals: addPage(predecessor?.totals ?? zeroTotals, durable),
    cycle: cycle?.state ?? null,
    repeats: nextCursor !== null && (cycle?.repeats === true || equalPages >= maxEqualPages),
    emptyPages: reports === 0 ? (predecessor?.emptyPages ?? 0) + 1 : 0,
    equalPages,
  };
}

/** Whether the chain continues after this page. One whose pages repeat does not: they must never be published. */
export const hasNextPage = ({ nextCursor, repeats }: PageEntry): boolean => nextCursor !== null && !repeats;

/**
 * Logs the page: from here on it counts as exported. Logging it again returns the entry that is already there. If
 * another attempt has logged the end of the slice instead, that stays, and the stored page does not count.
 * @throws PageConflictError if the log holds an entry for another page content or another next cursor
 */
export async function logPage(
  { log, runtime }: Pick<StepDependencies, 'log' | 'runtime'>,
  unlogged: UnloggedEntry,
): Promise<LogEntry> {
  const entry = await log.append({ ...unlogged, loggedAt: instantOf(runtime.now()) });
  const isSame =
    entry.kind === 'page'
      ? entry.sha256 === unlogged.sha256 && entry.nextCursor === unlogged.nextCursor
      : entry.cursor === unlogged.cursor;
  if (!isSame) throw conflict(unlogged, 'the page log has another entry for it');
  return entry;
}

interface EndOfSlice extends Pick<EndEntry, 'parent'> {
  readonly identity: PageIdentity;
  readonly end: End;
  /** The service's time, if the slice ends before its first page. */
  readonly serviceTime?: EndEntry['serviceTime'];
}

/**
 * Logs that the slice ends after `predecessor`, in the place of the page that was requested. If another attempt has
 * logged that page meanwhile, it stays.
 * @throws PageConflictError if the log holds an entry that was requested with another cursor
 */
export async function logEnd(
  { log, runtime }: Pick<StepDependencies, 'log' | 'runtime'>,
  { export: exportName }: Pick<Run, 'export'>,
  { identity, end, parent, serviceTime = null }: EndOfSlice,
  predecessor: PageEntry | undefined,
): Promise<LogEntry> {
  const { run, page, slice, attempt, cursor } = identity;
  const entry = await log.append({
    ...end,
    ...(parent !== undefined && { parent }),
    export: exportName,
    run,
    page,
    slice,
    attempt,
    cursor,
    loggedAt: instantOf(runtime.now()),
    totals: predecessor?.totals ?? { reports: 0, bytes: 0 },
    serviceTime: predecessor?.serviceTime ?? serviceTime,
    documentRoot: predecessor?.documentRoot ?? null,
  });
  if (entry.cursor !== cursor) throw conflict(identity, 'the page log has another entry for it');
  return entry;
}

function assertSamePage(found: StoredPage, identity: PageIdentity): void {
  const isOfSlice = found.slice === identity.slice && found.attempt === identity.attempt;
  if (found.run !== identity.run || found.page !== identity.page || !isOfSlice) {
    throw conflict(identity, `its metadata names ${describePage(found)} of run ${found.run}`);
  }
  if (!isSameCursor(found.cursor, identity.cursor)) throw conflict(identity, 'it was requested with another cursor');
}

function isSameCursor(stored: StoredCursor, cursor: Cursor | null): boolean {
  if (stored === null || typeof stored === 'string') return stored === cursor;
  return cursor !== null && stored.sha256 === hash('sha256', cursor);
}

function conflict(
  { key, run, ...ref }: Pick<PageIdentity, 'key' | 'page' | 'slice' | 'run'>,
  reason: string,
): ExportError {
  return new ExportError(
    'PageConflictError',
    `The object at ${key} is not ${describePage(ref)} of run ${run}: ${reason}. Nothing was changed. Identify the program that wrote it`,
  );
}
