/**
 * Exports one page after the other within one invocation, each committed by itself and in order.
 *
 * While a page is still on its way into the store, the next is asked for already: its cursor is known with the first
 * bytes of the answer. So a page takes as long as the slower of service and store, not as both. Two pages are in hand, or a
 * few. Each shows only when the one before it lies in the store for good, and is logged only when that one is: so whatever
 * is cut off leaves a log without gaps and, behind it, a few pages that follow from it and from one another, to adopt.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Cursor, Invocation, PageEntry, Run } from '../model.ts';
import type { PageIdentity, StepDependencies } from '../ports.ts';
import { pageKey } from '../storage/keys.ts';
import { type InTurn, type PageInStore, storePage } from './commit-page.ts';
import { ownedRun } from './export-state.ts';
import { withSharedBackoff } from './retry-after.ts';

type PipelineDependencies = Pick<StepDependencies, 'definition' | 'service' | 'store' | 'log' | 'runtime' | 'emit'>;

export interface Walk {
  readonly run: Run;
  readonly execution: string;
  /** The page that was logged last. */
  readonly last: PageEntry | undefined;
  /** Whether a former attempt may well have left the page behind it in the store. */
  readonly checkExisting: boolean;
  /** What will be logged of a page that is stored, behind the one before it. */
  readonly draft: (identity: PageIdentity, stored: PageInStore, before: DraftEntry | undefined) => DraftEntry;
  /** Logs the page. */
  readonly commit: (draft: DraftEntry) => Promise<PageEntry>;
  /** Whether a page follows. */
  readonly hasNextPage: (entry: DraftEntry) => boolean;
}

/** An entry of the page log that has yet to be logged. */
export type DraftEntry = Omit<PageEntry, 'loggedAt'>;

/** A page's among those of the invocation. */
interface Place {
  readonly isFirst: boolean;
  readonly checkExisting: InTurn['checkExisting'];
}

/** How far a page is; undefined is what stands before the first. */
interface Progress<Entry, Draft> {
  /** Resolves when it lies in the store, its own or another attempt's. */
  readonly stored: Promise<Draft>;
  /** Resolves when it is logged. */
  readonly committed: Promise<Entry>;
}

type PageBefore = Progress<PageEntry | undefined, DraftEntry | undefined>;

/** A page in hand. */
interface PageInHand extends Progress<PageEntry, DraftEntry> {
  readonly identity: PageIdentity;
  /** Known once the page is being answered. */
  answer?: { readonly nextCursor: Cursor | null };
  /** Lets go of the page; nothing of it is stored. */
  readonly drop: (reason: unknown) => void;
}

/**
 * Resolves to the last entry that was committed here. What goes wrong with a page is thrown when those before it are
 * committed, and as if it alone had been asked for.
 */
