/** How far a run has come: the newest log entry of each of its slices. */

import { concurrentReads, mapConcurrently } from './concurrency.ts';
import {
  type EndEntry,
  type LogEntry,
  type LoopState,
  type PageEntry,
  type Run,
  type RunTotals,
  sumTotals,
  totalsOf,
  type WalkedSlices,
  zeroTotals,
} from './model.ts';
import type { PageLog, SliceCounts } from './ports.ts';
import { type Slice, sliceCountOf, type SlicedPeriod, sliceOf } from './slices.ts';

export interface SliceProgress {
  readonly slice: Slice;
  /** Its newest entry. Undefined: it has no page. */
  readonly last: LogEntry | undefined;
}

/** A slice whose next page can be requested. */
export interface OpenSlice extends SliceProgress {
  readonly last: PageEntry | undefined;
}

export interface RunProgress {
  /** The slices that have begun, or may have, the oldest first; without those that were known to be complete. */
  readonly slices: readonly SliceProgress[];
  /** No slice after this one has begun. */
  readonly begun: number;
  readonly counts: SliceCounts;
  readonly totals: RunTotals;
  /** The totals of the slices that are complete. */
  readonly done: RunTotals;
  /** The totals of the complete slices that are not in `slices`. */
  readonly unread: RunTotals;
  /** The newest page of a run with one slice, if it has a page, and its end is not an entry of its own. */
  readonly last: PageEntry | undefined;
  /** Whether every slice has its last page. */
  readonly isComplete: boolean;
}

const nothingKnown: WalkedSlices = { begun: 0, open: [], done: zeroTotals };

/** `known` is how far the run had come: slices that were complete are not read again. */
export async function readProgress(
  log: Pick<PageLog, 'last' | 'lastSlice'>,
  run: SlicedPeriod,
  known = nothingKnown,
): Promise<RunProgress> {
  const newest = run.slices === undefined ? 1 : Math.min(run.slices.count, await log.lastSlice(run));
  const begun = Math.max(known.begun, newest);
  const unknown = Array.from({ length: begun - known.begun }, (_, index) => known.begun + index + 1);
  const slices = await mapConcurrently([...known.open, ...unknown], concurrentReads, async (number) => {
    const slice = sliceOf(run, number);
    return { slice, last: await log.last(slice) };
  });
  return progressOf(run, begun, slices, known.done);
}

/**
 * The progress of `run`, of whose slices `begun` have begun: those in `slices`, and complete ones with the totals
 * `unread`.
 */
export function progressOf(
  run: SlicedPeriod,
  begun: number,
  slices: readonly SliceProgress[],
  unread = zeroTotals,
): RunProgress {
  const count = sliceCountOf(run);
  const open = slices.filter(isOpen);
  const complete = slices.filter(({ last }) => endsChain(last));
  const done = sumTotals([unread, ...complete.map(({ last }) => totalsOf(last))]);
  return {
    slices,
    begun,
    counts: { done: begun - open.length, count },
    totals: sumTotals([done, ...open.map(({ last }) => totalsOf(last))]),
    done,
    unread,
    last: run.slices === undefined ? pageOf(slices[0]?.last) : undefined,
    isComplete: begun === count && open.length === 0,
  };
}

/** The newest entry of a complete chain: its last page, or the end after its last page. */
type ChainEnd = EndEntry | (PageEntry & { readonly nextCursor: null });

/** Whether the chain whose newest entry is `entry` is complete. */
export const endsChain = (entry: LogEntry | undefined): entry is ChainEnd =>
  entry?.kind === 'end' || entry?.nextCursor === null;

export const isOpen = (progress: SliceProgress): progress is OpenSlice => !endsChain(progress.last);

const pageOf = (entry: LogEntry | undefined): PageEntry | undefined => (entry?.kind === 'page' ? entry : undefined);

/** The progress as the payload of the state machine has it. */
export function walkedSlices({ slices, begun, done }: RunProgress): WalkedSlices {
  return { begun, open: slices.filter(isOpen).map(({ slice }) => slice.slice ?? 1), done };
}

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
  slices: run.slices && walkedSlices(progress),
});
