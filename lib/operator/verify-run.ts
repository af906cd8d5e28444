/**
 * Reads a run again, from its manifest to its last byte, and reports all that is not as it was exported. Compares
 * manifest and page log page by page, while several objects are read and hashed concurrently. Nothing is changed.
 */

import { hash } from 'node:crypto';
import { isExportError } from '../core/errors.ts';
import { secondOf } from '../core/filter.ts';
import {
  type Bounds,
  type PageEntry,
  type Run,
  type RunTotals,
  type StoredCursor,
  type StoredPage,
  sumTotals,
} from '../core/model.ts';
import { DifferentContentError, readPage } from '../core/storage/compression.ts';
import {
  describePage,
  latestKey,
  manifestKey,
  pageKey,
  pageAt,
  type PageRef,
  type RunKeyParts,
  runFolder,
  summaryKey,
  startOf,
} from '../core/storage/keys.ts';
import { serviceTimes } from '../core/storage/manifest.ts';
import { type PublishedRun, readLatestPointer, readSummary } from '../core/storage/published-runs.ts';
import {
  type Chain,
  differences,
  type ExpectedPage,
  type Finding,
  Findings,
  isLogged,
  pagesOfLog,
  pagesOfManifest,
  type VerifiedStores,
} from './expected-pages.ts';

export interface VerifyDependencies extends VerifiedStores {
  /** Called with the size of each page once it is verified, in any order. */
  readonly onPage: (bytes: number) => void;
}

export interface VerifiedRun extends RunTotals {
  readonly run: string;
  readonly published: boolean;
  /** null: it is no bounded run, or not published. */
  readonly bounds: Bounds | null;
  /** What could not be verified, and why that is not a finding. */
  readonly notes: readonly string[];
  /** The first 100. */
  readonly findings: readonly Finding[];
  readonly findingCount: number;
}

/** How many objects are read at once. */
const concurrency = 8;

/**
 * Verifies the pages of a run and its folder. Of a published one, also its manifest and its summary, and the pointer to the newest run;
 * of an unfinished one, its log.
 */
