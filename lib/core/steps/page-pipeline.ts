/**
 * Exports consecutive pages of one slice within one invocation, several in flight, each committed on its own and in order.
 *
 * A page passes four stages: requested → responded → stored → logged. The response headers carry the next cursor, so the next page is
 * requested while the body of this one is still being received: a page takes as long as the slower of service and store, not as
 * long as both. If the body carries the cursor, the next page is requested once the body has been received. A page becomes
 * visible once its predecessor is durable and the run is still owned, and is logged once its predecessor is logged. An
 * interruption leaves a page log without gaps, followed by at most `maxInFlight` stored pages that continue it; the next attempt adopts them (docs/architecture.md, "The page pipeline").
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Cursor, Invocation, PageEntry, PageTiming, Run } from '../model.ts';
import type { PageIdentity, StepDependencies } from '../ports.ts';
import { describePage, pageKey } from '../storage/keys.ts';
import {
  type DurablePage,
  findDurablePage,
  hasNextPage,
  logPage,
  storePage,
  toLogEntry,
  type UnloggedEntry,
} from './commit-page.ts';
import {
  assertRootOfResponse,
  assertRootOfStored,
  type ExpectedRoot,
  rootAfter,
  rootOfOtherSlice,
} from '../document-root.ts';
import { ownedRun } from './export-state.ts';
import type { Slice } from '../slices.ts';
import { addDelays, type PendingDelays } from './loop-outcome.ts';
import { pageFetcher, type PageRequestsDependencies, type RequestLimits } from './page-requests.ts';

type PipelineDependencies = Pick<StepDependencies, 'store' | 'log'> & PageRequestsDependencies;

/** What the slices of a run have in common during an invocation. */
export interface WalkOptions {
  /** The execution that must still own the run whenever a page is stored. */
  readonly execution: string;
  /** Whether an earlier attempt may have stored the first page already: it is looked up before it is requested. */
  readonly checkExisting: boolean;
  /** Those before the next page that is logged. */
  readonly delays: PendingDelays;
  readonly firstRoot: FirstRoot;
}

/** What first pages must have. Undefined until the proof of the bounds or the first page that arrives says it. */
interface FirstRoot {
  current: ExpectedRoot | undefined;
}

type Limits = RequestLimits & Required<Pick<Invocation, 'maxInFlight' | 'hasTime' | 'signal'>>;

interface PagePipeline extends WalkOptions, Limits {
  readonly run: Run;
  /** The slice of the run whose pages are exported. */
  readonly slice: Slice;
  /** The last page of the slice that was logged before. */
  readonly lastLogged: PageEntry | undefined;
  /** How many pages to export at most. */
  readonly maxPages: number;
  /** Called for each page once it is logged. `timing` is null if this attempt adopted it. */
  readonly onLogged: (entry: PageEntry, timing: PageTiming | null) => void;
}

/** A page on its way from the service into the page log. */
interface PageTask extends Predecessor {
  readonly identity: PageIdentity;
  /** The cursor of the next page: undefined until headers or body have brought it, and again once the task has failed. */
  nextCursor: Cursor | null | undefined;
  readonly cancellation: AbortController;
  readonly stored: Promise<UnloggedEntry>;
  readonly logged: Promise<PageEntry>;
  /** Resolves once nothing of the task is in progress, whether or not it has failed. */
  readonly settled: Promise<unknown>;
}

/** What a task waits for: the page before it, in flight or committed. Undefined before the first page of a run. */
interface Predecessor {
  /** Resolves once the page is durable. */
  readonly stored: Promise<UnloggedEntry | undefined>;
  /** Resolves once the page is logged. */
  readonly logged: Promise<PageEntry | undefined>;
}

function committed(entry: PageEntry | undefined): Predecessor {
  const logged = Promise.resolve(entry);
  return { stored: logged, logged };
}

/**
 * Exports pages until the slice ends, `maxPages` or `maxEmptyPages` is reached, time is up, or an error occurs. Returns the last
 * page. When it settles, nothing is in flight any more.
 * @throws what prevented a page; those before it are logged
 */
