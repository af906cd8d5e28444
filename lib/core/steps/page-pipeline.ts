/**
 * Walks a chain within one invocation: requests its pages ahead of time, and commits them one after the other.
 *
 * The next page is requested as soon as its cursor is known: from the response headers, while the body of the page
 * before it is still being received, or from that body. A page is stored only once its predecessor is logged, and only
 * if the run was still owned after its request began. An interruption leaves a page log without gaps, and at most one
 * page that is stored and not logged; the next attempt adopts it (docs/architecture.md, "The page pipeline").
 */

import type { RootCheck } from '../document-root.ts';
import { type ErrorName, isExportError } from '../errors.ts';
import type { Cursor, Invocation, LogEntry, PageEntry, PageTiming } from '../model.ts';
import type { PageIdentity, PageSpool, ReceivedEnd, StepDependencies } from '../ports.ts';
import { shownNumber } from '../slices.ts';
import { describePage, pageKey } from '../storage/keys.ts';
import {
  type DurablePage,
  findDurablePage,
  hasNextPage,
  logEnd,
  logPage,
  storePage,
  toLogEntry,
} from './commit-page.ts';
import { ownedRun } from './export-state.ts';
import { addDelays, type PendingDelays } from './loop-outcome.ts';
import {
  type Chain,
  pageFetcher,
  type PageRequestsDependencies,
  type PageResponse,
  type RequestLimits,
} from '../slots/page-requests.ts';
import { assertProved, withIds } from './passes.ts';

type PipelineDependencies = Pick<StepDependencies, 'store' | 'log' | 'pageReader'> & PageRequestsDependencies;

/** The options that all chains of a run share during an invocation. */
export interface WalkOptions {
  /** The execution that must own the run whenever a page is requested or adopted. */
  readonly execution: string;
  /** Whether an earlier attempt may have stored the first page already: it is looked up before it is requested. */
  readonly checkExisting: boolean;
  /** The delays before the next page that is logged. */
  readonly delays: PendingDelays;
  readonly roots: RootCheck;
}

export interface WalkLimits extends WalkOptions, RequestLimits, Required<Pick<Invocation, 'hasTime' | 'signal'>> {
  /** Whether the step has just checked that the execution owns the run: the first page is not checked again. */
  readonly isOwned: boolean;
  /** How many pages to export at most. */
  readonly maxPages: number;
  /** How many pages may be in flight at once. */
  readonly maxInFlight: () => number;
  /** Called when no request of the chain is left. */
  readonly onLastRequest: () => void;
}

export interface Logged {
  readonly entry: LogEntry;
  /** Null if this attempt adopted the page, and for the end of a chain. */
  readonly timing: PageTiming | null;
}

/**
 * Yields each entry after `from` once it is logged, until the chain ends, `maxPages` or `maxEmptyPages` is reached,
 * time is up, or an error occurs. When it has ended, nothing is in flight any more.
 * @throws the error that prevented a page; the pages before it are logged
 */
