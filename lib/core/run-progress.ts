/**
 * How far a run has come: the newest log entry of each slice that is not complete, and the totals of the others.
 *
 * A run with several slices has a record of its progress beside the state, so that nothing reads the log of every
 * slice. The record may be out of date: then slices that it calls open are complete, or slices after `begun` have
 * begun. So both are read.
 */

import { isDeepStrictEqual } from 'node:util';
import { stateNameOfRun } from './bounded-runs.ts';
import { concurrentReads, mapConcurrently } from './concurrency.ts';
import {
  type EndEntry,
  type Instant,
  type LogEntry,
  type LoopState,
  type PageEntry,
  type ProgressRecord,
  type Run,
  type RunRef,
  type RunTotals,
  sumTotals,
  totalsOf,
  zeroTotals,
} from './model.ts';
import type { PageLog, SliceCounts, Versioned } from './ports.ts';
import { hasParents, numberOf, type Slice, sliceCountOf, sliceOf } from './slices.ts';
import { epochMsOf } from './timestamps.ts';

export interface SliceProgress {
  readonly slice: Slice;
  /** Its newest entry. Undefined: it has no page. */
  readonly last: LogEntry | undefined;
}

/** A slice whose next page can be requested. */
export interface OpenSlice extends SliceProgress {
  readonly last: PageEntry | undefined;
}

/** Which open slices have failed, and why. */
type Failed = Pick<ProgressRecord, 'setAside' | 'failures'>;

/** The part of the record about complete slices. */
type Known = Omit<ProgressRecord, 'run' | 'generation' | 'open' | keyof Failed>;

export interface RunProgress extends Known, Failed {
  /** The slices up to `begun` that are not complete, the oldest first. */
  readonly open: readonly OpenSlice[];
  readonly counts: SliceCounts;
  /** The totals of all slices. */
  readonly totals: RunTotals;
  /** Whether every slice is complete. */
  readonly isComplete: boolean;
  /** The record as it was read. */
  readonly record: Versioned<ProgressRecord>;
}

const noRecord: Versioned<ProgressRecord> = { revision: undefined, content: undefined };
const nothingKnown: Known = {
  begun: 0,
  done: zeroTotals,
  gone: 0,
  skipped: 0,
  documentRoot: null,
  loggedAt: null,
};
const nothingRecorded = { ...nothingKnown, open: [], setAside: [], failures: [] };

/** The slices of a run while their entries are read or logged. Adds up those that are complete. */
export class WalkedSlices {
  readonly #run: Run;
  readonly #open = new Map<number, OpenSlice>();
  #known: Known;

  constructor(run: Run, known: Known = nothingKnown, open: readonly OpenSlice[] = []) {
    this.#run = run;
    this.#known = known;
    for (const each of open) this.#open.set(numberOf(each.slice), each);
  }

