/**
 * Reads a run again, from its manifest to its last byte, and reports all that is not as it was exported. Compares
 * manifest and page log page by page, while several objects are read and hashed concurrently. Nothing is changed.
 */

import { hash } from 'node:crypto';
import { secondOf } from '../core/filter.ts';
import { addPage, type Run, type RunTotals, type StoredCursor, type StoredPage, zeroTotals } from '../core/model.ts';
import { DifferentContentError, readPage } from '../core/storage/compression.ts';
import {
  boundedSummaryKey,
  describePage,
  latestKey,
  manifestKey,
  pageKey,
  pageAt,
  type PageRef,
  type RunKeyParts,
  runFolder,
  runSummaryKey,
  startOf,
} from '../core/storage/keys.ts';
import {
  type PublishedRun,
  readLatestPointer,
  readBoundedSummary,
  readRunSummary,
} from '../core/storage/published-runs.ts';
import {
  conflictFinding,
  type Expected,
  type ExpectedChain,
  type ExpectedPage,
  type ExpectedPagesDependencies,
  pagesOfLog,
  pagesOfManifest,
} from './expected-pages.ts';

export interface VerifyDependencies extends ExpectedPagesDependencies {
  /** Called with the size of each page once it is verified, in any order. */
  readonly onPage: (bytes: number) => void;
}

export interface VerifiedRun extends RunTotals {
  /** What could not be verified, and why that is not a finding. */
  readonly notes: readonly string[];
}

/** How many objects are read at once. */
const concurrency = 8;

/** Verifies a published run: its manifest, log, pages, folder and summary, and the pointer to the newest run. */
export async function verifyPublishedRun(deps: VerifyDependencies, published: PublishedRun): Promise<VerifiedRun> {
  const { header, manifest } = published;
  const run: RunKeyParts = { ...header, request: header };
  const verified = await verifyPages(deps, run, pagesOfManifest(deps, run, published), true);
  const report = (message: string) =>
    deps.onFinding({ page: null, message: `${deps.store.locate(manifest)}: ${message}` });
  for (const problem of headerProblems(header, manifest)) report(problem);
  for (const field of ['pages', 'reports', 'bytes'] as const) {
    if (header.totals[field] !== verified[field]) {
      report(`its totals have ${header.totals[field]} ${field}, but its pages add up to ${verified[field]}`);
    }
  }
  await verifySummary(deps, published);
  await verifyPointer(deps, published);
  return verified;
}

/** Verifies an unfinished run: its log, the pages in it, and its folder. */
export async function verifyUnpublishedRun(deps: VerifyDependencies, run: Run): Promise<VerifiedRun> {
  const verified = await verifyPages(deps, run, pagesOfLog(deps, run), false);
  return { ...verified, notes: [...verified.notes, 'The run is not published yet'] };
}

/** Where the header contradicts itself or the manifest's own key. */
function headerProblems(header: PublishedRun['header'], manifest: string): string[] {
  const { run, startedAt, since, filter, api } = header;
  const toSecond = (instant: string) => instant.slice(0, 'yyyy-mm-ddThh:mm:ss'.length);
  return [
    ...(manifestKey(header) === manifest ? [] : [`its export, run and date belong to ${manifestKey(header)}`]),
    ...(toSecond(startedAt) === toSecond(startOf(run))
      ? []
      : [`its startedAt, ${startedAt}, is not that of its run ID`]),
    ...(api !== undefined || filter.date?.gte === secondOf(since)
      ? []
      : [`its since, ${since}, is not that of its filter`]),
  ];
}

