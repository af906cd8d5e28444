/**
 * Finds a cursor that the service returned twice before a run is published. Cycle detection ends a run whose cursors go
 * round in circles; one that occurs twice by accident, with other pages after it, would leave pages in the run twice.
 *
 * 48 bits of each cursor's SHA-256 are enough to notice it: 8 MB for a million pages. Only if two are equal, by chance in 2 of
 * 1,000 such runs, is the log read again, to compare the cursors themselves.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { PageEntry, Run } from '../model.ts';
import type { PageLog } from '../ports.ts';

/**
 * Yields the given log entries of `run`, and completes only if each page was requested with another cursor.
 * @throws RepeatedCursorError at the end, about the first cursor that two pages have in common
 */
export async function* withDistinctCursors(
  entries: AsyncIterable<PageEntry>,
  log: Pick<PageLog, 'entries'>,
  run: Run,
): AsyncGenerator<PageEntry> {
  const digests = createDigests();
  for await (const entry of entries) {
    if (entry.cursor !== null) digests.add(digestOf(entry.cursor));
    yield entry;
  }
  const repeated = digests.repeated();
  if (repeated.size > 0) await assertDistinct(repeated, log, run);
}

/** Different cursors can have the same digest. */
async function assertDistinct(repeated: ReadonlySet<number>, log: Pick<PageLog, 'entries'>, run: Run): Promise<void> {
  const pages = new Map<string, number>();
  for await (const { page, cursor } of log.entries(run)) {
    if (cursor === null || !repeated.has(digestOf(cursor))) continue;
    const earlier = pages.get(cursor);
    if (earlier !== undefined) {
      throw new ExportError(
        'RepeatedCursorError',
        `Page ${page} of run ${run.run} was requested with the cursor of page ${earlier}, so the run contains pages twice. ` +
          'The run is never published; the next start begins a new one',
      );
    }
    pages.set(cursor, page);
  }
}

const digestOf = (cursor: string): number => hash('sha256', cursor, 'buffer').readUIntBE(0, 6);

function createDigests() {
  let digests = new Float64Array(1_024);
  let count = 0;
  return {
    add(digest: number): void {
      if (count === digests.length) {
        const larger = new Float64Array(2 * count);
        larger.set(digests);
        digests = larger;
      }
      digests[count] = digest;
      count += 1;
    },
    /** Those that were added more than once. */
    repeated(): ReadonlySet<number> {
      const sorted = digests.subarray(0, count).sort();
      return new Set(sorted.filter((digest, index) => digest === sorted[index - 1]));
    },
  };
}
