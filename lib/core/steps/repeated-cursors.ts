/**
 * Finds cursors that repeat. While a slice is exported, cycle detection ends one whose cursors go round in circles,
 * and which would never end: Brent's algorithm finds a cycle of any length, wherever it begins, with one remembered
 * cursor and two counters, after at most three times as many pages as the lead-in and the cycle are long.
 *
 * One that occurs twice by accident, with other pages after it, would leave pages in the run twice. It is found
 * before the run is published: 48 bits of each cursor's SHA-256 are enough, 8 MB for a million pages. Only if two are
 * equal, by chance in 2 of 1,000 such runs, is the log read again, to compare the cursors themselves.
 *
 * An API that ignores the cursor may write another one into every response: then the page itself occurs three times
 * in a row.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { Cursor, CycleState, PageEntry, RunId } from '../model.ts';
import type { ChainRef, PageLog } from '../ports.ts';
import { capitalize } from '../sanitize.ts';
import { describePage, type PageRef } from '../storage/keys.ts';

/**
 * Advances the search by one page: `state` is that of the page before (null at the first), `next` the page's next
 * cursor. `repeats` is true if `next` has been seen before.
 */
export function detectCycle(state: CycleState | null, next: Cursor): { state: CycleState; repeats: boolean } {
  if (state === null) return { state: { tortoise: next, power: 1, steps: 0 }, repeats: false };
  if (next === state.tortoise) return { state, repeats: true };
  const steps = state.steps + 1;
  return steps === state.power
    ? { state: { tortoise: next, power: state.power * 2, steps: 0 }, repeats: false }
    : { state: { ...state, steps }, repeats: false };
}

/**
 * So many pages in a row with the same reports are the same page: the API ignores the cursor, and writes another one
 * into every response.
 */
export const maxEqualPages = 3;

/**
 * How many consecutive pages have the same reports, up to and including `page`; 0 if it has none, or they are not
 * counted.
 */
export function countEqualPages(
  page: ComparedPage,
  predecessor: (ComparedPage & { readonly equalPages: number }) | undefined,
): number {
  if (page.reports === 0 || page.reports === null) return 0;
  return predecessor !== undefined && contentOf(page) === contentOf(predecessor) ? predecessor.equalPages + 1 : 1;
}

type ComparedPage = Pick<PageEntry, 'reports' | 'sha256' | 'reportsDigest'>;

const contentOf = ({ sha256, reportsDigest = sha256 }: ComparedPage): string => reportsDigest;

/**
 * Yields the given log entries, and completes only if each page of a slice was requested with another cursor.
 * @throws RepeatedCursorError after the entries of a slice, about the first cursor that two of its pages have in common
 */
export async function* withDistinctCursors(
  entries: AsyncIterable<PageEntry>,
  log: Pick<PageLog, 'entries'>,
): AsyncGenerator<PageEntry> {
  let digests = createDigests();
  let previous: PageEntry | undefined;
  for await (const entry of entries) {
    if (previous !== undefined && previous.slice !== entry.slice) {
      await assertDistinct(digests.repeated(), log, previous);
      digests = createDigests();
    }
    if (entry.cursor !== null) digests.add(digestOf(entry.cursor));
    previous = entry;
    yield entry;
  }
  if (previous !== undefined) await assertDistinct(digests.repeated(), log, previous);
}

/** Different cursors can have the same digest. */
async function assertDistinct(
  repeated: ReadonlySet<number>,
  log: Pick<PageLog, 'entries'>,
  chain: ChainRef,
): Promise<void> {
  if (repeated.size === 0) return;
  const pages = new Map<string, number>();
  for await (const { page, slice, cursor } of log.entries(chain)) {
    if (cursor === null || !repeated.has(digestOf(cursor))) continue;
    const earlier = pages.get(cursor);
    if (earlier !== undefined) throw new RepeatedCursor(chain.run, { page, slice }, earlier);
    pages.set(cursor, page);
  }
}

/** Its `slice` is to be walked from its beginning; undefined if the run has one, and can never be published. */
export class RepeatedCursor extends ExportError {
  readonly slice: number | undefined;

  constructor(run: RunId, page: PageRef, earlier: number) {
    const consequence =
      page.slice === undefined
        ? 'The run is never published; the next start begins a new one'
        : 'The run is not published; the next start exports this slice from its beginning';
    super(
      'RepeatedCursorError',
      `${capitalize(describePage(page))} of run ${run} was requested with the cursor of page ${earlier}, so it contains pages twice. ${consequence}`,
    );
    this.slice = page.slice;
  }
}

const digestOf = (cursor: string): number => hash('sha256', cursor, 'buffer').readUIntBE(0, 6);

function createDigests() {
  let digests = new Float64Array(1_024);
  let count = 0;
  return {
    add(digest: number): void {
      if (count === digests.length) digests = new Float64Array(digests.buffer.transfer(2 * digests.byteLength));
      digests[count] = digest;
      count += 1;
    },
    /** The cursors that were added more than once. */
    repeated(): ReadonlySet<number> {
      const sorted = digests.subarray(0, count).sort();
      return new Set(sorted.filter((digest, index) => digest === sorted[index - 1]));
    },
  };
}
