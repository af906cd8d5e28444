/**
 * Writes the manifest: the object that publishes a run and lists its pages, written after them. And the summary that follows
 * it: `run.json` or `window.json`.
 *
 * Their bytes depend only on the completed run and the page log, so a repeated write produces the same bytes. The manifest is
 * streamed, one page per line, so a run of a million pages takes no more memory than a run of ten.
 */

import { isDeepStrictEqual } from 'node:util';
import { describeRoot } from '../document-root.ts';
import { ExportError } from '../errors.ts';
import { addPage, type Instant, type PageEntry, type Run, type RunCompletion, totalsOf, zeroTotals } from '../model.ts';
import { filterOf } from '../filter.ts';
import { compressedFormOf } from './compression.ts';
import { pageKey, type RunKeyParts } from './keys.ts';
import type { RunSummary, WindowSummary } from './published-schemas.ts';

/** Consumers check this first. An incompatible change gets a new number. */
const manifestVersion = 1;
const runVersion = 1;
const windowVersion = 1;

/** A run whose manifest can be written: it no longer changes. */
export type CompletedRun = Run & { readonly completion: RunCompletion };

/** The first and the last entry of a run's log. */
export interface RunEnds {
  readonly first: PageEntry;
  readonly last: PageEntry;
}

/**
 * The text of the manifest.
 * @throws PageConflictError if the entries do not form an unbroken chain from page 1 to a page without a next cursor, or
 *   if one of them does not match its predecessor
 */
export async function* manifestChunks(
  run: CompletedRun,
  { first, last }: RunEnds,
  entries: AsyncIterable<PageEntry>,
): AsyncGenerator<string> {
  const header = {
    manifestVersion,
    export: run.export,
    run: run.run,
    sequence: run.sequence,
    since: run.since,
    ...(run.until === undefined ? {} : { until: run.until }),
    filter: filterOf(run.request, run.since),
    format: run.request.format,
    container: run.request.container,
    ...(run.request.api.pagination === undefined ? {} : { api: run.request.api }),
    ...(run.compression === undefined ? {} : { compression: run.compression }),
    size: run.request.size ?? null,
    source: run.request.source,
    startedAt: run.startedAt,
    completedAt: run.completion.at,
    serviceStartedAt: first.serviceTime,
    serviceCompletedAt: last.serviceTime,
    totals: { pages: last.page, reports: last.totals.reports, bytes: last.totals.bytes },
  };
  yield `${JSON.stringify(header, null, 2).slice(0, -2)},\n  "pages": [`;
  let predecessor: PageEntry | undefined;
  for await (const entry of entries) {
    const problem = chainProblem(run, predecessor, entry);
    if (problem !== undefined) throw brokenChain(run, problem);
    const { page, key, bytes, sha256, reports, cursor, transferredBytes } = entry;
    const listed = { page, key, bytes, sha256, ...compressedFormOf(entry), reports, cursor, transferredBytes };
    const separator = predecessor === undefined ? '' : ',';
    yield `${separator}\n    ${JSON.stringify(listed)}`;
    predecessor = entry;
  }
  // The header was written before the entries were read, and contains facts of the last one.
  if (!isDeepStrictEqual(predecessor, last) || last.nextCursor !== null) {
    throw brokenChain(run, `it ends with page ${predecessor?.page ?? 0}`);
  }
  yield '\n  ]\n}\n';
}

/** The text of `run.json`: one line, so that every engine that reads lines of JSON reads many of them as a table. */
export async function* runSummaryChunks(
  run: CompletedRun,
  { first, last }: RunEnds,
  manifest: string,
): AsyncGenerator<string> {
  const summary = {
    runVersion,
    export: run.export,
    run: run.run,
    sequence: run.sequence,
    since: run.since,
    watermark: run.completion.watermark ?? null,
    ...commonSummary(run, { first, last }, manifest),
  } satisfies RunSummary;
  yield `${JSON.stringify(summary)}\n`;
}

/** The text of `window.json`, as of `run.json`. */
export async function* windowSummaryChunks(
  run: CompletedRun & { readonly until: Instant },
  ends: RunEnds,
  manifest: string,
): AsyncGenerator<string> {
  const summary = {
    windowVersion,
    export: run.export,
    since: run.since,
    until: run.until,
    run: run.run,
    sequence: run.sequence,
    ...commonSummary(run, ends, manifest),
  } satisfies WindowSummary;
  yield `${JSON.stringify(summary)}\n`;
}

function commonSummary(run: CompletedRun, { first, last }: RunEnds, manifest: string) {
  return {
    startedAt: run.startedAt,
    completedAt: run.completion.at,
    serviceStartedAt: first.serviceTime,
    serviceCompletedAt: last.serviceTime,
    format: run.request.format,
    container: run.request.container,
    source: run.request.source,
    ...totalsOf(last),
    manifest,
  };
}

/** Why `entry` cannot follow `predecessor` in the log of `run`; undefined if it can. */
export function chainProblem(
  run: RunKeyParts,
  predecessor: PageEntry | undefined,
  entry: PageEntry,
): string | undefined {
  const { page } = entry;
  if (page !== (predecessor?.page ?? 0) + 1) return `page ${page} follows page ${predecessor?.page ?? 0}`;
  if (entry.run !== run.run || entry.export !== run.export) {
    return `page ${page} belongs to run ${entry.run} of export ${entry.export}`;
  }
  if (entry.key !== pageKey(run, page)) return `page ${page} has the key ${entry.key}`;
  if (entry.compression !== run.compression) return `page ${page} has the compression ${entry.compression ?? 'none'}`;
  if (entry.cursor !== (predecessor?.nextCursor ?? null)) {
    return `page ${page} was not requested with the cursor that the page before it returned`;
  }
  const [root, previousRoot] = [entry.documentRoot, predecessor?.documentRoot];
  if (root && previousRoot && root !== previousRoot) {
    return `page ${page} has the ${describeRoot(root)}, and the page before it the ${describeRoot(previousRoot)}`;
  }
  if (entry.repeats) return `page ${page} returned a cursor that occurred earlier in the run`;
  if (!hasExactTotals(predecessor?.totals ?? zeroTotals, entry)) {
    return `the totals of page ${page} are not those of the page before it plus its own`;
  }
  return undefined;
}

function hasExactTotals(previous: PageEntry['totals'], entry: PageEntry): boolean {
  const { bytes, reports, totals } = entry;
  const expected = addPage(previous, entry);
  return (
    isAmount(bytes) &&
    (reports === null || isAmount(reports)) &&
    totals.bytes === expected.bytes &&
    totals.reports === expected.reports
  );
}

const isAmount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

function brokenChain(run: Run, reason: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `The page log of run ${run.run} of export ${run.export} is inconsistent: ${reason}. The run is not published. ` +
      'Restore its log and start again, or start with --restart to abandon the run and begin a new one',
  );
}
