/**
 * The manifest: the one object, written last, that publishes a run and lists its pages.
 *
 * It follows from the sealed run and the page log alone, so written twice it has the same bytes; and it is streamed, one
 * page a line, so a run of a million pages needs no more memory than a run of ten.
 */

import { ExportError } from './errors.ts';
import { filterSince } from './filter.ts';
import type { Instant, PageEntry, Run } from './model.ts';

/** Readers check this before they trust the rest; a change they could trip over gets a new number. */
const manifestVersion = 1;

export type SealedRun = Run & { readonly completedAt: Instant };

/**
 * Yields the manifest of a finished walk.
 * @throws PageConflictError where the log is not one unbroken chain from page 1 to a page without a next cursor.
 */
export async function* manifestChunks(
  run: SealedRun,
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
    mustFollow(run, before, entry);
    const { page, key, bytes, sha256, reports, cursor } = entry;
    yield `${before === undefined ? '' : ','}\n    ${JSON.stringify({ page, key, bytes, sha256, reports, cursor })}`;
    before = entry;
  }
  if (before?.page !== last.page || before.nextCursor !== null)
    throw broken(run, `it ends with page ${before?.page ?? 0}`);
  yield '\n  ]\n}\n';
}

function mustFollow(run: Run, before: PageEntry | undefined, entry: PageEntry): void {
  if (entry.page !== (before?.page ?? 0) + 1) throw broken(run, `page ${entry.page} follows page ${before?.page ?? 0}`);
  if (entry.cursor !== (before?.nextCursor ?? null)) {
    throw broken(run, `page ${entry.page} was not asked for with the cursor of the page before it`);
  }
}

function broken(run: Run, why: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `The page log of run ${run.run} of export ${run.export} is not one unbroken chain: ${why}. The run is not published`,
  );
}
