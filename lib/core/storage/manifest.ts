/**
 * The manifest: the one object, written last, that publishes a run and lists its pages.
 *
 * It follows from the settled run and the page log alone, so written twice it has the same bytes; and it is streamed, one
 * page a line, so a run of a million pages needs no more memory than a run of ten.
 */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import type { Instant, PageEntry, Run } from '../model.ts';
import { filterSince } from '../settings/filter.ts';
import { pageKey } from './keys.ts';

/** Readers check this before they trust the rest; a change they could trip over gets a new number. */
const manifestVersion = 1;

/** As much of a run as its keys are made of. */
export type RunKeyParts = Parameters<typeof pageKey>[0];

/** A run whose manifest can be written: nothing in it changes any more. */
export type CompletedRun = Run & { readonly completedAt: Instant };

/**
 * Yields the manifest of a finished walk, `first` and `last` being the ends of its log.
 * @throws PageConflictError where the log is not one unbroken chain from page 1 to a page without a next cursor, or
 *   where an entry is not that of its page, or does not add up with those before it.
 */
export async function* manifestChunks(
  run: CompletedRun,
  { first, last }: { readonly first: PageEntry; readonly last: PageEntry },
  entries: AsyncIterable<PageEntry>,
): AsyncGenerator<string> {
  const about = {
    manifestVersion,
    export: run.export,
    run: run.run,
    sequence: run.sequence,
    since: run.since,
    filter: filterSince(run.request.filter, run.since),
    format: run.request.format,
    container: run.request.container,
    size: run.request.size ?? null,
    source: run.request.source,
    startedAt: run.startedAt,
    completedAt: run.completedAt,
    serviceStartedAt: first.serviceTime,
    serviceCompletedAt: last.serviceTime,
    totals: { pages: last.page, reports: last.totals.reports, bytes: last.totals.bytes },
  };
  yield `${JSON.stringify(about, null, 2).slice(0, -2)},\n  "pages": [`;
  let before: PageEntry | undefined;
  for await (const entry of entries) {
    const problem = chainProblem(run, before, entry);
    if (problem !== undefined) throw broken(run, problem);
    const { page, key, bytes, sha256, reports, cursor } = entry;
    yield `${before === undefined ? '' : ','}\n    ${JSON.stringify({ page, key, bytes, sha256, reports, cursor })}`;
    before = entry;
  }
  // What stands at the head of the manifest was written before its pages were read.
  if (!isDeepStrictEqual(before, last) || last.nextCursor !== null)
    throw broken(run, `it ends with page ${before?.page ?? 0}`);
  yield '\n  ]\n}\n';
}

/** Why `entry` cannot come behind `before` in the log of `run`; undefined where it can. */
export function chainProblem(run: RunKeyParts, before: PageEntry | undefined, entry: PageEntry): string | undefined {
  const { page } = entry;
  if (page !== (before?.page ?? 0) + 1) return `page ${page} follows page ${before?.page ?? 0}`;
  if (entry.run !== run.run || entry.export !== run.export) {
    return `page ${page} is one of run ${entry.run} of export ${entry.export}`;
  }
  if (entry.key !== pageKey(run, page)) return `page ${page} is said to lie at ${entry.key}`;
  if (entry.cursor !== (before?.nextCursor ?? null)) {
    return `page ${page} was not asked for with the cursor of the page before it`;
  }
  if (entry.repeats) return `page ${page} goes on with a cursor that was met before`;
  if (!addsUp(before?.totals ?? { reports: 0, bytes: 0 }, entry)) {
    return `the totals of page ${page} are not those of the page before it and its own`;
  }
  return undefined;
}

function addsUp(before: PageEntry['totals'], { bytes, reports, totals }: PageEntry): boolean {
  const known = reports === null || before.reports === null ? null : before.reports + reports;
  return (
    isAmount(bytes) &&
    (reports === null || isAmount(reports)) &&
    totals.bytes === before.bytes + bytes &&
    totals.reports === known
  );
}

const isAmount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

function broken(run: Run, why: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `The page log of run ${run.run} of export ${run.export} is not one unbroken chain: ${why}. The run is not published; ` +
      'put its log back as it was and start again, or start with restart to abandon it and begin a new one',
  );
}