export async function* walk(
  deps: PipelineDependencies,
  chain: Chain,
  from: PageEntry | undefined,
  limits: WalkLimits,
): AsyncGenerator<Logged> {
  const requests = requestAhead(deps, chain, from, limits);
  const lastPage = lastPageOf(from, limits);
  const parentField = chain.parent === undefined ? {} : { parent: chain.parent.id };
  try {
    let previous = from;
    let mayBeStored = limits.checkExisting;
    for (;;) {
      const logged = await commit(previous, mayBeStored);
      yield logged;
      const { entry } = logged;
      if (entry.kind === 'end') return;
      // A stored and logged page decides how the chain continues, even if this attempt received another cursor.
      if (requests.cursorInFlight() !== entry.nextCursor) await requests.cancel();
      const isAtLimit = entry.page >= lastPage || entry.emptyPages >= deps.definition.limits.maxEmptyPages;
      if (isAtLimit || !hasNextPage(entry)) return;
      const isInFlight = requests.cursorInFlight() !== undefined;
      if (!isInFlight && !limits.hasTime()) return;
      // Nothing is in flight if this page was found in the store, or if the requests ahead were cancelled. In both
      // cases, another process may have stored the next page, too.
      mayBeStored = !isInFlight;
      previous = entry;
    }
  } finally {
    await requests.cancel();
  }

  /** Stores the page after `previous`, or adopts it, and logs it. If there is none, logs the end of the chain. */
  async function commit(previous: PageEntry | undefined, mayBeStored: boolean): Promise<Logged> {
    limits.signal.throwIfAborted();
    const identity = identityAfter(chain, previous);
    const existing = mayBeStored ? await findDurablePage(deps.store, identity) : undefined;
    // The step has just checked ownership for the first page. For a requested page, `request` checks it meanwhile.
    const isOwned = limits.isOwned && previous === from;
    if (existing !== undefined && !isOwned) await assertOwned(deps, chain, limits);
    const outcome =
      existing === undefined ? await requestAndStore(identity, previous) : { durable: existing, waitedSeconds: 0 };
    if ('end' in outcome) return await commitEnd(identity, outcome.end, previous);
    const { durable, waitedSeconds } = outcome;
    // An adopted page is checked, too: the attempt that stored it may have expected another root.
    limits.roots.assertStored(durable, previous);
    const unlogged = await withIds(deps, chain, toLogEntry(chain.run, identity, durable, previous), previous);
    // If the pass is not proved, this throws: the chain starts over, and its last page is not logged.
    if (unlogged.nextCursor === null) await assertProved(deps, chain, unlogged);
    // The first entry that is logged takes the delays before this invocation's pages.
    const delays = addDelays({ waitedSeconds }, limits.delays.current);
    limits.delays.current = undefined;
    const entry = await logPage(deps, { ...unlogged, ...delays, ...parentField });
    return { entry, timing: entry.kind === 'page' ? durable.timing : null };
  }

  async function commitEnd(identity: PageIdentity, end: ReceivedEnd, previous: PageEntry | undefined): Promise<Logged> {
    if (end.reason === 'last' && previous !== undefined) await assertProved(deps, chain);
    const entry = await logEnd(deps, chain.run, { identity, end, ...parentField }, previous);
    if (entry.kind === 'page') limits.roots.assertStored(entry, previous);
    return { entry, timing: null };
  }

  async function requestAndStore(identity: PageIdentity, previous: PageEntry | undefined): Promise<RequestOutcome> {
    const page = requests.oldest() ?? requests.request(identity);
    await page.owned;
    const outcome = await storeResponse(deps, page, previous, limits);
    await requests.removeOldest();
    return outcome;
  }
}

/** A page that is durable, or the end of the chain. */
type RequestOutcome = { readonly durable: DurablePage; readonly waitedSeconds: number } | { readonly end: ReceivedEnd };

/** Stores the page once its response is complete, or adopts it from the attempt that stored it before. */
async function storeResponse(
  deps: Pick<PipelineDependencies, 'store'>,
  { identity, label, response, spool }: PageInFlight,
  previous: PageEntry | undefined,
  { roots, signal }: WalkLimits,
): Promise<RequestOutcome> {
  try {
    const { received, waitedSeconds } = await response;
    signal.throwIfAborted();
    if (received.kind === 'end') {
      // An earlier attempt may have stored the page: some services answer a cursor with its page only once.
      const existing = await findDurablePage(deps.store, identity);
      return existing === undefined ? { end: received } : { durable: existing, waitedSeconds };
    }
    roots.assertResponse(label, received, previous);
    return { durable: await storePage(spool, identity, received), waitedSeconds };
  } catch (error) {
    if (!isRefusal(error) || signal.aborted) throw error;
    // A service may refuse a cursor whose page an earlier attempt has stored. An error of the look-up must not hide
    // the refusal.
    const existing = await findDurablePage(deps.store, identity).catch((lookUpError: unknown) => {
      throw isExportError(lookUpError, 'PageConflictError') ? lookUpError : error;
    });
    if (existing === undefined) throw error;
    return { durable: existing, waitedSeconds: 0 };
  }
}

/** A page that is being requested, or whose response has arrived. */
interface PageInFlight {
  readonly identity: PageIdentity;
  readonly label: string;
  readonly spool: PageSpool;
  readonly response: Promise<PageResponse>;
  /** Resolves if the run is still owned. */
  readonly owned: Promise<void>;
  /** Undefined until the headers or the body have been read, and after the request has failed. */
  nextCursor: Cursor | null | undefined;
}

