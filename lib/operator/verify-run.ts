/**
 * Reads a run again, from its manifest to its last byte, and reports all that is not as it was exported. Compares
 * manifest and page log page by page, while several objects are read and hashed concurrently. Nothing is changed.
 */

import { hash } from 'node:crypto';
import { secondOf } from '../core/filter.ts';
import { addPage, type RunTotals, type StoredCursor, type StoredPage, zeroTotals } from '../core/model.ts';
import { DifferentContentError, readPage } from '../core/storage/compression.ts';
import {
  latestKey,
  manifestKey,
  pageKey,
  pageNumberAt,
  type RunKeyParts,
  runFolder,
  runSummaryKey,
  windowSummaryKey,
  startOf,
} from '../core/storage/keys.ts';
import {
  type PublishedRun,
  readLatestPointer,
  readRunSummary,
  readWindowSummary,
} from '../core/storage/published-runs.ts';
import {
  conflictFinding,
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
export async function verifyUnpublishedRun(deps: VerifyDependencies, run: RunKeyParts): Promise<VerifiedRun> {
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
  pages: AsyncGenerator<ExpectedPage, readonly string[]>,
  isPublished: boolean,
): Promise<VerifiedRun> {
  let totals = zeroTotals;
  let notes: readonly string[] = [];
  // Each worker takes the next page as soon as it has finished one. The generator serializes the calls of `next`.
  const work = async () => {
    for (;;) {
      const next = await pages.next();
      if (next.done === true) {
        notes = next.value ?? notes;
        return;
      }
      const { page } = next.value;
      totals = { pages: totals.pages + 1, ...addPage(totals, page) };
      await verifyObject(deps, run, next.value, isPublished);
      deps.onPage(page.bytes);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  await reportUnexpectedPages(deps, run, totals.pages, isPublished);
  return { ...totals, notes };
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
  { page, entry, isLast }: ExpectedPage,
  stored: StoredPage,
): string | undefined {
  if (stored.run !== run || stored.page !== page.page) {
    return `has the metadata of page ${stored.page} of run ${stored.run}`;
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

/** Reports pages in the run's folder after the last page of its manifest or its log. */
async function reportUnexpectedPages(
  deps: VerifyDependencies,
  run: RunKeyParts,
  pages: number,
  isPublished: boolean,
): Promise<void> {
  const { store, onFinding } = deps;
  const further = new Map<number, string>();
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageNumberAt(run, key);
    if (page !== undefined && page > pages) further.set(page, key);
  }
  if (further.size === 0) return;
  // Found after all pages are listed: the run may have progressed since its log was read.
  const lastPage = isPublished ? pages : await findLastPage(deps, run, pages);
  for (const [page, key] of further) {
    if (page <= lastPage) continue;
    onFinding({ page, message: `${store.locate(key)} exists, but neither the manifest nor the log includes it` });
  }
}

/**
 * The last page of an unfinished run. Pages may be stored that are not logged yet, each following its predecessor. If
 * the first of them that does not follow is unreadable, it is reported and counts as the last page.
 */
async function findLastPage(deps: VerifyDependencies, run: RunKeyParts, verifiedPages: number): Promise<number> {
  let { page, cursor } = await lastLoggedPage(deps, run, verifiedPages);
  while (cursor !== null || page === 0) {
    page += 1;
    try {
      const stored = await deps.store.find(pageKey(run, page));
      if (stored === undefined || !follows(stored, run, page, cursor)) return page - 1;
      cursor = stored.nextCursor;
    } catch (error) {
      deps.onFinding(conflictFinding(page, error));
      return page;
    }
  }
  return page;
}

/** `cursor` is undefined if it is unknown. */
function follows(stored: StoredPage, { run }: RunKeyParts, page: number, cursor: StoredCursor | undefined): boolean {
  return stored.run === run && stored.page === page && (cursor === undefined || isSameCursor(stored.cursor, cursor));
}

/** The last page that was logged or verified. `cursor` is the next one: null for none, undefined if unknown. */
async function lastLoggedPage(
  { log }: VerifyDependencies,
  run: RunKeyParts,
  verifiedPages: number,
): Promise<{ readonly page: number; readonly cursor: StoredCursor | undefined }> {
  const unknown = { page: verifiedPages, cursor: verifiedPages === 0 ? null : undefined };
  try {
    const last = await log.last(run);
    if (last === undefined || last.page < verifiedPages) return unknown;
    return { page: last.page, cursor: last.repeats ? null : last.nextCursor };
  } catch (error) {
    // It was reported when the entries were verified.
    conflictFinding(null, error);
    return unknown;
  }
}

/** `run.json`, or `window.json`, repeats the header of the manifest. */
async function verifySummary(
  { store, onFinding }: VerifyDependencies,
  { header, manifest }: PublishedRun,
): Promise<void> {
  const report = (message: string) => onFinding({ page: null, message });
  const isWindow = header.until !== undefined;
  const key = isWindow ? windowSummaryKey(header) : runSummaryKey(header);
  const address = store.locate(key);
  try {
    const summary = await (isWindow ? readWindowSummary(store, key) : readRunSummary(store, key));
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
  // `latest.json` never points to a window.
  if (header.until !== undefined) return;
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
