/**
 * Walks the chains of a run within one invocation: one for each slice, the oldest first, by `parallel` walkers. The
 * page pipeline exports the pages of each (`page-pipeline.ts`).
 *
 * A chain that fails is set aside for this invocation while the others continue. Some errors stop the run, and so all
 * of its chains (`slices/reactions.ts`).
 */

import { type ExportError, isExportError } from '../errors.ts';
import {
  type EndEntry,
  type Invocation,
  type LogEntry,
  type PageEntry,
  type PageTiming,
  type ProgressRecord,
  refOf,
  type Run,
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
import { numberOf, parallelOf, shownNumber, type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import { type HeldSlot, holdSlot, NotYet } from '../slots/held-slot.ts';
import { stateNameOfRun } from '../bounded-runs.ts';
import { logEnd } from './commit-page.ts';
import { allGoneError } from '../parents/gone-parents.ts';
import { assertContinues } from './loop-outcome.ts';
import type { Parent } from '../parents/plan.ts';
import { isSkipped, type ParentOf, parentsOfRun } from '../parents/run-parents.ts';
import { afterRefusal, chainJob, Parked } from './jobs/chain-job.ts';
import type { NoResult } from './jobs/decide.ts';
import { identityAfter, type Logged, walk, type WalkLimits, type WalkOptions } from './page-pipeline.ts';
import type { Backoff, Chain } from '../slots/page-requests.ts';
import { AnotherPass } from './passes.ts';
import { beginNextAttempt, type StartOver } from './slices/next-attempt.ts';
import {
  asOutage,
  classify,
  describeFailure,
  isFailure,
  type Reaction,
  type StoppedChain,
} from './slices/reactions.ts';
import { needsProofOfBounds, proveBounds } from './upper-bound.ts';

export type ExportPageDependencies = Omit<StepDependencies, 'executions'>;

export interface WalkResult {
  /** How far the run has come. */
  readonly progress: RunProgress;
  /** Whether a chain has started over in this invocation. */
  readonly hasRestarted: boolean;
  /** The chains that have failed in this invocation, the oldest first. */
  readonly failures: readonly StoppedChain[];
  /** Records the progress of a run with several slices. */
  readonly record: () => Promise<void>;
  /** The rest of a Retry-After that is not waited out here. */
  readonly backoffSeconds: number;
  /** Set if a request has to wait for its turn for longer than this invocation can. */
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
  await sliceWalk.prioritizeSkipped();
  // The requests of a proof would create jobs.
  const canProve = deps.definition.job === undefined;
  const needsProof = canProve && before.totals.pages === 0 && needsProofOfBounds(run);
  // The first walker keeps the slot of the proof: after a wait for another slot, the bounds would be proved again.
  const mayBegin = !needsProof || (await sliceWalk.proveBounds(slots[0]));
  if (mayBegin) await Promise.all(slots.map(async (slot) => await sliceWalk.walkChains(slot)));
  return sliceWalk.result();
}

/**
 * The next action of a walker after a chain.
 * - `next`: it takes another one.
 * - `repeat`: it takes this one again, which starts over.
 * - `end`: it ends, as a limit of the run or of the invocation is reached, or the chain has to wait.
 */
type WalkerAction = 'next' | 'repeat' | 'end';

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
  readonly #generationBefore: number;
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
  /** How many slices were complete at the newest checkpoint. */
  #doneAtCheckpoint: number;
  readonly #stopped: StoppedChain[] = [];
  /** How many more pages the chains in progress may log. With the pages so far, these are at most `maxPages`. */
  #allotted = 0;
  readonly #backoff: Backoff = { until: 0 };
  /** The newest change of the run's slices. */
  #changing: Promise<unknown> = Promise.resolve();
  readonly #stop = new AbortController();
  /** Aborts what is in flight: the run stops, or the invocation is interrupted. */
  readonly #signal: AbortSignal;

  constructor(deps: ExportPageDependencies, run: Run, before: RunProgress, options: WalkOptions & Invocation) {
    this.#deps = deps;
    this.#options = options;
    this.#before = before;
    this.#run = run;
    this.#generationBefore = generationOf(run);
    this.#parentOf = parentsOfRun(deps, run);
    this.#begun = before.begun;
    this.#walked = new WalkedSlices(run, before, before.open);
    const setAside = new Set(before.setAside);
    this.#unfinished = before.open.filter(({ slice }) => !setAside.has(numberOf(slice)));
    this.#setAside = before.open.filter(({ slice }) => setAside.has(numberOf(slice)));
    this.#record = before.record;
    this.#doneAtCheckpoint = before.counts.done;
    this.#signal = AbortSignal.any([this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  }

  /** @throws the error that stops the run */
  result(): WalkResult {
    this.#stop.signal.throwIfAborted();
    const stopped = this.#stopped.toSorted((one, other) => one.slice - other.slice);
    const errors = stopped.map(({ error }) => error);
    const parked = errors.filter((error) => error instanceof Parked).map(({ until }) => until);
    return {
      progress: this.#outcome(),
      hasRestarted: generationOf(this.#run) > this.#generationBefore,
      failures: stopped.filter(isFailure),
      record: () => this.#writeRecord(),
      backoffSeconds: Math.max(0, (this.#backoff.until - this.#deps.runtime.monotonicNow()) / 1_000),
      turn: errors.find((error) => error instanceof NotYet),
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
      this.#recordError(sliceOf(this.#run, 1), error);
      return false;
    }
  }

  /** Lets skipped slices that were set aside be walked first: they need no request. */
  async prioritizeSkipped(): Promise<void> {
    if (this.#run.skipped === undefined) return;
    for (const each of this.#setAside.splice(0)) {
      const isSkippedNow = await this.#isSkipped(each.slice);
      if (isSkippedNow) this.#unfinished.push(each);
      else this.#setAside.push(each);
    }
  }

  /**
   * Walks one chain after the other, until none is left or time is up. `parallel` limits requests that wait for a
   * response, not chains. So the next chain begins once the previous one has no further request, while its last page is
   * still being received.
   */
  async walkChains(slot: HeldSlot | undefined): Promise<void> {
    // The first chain is walked whatever time is left: each invocation gets on.
    let chain = this.#takeChain();
    let isFirst = true;
    /** The previous chain, if its last page is still to be logged. */
    let previous: Promise<WalkerAction> | undefined;
    while (chain !== undefined) {
      const lastRequest = Promise.withResolvers<'last request'>();
      // With a slot, the next chain begins after the previous one: a slot is in use until the response is complete.
      const onLastRequest = slot === undefined ? () => lastRequest.resolve('last request') : () => {};
      let isAlone = previous === undefined;
      const walked = this.#walkChain(chain, { slot, onLastRequest, isAlone: () => isAlone, isFirst });
      isFirst = false;
      // At most two chains of a walker have pages in flight.
      await previous;
      isAlone = true;
      const event = await Promise.race([walked, lastRequest.promise]);
      previous = event === 'last request' ? walked : undefined;
      chain = this.#chainAfter(event === 'last request' ? 'next' : event);
      if (chain === undefined && previous !== undefined) {
        // The previous chain may still start over.
        chain = this.#chainAfter(await previous);
        previous = undefined;
      }
    }
  }

  /** The chain to walk next. One that starts over is walked at once, whatever time is left. */
  #chainAfter(action: WalkerAction): OpenSlice | undefined {
    if (action === 'end') return undefined;
    if (action === 'repeat') return this.#takeChain();
    return this.#hasTime() && !this.#signal.aborted ? this.#takeChain() : undefined;
  }

  /**
   * The oldest unfinished chain, else one that begins now, else one that was set aside. Undefined: none is left, or too
   * many have failed.
   */
  #takeChain(): OpenSlice | undefined {
    if (this.#stopped.length > maxStopped) return undefined;
    const unfinished = this.#unfinished.shift();
    if (unfinished !== undefined) return unfinished;
    const isOutage = this.#outages >= parallelOf(this.#run);
    if (isOutage) return undefined;
    return this.#beginChain() ?? this.#setAside.shift();
  }

  /** Undefined: all chains have begun, or too many are set aside. */
  #beginChain(): OpenSlice | undefined {
    const mayBegin = this.#stopped.length + this.#setAside.length <= maxSetAside;
    if (!mayBegin || this.#begun === sliceCountOf(this.#run)) return undefined;
    this.#begun += 1;
    const begun = { slice: sliceOf(this.#run, this.#begun), last: undefined };
    this.#walked.set(begun);
    return begun;
  }

  /** Exports pages of the chain. Never rejects. */
  async #walkChain({ slice, last }: OpenSlice, walker: WalkerState): Promise<WalkerAction> {
    const { definition } = this.#deps;
    try {
      if (await this.#isSkipped(slice)) return await this.#inTurn(async () => await this.#skip({ slice, last }));
      if (last !== undefined) assertContinues(definition, last);
      const newest = await this.#exportPages(slice, last, walker);
      if (newest === undefined) return 'end';
      if (endsChain(newest)) {
        await this.#checkpoint();
        return 'next';
      }
      assertContinues(definition, newest);
      return 'end';
    } catch (error) {
      return await this.#handleError(slice, error);
    } finally {
      await walker.slot?.release();
    }
  }

  /** Resolves to the newest entry; undefined if the other chains may log all pages that are left of `maxPages`. */
  async #exportPages(slice: Slice, last: PageEntry | undefined, walker: WalkerState): Promise<LogEntry | undefined> {
    let left = this.#allotPages();
    if (left === 0) return undefined;
    let newest: LogEntry | undefined = last;
    const limits = this.#limitsOf(walker, left, last !== undefined);
    try {
      const parent = await this.#parentOf(slice);
      const chain = { run: this.#run, slice: withSinceOfParent(slice, parent), parent };
      for await (const { entry, timing } of this.#entriesOf(chain, last, limits)) {
        newest = entry;
        this.#outages = 0;
        this.#walked.set({ slice, last: entry });
        if (entry.kind === 'end') {
          this.#emitEnded(slice, entry);
          this.#assertNotAllGone(entry);
        } else {
          left -= 1;
          this.#allotted -= 1;
          emitLogged(this.#deps, this.#run, this.#progress(), { entry, timing });
        }
      }
      return newest;
    } finally {
      this.#allotted -= left;
    }
  }

  /** How many pages a chain may log: its share of those that are left of `maxPages`. */
  #allotPages(): number {
    const { pagesPerInvocation } = this.#deps.definition.limits;
    const share = Math.ceil((this.#pagesLeft() - this.#allotted) / parallelOf(this.#run));
    const pages = Math.max(0, Math.min(pagesPerInvocation, share));
    this.#allotted += pages;
    return pages;
  }

  /**
   * When a process ends, few chains have a page that is stored and not logged, and storing it again finds it. So only
   * these look in the store first: the first chain of each walker, and chains that have pages.
   */
  #limitsOf({ slot, onLastRequest, isAlone, isFirst }: WalkerState, maxPages: number, hasPages: boolean): WalkLimits {
    return {
      ...this.#options,
      signal: this.#signal,
      hasTime: () => this.#hasTime(),
      // The last page of the walker's previous chain is one of those in flight.
      maxInFlight: () => maxInFlightOf(this.#run, this.#options) - (isAlone() ? 0 : 1),
      onLastRequest,
      isOwned: isFirst,
      checkExisting: this.#options.checkExisting && (isFirst || hasPages),
      backoff: this.#backoff,
      slot,
      maxPages,
    };
  }

  /** The further entries of the chain, once its job is over, if it has one. */
  async *#entriesOf(chain: Chain, last: PageEntry | undefined, limits: WalkLimits): AsyncGenerator<Logged> {
    if (this.#deps.definition.job === undefined) {
      yield* walk(this.#deps, chain, last, limits);
      return;
    }
    const job = await chainJob(this.#deps, chain, last, { ...limits, interruption: this.#options.signal });
    try {
      if ('reason' in job) yield await endWithoutPages(this.#deps, chain, job);
      else yield* walk(this.#deps, { ...chain, job }, last, limits);
    } catch (error) {
      await afterRefusal(this.#deps, chain, error, limits.execution);
    }
  }

  /** Announces a slice that has ended without a page. The last page of any other slice was announced already. */
  #emitEnded(slice: Slice, { page, reason }: EndEntry): void {
    if (page > 1 || slice.slice === undefined) return;
    const { counts } = this.#progress();
    this.#deps.emit({ event: 'slice-ended', ...refOf(slice), slice: slice.slice, reason, slices: counts });
  }

  /** @throws ConfigurationError if the first parents of the run are all gone */
  #assertNotAllGone({ reason }: EndEntry): void {
    const error = reason === 'gone' ? allGoneError(this.#run, this.#progress()) : undefined;
    if (error !== undefined) throw error;
  }

  async #isSkipped(slice: Slice): Promise<boolean> {
    return this.#run.skipped !== undefined && isSkipped(this.#run, await this.#parentOf(slice));
  }

  /**
   * Logs the end of a slice whose parent an operator skips. If the slice has pages, it gets a new attempt without any,
   * so that they do not count.
   */
  async #skip({ slice, last }: OpenSlice): Promise<WalkerAction> {
    if (last !== undefined) {
      const restarted = await this.#beginNextAttempt(slice, { isCounted: false });
      if (restarted !== undefined && !isOpen(restarted)) return 'next';
    }
    const skipped = sliceOf(this.#run, numberOf(slice));
    const identity = identityAfter({ run: this.#run, slice: skipped }, undefined);
    const end = { kind: 'end', reason: 'skipped', status: null } as const;
    const parent = (await this.#parentOf(skipped))?.id;
    const entry = await logEnd(this.#deps, this.#run, { identity, end, parent }, undefined);
    this.#walked.set({ slice: skipped, last: entry });
    if (entry.kind === 'end') this.#emitEnded(skipped, entry);
    // The new attempt makes the recorded progress invalid. Without a record, more of the log is read.
    await this.#writeRecord().catch(() => {});
    return endsChain(entry) ? 'next' : 'end';
  }

  /** Starts the slice over, sets it aside, or stops the run. Never rejects. */
  async #handleError(slice: Slice, error: unknown): Promise<WalkerAction> {
    let stoppedBy = error;
    try {
      const restarted = await this.#restartAfter(slice, error);
      if (restarted !== undefined) {
        // A concurrent invocation may have exported the new attempt to its end.
        if (!isOpen(restarted)) return 'next';
        this.#unfinished.unshift(restarted);
        return 'repeat';
      }
    } catch (restartError) {
      stoppedBy = restartError;
    }
    return isFailure(this.#recordError(slice, stoppedBy)) ? 'next' : 'end';
  }

  /** The slice in its next attempt. Undefined: the error does not start it over, or it must not start over again. */
  async #restartAfter(slice: Slice, error: unknown): Promise<SliceProgress | undefined> {
    if (!isExportError(error) || this.#reactionTo(error) !== 'restart') return undefined;
    return await this.#inTurn(async () => await this.#restart(slice, error));
  }

  /** Makes one change of the run's slices after the other: each changes the state, and `#run`. */
  #inTurn<Result>(change: () => Promise<Result>): Promise<Result> {
    const changed = this.#changing.then(change);
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async #restart(slice: Slice, error: ExportError): Promise<SliceProgress | undefined> {
    const pass = error instanceof AnotherPass ? error.pass : undefined;
    const restarted = await this.#beginNextAttempt(slice, { isCounted: true, pass });
    if (restarted?.isNew) {
      this.#deps.emit({
        event: 'slice-restarted',
        ...refOf(slice),
        slice: shownNumber(this.#run, slice),
        attempt: (slice.attempt ?? 1) + 1,
        isPass: pass !== undefined,
        reason: error.message,
      });
    }
    // The new attempt makes the recorded progress invalid. Without a record, more of the log is read.
    if (restarted !== undefined) await this.#writeRecord().catch(() => {});
    return restarted;
  }

  /** How far the slice has come, once it has its next attempt; undefined if it must not start over. */
  async #beginNextAttempt(slice: Slice, cause: Omit<StartOver, 'documentRoot'>) {
    const inProgress = { execution: this.#options.execution, recorded: this.#record.content };
    const documentRoot = this.#progress().documentRoot ?? undefined;
    const restarted = await beginNextAttempt(this.#deps, inProgress, slice, { ...cause, documentRoot });
    if (restarted === undefined) return undefined;
    const { run, isNew } = restarted;
    this.#run = run;
    const newest = sliceOf(run, numberOf(slice));
    const progress = { slice: newest, last: await this.#deps.log.last(newest) };
    this.#walked.set(progress);
    return { ...progress, isNew };
  }

  #reactionTo(error: unknown): Reaction {
    return classify(error, {
      interruption: this.#options.signal,
      hasFetched: this.#hasFetched(),
    });
  }

  /** Whether the run has fetched a page. A slice that has started over had one, or a job, which proves as much. */
  #hasFetched(): boolean {
    return this.#run.attempts !== undefined || this.#progress().totals.pages > 0;
  }

  /** Stops the chain for this invocation: alone, or with all others. */
  #recordError(slice: Slice, error: unknown): StoppedChain {
    const reaction = this.#reactionTo(error);
    // Once the run stops, the requests in flight fail, too. The signal keeps its first reason.
    if (reaction === 'stop') this.#stop.abort(error);
    this.#outages = reaction === 'outage' ? this.#outages + 1 : 0;
    const stopped = { slice: numberOf(slice), error: asOutage(error, this.#hasFetched()), reaction };
    this.#stopped.push(stopped);
    return stopped;
  }

  #progress(): RunProgress {
    return this.#walked.get();
  }

  /** The progress with the failures so far, as it is recorded. */
  #outcome(): RunProgress {
    return this.#walked.get(this.#failed(), this.#record);
  }

  /** The slices that have failed in this invocation, and those of earlier ones that were not walked again. */
  #failed(): Pick<ProgressRecord, 'setAside' | 'failures'> {
    const waiting = new Set(this.#setAside.map(({ slice }) => numberOf(slice)));
    const failed = this.#stopped.filter(isFailure);
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
    if (counts.done - this.#doneAtCheckpoint < slicesPerCheckpoint) return;
    this.#doneAtCheckpoint = counts.done;
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
}

/** More stopped chains end an invocation. The next one begins with other slices, so that these do not hide them. */
const maxStopped = 100;
/** No slice begins while more are set aside: the record lists them, and each invocation reads their logs. */
const maxSetAside = 1_000;
/** How many failures the record describes. */
const maxDescribedFailures = 10;
/** How many slices may be complete that the record does not know. */
const slicesPerCheckpoint = 500;

/** The job of the chain has no result. */
async function endWithoutPages(
  deps: ExportPageDependencies,
  chain: Chain,
  { asOf, ...end }: NoResult,
): Promise<Logged> {
  const ended = { identity: identityAfter(chain, undefined), end, parent: chain.parent?.id, serviceTime: asOf };
  return { entry: await logEnd(deps, chain.run, ended, undefined), timing: null };
}

/** The slice, beginning at the `since` of its parent if that has one. */
export const withSinceOfParent = (slice: Slice, parent: Parent | undefined): Slice =>
  parent?.since === undefined ? slice : { ...slice, since: parent.since };

/** With several chains, each needs fewer pages in flight: the others use the time until its next page arrives. */
const maxInFlightOf = (run: Run, { maxInFlight = 2 }: Invocation): number =>
  run.slices === undefined ? maxInFlight : Math.max(2, Math.floor(maxInFlight / run.slices.parallel));

/** A warning is emitted each time this many more consecutive pages have no reports. */
const emptyPagesPerWarning = 100;

function emitLogged(
  { emit }: ExportPageDependencies,
  run: Run,
  { totals, counts }: RunProgress,
  { entry, timing }: { readonly entry: PageEntry; readonly timing: PageTiming | null },
): void {
  const { page, bytes, reports, emptyPages } = entry;
  const about = { ...refOf(entry), page };
  emit({
    event: timing === null ? 'page-adopted' : 'page-exported',
    ...about,
    slice: shownNumber(run, entry),
    slices: run.slices && counts,
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
