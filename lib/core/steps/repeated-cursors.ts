/**
 * Finds cursors that repeat, in three ways.
 *
 * A slice whose cursors form a cycle would never end, so cycles are found while it is exported. Brent's algorithm finds
 * a cycle of any length, wherever it begins, with one remembered cursor and two counters, after at most three times as
 * many pages as the lead-in and the cycle are long.
 *
 * A cursor may also occur twice with different pages after it. Then pages are in the run twice. This is found before
 * the run is published, by 48 bits of each cursor's SHA-256: 8 MB for a million pages. Only if two are equal, by chance
 * in 2 of 1,000 such runs, is the log read again, to compare the cursors themselves.
 *
 * An API that ignores the cursor may return a new one with every response. Then equal pages in a row are found.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { Cursor, CycleState, LogEntry, PageEntry } from '../model.ts';
import type { ChainRef, PageLog } from '../ports.ts';
import { capitalize } from '../sanitize.ts';
import { describePage } from '../storage/keys.ts';

/**
 * Advances the search for a cycle by one page. `state` is the state after the page before, null at the first page.
 * `next` is the next cursor of the page. `repeats` says whether it is the remembered one.
 */
export function detectCycle(state: CycleState | null, next: Cursor): { state: CycleState; repeats: boolean } {
  if (state === null) return { state: { tortoise: next, power: 1, steps: 0 }, repeats: false };
  if (next === state.tortoise) return { state, repeats: true };
  const steps = state.steps + 1;
  if (steps !== state.power) return { state: { ...state, steps }, repeats: false };
  return { state: { tortoise: next, power: state.power * 2, steps: 0 }, repeats: false };
}

/** This many consecutive pages with the same reports show that the API ignores the cursor. */
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
  if (predecessor === undefined || contentOf(page) !== contentOf(predecessor)) return 1;
  return predecessor.equalPages + 1;
}

type ComparedPage = Pick<PageEntry, 'reports' | 'sha256' | 'reportsDigest'>;

const contentOf = ({ reportsDigest, sha256 }: ComparedPage): string => reportsDigest ?? sha256;

/**
 * Yields the given log entries, and completes only if each page of a slice was requested with another cursor.
 * @throws RepeatedCursorError after the entries of a slice, about the first cursor that two of its pages have in common
 */
export async function* withDistinctCursors(
  entries: AsyncIterable<LogEntry>,
  log: Pick<PageLog, 'entries'>,
): AsyncGenerator<LogEntry> {
  let digests = createDigests();
  let previous: LogEntry | undefined;
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

/** Compares the cursors whose digests are `repeated`: different cursors can have the same digest. */
async function assertDistinct(
  repeated: ReadonlySet<number>,
  log: Pick<PageLog, 'entries'>,
  chain: ChainRef,
): Promise<void> {
  if (repeated.size === 0) return;
  const pages = new Map<string, number>();
  for await (const entry of log.entries(chain)) {
    const { page, cursor } = entry;
    if (cursor === null || !repeated.has(digestOf(cursor))) continue;
    const earlier = pages.get(cursor);
    if (earlier !== undefined) throw new RepeatedCursor(chain, page, earlier);
    pages.set(cursor, page);
  }
}

export class RepeatedCursor extends ExportError {
  /** The chain to export from its beginning. */
  readonly chain: ChainRef;

  constructor(chain: ChainRef, page: number, earlier: number) {
    super(
      'RepeatedCursorError',
      `${capitalize(describePage({ ...chain, page }))} of run ${chain.run} was requested with the cursor of page ${earlier}, so it contains pages twice. ` +
        'The run is not published; the next start exports these pages from the first one',
    );
    this.chain = chain;
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
    /** The digests that were added more than once. */
    repeated(): ReadonlySet<number> {
      const sorted = digests.subarray(0, count).sort();
      return new Set(sorted.filter((digest, index) => digest === sorted[index - 1]));
    },
  };
}
