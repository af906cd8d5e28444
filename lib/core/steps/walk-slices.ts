/**
 * Walks the chains of a run within one invocation: one for each slice, up to `parallel` at the same time, the oldest first. The page pipeline
 * exports the pages of each (`page-pipeline.ts`).
 *
 * A chain that fails is set aside for this invocation while the others continue. What stops the run stops all of them.
 */

import { type ErrorName, ExportError, isExportError } from '../errors.ts';
import { type Invocation, type PageEntry, refOf, type Run, type RunSlices } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { isLastPage, progressOf, type RunProgress, type SliceProgress } from '../run-progress.ts';
import { type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import { type HeldSlot, holdSlot, NoFreeSlot } from '../slots/held-slot.ts';
import { updateOwnedRun } from './export-state.ts';
import { assertContinues } from './loop-outcome.ts';
import { type LoggedPage, walk, type WalkOptions } from './page-pipeline.ts';
import type { Backoff } from './page-requests.ts';
import { proveBounds } from './upper-bound.ts';

export type ExportPageDependencies = Omit<StepDependencies, 'executions'>;

export interface Failure {
  /** 1 if the run has only one slice. */
  readonly slice: number;
  readonly error: unknown;
}

export interface WalkResult {
  /** How far the run has come. */
  readonly progress: RunProgress;
  /** Why chains were set aside, the oldest first. */
  readonly failures: readonly Failure[];
  /** What is left of a Retry-After that is not waited out here. */
  readonly backoffSeconds: number;
  /** Whether no slot was free for a chain. */
  readonly needsSlot: boolean;
}

/**
 * Walks chains until none is left, or time is up. When it settles, nothing is in flight any more.
 * @throws what stops the run
 */
export async function walkSlices(
  deps: ExportPageDependencies,
  run: Run,
  before: RunProgress,
  options: WalkOptions & Invocation,
): Promise<WalkResult> {
  const state = beginWalk(deps, run, before, options);
  const slots = Array.from(
    { length: parallelOf(run) },
    () => deps.slots && holdSlot(deps.slots, deps.runtime, options.leaseMs),
  );
  // The slot of the proof is still held for the first page: an export that waited for a slot again would have to prove the bounds again.
  const isProved = !needsProof(run, before) || (await proveBoundsOf(state, slots[0]));
  if (isProved) await Promise.all(slots.map((slot) => walkChains(state, slot)));
  if (state.fatal !== undefined) throw state.fatal.error;
  return {
    progress: state.chains.progress(),
    failures: state.failures.sort((one, other) => one.slice - other.slice),
    backoffSeconds: Math.max(0, (state.backoff.until - deps.runtime.monotonicNow()) / 1_000),
    needsSlot: state.needsSlot,
  };
}

/** What the chains of a run share while an invocation walks them. */
interface WalkState {
  readonly deps: ExportPageDependencies;
  readonly options: WalkOptions & Invocation;
  readonly chains: Chains;
  readonly budget: PageBudget;
  readonly backoff: Backoff;
  /** Aborts what is in flight: the run stops, or the invocation is interrupted. */
  readonly signal: AbortSignal;
  readonly hasTime: () => boolean;
  readonly stop: (error: unknown) => undefined;
  fatal: { readonly error: unknown } | undefined;
  readonly failures: Failure[];
  needsSlot: boolean;
}

function beginWalk(
  deps: ExportPageDependencies,
  run: Run,
  before: RunProgress,
  options: WalkOptions & Invocation,
): WalkState {
  const { signal: interruption, hasTime = () => true } = options;
  const stop = new AbortController();
  const chains = trackChains(run, before);
  const budget = createPageBudget(chains, deps.definition.limits.maxPages);
  const state: WalkState = {
    deps,
    options,
    chains,
    budget,
    backoff: { until: 0 },
    signal: interruption === undefined ? stop.signal : AbortSignal.any([stop.signal, interruption]),
    hasTime: () => hasTime() && budget.left() > 0,
    stop(error) {
      state.fatal ??= { error };
      stop.abort(error);
    },
    fatal: undefined,
    failures: [],
    needsSlot: false,
  };
  return state;
}

const parallelOf = ({ slices }: Run): number => slices?.parallel ?? 1;

const needsProof = (run: Run, { totals }: RunProgress): boolean =>
  totals.pages === 0 && (run.slices !== undefined || run.bounded === true);

/** Resolves to whether the chains may begin. */
async function proveBoundsOf(state: WalkState, slot: HeldSlot | undefined): Promise<boolean> {
  const { deps, options, chains, backoff, signal } = state;
  try {
    await proveBounds(deps, chains.run(), options.roots, { ...options, signal, backoff, slot });
    return true;
  } catch (error) {
    await slot?.release();
    recordFailure(state, sliceOf(chains.run(), 1), error);
    return false;
  }
}

/** Walks one chain after the other, as long as there is one, and time. */
async function walkChains(state: WalkState, slot: HeldSlot | undefined): Promise<void> {
  for (let next = state.chains.take(); next !== undefined;) next = await walkChain(state, next, slot);
}

const takeNext = ({ chains, hasTime, signal }: WalkState): SliceProgress | undefined =>
  hasTime() && !signal.aborted ? chains.take() : undefined;

/** Exports pages of the chain. Resolves to what is to be walked next in its place. */
async function walkChain(
  state: WalkState,
  { slice, last }: SliceProgress,
  slot: HeldSlot | undefined,
): Promise<SliceProgress | undefined> {
  const { definition } = state.deps;
  try {
    if (last !== undefined) assertContinues(definition, last);
    const newest = await exportPages(state, { slice, last }, slot);
    if (newest === undefined) return undefined;
    if (isLastPage(newest)) return takeNext(state);
    assertContinues(definition, newest);
    return undefined;
  } catch (error) {
    const restarted = await restartSlice(state, slice, error).catch(state.stop);
    if (restarted !== undefined) return restarted;
    return recordFailure(state, slice, error) === 'queue' ? undefined : takeNext(state);
  } finally {
    await slot?.release();
  }
}

/** Resolves to the newest page; undefined if the chains in progress may log all pages that are left of `maxPages`. */
async function exportPages(
  state: WalkState,
  { slice, last }: SliceProgress,
  slot: HeldSlot | undefined,
): Promise<PageEntry | undefined> {
  const { deps, options, chains, budget, backoff, signal, hasTime } = state;
  const run = chains.run();
  const allotment = budget.allot(deps.definition.limits.pagesPerInvocation, parallelOf(run));
  if (allotment === undefined) return undefined;
  const { maxPages } = allotment;
  const maxInFlight = maxInFlightOf(run, options);
  let newest = last;
  try {
    const limits = { ...options, signal, hasTime, maxInFlight, backoff, slot, maxPages };
    for await (const page of walk(deps, { run, slice }, last, limits)) {
      newest = page.entry;
      allotment.spend();
      chains.logged(slice, newest);
      emitLogged(state, slice, page);
    }
    return newest;
  } finally {
    allotment.end();
  }
}

/** The requests of other chains fill the time for which a page of this one is awaited. */
const maxInFlightOf = (run: Run, { maxInFlight = 2 }: Invocation): number =>
  run.slices === undefined ? maxInFlight : Math.max(2, Math.floor(maxInFlight / run.slices.parallel));

/** A run warns at each multiple of so many consecutive pages without reports. */
const emptyPagesPerWarning = 100;

function emitLogged({ deps, chains }: WalkState, { slice }: Slice, { entry, timing }: LoggedPage): void {
  const { page, bytes, reports, emptyPages } = entry;
  const { totals, counts } = chains.progress();
  const about = { ...refOf(entry), page };
  deps.emit({
    event: timing === null ? 'page-adopted' : 'page-exported',
    ...about,
    slice,
    slices: chains.run().slices && counts,
    bytes,
    reports,
    totalPages: totals.pages,
    totalReports: totals.reports,
    totalBytes: totals.bytes,
    latencyMs: timing?.latencyMs,
  });
  const isWarning = emptyPages > 0 && emptyPages % emptyPagesPerWarning === 0;
  if (isWarning) deps.emit({ event: 'pages-without-reports', ...about, emptyPages });
}

/**
 * What an error of a chain leads to. `stop`: nothing can succeed while a person does not act, or while this execution does not own the run.
 * `restart`: the chain begins again. `setAside`: others continue. `outage`: as `setAside`, but no further chain begins, as its first request
 * would fail, too. `queue`: there is no slot for the next request.
 */
export type Reaction = 'stop' | 'restart' | 'setAside' | 'outage' | 'queue';

export interface ErrorFacts {
  /** Whether the run has several slices. The only one of a run starts over as another run (`export-page.ts`). */
  readonly isSliced: boolean;
  /** Why the invocation was interrupted, if it was. An ExportError says that its time is over; anything else ends the process. */
  readonly interruption: AbortSignal | undefined;
}

const reactions: Partial<Record<ErrorName, Reaction>> = {
  ConfigurationError: 'stop',
  PageConflictError: 'stop',
  RunSupersededError: 'stop',
  ServiceUnavailableError: 'outage',
  ServiceUnreachableError: 'outage',
  ServiceThrottledError: 'outage',
};

export function classify(error: unknown, { isSliced, interruption }: ErrorFacts): Reaction {
  if (error instanceof NoFreeSlot) return 'queue';
  if (isSliced && isExportError(error, 'CursorRejectedError')) return 'restart';
  if (interruption?.aborted === true && !isExportError(interruption.reason)) return 'stop';
  return (isExportError(error) ? reactions[error.name] : undefined) ?? 'setAside';
}

const reactionTo = ({ chains, options }: WalkState, error: unknown): Reaction =>
  classify(error, { isSliced: chains.run().slices !== undefined, interruption: options.signal });

/** Sets the chain aside, or stops all of them. */
function recordFailure(state: WalkState, slice: Slice, error: unknown): Reaction {
  const { chains, failures } = state;
  // Once the run stops, what is in flight fails, too.
  if (state.fatal !== undefined) return 'stop';
  const reaction = reactionTo(state, error);
  if (reaction === 'stop') state.stop(error);
  else if (reaction === 'queue') state.needsSlot = true;
  else {
    if (reaction === 'outage') chains.beginNoMore();
    failures.push({ slice: numberOf(slice), error: asOutage(error, hasFetchedPage(chains.run(), chains.progress())) });
  }
  return reaction;
}

/** Once a run has fetched a page, its settings are right: what seemed to be a wrong address is an outage. */
const asOutage = (error: unknown, hasFetched: boolean): unknown =>
  hasFetched && isExportError(error, 'ServiceUnreachableError')
    ? new ExportError('ServiceUnavailableError', error.message, { cause: error.cause })
    : error;

/** Whether the settings of the run are known to be right. A run or a slice that started over has fetched the pages before. */
const hasFetchedPage = ({ cursorRestarts, slices }: Run, { totals }: RunProgress): boolean =>
  totals.pages > 0 || cursorRestarts > 0 || Object.keys(slices?.attempts ?? {}).length > 0;

/**
 * The slice once it has started over because of `error`, in this invocation or in a concurrent one of the same execution. Undefined: it does
 * not, because of another error, because it has used up `maxCursorRestarts`, or because a concurrent invocation has exported its last page.
 */
async function restartSlice(state: WalkState, slice: Slice, error: unknown): Promise<SliceProgress | undefined> {
  if (!isExportError(error) || reactionTo(state, error) !== 'restart') return undefined;
  const { deps, options, chains } = state;
  const { attempt = 1 } = slice;
  const number = numberOf(slice);
  const ownership = { execution: options.execution, run: slice.run };
  const slices = await updateOwnedRun<RunSlices | undefined>(deps, ownership, async (active, exportState) => {
    if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
    const known = sliceOf(active, number);
    if (known.attempt !== attempt) return { result: active.slices };
    if (isLastPage(await deps.log.last(known))) return { result: undefined };
    const { restarts = {}, attempts } = active.slices;
    const count = (restarts[number] ?? 0) + 1;
    const mayRestart = count <= deps.definition.limits.maxCursorRestarts;
    // Also recorded if it must not: then the next start begins the slice from its beginning.
    const counted = { ...active.slices, restarts: { ...restarts, [number]: count } };
    const change = mayRestart ? { ...counted, attempts: { ...attempts, [number]: attempt + 1 } } : counted;
    return {
      change: { ...exportState, active: { ...active, slices: change } },
      result: mayRestart ? change : undefined,
    };
  });
  if (slices === undefined) return undefined;
  deps.emit({ event: 'slice-restarted', ...refOf(slice), slice: number, attempt: attempt + 1, reason: error.message });
  const restarted = chains.restart(number, slices);
  return chains.logged(restarted, await deps.log.last(restarted));
}

const numberOf = ({ slice = 1 }: Slice): number => slice;

/** The chains of a run: which is walked next, and how far each has come. */
interface Chains {
  /** The run, with the newest attempts of its slices. */
  run(): Run;
  progress(): RunProgress;
  /** The oldest chain that is open and is not walked yet; after these, one that begins. Undefined: there is none. */
  take(): SliceProgress | undefined;
  /** No further chain begins in this invocation. */
  beginNoMore(): void;
  /** `last` is the newest page of the slice. */
  logged(slice: Slice, last: PageEntry | undefined): SliceProgress;
  /** The slice `number` in the attempt that `slices` name. */
  restart(number: number, slices: RunSlices): Slice;
}

function trackChains(begunRun: Run, before: RunProgress): Chains {
  let run = begunRun;
  let { begun } = before;
  let mayBegin = true;
  /** By slice number: those that were not known to be complete before. */
  const walked = new Map(before.slices.map((each) => [numberOf(each.slice), each]));
  const open = before.slices.filter(({ last }) => !isLastPage(last));
  const logged: Chains['logged'] = (slice, last) => {
    const progress = { slice, last };
    walked.set(numberOf(slice), progress);
    return progress;
  };
  return {
    run: () => run,
    progress: () => progressOf(run, begun, [...walked.values()], before.unread),
    take() {
      const next = open.shift();
      if (next !== undefined || !mayBegin || begun === sliceCountOf(run)) return next;
      begun += 1;
      return logged(sliceOf(run, begun), undefined);
    },
    beginNoMore() {
      mayBegin = false;
    },
    logged,
    restart(number, slices) {
      run = { ...run, slices };
      return sliceOf(run, number);
    },
  };
}

/** How many pages chains in progress may still log. Together with the pages so far, these are at most `maxPages`. */
interface PageBudget {
  /** The pages of the run that are left. */
  left(): number;
  /** A part for one of `parallel` chains; undefined if nothing is left. */
  allot(
    most: number,
    parallel: number,
  ): { readonly maxPages: number; readonly spend: () => void; readonly end: () => void } | undefined;
}

function createPageBudget(chains: Chains, maxPages = Number.POSITIVE_INFINITY): PageBudget {
  let allotted = 0;
  const left = () => maxPages - chains.progress().totals.pages;
  return {
    left,
    allot(most, parallel) {
      let open = Math.min(most, Math.ceil((left() - allotted) / parallel));
      if (open <= 0) return undefined;
      allotted += open;
      const give = (pages: number) => {
        open -= pages;
        allotted -= pages;
      };
      return { maxPages: open, spend: () => give(1), end: () => give(open) };
    },
  };
}
