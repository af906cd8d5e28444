/**
 * Walks the chains of a run within one invocation: one for each slice, up to `parallel` at the same time, the oldest
 * first. The page pipeline exports the pages of each (`page-pipeline.ts`).
 *
 * A chain that fails is set aside for this invocation while the others continue. Some errors stop the run, and so all
 * of its chains.
 */

import { type ErrorName, ExportError, isExportError } from '../errors.ts';
import {
  type EndEntry,
  type ExportState,
  type Invocation,
  type LogEntry,
  type PageEntry,
  type PageTiming,
  type Pass,
  type ProgressRecord,
  refOf,
  type Run,
  type RunSlices,
  type SetAsideSlice,
} from '../model.ts';
import type { StepDependencies, Versioned } from '../ports.ts';
import {
  endsChain,
  generationOf,
  isOpen,
  type OpenSlice,
  recordOf,
  type RunProgress,
  type SliceProgress,
  WalkedSlices,
} from '../run-progress.ts';
import { shorten } from '../sanitize.ts';
import { maxSlices, numberOf, type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import { type HeldSlot, holdSlot, NotYet } from '../slots/held-slot.ts';
import { stateNameOfRun } from '../bounded-runs.ts';
import { logEnd } from './commit-page.ts';
import { updateOwnedRun } from './export-state.ts';
import { allGoneError } from '../parents/gone-parents.ts';
import { assertContinues } from './loop-outcome.ts';
import type { Parent } from '../parents/plan.ts';
import { isSkipped, type ParentOf, parentsOfRun } from '../parents/run-parents.ts';
import { afterRefusal, chainJob, Parked } from './jobs/chain-job.ts';
import { identityAfter, type Logged, walk, type WalkLimits, type WalkOptions } from './page-pipeline.ts';
import type { Backoff, Chain } from './page-requests.ts';
import { AnotherPass } from './passes.ts';
import { needsProofOfBounds, proveBounds } from './upper-bound.ts';

export type ExportPageDependencies = Omit<StepDependencies, 'executions'>;

export interface WalkResult {
  /** How far the run has come. */
  readonly progress: RunProgress;
  /** Why chains were set aside in this invocation, the oldest first. The only chain of a run is slice 1. */
  readonly failures: readonly { readonly slice: number; readonly error: unknown }[];
  /** Records the progress of a run with several slices. */
  readonly record: () => Promise<void>;
  /** The rest of a Retry-After that is not waited out here. */
  readonly backoffSeconds: number;
  /** Set if a chain has to wait for its turn, longer than this invocation can. */
  readonly turn: NotYet | undefined;
  /** When the first chain that waits for its job can go on, in milliseconds since the epoch. Undefined: none waits. */
  readonly parkedUntil: number | undefined;
}

/**
 * Walks chains until none is left, or time is up. When it settles, nothing is in flight any more.
 * @throws the error that stops the run
 */
export async function walkSlices(
  deps: ExportPageDependencies,
  run: Run,
  before: RunProgress,
  options: WalkOptions & Invocation,
): Promise<WalkResult> {
  const sliceWalk = new SliceWalk(deps, run, before, options);
  // Each walker has a slot, if the settings limit the pages that are requested at the same time.
  const slots = Array.from(
    { length: parallelOf(run) },
    () => deps.slots && holdSlot(deps.slots, deps.runtime, options.leaseMs),
  );
  await sliceWalk.takeUpSkipped();
  // The proof would create jobs.
  const isUnproved = before.totals.pages === 0 && deps.definition.job === undefined;
  const needsProof = isUnproved && needsProofOfBounds(run);
  // The first walker keeps the slot of the proof: after a wait for another slot, the bounds would be proved again.
  const isProved = !needsProof || (await sliceWalk.proveBounds(slots[0]));
  if (isProved) await Promise.all(slots.map(async (slot) => await sliceWalk.walkChains(slot)));
  return sliceWalk.result();
}

/**
 * How an error of a chain is handled.
 * - `stop`: all chains end, as a person has to act, the execution does not own the run, or the process ends.
 * - `restart`: the chain begins again.
 * - `setAside`: the others continue.
 * - `outage`: as `setAside`. After several in a row, no further chain begins, as its first request would fail, too.
 * - `queue`: the chain ends for now, as its next request has to wait for its turn.
 * - `park`: the chain ends for now, as it has to wait for its job.
 */
export type Reaction = 'stop' | 'restart' | 'setAside' | 'outage' | 'queue' | 'park';

export interface ErrorFacts {
  /** Whether the run has several slices. The only slice of a run starts over as another run (`export-page.ts`). */
  readonly isSliced: boolean;
  /** Aborted with an ExportError if the time of the invocation is over, with another reason if the process ends. */
  readonly interruption: AbortSignal | undefined;
  /** Whether the run has fetched a page, so that its settings and credentials are right. */
  readonly hasFetched: boolean;
}

/** Any other error sets the chain aside. */
const reactions: Partial<Record<ErrorName, Reaction>> = {
  ConfigurationError: 'stop',
  PageConflictError: 'stop',
  RunSupersededError: 'stop',
  ServiceUnavailableError: 'outage',
  ServiceUnreachableError: 'outage',
  ServiceThrottledError: 'outage',
};

export function classify(error: unknown, { isSliced, interruption, hasFetched }: ErrorFacts): Reaction {
  if (error instanceof NotYet) return 'queue';
  if (error instanceof Parked) return 'park';
  if (isSliced && isExportError(error, 'CursorRejectedError')) return 'restart';
  if (interruption?.aborted === true && !isExportError(interruption.reason)) return 'stop';
  if (isSliced && hasFetched && isExportError(error) && error.isForbidden === true) return 'setAside';
  return (isExportError(error) ? reactions[error.name] : undefined) ?? 'setAside';
}

/**
 * The next action of a walker after a chain.
 * - `over`: it takes another one.
 * - `restarted`: it takes this one again, which starts over.
 * - `stopped`: it ends, as a limit of the run or of the invocation is reached, or the next request has to wait.
 */
type AfterChain = 'over' | 'restarted' | 'stopped';

/** The state of a walker, for the chain that it walks. */
interface WalkerState {
  readonly slot: HeldSlot | undefined;
  /** Called when no request of the chain is left. Its last pages may still be received and stored. */
  readonly onLastRequest: () => void;
  /** Whether the walker's previous chain has no page in flight. */
  readonly isAlone: () => boolean;
  /** Whether it is the first chain of the walker. The step has just checked that its execution owns the run. */
  readonly isFirst: boolean;
}

/** The chains of a run, while one invocation walks them. */
class SliceWalk {
  readonly #deps: ExportPageDependencies;
  readonly #options: WalkOptions & Invocation;
  readonly #before: RunProgress;
  /** The run, with the newest attempts of its slices. */
  #run: Run;
  /** The number of the newest slice that has begun. */
  #begun: number;
  readonly #walked: WalkedSlices;
  readonly #parentOf: ParentOf;
  /** The slices to walk before a new one begins: those that had begun before this invocation, or have started over. */
  readonly #unfinished: OpenSlice[];
  /** The slices to walk when no other one is left: those that were set aside before this invocation. */
  readonly #setAside: OpenSlice[];
  /** How many results of requests in a row were outages. */
  #outages = 0;
  #record: Versioned<ProgressRecord>;
  /** How many slices were complete when the progress was recorded last. */
  #recordedDone: number;
  readonly #failures: { slice: number; error: unknown; reaction: Reaction }[] = [];
  /** How many more pages the chains in progress may log. With the pages so far, these are at most `maxPages`. */
  #allotted = 0;
  readonly #backoff: Backoff = { until: 0 };
  /** The newest slice that starts over: one after the other, as each changes the state. */
  #restarting: Promise<unknown> = Promise.resolve();
  readonly #stop = new AbortController();
  /** Aborts what is in flight: the run stops, or the invocation is interrupted. */
  readonly #signal: AbortSignal;

  constructor(deps: ExportPageDependencies, run: Run, before: RunProgress, options: WalkOptions & Invocation) {
    this.#deps = deps;
    this.#options = options;
    this.#before = before;
    this.#run = run;
    this.#parentOf = parentsOfRun(deps, run);
    this.#begun = before.begun;
    this.#walked = new WalkedSlices(run, before, before.open);
    const setAside = new Set(before.setAside);
    this.#unfinished = before.open.filter(({ slice }) => !setAside.has(numberOf(slice)));
    this.#setAside = before.open.filter(({ slice }) => setAside.has(numberOf(slice)));
    this.#record = before.record;
    this.#recordedDone = before.counts.done;
    this.#signal = AbortSignal.any([this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  }

  /** @throws the error that stops the run */
  result(): WalkResult {
    this.#stop.signal.throwIfAborted();
    const failures = this.#failures.toSorted((one, other) => one.slice - other.slice);
    const parked = failures.flatMap(({ error }) => (error instanceof Parked ? [error.until] : []));
    return {
      progress: this.#outcome(),
      failures: failures.filter(isFailure),
      record: () => this.#writeRecord(),
      backoffSeconds: Math.max(0, (this.#backoff.until - this.#deps.runtime.monotonicNow()) / 1_000),
      turn: failures.map(({ error }) => error).find((error) => error instanceof NotYet),
      parkedUntil: parked.length === 0 ? undefined : Math.min(...parked),
    };
  }

  /** Resolves to whether the chains may begin. */
  async proveBounds(slot: HeldSlot | undefined): Promise<boolean> {
    try {
      const limits = { ...this.#options, signal: this.#signal, backoff: this.#backoff, slot, parentOf: this.#parentOf };
      await proveBounds(this.#deps, this.#run, this.#options.roots, limits);
      return true;
    } catch (error) {
      await slot?.release();
      this.#recordFailure(sliceOf(this.#run, 1), error);
      return false;
    }
  }

  /**
   * Walks one chain after the other, until none is left or time is up. `parallel` counts requests, so the next chain
   * begins with the last response of the previous one, while that is still received, stored and logged.
   */
  async walkChains(slot: HeldSlot | undefined): Promise<void> {
    let next = this.#take();
    let isFirst = true;
    /** The previous chain, if its last page is still to be logged. */
    let ending: Promise<AfterChain> | undefined;
    while (next !== undefined) {
      const lastRequest = Promise.withResolvers<'last request'>();
      // A slot is for one request at a time, until its response is complete.
      const onLastRequest = slot === undefined ? () => lastRequest.resolve('last request') : () => {};
      let isAlone = ending === undefined;
      const walked = this.#walkChain(next, { slot, onLastRequest, isAlone: () => isAlone, isFirst });
      isFirst = false;
      // At most two chains of a walker have pages in flight.
      await ending;
      isAlone = true;
      const after = await Promise.race([walked, lastRequest.promise]);
      ending = after === 'last request' ? walked : undefined;
      next = this.#takeAfter(after);
      if (next === undefined && ending !== undefined) {
        // The chain may still start over.
        next = this.#takeAfter(await ending);
        ending = undefined;
      }
    }
  }

  /** The chain to walk next. One that starts over is walked at once, whatever time is left. */
  #takeAfter(after: AfterChain | 'last request'): OpenSlice | undefined {
    if (after === 'restarted') return this.#take();
    return after === 'stopped' ? undefined : this.#takeNext();
  }

  /** Exports pages of the chain. */
  async #walkChain({ slice, last }: OpenSlice, walker: WalkerState): Promise<AfterChain> {
    const { definition } = this.#deps;
    try {
      if (this.#run.skipped !== undefined && (await this.#isSkipped(slice))) return await this.#skip({ slice, last });
      if (last !== undefined) assertContinues(definition, last);
      const newest = await this.#exportPages(slice, last, walker);
      if (newest === undefined) return 'stopped';
      if (endsChain(newest)) {
        await this.#checkpoint();
        return 'over';
      }
      assertContinues(definition, newest);
      return 'stopped';
    } catch (error) {
      return await this.#handleError(error, slice);
    } finally {
      await walker.slot?.release();
    }
  }

  async #isSkipped(slice: Slice): Promise<boolean> {
    return isSkipped(this.#run, await this.#parentOf(slice));
  }

  /** Nothing is requested of slices that are skipped, so they need not wait until no other is left. */
  async takeUpSkipped(): Promise<void> {
    if (this.#run.skipped === undefined) return;
    for (const each of this.#setAside.splice(0)) {
      ((await this.#isSkipped(each.slice)) ? this.#unfinished : this.#setAside).push(each);
    }
  }

  /**
   * Logs the end of a slice whose parent an operator skips. If the slice has pages, it gets a new attempt without any,
   * so that they do not count.
   */
  async #skip({ slice, last }: OpenSlice): Promise<AfterChain> {
    const cause = { recorded: this.#record.content };
    const slices = last && (await beginNextAttempt(this.#deps, this.#options, slice, cause));
    // A concurrent invocation has logged its end.
    if (last !== undefined && slices === undefined) return 'over';
    if (slices !== undefined) this.#run = { ...this.#run, slices };
    const skipped = sliceOf(this.#run, numberOf(slice));
    const identity = identityAfter({ run: this.#run, slice: skipped }, undefined);
    const end = { kind: 'end', reason: 'skipped', status: null } as const;
    const { id: parent } = (await this.#parentOf(skipped)) ?? {};
    const entry = await logEnd(this.#deps, this.#run, { identity, end, parent }, undefined);
    this.#walked.set({ slice: skipped, last: entry });
    if (entry.kind === 'end') this.#emitEnded(skipped, entry);
    // The record of the attempts before does not count any more.
    await this.#writeRecord().catch(() => {});
    return endsChain(entry) ? 'over' : 'stopped';
  }

  /** Starts the slice over, sets it aside, or stops the run. */
  async #handleError(error: unknown, slice: Slice): Promise<AfterChain> {
    const reaction = this.#reactionTo(error);
    try {
      const mayRestart = isExportError(error) && reaction === 'restart';
      const restarted = mayRestart ? await this.#restart(slice, error) : undefined;
      if (restarted !== undefined) {
        // A concurrent invocation may have exported the new attempt to its end.
        if (!isOpen(restarted)) return 'over';
        this.#unfinished.unshift(restarted);
        return 'restarted';
      }
    } catch (restartError) {
      this.#stop.abort(restartError);
    }
    this.#recordFailure(slice, error);
    return isFailure({ reaction }) ? 'over' : 'stopped';
  }

  /** Resolves to the newest entry; undefined if the other chains may log all pages that are left of `maxPages`. */
  async #exportPages(
    slice: Slice,
    last: PageEntry | undefined,
    { slot, onLastRequest, isAlone, isFirst }: WalkerState,
  ): Promise<LogEntry | undefined> {
    const { pagesPerInvocation } = this.#deps.definition.limits;
    const share = Math.ceil((this.#pagesLeft() - this.#allotted) / parallelOf(this.#run));
    let left = Math.min(pagesPerInvocation, share);
    if (left <= 0) return undefined;
    this.#allotted += left;
    const limits = {
      ...this.#options,
      signal: this.#signal,
      hasTime: () => this.#hasTime(),
      maxInFlight: () => maxInFlightOf(this.#run, this.#options) - (isAlone() ? 0 : 1),
      onLastRequest,
      isOwned: isFirst,
      backoff: this.#backoff,
      slot,
      maxPages: left,
    };
    let newest: LogEntry | undefined = last;
    try {
      const parent = await this.#parentOf(slice);
      const chain = { run: this.#run, slice: sinceCovered(slice, parent), parent };
      for await (const { entry, timing } of this.#entriesOf(chain, last, limits)) {
        newest = entry;
        this.#outages = 0;
        this.#walked.set({ slice, last: newest });
        if (entry.kind === 'end') {
          this.#emitEnded(slice, entry);
          const allGone = entry.reason === 'gone' ? allGoneError(this.#run, this.#progress()) : undefined;
          if (allGone !== undefined) throw allGone;
          continue;
        }
        left -= 1;
        this.#allotted -= 1;
        emitLogged(this.#deps, this.#run, this.#progress(), { entry, timing });
      }
      return newest;
    } finally {
      this.#allotted -= left;
    }
  }

  /** The further entries of the chain, once its job is over, if it has one. */
  async *#entriesOf(chain: Chain, last: PageEntry | undefined, limits: WalkLimits): AsyncGenerator<Logged> {
    if (this.#deps.definition.job === undefined) {
      yield* walk(this.#deps, chain, last, limits);
      return;
    }
    const job = await chainJob(this.#deps, chain, last, limits);
    try {
      if (job === 'empty') yield await endWithoutReports(this.#deps, chain);
      else yield* walk(this.#deps, { ...chain, job }, last, limits);
    } catch (error) {
      await afterRefusal(this.#deps, chain, error, limits.execution);
    }
  }

  #emitEnded(slice: Slice, { page, reason }: EndEntry): void {
    if (page > 1 || slice.slice === undefined) return;
    const { counts } = this.#progress();
    this.#deps.emit({ event: 'slice-ended', ...refOf(slice), slice: slice.slice, reason, slices: counts });
  }

  #progress(): RunProgress {
    return this.#walked.get();
  }

  /** With the failures so far. */
  #outcome(): RunProgress {
    return this.#walked.get(this.#failed(), this.#record);
  }

  /** The slices that have failed in this invocation, and those of earlier ones that were not walked again. */
  #failed(): Pick<ProgressRecord, 'setAside' | 'failures'> {
    const waiting = new Set(this.#setAside.map(({ slice }) => numberOf(slice)));
    const failed = this.#failures.filter(isFailure);
    const failures = [
      ...this.#before.failures.filter(({ slice }) => waiting.has(slice)),
      ...failed.map(describeFailure),
    ];
    return {
      setAside: [...waiting, ...failed.map(({ slice }) => slice)].sort((one, other) => one - other),
      failures: failures.sort((one, other) => one.slice - other.slice).slice(0, maxDescribedFailures),
    };
  }

  /** Records the progress each time many slices are complete, so that a process that is killed loses little of it. */
  async #checkpoint(): Promise<void> {
    const { counts } = this.#progress();
    if (counts.done - this.#recordedDone < slicesPerRecord) return;
    this.#recordedDone = counts.done;
    // Without the record, more of the log is read.
    await this.#writeRecord().catch(() => {});
  }

  async #writeRecord(): Promise<void> {
    const record = this.#run.slices && recordOf(this.#run, this.#outcome());
    if (record === undefined) return;
    const written = await this.#deps.log.progress(stateNameOfRun(this.#run)).replace(this.#record, record);
    // If another invocation has recorded its progress meanwhile, that stays.
    if (written !== undefined) this.#record = written;
  }

  #pagesLeft(): number {
    return (this.#deps.definition.limits.maxPages ?? Number.POSITIVE_INFINITY) - this.#progress().totals.pages;
  }

  #hasTime(): boolean {
    return (this.#options.hasTime?.() ?? true) && this.#pagesLeft() > 0;
  }

  #takeNext(): OpenSlice | undefined {
    return this.#hasTime() && !this.#signal.aborted ? this.#take() : undefined;
  }

  /** The oldest unfinished chain, else a chain that begins now. Undefined: no chain is left. */
  #take(): OpenSlice | undefined {
    if (this.#failures.length > maxFailures) return undefined;
    const unfinished = this.#unfinished.shift();
    if (unfinished !== undefined) return unfinished;
    if (this.#outages >= parallelOf(this.#run)) return undefined;
    const mayBegin = this.#failures.length + this.#setAside.length <= maxSetAside;
    if (!mayBegin || this.#begun === sliceCountOf(this.#run)) return this.#setAside.shift();
    this.#begun += 1;
    const fresh = { slice: sliceOf(this.#run, this.#begun), last: undefined };
    this.#walked.set(fresh);
    return fresh;
  }

  #reactionTo(error: unknown): Reaction {
    const hasFetched = hasFetchedPage(this.#run, this.#progress());
    return classify(error, {
      isSliced: this.#run.slices !== undefined,
      interruption: this.#options.signal,
      hasFetched,
    });
  }

  /** Sets the chain aside, or stops all of them. */
  #recordFailure(slice: Slice, error: unknown): void {
    const reaction = this.#reactionTo(error);
    // Once the run stops, the requests in flight fail, too. The signal keeps its first reason.
    if (reaction === 'stop') this.#stop.abort(error);
    this.#outages = reaction === 'outage' ? this.#outages + 1 : 0;
    const failure = asOutage(error, hasFetchedPage(this.#run, this.#progress()));
    this.#failures.push({ slice: numberOf(slice), error: failure, reaction });
  }

  /** Starts over a slice whose cursor was rejected, or that needs another pass. Undefined: it must not start over. */
  #restart(slice: Slice, error: ExportError): Promise<SliceProgress | undefined> {
    const restarted = this.#restarting.then(() => this.#restartNext(slice, error));
    this.#restarting = restarted.catch(() => {});
    return restarted;
  }

  async #restartNext(slice: Slice, error: ExportError): Promise<SliceProgress | undefined> {
    const pass = error instanceof AnotherPass ? error.pass : undefined;
    const cause = { recorded: this.#record.content, isRejected: true, pass };
    const slices = await beginNextAttempt(this.#deps, this.#options, slice, cause);
    if (slices === undefined) return undefined;
    const number = numberOf(slice);
    const attempt = (slice.attempt ?? 1) + 1;
    const isPass = pass !== undefined;
    this.#deps.emit({
      event: 'slice-restarted',
      ...refOf(slice),
      slice: number,
      attempt,
      isPass,
      reason: error.message,
    });
    this.#run = { ...this.#run, slices };
    const restarted = sliceOf(this.#run, number);
    const progress = { slice: restarted, last: await this.#deps.log.last(restarted) };
    this.#walked.set(progress);
    // The record of the attempts before does not count any more.
    await this.#writeRecord().catch(() => {});
    return progress;
  }
}

/** Whether the chain has failed. Otherwise it only has to wait. */
const isFailure = ({ reaction }: { readonly reaction: Reaction }): boolean =>
  reaction !== 'queue' && reaction !== 'park';

/** The job of the chain says that there are no reports. */
async function endWithoutReports(deps: ExportPageDependencies, chain: Chain): Promise<Logged> {
  const end = { kind: 'end', reason: 'empty', status: null } as const;
  const ended = { identity: identityAfter(chain, undefined), end, parent: chain.parent?.id };
  return { entry: await logEnd(deps, chain.run, ended, undefined), timing: null };
}

/** The slice from where its parent is covered. */
const sinceCovered = (slice: Slice, parent: Parent | undefined): Slice =>
  parent?.since === undefined ? slice : { ...slice, since: parent.since };

/** More failures end an invocation. The next one begins with other slices, so that these do not hide them. */
const maxFailures = 100;
/** No slice begins while more are set aside: the record lists them, and each invocation reads their logs. */
const maxSetAside = 1_000;
/** How many failures the record describes. */
const maxDescribedFailures = 10;
const maxMessageLength = 300;
/** How many slices may be complete that the record does not know. */
const slicesPerRecord = 500;

function describeFailure({ slice, error }: { readonly slice: number; readonly error: unknown }): SetAsideSlice {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { slice, error: name, message: shorten(message, maxMessageLength).toWellFormed() };
}

const parallelOf = ({ slices }: Run): number => slices?.parallel ?? 1;

/** With several chains, each needs fewer pages in flight: the others use the time until its next page arrives. */
const maxInFlightOf = (run: Run, { maxInFlight = 2 }: Invocation): number =>
  run.slices === undefined ? maxInFlight : Math.max(2, Math.floor(maxInFlight / run.slices.parallel));

/** A warning is emitted each time this many more consecutive pages have no reports. */
const emptyPagesPerWarning = 100;

function emitLogged(
  { emit }: ExportPageDependencies,
  { slices }: Run,
  { totals, counts }: RunProgress,
  { entry, timing }: { readonly entry: PageEntry; readonly timing: PageTiming | null },
): void {
  const { page, slice, bytes, reports, emptyPages } = entry;
  const about = { ...refOf(entry), page };
  emit({
    event: timing === null ? 'page-adopted' : 'page-exported',
    ...about,
    slice,
    slices: slices && counts,
    bytes,
    reports,
    totalPages: totals.pages,
    totalReports: totals.reports,
    totalBytes: totals.bytes,
    latencyMs: timing?.latencyMs,
  });
  const isWarning = emptyPages > 0 && emptyPages % emptyPagesPerWarning === 0;
  if (isWarning) emit({ event: 'pages-without-reports', ...about, emptyPages });
}

/** Once a run has fetched a page, its settings are right: what seemed to be a wrong address is an outage. */
const asOutage = (error: unknown, hasFetched: boolean): unknown =>
  hasFetched && isExportError(error, 'ServiceUnreachableError')
    ? new ExportError('ServiceUnavailableError', error.message, { cause: error.cause })
    : error;

/** Whether the run has fetched a page. A run or a slice that has started over had fetched one before. */
const hasFetchedPage = ({ cursorRestarts, slices }: Run, { totals }: RunProgress): boolean =>
  totals.pages > 0 || cursorRestarts > 0 || Object.keys(slices?.attempts ?? {}).length > 0;

interface RestartCause {
  readonly recorded: ProgressRecord | undefined;
  readonly isRejected?: boolean;
  /** The pass that the next attempt has to confirm. */
  readonly pass?: Pass | undefined;
}

/**
 * Gives the slice another attempt, and returns the slices of the run; undefined if it must not start over, because a
 * concurrent invocation has logged its end, or its cursors were rejected more often than `maxCursorRestarts`.
 */
function beginNextAttempt(
  { definition, log }: ExportPageDependencies,
  { execution }: WalkOptions,
  slice: Slice,
  { recorded, isRejected = false, pass }: RestartCause,
): Promise<RunSlices | undefined> {
  const { attempt = 1 } = slice;
  const number = numberOf(slice);
  return updateOwnedRun({ definition, log }, { execution, run: slice.run }, async (active, state) => {
    if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
    const newest = sliceOf(active, number);
    // A concurrent invocation of the same execution has started it over already.
    if (newest.attempt !== attempt) return { result: active.slices };
    if (endsChain(await log.last(newest))) return { result: undefined };
    const { restarts, attempts, passes } = withoutComplete(active, recorded);
    const count = (restarts[number] ?? 0) + (isRejected ? 1 : 0);
    const counted = {
      ...active.slices,
      restarts: isRejected ? { ...restarts, [number]: count } : restarts,
      passes: pass === undefined ? passes : { ...passes, [number]: pass },
    };
    const changeTo = (slices: RunSlices): ExportState => ({ ...state, active: { ...active, slices } });
    // The count is recorded all the same: it tells the next start to begin the slice from its beginning.
    if (isRejected && count > definition.limits.maxCursorRestarts)
      return { change: changeTo(counted), result: undefined };
    const generation = generationOf(active.slices) + 1;
    const restarted = { ...counted, generation, attempts: { ...attempts, [number]: attempt + 1 } };
    return { change: changeTo(restarted), result: restarted };
  });
}

type Attempts = Required<Pick<RunSlices, 'attempts' | 'restarts'>> & Pick<RunSlices, 'passes'>;

/**
 * What the state of a run has of single slices. If the run has many, those of complete slices are left out, which keeps
 * the state small: the log has their newest attempts. Their passes are left out in any run.
 */
function withoutComplete({ run, slices }: Run, recorded: ProgressRecord | undefined): Attempts {
  const { attempts = {}, restarts = {}, passes } = slices ?? {};
  const isKnown = recorded?.run === run && recorded.generation === generationOf(slices ?? {});
  if (slices === undefined || !isKnown) return { attempts, restarts, passes };
  const open = new Set([...recorded.open, ...recorded.setAside]);
  const ofOpenOrNew = <Value>(values: Readonly<Record<string, Value>>) =>
    Object.fromEntries(
      Object.entries(values).filter(([number]) => Number(number) > recorded.begun || open.has(Number(number))),
    );
  const openPasses = passes && ofOpenOrNew(passes);
  if (slices.count <= maxSlices) return { attempts, restarts, passes: openPasses };
  return { attempts: ofOpenOrNew(attempts), restarts: ofOpenOrNew(restarts), passes: openPasses };
}