export async function verifyRun(deps: VerifyDependencies, subject: PublishedRun | Run): Promise<VerifiedRun> {
  const findings = new Findings();
  const isPublished = 'manifest' in subject;
  const run: RunKeyParts = isPublished ? { ...subject.header, request: subject.header } : subject;
  const pages = isPublished ? pagesOfManifest(deps, run, subject, findings) : pagesOfLog(deps, subject, findings);
  let chains: readonly Chain[] = [];
  // Each worker takes the next page as soon as it has finished one. The generator serializes the calls of `next`.
  const work = async () => {
    for (;;) {
      const next = await pages.next();
      if (next.done === true) {
        chains = next.value ?? chains;
        return;
      }
      const { page } = next.value;
      const problem = await findProblem(deps, run, next.value, isPublished).catch((error: unknown) =>
        findings.reportConflict(page.page, error),
      );
      if (problem !== undefined) findings.report(page.page, `${deps.store.locate(page.key)} ${problem}`);
      deps.onPage(page.bytes);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  const leftovers = await reportUnexpectedPages(deps, run, chains, isPublished, findings);
  const totals = sumTotals(chains.map((chain) => chain.totals));
  if (isPublished) await verifyDocuments(deps, subject, chains, totals, findings);
  const { since, until, bounded } = isPublished ? subject.header : subject;
  const unverified = isPublished
    ? 'The page log no longer has the run, so the manifest was verified against the stored pages only'
    : 'The run is not published yet';
  return {
    run: run.run,
    published: isPublished,
    bounds: isPublished && bounded && until !== undefined ? { since, until } : null,
    ...totals,
    notes: [...(isPublished && isLogged(chains) ? [] : [unverified]), ...leftovers],
    findings: findings.found,
    findingCount: findings.count,
  };
}

async function verifyDocuments(
  { store }: VerifyDependencies,
  published: PublishedRun,
  chains: readonly Chain[],
  totals: RunTotals,
  findings: Findings,
): Promise<void> {
  const { header, manifest } = published;
  const problems = [
    ...headerProblems(header, manifest, chains),
    ...differences(header, expectedHeader(header, chains, totals)).map((text) => `it has the ${text}`),
  ];
  for (const problem of problems) findings.report(null, `${store.locate(manifest)}: ${problem}`);
  for (const verify of [verifySummary, verifyPointer]) {
    await verify(store, published, findings).catch((error: unknown) => findings.reportConflict(null, error));
  }
}

/** Where the header contradicts itself or the manifest's own key. */
function headerProblems(header: PublishedRun['header'], manifest: string, chains: readonly Chain[]): string[] {
  const { run, startedAt, since, filter, api } = header;
  const toSecond = (instant: string) => instant.slice(0, 'yyyy-mm-ddThh:mm:ss'.length);
  const problems: readonly (readonly [string, boolean])[] = [
    [`its export, run and date belong to ${manifestKey(header)}`, manifestKey(header) !== manifest],
    [`its startedAt, ${startedAt}, is not that of its run ID`, toSecond(startedAt) !== toSecond(startOf(run))],
    [`its slices are not those of its pages`, (header.slices?.length ?? 1) !== chains.length],
    [`its since, ${since}, is not that of its filter`, api === undefined && filter.date?.gte !== secondOf(since)],
  ];
  return problems.flatMap(([problem, applies]) => (applies ? [problem] : []));
}

/** What the header says of the pages, as the manifest lists them and the log has them. */
function expectedHeader(
  { slices, since, until }: PublishedRun['header'],
  chains: readonly Chain[],
  totals: RunTotals,
): object {
  const known = chains.flatMap(({ first, last }) => (first && last ? [{ first, last }] : []));
  return {
    totals,
    ...(known.length === chains.length ? serviceTimes({ slices: known }) : {}),
    slices:
      slices &&
      chains.map((chain, index) => ({
        since: index === 0 ? since : slices[index - 1]?.until,
        until: index === chains.length - 1 ? (until ?? null) : slices[index]?.until,
        ...chain.totals,
      })),
  };
}

/** Where the object of a page, or its metadata, contradicts the manifest or the log; undefined if it does not. */
async function findProblem(
  { store }: VerifyDependencies,
  { run }: RunKeyParts,
  { page, entry, ref, nextCursor }: ExpectedPage,
  isPublished: boolean,
): Promise<string | undefined> {
  try {
    const chunks = await store.read(page.key);
    if (chunks === undefined) return 'is missing';
    for await (const _ of readPage(page, chunks));
  } catch (error) {
    if (error instanceof DifferentContentError) return error.message;
    throw error;
  }
  const stored = await store.find(page.key).catch((error: unknown) => {
    // A published page is what the manifest says. Its metadata is lost together with the log, as when state.sqlite was deleted.
    if (!isPublished || entry !== undefined || !isExportError(error, 'PageConflictError')) throw error;
    return undefined;
  });
  if (stored === undefined) return undefined;
  const { revision } = stored;
  const isPage = stored.page === ref?.page && stored.slice === ref.slice && stored.attempt === ref.attempt;
  const problems: readonly (readonly [string, boolean])[] = [
    [`has the metadata of ${describePage(stored)} of run ${stored.run}`, stored.run !== run || !isPage],
    ['has the SHA-256 of other content in its metadata', stored.bytes !== page.bytes || stored.sha256 !== page.sha256],
    [`has ${stored.reports} reports in its metadata, not ${page.reports}`, stored.reports !== page.reports],
    ['has another document root in its metadata', entry !== undefined && stored.documentRoot !== entry.documentRoot],
    ['has another transferredBytes in its metadata', stored.transferredBytes !== page.transferredBytes],
    ['has another cursor in its metadata', !isSameCursor(stored.cursor, page.cursor)],
    ['has another next cursor in its metadata', !isSameCursor(stored.nextCursor, nextCursor)],
    // After a move to another bucket, an ETag differs if a key of KMS encrypts the copy, or it was copied in other parts. Then the
    // SHA-256 decides, which has been compared. A run that is not published needs the revisions that were logged.
    [
      `was replaced: its revision is ${revision}, but ${entry?.revision} was logged`,
      !isPublished && entry !== undefined && revision !== entry.revision,
    ],
  ];
  return problems.find(([, applies]) => applies)?.[0];
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
  { store }: VerifyDependencies,
  run: RunKeyParts,
  chains: readonly Chain[],
  isPublished: boolean,
  findings: Findings,
): Promise<readonly string[]> {
  const known = new Map(chains.map((chain) => [chain.ref.slice, chain]));
  const further: (readonly [PageRef, string])[] = [];
  let leftovers = 0;
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageAt(run, key);
    if (page === undefined) continue;
    // A slice may have begun since the log was read.
    const { ref, totals } = known.get(page.slice) ?? { ref: page, totals: { pages: 0 } };
    // A slice of a run that is not published may have started over since its log was read.
    const isOther = isPublished ? (page.attempt ?? 1) < (ref.attempt ?? 1) : page.attempt !== ref.attempt;
    if (isOther) leftovers += 1;
    else if (page.attempt !== ref.attempt || page.page > totals.pages) further.push([page, key]);
  }
  // Found after all pages are listed: the run may have progressed since its log was read.
  const lastPages = new Map<number | undefined, number>();
  for (const [page, key] of further) {
    const { slice, attempt } = page;
    if (!isPublished && !lastPages.has(slice)) {
      lastPages.set(slice, await findLastPage(store, run, page, known.get(slice)?.last, findings));
    }
    if (page.page <= (lastPages.get(slice) ?? 0) && attempt === (known.get(slice)?.ref ?? page).attempt) continue;
    findings.report(page.page, `${store.locate(key)} exists, but neither the manifest nor the log includes it`);
  }
  const text = leftovers === 1 ? '1 page of an earlier attempt' : `${leftovers} pages of earlier attempts`;
  return leftovers === 0 ? [] : [`${text} of slices left over in its folder: the run does not contain them`];
}

/**
 * The last page of a slice of an unfinished run. Pages may be stored that are not logged yet, or were not when the log was read, each
 * requested with the cursor of its predecessor. The first one that is unreadable is reported, and counts as the last page.
 */
async function findLastPage(
  store: VerifyDependencies['store'],
  run: RunKeyParts,
  { slice, attempt }: PageRef,
  logged: PageEntry | undefined,
  findings: Findings,
): Promise<number> {
  let cursor: StoredCursor = logged === undefined || logged.repeats ? null : logged.nextCursor;
  let last = logged?.page ?? 0;
  while (cursor !== null || last === 0) {
    const page = last + 1;
    let stored: StoredPage | undefined;
    try {
      stored = await store.find(pageKey(run, { slice, attempt, page }));
    } catch (error) {
      findings.reportConflict(page, error);
      return page;
    }
    const isNext =
      stored?.run === run.run && stored.page === page && stored.slice === slice && stored.attempt === attempt;
    if (stored === undefined || !isNext || !isSameCursor(stored.cursor, cursor)) return last;
    cursor = stored.nextCursor;
    last = page;
  }
  return last;
}

/** `run.json`, or `bounded.json`, repeats the header of the manifest. */
async function verifySummary(
  store: VerifyDependencies['store'],
  { header, manifest }: PublishedRun,
  findings: Findings,
): Promise<void> {
  const key = summaryKey(header);
  const address = store.locate(key);
  const summary = await readSummary(store, key);
  if (summary === undefined) return findings.report(null, `${address} is missing, so tables of runs lack this run`);
  const { runVersion: _, watermark: __, ...repeated } = summary;
  for (const difference of differences({ ...header, ...header.totals, manifest }, repeated)) {
    findings.report(null, `${address} is not that of the manifest, which has the ${difference}`);
  }
}

/** `latest.json` may point to a newer run than the verified one, but not to an older one, and never to a bounded one. */
async function verifyPointer(
  store: VerifyDependencies['store'],
  { header, manifest }: PublishedRun,
  findings: Findings,
): Promise<void> {
  if (header.bounded) return;
  const address = store.locate(latestKey(header.export));
  const pointer = await readLatestPointer(store, header.export);
  if (pointer === undefined) return findings.report(null, `${address} is missing`);
  const { sequence, run } = pointer;
  const pointsHere = sequence === header.sequence && run === header.run && pointer.manifest === manifest;
  const isSameRun = sequence === header.sequence || run === header.run;
  if (sequence < header.sequence || (isSameRun && !pointsHere)) {
    const problem = sequence > header.sequence ? 'but with another sequence' : 'which is older than this run';
    findings.report(null, `${address} points to run ${run} at ${pointer.manifest}, ${problem}`);
  }
}