  /** Sets the newest entry of a slice. Slices before it of which nothing is known have no page. */
  set(progress: SliceProgress): void {
    const { slice, last } = progress;
    const number = numberOf(slice);
    for (let before = this.#known.begun + 1; before < number; before += 1) {
      this.#open.set(before, { slice: sliceOf(this.#run, before), last: undefined });
    }
    const { begun, documentRoot, loggedAt } = this.#known;
    this.#known = {
      ...this.#known,
      begun: Math.max(begun, number),
      documentRoot: documentRoot ?? last?.documentRoot ?? null,
      loggedAt: last === undefined || isBefore(last.loggedAt, loggedAt) ? loggedAt : last.loggedAt,
    };
    if (isOpen(progress)) this.#open.set(number, progress);
    else this.#complete(number, last);
  }

  #complete(number: number, last: LogEntry | undefined): void {
    const { done, gone, skipped } = this.#known;
    const reason = last?.kind === 'end' ? last.reason : 'last';
    this.#open.delete(number);
    this.#known = {
      ...this.#known,
      done: sumTotals([done, totalsOf(last)]),
      gone: gone + (reason === 'gone' ? 1 : 0),
      skipped: skipped + (reason === 'skipped' ? 1 : 0),
    };
  }

  /** Takes time in proportion to the open slices. */
  get(failed: Failed = { setAside: [], failures: [] }, record = noRecord): RunProgress {
    const { begun, done, gone, skipped } = this.#known;
    const open = [...this.#open.values()].sort((one, other) => numberOf(one.slice) - numberOf(other.slice));
    const count = sliceCountOf(this.#run);
    return {
      ...this.#known,
      ...failed,
      open,
      counts: { done: begun - open.length, count, ...(hasParents(this.#run) && { parents: { gone, skipped } }) },
      totals: sumTotals([done, ...open.map(({ last }) => totalsOf(last))]),
      isComplete: begun === count && open.length === 0,
      record,
    };
  }
}

const isBefore = (one: Instant, other: Instant | null): boolean => other !== null && epochMsOf(one) < epochMsOf(other);

/** The progress of a run of which no slice has begun. */
export const noProgress = (run: Run): RunProgress => new WalkedSlices(run).get();

type ProgressLog = Pick<PageLog, 'last' | 'runEntries' | 'progress'>;

/**
 * Reads how far the run has come: its record, the log of the slices that it calls open, and all entries of the slices
 * after those. Without a valid record, these are all entries of the run.
 */
export async function readProgress(log: ProgressLog, run: Run): Promise<RunProgress> {
  if (run.slices === undefined) {
    const walked = new WalkedSlices(run);
    walked.set(await readSlice(log, run, 1));
    return walked.get();
  }
  const record = await log.progress(stateNameOfRun(run)).read();
  const { content } = record;
  const isValid = content?.run === run.run && content.generation === generationOf(run);
  const known = isValid ? content : nothingRecorded;
  const numbers = [...known.open, ...known.setAside];
  const open = await mapConcurrently(numbers, concurrentReads, (number) => readSlice(log, run, number));
  const walked = new WalkedSlices(run, knownOf(known));
  for (const each of open) walked.set(each);
  for await (const entry of newestEntries(log, run, known.begun)) {
    walked.set({ slice: sliceOf(run, entry.slice ?? 1), last: entry });
  }
  return walked.get({ setAside: known.setAside, failures: known.failures }, record);
}

async function readSlice(log: Pick<PageLog, 'last'>, run: Run, number: number): Promise<SliceProgress> {
  const slice = sliceOf(run, number);
  return { slice, last: await log.last(slice) };
}

const knownOf = ({ begun, done, gone, skipped, documentRoot, loggedAt }: Known): Known => ({
  begun,
  done,
  gone,
  skipped,
  documentRoot,
  loggedAt,
});

export const generationOf = ({ generation = 0 }: Pick<Run, 'generation'>): number => generation;

/** The record of the progress; undefined if it is the one that was read. */
export function recordOf(run: Run, progress: RunProgress): ProgressRecord | undefined {
  const { setAside, failures, loggedAt } = progress;
  const numbers = progress.open.map(({ slice }) => numberOf(slice));
  // If the proof of the bounds fails, no slice has begun.
  const failed = new Set(setAside).intersection(new Set(numbers));
  const of = { run: run.run, generation: generationOf(run), ...knownOf(progress) };
  const open = numbers.filter((number) => !failed.has(number));
  const record = { ...of, open, setAside: [...failed], failures };
  // It would only be newer by the time of a page of an open slice, which is read anyway.
  const isSame = isDeepStrictEqual({ ...progress.record.content, loggedAt }, record);
  return isSame ? undefined : record;
}

/** The entries of slices after `after`, each in its newest attempt: by slice and page. */
export async function* newestEntries(
  log: Pick<PageLog, 'runEntries'>,
  { attempts, ...run }: RunRef & Pick<Partial<Run>, 'attempts'>,
  after = 0,
): AsyncGenerator<LogEntry> {
  let slice: number | undefined;
  let attempt = 1;
  for await (const entry of log.runEntries(run, after)) {
    // The newest attempt comes first. One that has begun may have no page yet.
    if (entry.slice !== slice) attempt = Math.max(entry.attempt ?? 1, attempts?.[entry.slice ?? 1] ?? 1);
    slice = entry.slice;
    if (entry.attempt === attempt) yield entry;
  }
}

/** As `newestEntries`, of a run of which it is not known whether it has several slices. */
export async function* entriesOfAny(
  log: Pick<PageLog, 'runEntries' | 'entries'>,
  run: RunRef & Pick<Partial<Run>, 'attempts'>,
): AsyncGenerator<LogEntry> {
  let hasNumbers = run.attempts?.[1] !== undefined;
  for await (const entry of newestEntries(log, run)) {
    hasNumbers = true;
    yield entry;
  }
  // The first attempt of the only slice of a run has no number.
  if (!hasNumbers) yield* log.entries(run);
}

/** The newest entry of a complete chain: its last page, or the end after its last page. */
type ChainEnd = EndEntry | (PageEntry & { readonly nextCursor: null });

/** Whether the chain whose newest entry is `entry` is complete. */
export const endsChain = (entry: LogEntry | undefined): entry is ChainEnd =>
  entry?.kind === 'end' || entry?.nextCursor === null;

export const isOpen = (progress: SliceProgress): progress is OpenSlice => !endsChain(progress.last);

/** The loop state of the run, without what one execution counts. */
export const loopOf = (
  stateName: string,
  run: Run,
  progress: RunProgress,
): Pick<LoopState, 'export' | 'run' | 'executionNumber' | 'page' | 'slices'> => ({
  export: stateName,
  run: run.run,
  executionNumber: run.executionNumber,
  page: progress.totals.pages + 1,
  slices: run.slices?.count,
});