async function verifyPages(
  deps: VerifyDependencies,
  run: RunKeyParts,
  pages: AsyncGenerator<ExpectedPage, Expected>,
  isPublished: boolean,
): Promise<VerifiedRun> {
  let totals = zeroTotals;
  let expected: Expected = { notes: [], chains: [] };
  // Each worker takes the next page as soon as it has finished one. The generator serializes the calls of `next`.
  const work = async () => {
    for (;;) {
      const next = await pages.next();
      if (next.done === true) {
        expected = next.value ?? expected;
        return;
      }
      const { page } = next.value;
      totals = { pages: totals.pages + 1, ...addPage(totals, page) };
      await verifyObject(deps, run, next.value, isPublished);
      deps.onPage(page.bytes);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  const leftovers = await reportUnexpectedPages(deps, run, expected.chains, isPublished);
  return { ...totals, notes: [...expected.notes, ...leftovers] };
}

async function verifyObject(
  { store, onFinding }: VerifyDependencies,
  run: RunKeyParts,
  expected: ExpectedPage,
  isPublished: boolean,
): Promise<void> {
  const { page } = expected;
  const report = (message: string) => onFinding({ page: page.page, message: `${store.locate(page.key)} ${message}` });
  try {
    const chunks = await store.read(page.key);
    if (chunks === undefined) return report('is missing');
    for await (const _ of readPage(page, chunks));
    const stored = await store.find(page.key);
    const problem =
      stored && (metadataProblem(run, expected, stored) ?? revisionProblem(expected, stored, isPublished));
    if (problem !== undefined) report(problem);
  } catch (error) {
    if (error instanceof DifferentContentError) return report(error.message);
    onFinding(conflictFinding(page.page, error));
  }
}

/** Where the metadata of the object contradicts the manifest or the log; undefined if it does not. */
function metadataProblem(
  { run }: RunKeyParts,
  { page, entry, ref, isLast }: ExpectedPage,
  stored: StoredPage,
): string | undefined {
  const isOfChain = stored.slice === ref?.slice && stored.attempt === ref?.attempt;
  if (stored.run !== run || stored.page !== ref?.page || !isOfChain) {
    return `has the metadata of ${describePage(stored)} of run ${stored.run}`;
  }
  if (stored.bytes !== page.bytes || stored.sha256 !== page.sha256)
    return 'has the SHA-256 of other content in its metadata';
  if (stored.reports !== page.reports) return `has ${stored.reports} reports in its metadata, not ${page.reports}`;
  if (entry !== undefined && stored.documentRoot !== entry.documentRoot)
    return 'has another document root in its metadata';
  if (stored.transferredBytes !== page.transferredBytes) return 'has another transferredBytes in its metadata';
  if (!isSameCursor(stored.cursor, page.cursor)) return 'has another cursor in its metadata';
  if ((stored.nextCursor === null) !== isLast) {
    return isLast ? 'has a next cursor in its metadata, but is the last page' : 'has no next cursor in its metadata';
  }
  if (entry !== undefined && !isSameCursor(stored.nextCursor, entry.nextCursor)) {
    return 'has another next cursor in its metadata';
  }
  return undefined;
}

/**
 * After a move to another bucket, an ETag differs if a key of KMS encrypts the copy, or it was copied in other parts. Then the
 * SHA-256 decides, which has been compared. A run that is not published needs the revisions that were logged.
 */
function revisionProblem({ entry }: ExpectedPage, { revision }: StoredPage, isPublished: boolean): string | undefined {
  if (isPublished || entry === undefined || revision === entry.revision) return undefined;
  return `was replaced: its revision is ${revision}, but ${entry.revision} was logged`;
}

/** A cursor may be stored as its hash. */
function isSameCursor(one: StoredCursor, other: StoredCursor): boolean {
  if (one === null || other === null) return one === other;
  return typeof one === 'string' && typeof other === 'string' ? one === other : cursorHash(one) === cursorHash(other);
}

const cursorHash = (cursor: NonNullable<StoredCursor>): string =>
  typeof cursor === 'string' ? hash('sha256', cursor) : cursor.sha256;

/**
 * Reports pages in the run's folder that follow the last page of their slice in its manifest or its log. Returns a note about pages
 * of earlier attempts of slices: as those of an abandoned run, they are left over.
 */
async function reportUnexpectedPages(
  deps: VerifyDependencies,
  run: RunKeyParts,
  chains: readonly ExpectedChain[],
  isPublished: boolean,
): Promise<readonly string[]> {
  const { store, onFinding } = deps;
  const known = new Map(chains.map((each) => [each.chain.slice, each]));
  const further: (readonly [PageRef, string])[] = [];
  let leftovers = 0;
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageAt(run, key);
    if (page === undefined) continue;
    const { chain, pages } = known.get(page.slice) ?? { chain: page, pages: 0 };
    // A slice of a run that is not published may have started over since its log was read.
    const isOther = isPublished ? (page.attempt ?? 1) < (chain.attempt ?? 1) : page.attempt !== chain.attempt;
    if (isOther) leftovers += 1;
    else if (page.attempt !== chain.attempt || page.page > pages) further.push([page, key]);
  }
  // Found after all pages are listed: the run may have progressed since its log was read.
  const lastPages = new Map<number | undefined, number>();
  for (const [page, key] of further) {
    const { slice } = page;
    const { chain, pages } = known.get(slice) ?? { chain: { ...page, export: run.export, run: run.run }, pages: 0 };
    const last = lastPages.get(slice) ?? (isPublished ? pages : await findLastPage(deps, run, { chain, pages }));
    lastPages.set(slice, last);
    if (page.attempt === chain.attempt && page.page <= last) continue;
    onFinding({
      page: page.page,
      message: `${store.locate(key)} exists, but neither the manifest nor the log includes it`,
    });
  }
  const text = leftovers === 1 ? '1 page of an earlier attempt' : `${leftovers} pages of earlier attempts`;
  return leftovers === 0 ? [] : [`${text} of slices left over in its folder: the run does not contain them`];
}

/**
 * The last page of a slice of an unfinished run. Pages may be stored that are not logged yet, each following its predecessor. If
 * the first of them that does not follow is unreadable, it is reported and counts as the last page.
 */
async function findLastPage(deps: VerifyDependencies, run: RunKeyParts, expected: ExpectedChain): Promise<number> {
  let { page, cursor } = await lastLoggedPage(deps, expected);
  while (cursor !== null || page === 0) {
    page += 1;
    const ref = { slice: expected.chain.slice, attempt: expected.chain.attempt, page };
    try {
      const stored = await deps.store.find(pageKey(run, ref));
      if (stored === undefined || !follows(stored, run, ref, cursor)) return page - 1;
      cursor = stored.nextCursor;
    } catch (error) {
      deps.onFinding(conflictFinding(page, error));
      return page;
    }
  }
  return page;
}

/** `cursor` is undefined if it is unknown. */
function follows(
  stored: StoredPage,
  { run }: RunKeyParts,
  { page, slice, attempt }: PageRef,
  cursor: StoredCursor | undefined,
): boolean {
  const isPage = stored.page === page && stored.slice === slice && stored.attempt === attempt;
  return stored.run === run && isPage && (cursor === undefined || isSameCursor(stored.cursor, cursor));
}

/** The last page that was logged or verified. `cursor` is the next one: null for none, undefined if unknown. */
async function lastLoggedPage(
  { log }: VerifyDependencies,
  { chain, pages }: ExpectedChain,
): Promise<{ readonly page: number; readonly cursor: StoredCursor | undefined }> {
  const unknown = { page: pages, cursor: pages === 0 ? null : undefined };
  try {
    const last = await log.last(chain);
    if (last === undefined || last.page < pages) return unknown;
    return { page: last.page, cursor: last.repeats ? null : last.nextCursor };
  } catch (error) {
    // It was reported when the entries were verified.
    conflictFinding(null, error);
    return unknown;
  }
}

/** `run.json`, or `bounded.json`, repeats the header of the manifest. */
async function verifySummary(
  { store, onFinding }: VerifyDependencies,
  { header, manifest }: PublishedRun,
): Promise<void> {
  const report = (message: string) => onFinding({ page: null, message });
  const { bounded = false } = header;
  const key = bounded ? boundedSummaryKey(header) : runSummaryKey(header);
  const address = store.locate(key);
  try {
    const summary = await (bounded ? readBoundedSummary(store, key) : readRunSummary(store, key));
    if (summary === undefined) return report(`${address} is missing, so tables of runs lack this run`);
    const { totals, ...expected } = header;
    const stated: Record<string, unknown> = { ...expected, ...totals, manifest };
    const different = Object.entries(summary).filter(([field, value]) => field in stated && value !== stated[field]);
    for (const [field, value] of different) {
      report(`${address} has the ${field} ${JSON.stringify(value)}, but the manifest ${JSON.stringify(stated[field])}`);
    }
  } catch (error) {
    onFinding(conflictFinding(null, error));
  }
}

/** `latest.json` may point to a newer run than the verified one, but not to an older one. */
async function verifyPointer(
  { store, onFinding }: VerifyDependencies,
  { header, manifest }: PublishedRun,
): Promise<void> {
  // `latest.json` never points to a bounded run.
  if (header.bounded) return;
  const report = (message: string) => onFinding({ page: null, message });
  const address = store.locate(latestKey(header.export));
  try {
    const pointer = await readLatestPointer(store, header.export);
    if (pointer === undefined) return report(`${address} is missing`);
    const { sequence, run } = pointer;
    const pointsHere = sequence === header.sequence && run === header.run && pointer.manifest === manifest;
    const isSameRun = sequence === header.sequence || run === header.run;
    if (sequence < header.sequence || (isSameRun && !pointsHere)) {
      const problem = sequence > header.sequence ? 'but with another sequence' : 'which is older than this run';
      report(`${address} points to run ${run} at ${pointer.manifest}, ${problem}`);
    }
  } catch (error) {
    onFinding(conflictFinding(null, error));
  }
}