export async function exportPages(deps: PipelineDependencies, pipeline: PagePipeline): Promise<PageEntry> {
  const { run, slice, execution, lastLogged, hasTime, signal: interruption } = pipeline;
  const fetchPage = pageFetcher(deps, run, slice, pipeline);
  const lastPage = (lastLogged?.page ?? 0) + pipeline.maxPages;
  /** Oldest first. */
  const inFlight: PageTask[] = [];

  const interrupt = () => cancelAll(inFlight, interruption.reason);
  interruption.addEventListener('abort', interrupt);
  try {
    inFlight.push(startTask(lastLogged, committed(lastLogged), pipeline.checkExisting));
    for (;;) {
      const [task] = inFlight as [PageTask];
      const entry = await task.logged;
      inFlight.shift();
      // A stored and logged page decides how the run continues, even if this attempt received another cursor.
      if (inFlight[0]?.identity.cursor !== entry.nextCursor) await drain();
      const isAtLimit = entry.page >= lastPage || entry.emptyPages >= deps.definition.limits.maxEmptyPages;
      if (isAtLimit || !hasNextPage(entry)) return entry;
      if (inFlight.length === 0) {
        if (!hasTime()) return entry;
        // The page just logged was adopted, so the attempt that stored it may have stored the next one, too.
        inFlight.push(startTask(entry, committed(entry), true));
      }
      prefetch();
    }
  } finally {
    await drain();
    interruption.removeEventListener('abort', interrupt);
  }

  /** Requests the page after the newest in flight, if its cursor is known and there is capacity and time. */
  function prefetch(): void {
    const newest = inFlight.at(-1);
    if (newest?.nextCursor == null || newest.cancellation.signal.aborted) return;
    const { page } = newest.identity;
    if (inFlight.length >= pipeline.maxInFlight || page >= lastPage || !hasTime()) return;
    inFlight.push(startTask({ page, nextCursor: newest.nextCursor }, newest, false));
  }

  /** Cancels what is in flight and waits until nothing is. */
  async function drain(): Promise<void> {
    const tasks = inFlight.slice();
    cancelAll(tasks, new Error('The page is no longer needed'));
    await Promise.all(tasks.map(({ settled }) => settled));
    inFlight.length = 0;
  }

  /** Starts the page after `previous`: requests it at once, and lets its later stages wait for their predecessor. */
  function startTask(
    previous: Pick<PageEntry, 'page' | 'nextCursor'> | undefined,
    predecessor: Predecessor,
    checkExisting: boolean,
  ): PageTask {
    const page = (previous?.page ?? 0) + 1;
    const cursor = previous?.nextCursor ?? null;
    const ref = { page, slice: slice.slice, attempt: slice.attempt };
    const key = pageKey(run, ref);
    const identity: PageIdentity = { key, run: run.run, ...ref, cursor, compression: run.compression };
    const label = `${describePage(ref)} of run ${run.run}`;
    const cancellation = new AbortController();
    const { signal } = cancellation;
    if (interruption.aborted) cancellation.abort(interruption.reason);

    // Read while the request is under way. The first page was checked before the pipeline started.
    const owned = previous === lastLogged ? undefined : assertStillOwned();
    const mayStore = Promise.all([predecessor.stored, owned]).then(([entry]) => {
      const continues = entry === undefined || hasNextPage(entry);
      if (!continues || (entry?.nextCursor ?? null) !== identity.cursor) {
        // Never reaches a caller: the pipeline cancels the page and requests its replacement.
        const problem = 'was requested with a cursor that does not continue the page before it';
        throw new ExportError('PageConflictError', `Page ${page} of run ${run.run} ${problem}`);
      }
      signal.throwIfAborted();
      return entry;
    });
    const expectedAfter = (entry: UnloggedEntry | undefined) =>
      entry === undefined ? pipeline.firstRoot.current : rootAfter(entry);
    let waitedSeconds = 0;
    const task = { identity, cancellation, nextCursor: undefined as Cursor | null | undefined };
    const stored = toStored();
    const logged = toLogged();
    logged.catch(() => {
      task.nextCursor = undefined;
    });
    // Also handles the rejections of stages that nothing else awaits.
    const settled = Promise.allSettled([mayStore, stored, logged]);
    return Object.assign(task, { stored, logged, settled });

    async function toStored(): Promise<UnloggedEntry> {
      const existing = checkExisting ? await findDurablePage(deps.store, identity) : undefined;
      const durable = existing ?? (await fetchAndStore());
      const before = await mayStore;
      // The page may be an earlier attempt's.
      assertRootOfStored(durable, expectedAfter(before));
      if (before === undefined) noteFirstRoot(durable);
      return toLogEntry(run, identity, durable, await predecessor.stored);
    }

    async function fetchAndStore(): Promise<DurablePage> {
      try {
        await using spool = deps.store.spool(identity);
        const received = await fetchPage(
          { page, cursor, label },
          {
            sink: spool.fill,
            signal,
            onWaited(seconds) {
              waitedSeconds += seconds;
            },
            onNextCursor(nextCursor) {
              task.nextCursor = nextCursor;
              prefetch();
            },
          },
        );
        const before = await mayStore;
        assertRootOfResponse(label, received, expectedAfter(before));
        if (before === undefined) noteFirstRoot(received);
        return await storePage(spool, identity, received);
      } catch (error) {
        task.nextCursor = undefined;
        const existing = isRefusal(error) ? await findAfterRefusal() : undefined;
        if (existing === undefined) throw error;
        return existing;
      }
    }

    /** Before anything is stored: the first pages of two slices must not have different roots. */
    function noteFirstRoot(first: Pick<PageEntry, 'documentRoot'>): void {
      pipeline.firstRoot.current ??= rootOfOtherSlice(first);
    }

    /**
     * A service may refuse a cursor that an earlier attempt has used already, and whose page that attempt has stored. An
     * error of the look-up must not hide the refusal, except for a conflict.
     */
    async function findAfterRefusal(): Promise<DurablePage | undefined> {
      const isContinued = await mayStore.then(
        () => true,
        () => false,
      );
      if (!isContinued || signal.aborted) return undefined;
      return await findDurablePage(deps.store, identity).catch((error: unknown) => {
        if (isExportError(error, 'PageConflictError')) throw error;
        return undefined;
      });
    }

    async function toLogged(): Promise<PageEntry> {
      // Awaited first: once `logged` has settled, nothing of this page is in flight.
      const entry = await stored;
      await predecessor.logged;
      const delays = addDelays({ waitedSeconds }, pipeline.delays.current);
      pipeline.delays.current = undefined;
      const logged = await logPage(deps, { ...entry, ...delays });
      pipeline.onLogged(logged, entry.timing);
      return logged;
    }
  }

  async function assertStillOwned(): Promise<void> {
    const state = await deps.log.exportState(deps.definition.stateName);
    ownedRun(state, execution, deps.definition.name, run.run);
  }
}

function cancelAll(tasks: readonly PageTask[], reason: unknown): void {
  for (const { cancellation } of tasks) cancellation.abort(reason);
}

/** Whether the service gave no page, possibly because of its cursor. Not an error of the page store: that must be seen. */
const isRefusal = (error: unknown): boolean =>
  isExportError(error) &&
  /^(CursorRejected|RequestRejected|Contract|ServiceUnavailable|ServiceUnreachable)Error$/.test(error.name);
