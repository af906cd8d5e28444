/**
 * Finds a cursor that the service returned twice before a run is published. Cycle detection ends a run whose cursors go round in
 * circles; a cursor that occurs twice by accident, with other pages after it, would leave pages in the run twice.
 *
 * 44 bits of each cursor's SHA-256 are enough to notice it: 5 MB for a million pages. Only if two are equal, by chance in 3 of
 * 100 such runs, is the log read again, to compare the cursors themselves.
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

const digestOf = (cursor: string): number => Math.floor(hash('sha256', cursor, 'buffer').readUIntBE(0, 6) / 2 ** 4);

const lowRange = 2 ** 32;

/** Numbers of 44 bits: the upper 12 select an array, in which the lower 32 are collected. */
function createDigests() {
  const groups = new Map<number, { values: Uint32Array; count: number }>();
  return {
    add(digest: number): void {
      const high = Math.floor(digest / lowRange);
      const group = groups.get(high) ?? { values: new Uint32Array(4), count: 0 };
      if (group.count === group.values.length) {
        const larger = new Uint32Array(group.count * 2);
        larger.set(group.values);
        group.values = larger;
      }
      group.values[group.count] = digest % lowRange;
      group.count += 1;
      groups.set(high, group);
    },
    /** Those that were added more than once. */
    repeated(): ReadonlySet<number> {
      const found = new Set<number>();
      for (const [high, { values, count }] of groups) {
        const sorted = values.subarray(0, count).sort();
        for (let index = 1; index < count; index += 1) {
          const low = sorted[index] as number;
          if (sorted[index - 1] === low) found.add(high * lowRange + low);
        }
      }
      return found;
    },
  };
}
