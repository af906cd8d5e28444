/**
 * The first of the two writes that commit a page: its body and its continuation, in one atomic step.
 *
 * What already lies under the page's key is the truth, whoever wrote it, as long as it belongs to this run: it is
 * adopted, and not fetched again.
 */

import { createHash } from 'node:crypto';
import { ExportError, isExportError } from '../errors.ts';
import type { Cursor, Invocation, PageTiming, Run, StoredCursor, StoredPage } from '../model.ts';
import type { PageIdentity, StepDependencies } from '../ports.ts';
import { fetchWithRetryAfter } from './retry-after.ts';

type StorePageDependencies = Pick<StepDependencies, 'definition' | 'service' | 'store' | 'runtime' | 'emit'>;

/** A page that lies in the store, whoever put it there, and the cursor that follows it. */
export interface PageInStore {
  readonly stored: StoredPage;
  readonly nextCursor: Cursor | null;
  /** Of the request that brought it; null where a former or another attempt put it there: then it is adopted. */
  readonly timing: PageTiming | null;
}

/**
 * Sees to it that the page lies in the store: as a former attempt left it, or fetched and put there now.
 * @throws PageConflictError where what lies there is not this page; whatever fetching and storing throw
 */
export async function storePage(
  deps: StorePageDependencies,
  run: Run,
  identity: PageIdentity,
  command: Invocation,
  place: InTurn,
): Promise<PageInStore> {
  const left = place.checkExisting ? await findExisting(deps, identity) : undefined;
  if (left !== undefined) return left;
  try {
    return await fetchAndStore(deps, run, identity, command, place);
  } catch (error) {
    const stored = isRefusal(error) ? await findAfterRejection(deps, identity, command, place) : undefined;
    if (stored === undefined) throw error;
    return stored;
  }
}

/**
 * The service may give no page for a cursor that an attempt has used already, and stored what it brought. Looked for in the
 * page's turn, when it would be there. What goes wrong with looking is no news beside the refusal, but for a conflict.
 */
async function findAfterRejection(
  deps: StorePageDependencies,
  identity: PageIdentity,
  { signal }: Invocation,
  { predecessorStored, onAnswer }: InTurn,
): Promise<PageInStore | undefined> {
  // Whatever it has said of the next page.
  onAnswer(null);
  const isItsTurn = await predecessorStored.then(
    () => true,
    () => false,
  );
  if (!isItsTurn || signal?.aborted === true) return undefined;
  return await findExisting(deps, identity).catch((error: unknown) => {
    if (isExportError(error, 'PageConflictError')) throw error;
    return undefined;
  });
}

/** No page, and for all that can be told because of the cursor. Never what the store says of itself: that must be heard. */
const isRefusal = (error: unknown): boolean =>
  isExportError(error) && /^(CursorRejected|RequestRejected|Contract|ServiceUnavailable)Error$/.test(error.name);

/** As a former attempt left it, unless it cannot tell how the walk goes on. */
async function findExisting(
  { store }: StorePageDependencies,
  identity: PageIdentity,
): Promise<PageInStore | undefined> {
  const stored = await store.find(identity.key);
  if (stored === undefined) return undefined;
  assertSamePage(stored, identity);
  const { nextCursor } = stored;
  // The store holds only the hash of a long cursor: asking again tells the cursor, and the hash tells if it is the one.
  return nextCursor === null || typeof nextCursor === 'string' ? { stored, nextCursor, timing: null } : undefined;
}

async function fetchAndStore(
  deps: StorePageDependencies,
  run: Run,
  identity: PageIdentity,
  command: Invocation,
  { predecessorStored, onAnswer }: InTurn,
): Promise<PageInStore> {
  const { page: fetched, timing } = await fetchWithRetryAfter(deps, run, identity, command);
  onAnswer(fetched.nextCursor);
  const { stored, page } = await deps.store.put(identity, { ...fetched, predecessorStored: predecessorStored });
  if (stored) return { stored: page, nextCursor: fetched.nextCursor, timing };
  assertSamePage(page, identity);
  if (page.nextCursor === null || typeof page.nextCursor === 'string') {
    return { stored: page, nextCursor: page.nextCursor, timing: null };
  }
  if (!sameCursor(page.nextCursor, fetched.nextCursor)) throw lostCursor(identity);
  return { stored: page, nextCursor: fetched.nextCursor, timing: null };
}

/** How a page stands among those that one invocation exports. */
export interface InTurn {
  /**
   * Whether a former attempt may well have left it in the store: the first of an execution, or one behind a page that was
   * found there. Of others hardly ever: then it is met when the page is stored, or when the service refuses its cursor.
   */
  readonly checkExisting: boolean;
  /** Resolves when the page before is stored; rejects where this one must not be. */
  readonly predecessorStored: Promise<unknown>;
  /** Told of the cursor that follows, as soon as the page is being answered. It counts only once the page is stored. */
  readonly onAnswer: (nextCursor: Cursor | null) => void;
}

/** What the page went on with is known only by its hash, and the service will not say it again: nobody can go on from here. */
function lostCursor({ page, run }: PageIdentity): ExportError {
  return new ExportError(
    'CursorRejectedError',
    `Page ${page} of run ${run} was stored by an attempt that was cut off, with a cursor too long to be stored beside it, and ` +
      'the service gives another now: the run starts afresh, if it still may',
  );
}

function assertSamePage(found: StoredPage, identity: PageIdentity): void {
  if (found.run !== identity.run || found.page !== identity.page) {
    throw conflict(identity, `it says it is page ${found.page} of run ${found.run}`);
  }
  if (!sameCursor(found.cursor, identity.cursor)) throw conflict(identity, 'it was asked for with another cursor');
}

function sameCursor(held: StoredCursor, cursor: Cursor | null): boolean {
  if (held === null || typeof held === 'string') return held === cursor;
  return cursor !== null && held.sha256 === createHash('sha256').update(cursor).digest('hex');
}

export function conflict({ key, page, run }: PageIdentity, why: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `What is stored at ${key} is not page ${page} of run ${run}: ${why}. Nothing was changed; find out who wrote it`,
  );
}
