/**
 * Exports one page after the other within one invocation, each committed by itself and in order.
 *
 * While a page is still on its way into the store, the next is asked for already: its cursor is known with the first
 * bytes of the answer. So a page takes as long as the slower of service and store, not as both. Two pages are in hand, or a
 * few, and none shows anywhere before the one before it is logged; so whatever is cut off leaves what a walk page by page
 * could have left.
 */

import { ExportError, isExportError } from './errors.ts';
import { ownedRun } from './head.ts';
import { pageKey } from './layout.ts';
import type { Cursor, PageEntry, Run } from './model.ts';
import { keepingPatience } from './patience.ts';
import type { PageIdentity, StepNeeds } from './ports.ts';
import { type CommittedPage, type InTurn, storePage } from './store-page.ts';
import type { Invocation } from './turn.ts';

type WalkNeeds = Pick<StepNeeds, 'definition' | 'service' | 'store' | 'log' | 'surroundings' | 'emit'>;

export interface Walk {
  readonly run: Run;
  readonly execution: string;
  /** The page that was logged last. */
  readonly last: PageEntry | undefined;
  /** Logs the page that is stored. */
  readonly commit: (identity: PageIdentity, stored: CommittedPage, before: PageEntry | undefined) => Promise<PageEntry>;
  /** Whether a page follows. */
  readonly goesOn: (entry: PageEntry) => boolean;
}

/** A page's among those of the invocation. */
interface Place {
  readonly isFirst: boolean;
  readonly mayBeThere: InTurn['mayBeThere'];
}

/** A page in hand. */
interface PageInHand {
  readonly identity: PageIdentity;
  /** Known once the page is being answered. */
  answer?: { readonly nextCursor: Cursor | null };
  readonly committed: Promise<PageEntry>;
  /** Lets go of the page; nothing of it is stored. */
  readonly drop: (reason: unknown) => void;
}

/**
 * Resolves to the last entry that was committed here. What goes wrong with a page is thrown when those before it are
 * committed, and as if it alone had been asked for.
 */
export async function walkOn(given: WalkNeeds, walk: Walk, command: Invocation): Promise<PageEntry> {
  const { pagesPerInvocation, maxPages = Number.POSITIVE_INFINITY } = given.definition.limits;
  const { service, heldBack } = keepingPatience(given);
  const needs = { ...given, service };
  const { last } = walk;
  const { pagesInHand = 2 } = command;
  const lastAllowed = Math.min((last?.page ?? 0) + pagesPerInvocation, maxPages);
  /** In their order, behind the current one. */
  const ahead: PageInHand[] = [];
  let isLettingGo = false;
  let current = begin(last, Promise.resolve(last), { isFirst: true, mayBeThere: true });

  function begin(
    { page, nextCursor }: Pick<PageEntry, 'page' | 'nextCursor'> = { page: 0, nextCursor: null },
    before: Promise<PageEntry | undefined>,
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
    const inHand: { -readonly [Name in keyof PageInHand]: PageInHand[Name] } = {
      identity,
      drop: (reason) => dropping.abort(reason),
      committed: exportOne(
        needs,
        walk,
        identity,
        before,
        place,
        { ...command, signal: dropping.signal },
        (answered) => {
          inHand.answer = { nextCursor: answered };
          askAhead();
        },
      ),
    };
    // It is waited for when its turn comes, and until then is nobody's error. What it said of the next counts no more.
    inHand.committed.catch(() => {
      delete inHand.answer;
    });
    return inHand;
  }

  /** Asks for the page behind the last one in hand, as soon as its cursor is known. */
  function askAhead(): void {
    const newest = ahead.at(-1) ?? current;
    const nextCursor = newest.answer?.nextCursor;
    const { page } = newest.identity;
    if (isLettingGo || 1 + ahead.length >= pagesInHand || nextCursor == null || page >= lastAllowed) return;
    if (command.hasTime?.() === false) return;
    ahead.push(begin({ page, nextCursor }, newest.committed, { isFirst: false, mayBeThere: false }));
  }

  async function letGoAhead(): Promise<void> {
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
        await letGoAhead();
        throw (isRepeated(error, command) ? heldBack(error) : undefined) ?? error;
      });
      // What stands in the store and the log is the truth about where the run goes, whoever answered otherwise.
      if (ahead[0] !== undefined && ahead[0].identity.cursor !== entry.nextCursor) {
        await letGoAhead();
        const patience = walk.goesOn(entry) ? heldBack() : undefined;
        if (patience !== undefined) throw patience;
      }
      if (entry.page >= lastAllowed || !walk.goesOn(entry)) {
        await letGoAhead();
        return entry;
      }
      if (ahead.length === 0 && command.hasTime?.() === false) return entry;
      // Behind a page that another attempt has stored there may be more of them.
      current = ahead.shift() ?? begin(entry, Promise.resolve(entry), { isFirst: false, mayBeThere: true });
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

async function exportOne(
  needs: WalkNeeds,
  walk: Walk,
  identity: PageIdentity,
  before: Promise<PageEntry | undefined>,
  { isFirst, mayBeThere }: Place,
  command: Invocation,
  onAnswer: InTurn['onAnswer'],
): Promise<PageEntry> {
  // Beside the request, so that it costs no time: where the run is no longer its own, what comes is not stored.
  const owned = isFirst ? Promise.resolve() : stillOwned(needs, walk);
  const turnComes = Promise.all([before, owned]).then(([entry]) => {
    const ends = entry !== undefined && !walk.goesOn(entry);
    if (ends || (entry?.nextCursor ?? null) !== identity.cursor) throw outOfTurn(identity);
    command.signal?.throwIfAborted();
  });
  turnComes.catch(() => {});
  const stored = await storePage(needs, walk.run, identity, command, { mayBeThere, turnComes, onAnswer });
  await turnComes;
  return await walk.commit(identity, stored, await before);
}

async function stillOwned({ log, definition }: WalkNeeds, { run, execution }: Walk): Promise<void> {
  ownedRun(await log.head(definition.name), execution, definition.name, run.run);
}

/** Never seen outside: whoever asked for the page has let go of it. */
function outOfTurn({ page, run }: PageIdentity): ExportError {
  return new ExportError(
    'PageConflictError',
    `Page ${page} of run ${run} was asked for with a cursor that does not follow; it is asked for again`,
  );
}