export async function exportPages(given: PipelineDependencies, walk: Walk, command: Invocation): Promise<PageEntry> {
  const { pagesPerInvocation, maxPages = Number.POSITIVE_INFINITY } = given.definition.limits;
  const { service, pendingBackoff } = withSharedBackoff(given);
  const deps = { ...given, service };
  const { last } = walk;
  const { maxInFlight = 2 } = command;
  const lastAllowed = Math.min((last?.page ?? 0) + pagesPerInvocation, maxPages);
  /** In their order, behind the current one. */
  const ahead: PageInHand[] = [];
  let isLettingGo = false;
  let current = begin(last, behind(last), { isFirst: true, checkExisting: walk.checkExisting });

  function begin(
    { page, nextCursor }: Pick<PageEntry, 'page' | 'nextCursor'> = { page: 0, nextCursor: null },
    before: PageBefore,
    place: Place,
  ): PageInHand {
    const identity: PageIdentity = {
      key: pageKey(walk.run, page + 1),
      run: walk.run.run,
      page: page + 1,
      cursor: nextCursor,
    };
    const dropping = new AbortController();
    if (command.signal?.aborted) dropping.abort(command.signal.reason);
    const stored = storeInTurn(deps, walk, identity, before, place, { ...command, signal: dropping.signal }, answered);
    const committed = commitBehind(before, stored, walk);
    const inHand: { -readonly [Name in keyof PageInHand]: PageInHand[Name] } = {
      identity,
      stored,
      committed,
      drop: (reason) => dropping.abort(reason),
    };
    // It is waited for when its turn comes, and until then is nobody's error. What it said of the next counts no more.
    committed.catch(() => {
      delete inHand.answer;
    });
    return inHand;

    function answered(behindIt: Cursor | null): void {
      inHand.answer = { nextCursor: behindIt };
      askAhead();
    }
  }

  /** Asks for the page behind the last one in hand, as soon as its cursor is known. */
  function askAhead(): void {
    const newest = ahead.at(-1) ?? current;
    const nextCursor = newest.answer?.nextCursor;
    const { page } = newest.identity;
    if (isLettingGo || 1 + ahead.length >= maxInFlight || nextCursor == null || page >= lastAllowed) return;
    if (command.hasTime?.() === false) return;
    ahead.push(begin({ page, nextCursor }, newest, { isFirst: false, checkExisting: false }));
  }

  async function cancelPrefetched(): Promise<void> {
    // What one of them may still answer leads nowhere.
    isLettingGo = true;
    for (const page of ahead) page.drop(letGoOf);
    await Promise.allSettled(ahead.map(({ committed }) => committed));
    ahead.length = 0;
    isLettingGo = false;
  }

  const interrupt = () => {
    current.drop(command.signal?.reason);
    for (const page of ahead) page.drop(command.signal?.reason);
  };
  command.signal?.addEventListener('abort', interrupt);
  try {
    return await toTheEnd();
  } finally {
    command.signal?.removeEventListener('abort', interrupt);
  }

  async function toTheEnd(): Promise<PageEntry> {
    for (;;) {
      const entry = await current.committed.catch(async (error: unknown) => {
        await cancelPrefetched();
        throw (isRepeated(error, command) ? pendingBackoff(error) : undefined) ?? error;
      });
      // What stands in the store and the log is the truth about where the run goes, whoever answered otherwise.
      if (ahead[0] !== undefined && ahead[0].identity.cursor !== entry.nextCursor) {
        await cancelPrefetched();
        const patience = walk.hasNextPage(entry) ? pendingBackoff() : undefined;
        if (patience !== undefined) throw patience;
      }
      if (entry.page >= lastAllowed || !walk.hasNextPage(entry)) {
        await cancelPrefetched();
        return entry;
      }
      if (ahead.length === 0 && command.hasTime?.() === false) return entry;
      // Behind a page that another attempt has stored there may be more of them.
      current = ahead.shift() ?? begin(entry, behind(entry), { isFirst: false, checkExisting: true });
      askAhead();
    }
  }
}

/** Whether what fails so would soon be tried again. A Retry-After of its own speaks for itself. */
function isRepeated(error: unknown, { signal }: Invocation): boolean {
  if (!isExportError(error)) return signal?.aborted !== true;
  const { name, retryAfterSeconds } = error;
  return retryAfterSeconds === undefined && /^(ServiceUnavailable|ServiceThrottled|Contract)Error$/.test(name);
}

/** Never seen outside: nobody waits for the page any more. */
const letGoOf = new Error('the page is let go of');

/** Stores the page when the one before it is stored, and drafts its entry. */
async function storeInTurn(
  deps: PipelineDependencies,
  walk: Walk,
  identity: PageIdentity,
  before: PageBefore,
  { isFirst, checkExisting }: Place,
  command: Invocation,
  onAnswer: InTurn['onAnswer'],
): Promise<DraftEntry> {
  // Beside the request, so that it costs no time: where the run is no longer its own, what comes is not stored.
  const owned = isFirst ? Promise.resolve() : stillOwned(deps, walk);
  const predecessorStored = Promise.all([before.stored, owned]).then(([entry]) => {
    const ends = entry !== undefined && !walk.hasNextPage(entry);
    if (ends || (entry?.nextCursor ?? null) !== identity.cursor) throw outOfTurn(identity);
    command.signal?.throwIfAborted();
  });
  predecessorStored.catch(() => {});
  const stored = await storePage(deps, walk.run, identity, command, { checkExisting, predecessorStored, onAnswer });
  await predecessorStored;
  return walk.draft(identity, stored, await before.stored);
}

/** Logs the page when it is stored and the one before it is logged. */
async function commitBehind(before: PageBefore, stored: Promise<DraftEntry>, walk: Walk): Promise<PageEntry> {
  // First, so that a page that is let go of has ended when this has.
  const draft = await stored;
  await before.committed;
  return await walk.commit(draft);
}

/** What a page follows that is logged, or nothing. */
function behind(entry: PageEntry | undefined): PageBefore {
  const there = Promise.resolve(entry);
  return { stored: there, committed: there };
}

async function stillOwned({ log, definition }: PipelineDependencies, { run, execution }: Walk): Promise<void> {
  ownedRun(await log.exportState(definition.name), execution, definition.name, run.run);
}

/** Never seen outside: whoever asked for the page has let go of it. */
function outOfTurn({ page, run }: PageIdentity): ExportError {
  return new ExportError(
    'PageConflictError',
    `Page ${page} of run ${run} was asked for with a cursor that does not follow; it is asked for again`,
  );
}