/** Requests pages of a chain, up to `maxInFlight` at the same time. */
function requestAhead(deps: PipelineDependencies, chain: Chain, from: PageEntry | undefined, limits: WalkLimits) {
  const { hasTime, signal: interruption, maxInFlight, onLastRequest } = limits;
  const fetchPage = pageFetcher(deps, chain, limits);
  const lastPage = lastPageOf(from, limits);
  /** The oldest first. */
  const inFlight: PageInFlight[] = [];
  let cancellation = new AbortController();

  function request(identity: PageIdentity): PageInFlight {
    const { page, cursor } = identity;
    const slice = shownNumber(chain.run, chain.slice);
    const label = `${describePage({ page, slice, parent: chain.parent?.id })} of run ${identity.run}`;
    const spool = deps.store.spool(identity);
    const response = fetchPage(
      { page, cursor, label },
      {
        sink: spool.fill,
        signal: AbortSignal.any([cancellation.signal, interruption]),
        onNextCursor(nextCursor) {
          requested.nextCursor = nextCursor;
          if (nextCursor === null) onLastRequest();
          else prefetch();
        },
      },
    );
    // The check takes time, so the request does not wait for it: `commit` does.
    const isOwned = limits.isOwned && page === firstPageOf(from);
    const owned = isOwned ? Promise.resolve() : assertOwned(deps, chain, limits);
    const requested: PageInFlight = { identity, label, spool, response, owned, nextCursor: undefined };
    // `response` and `owned` are awaited later, but may reject before that.
    response.then(
      ({ received }) => {
        if (received.kind === 'end') onLastRequest();
      },
      () => {
        requested.nextCursor = undefined;
      },
    );
    owned.catch(() => {});
    inFlight.push(requested);
    return requested;
  }

  /** Requests the page after the newest one, if its cursor is known and there is capacity and time. */
  function prefetch(): void {
    const newest = inFlight.at(-1);
    if (newest?.nextCursor == null || cancellation.signal.aborted || interruption.aborted) return;
    const { page } = newest.identity;
    if (inFlight.length >= maxInFlight() || page >= lastPage || !hasTime()) return;
    request(identityAfter(chain, { page, nextCursor: newest.nextCursor }));
  }

  return {
    request,
    /** The page in flight to commit next. */
    oldest: (): PageInFlight | undefined => inFlight[0],
    /** The cursor of the oldest page; undefined if none is in flight. */
    cursorInFlight: (): Cursor | null | undefined => inFlight[0]?.identity.cursor,
    /** Removes the oldest page, which is durable or does not exist. Then another one may be requested. */
    async removeOldest(): Promise<void> {
      const oldest = inFlight.shift();
      prefetch();
      await oldest?.spool[Symbol.asyncDispose]();
    },
    /** Cancels what is in flight, and waits until nothing is. */
    async cancel(): Promise<void> {
      if (inFlight.length === 0) return;
      cancellation.abort(new Error('The page is no longer needed'));
      for (const { response, owned, spool } of inFlight.splice(0)) {
        await Promise.allSettled([response, owned]);
        await spool[Symbol.asyncDispose]();
      }
      cancellation = new AbortController();
    },
  };
}

const firstPageOf = (from: PageEntry | undefined): number => (from?.page ?? 0) + 1;
const lastPageOf = (from: PageEntry | undefined, { maxPages }: WalkLimits): number => (from?.page ?? 0) + maxPages;

export function identityAfter(
  { run, slice: { slice, attempt } }: Chain,
  previous: Pick<PageEntry, 'page' | 'nextCursor'> | undefined,
): PageIdentity {
  const ref = { page: (previous?.page ?? 0) + 1, slice, attempt };
  const cursor = previous?.nextCursor ?? null;
  return { key: pageKey(run, ref), run: run.run, ...ref, cursor, compression: run.compression };
}

async function assertOwned(
  { log, definition }: PipelineDependencies,
  { run }: Chain,
  { execution }: WalkLimits,
): Promise<void> {
  ownedRun(await log.exportState(definition.stateName), execution, definition.name, run.run);
}

const refusals: ReadonlySet<string> = new Set<ErrorName>([
  'CursorRejectedError',
  'RequestRejectedError',
  'ContractError',
  'ServiceUnavailableError',
  'ServiceUnreachableError',
]);

/** Whether the service sent no page, possibly because the cursor was used before. Not an error of the page store. */
const isRefusal = (error: unknown): boolean => isExportError(error) && refusals.has(error.name);
