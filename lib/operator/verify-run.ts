/**
 * Reads a run again, from its manifest to its last byte, and reports all that is not as it was exported. The manifest
 * must be what FinishRun would write from the page log, and each object what the manifest and the log say of it, while
 * several objects are read and hashed. Nothing is changed.
 */

import { hash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { isExportError } from '../core/errors.ts';
import { secondOf } from '../core/filter.ts';
import {
  addPage,
  type LogEntry,
  type PageEntry,
  refOf,
  type Run,
  type RunTotals,
  type SliceRef,
  type StoredCursor,
  sumTotals,
  zeroTotals,
} from '../core/model.ts';
import type { PageLog, StoreReader } from '../core/ports.ts';
import { haveOneRoot } from '../core/document-root.ts';
import { readIgnoredPages, storedEntries } from '../core/steps/inventory.ts';
import { DifferentContentError, readPage } from '../core/storage/compression.ts';
import {
  describePage,
  latestKey,
  manifestKey,
  pageAt,
  type PageRef,
  pageKey,
  runFolder,
  startOf,
  summaryKey,
} from '../core/storage/keys.ts';
import { entriesOfAny } from '../core/run-progress.ts';
import { numberOf, shownNumber, sliceCountOf } from '../core/slices.ts';
import {
  BrokenChain,
  chainProblem,
  listedPage,
  parentRunOf,
  parentsOf,
  unbrokenChains,
} from '../core/storage/manifest.ts';
import { type PublishedRun, readLatestPointer, readSummary } from '../core/storage/published-runs.ts';
import {
  type ManifestHeader,
  type ManifestPage,
  type MissingParent,
  missingParentSchema,
} from '../core/storage/published-schemas.ts';
import { countMissing, foldContent, type LoggedRun, type RunContent } from '../core/storage/run-content.ts';

export interface VerifyDependencies {
  readonly store: StoreReader;
  readonly log: PageLog;
  /** Called with the size of each page once it is verified, in any order. */
  readonly onPage: (bytes: number) => void;
}

export interface VerifiedRun extends RunTotals {
  readonly run: string;
  readonly published: boolean;
  /** null: it is no bounded run, or not published. */
  readonly bounds: { readonly since: string; readonly until: string } | null;
  /** The run of another export whose reports are the parents; null if there is none. */
  readonly parentRun: { readonly export: string; readonly run: string } | null;
  /** What could not be verified, and why that is not a finding. */
  readonly notes: readonly string[];
  /** The first 100. */
  readonly findings: readonly Finding[];
  readonly findingCount: number;
}

interface Finding {
  readonly page: number | null;
  /** The problem, with the address of the object. */
  readonly message: string;
}

const concurrency = 8;
/** Further findings are only counted. */
const maxFindings = 100;

/** Verifies the pages of a published run, its folder, its manifest and summary, and the pointer to the newest run. */
export async function verifyRun(deps: VerifyDependencies, published: PublishedRun): Promise<VerifiedRun> {
  const { header, manifest } = published;
  const findings = new Findings();
  const reading: Reading = {
    ...deps,
    published,
    address: deps.store.locate(manifest),
    run: runOf(header),
    missing: await readMissing(deps.store, header, findings),
    isLogged: true,
    chains: new Map(),
    findings,
  };
  // Workers that take the pages from one reader.
  const pages = listedPages(reading);
  const verifyPages = async () => {
    for (let next = await pages.next(); !next.done; next = await pages.next()) await verifyPage(reading, next.value);
  };
  await Promise.all(Array.from({ length: concurrency }, verifyPages));
  const lost = 'The page log no longer has the run, so the manifest was verified against the stored pages only';
  const notes = [...(reading.isLogged ? [] : [lost]), ...(await verifyFolder(reading))];
  const totals = sumTotals([...reading.chains.values()].map((chain) => chain.totals));
  verifyHeader(reading, totals);
  for (const verify of [verifySummary, verifyPointer]) {
    await verify(reading).catch((error: unknown) => findings.reportConflict(null, error));
  }
  const { run, since, until, bounded } = header;
  const bounds = bounded && until !== undefined ? { since, until } : null;
  const parentRun = parentRunOf(header) ?? null;
  return { run, published: true, bounds, parentRun, ...totals, notes, ...findings.result() };
}

/** Checks a run that is not published as FinishRun does before it publishes. Its pages are not read. */
export async function verifyUnfinishedRun(deps: VerifyDependencies, run: Run): Promise<VerifiedRun> {
  const findings = new Findings();
  const ignored = await readIgnoredPages(deps.log, run);
  let totals = zeroTotals;
  let previous: LogEntry | undefined;
  let root: PageEntry['documentRoot'] = null;
  for await (const entry of findings.readable(storedEntries(deps, run, ignored, { unfinished: true }))) {
    const before = previous?.slice === entry.slice ? previous : undefined;
    const problem = chainProblem(run, before, entry, haveOneRoot(run) ? root : undefined);
    if (problem !== undefined) findings.report(entry.page, `The page log: ${problem}`);
    previous = entry;
    root = entry.documentRoot ?? root;
    if (entry.kind === 'end') continue;
    totals = { pages: totals.pages + 1, ...addPage(totals, entry) };
    deps.onPage(entry.bytes);
  }
  const notes = [
    'Its pages are as they were logged, by size and revision. FinishRun checks the rest before the run is published',
    ...(run.lastFailure === undefined ? [] : [`It has failed: ${run.lastFailure.error}: ${run.lastFailure.message}`]),
  ];
  const parentRun = parentRunOf(run) ?? null;
  return { run: run.run, published: false, bounds: null, parentRun, ...totals, notes, ...findings.result() };
}

class Findings {
  readonly found: Finding[] = [];
  count = 0;

  report(page: number | null, message: string): void {
    this.count += 1;
    if (this.found.length < maxFindings) this.found.push({ page, message });
  }

  result(): Pick<VerifiedRun, 'findings' | 'findingCount'> {
    return { findings: this.found, findingCount: this.count };
  }

  /** Reports an object or a record that is not as it was written. Any other error is thrown again. */
  reportConflict(page: number | null, error: unknown): undefined {
    if (!isExportError(error, 'PageConflictError')) throw error;
    this.report(page, error instanceof BrokenChain ? `The page log: ${error.reason}` : error.message);
  }

  /** The items up to the first one that cannot be read, which is reported. */
  async *readable<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item, undefined> {
    try {
      yield* items;
    } catch (error) {
      this.reportConflict(null, error);
    }
  }
}

/** A published run that is being verified, as far as it has been read. */
interface Reading extends VerifyDependencies {
  readonly published: PublishedRun;
  /** The address of the manifest. */
  readonly address: string;
  readonly run: LoggedRun;
  /** The slices whose parent is gone or was skipped. */
  readonly missing: ReadonlyMap<number, MissingParent>;
  /** Whether the log has the run. */
  isLogged: boolean;
  /** What the log has, once all of it is read. Undefined: it is not that of a complete run. */
  logged?: RunContent;
  /** The chains that have pages, by their slices. */
  readonly chains: Map<number, ListedChain>;
  readonly findings: Findings;
}

/** The pages of a slice, or of a run with one slice, as far as the manifest lists them. */
interface ListedChain extends SliceRef {
  totals: RunTotals;
  /** Whether its last page has a next cursor, because only the response to that showed its end. */
  endsAfterPages: boolean;
}

/** The run of a manifest, as far as its log depends on it. */
function runOf(header: ManifestHeader): LoggedRun {
  const { slices, parents, api = {} } = header;
  const count = slices?.length ?? parents?.count;
  // Slices of a period have a length. Their bounds are in the manifest instead.
  const counted = count === undefined ? undefined : { count, parallel: 1, ...(slices && { lengthMs: 1 }) };
  return { ...header, slices: counted, request: { ...header, api } };
}

interface ListedPage {
  readonly page: ManifestPage;
  readonly chain: ListedChain;
  /** Its number within the chain. */
  readonly number: number;
  /** Undefined: the log does not have it. */
  readonly entry: PageEntry | undefined;
  /** The cursor of the page after it in the chain. Undefined: the manifest lists none. */
  readonly followingCursor?: StoredCursor;
}

/** The pages that the manifest lists, each compared with the log, which is not in the store. */
async function* listedPages(reading: Reading): AsyncGenerator<ListedPage> {
  const { run, address, published, findings } = reading;
  const entries = loggedPages(reading);
  let line = 0;
  let previous: ListedPage | undefined;
  for await (const page of findings.readable(published.pages)) {
    line += 1;
    const { value: entry } = await entries.next();
    const chain = chainOf(reading, page, previous?.chain);
    const number = chain.totals.pages;
    const place = { page: line, slice: shownNumber(run, chain), key: pageKey(run, { ...chain, page: number }) };
    for (const problem of differences(page, entry === undefined ? place : listedPage(run, line, entry))) {
      findings.report(line, `${address}: the page in line ${line} has the ${problem}`);
    }
    if (previous?.chain === chain) yield { ...previous, followingCursor: page.cursor };
    else if (previous !== undefined) yield previous;
    previous = { page, chain, number, entry };
  }
  if (previous !== undefined) yield previous;
  for await (const entry of entries) {
    findings.report(null, `${address}: it does not list ${describePage(entry)}, which the page log has`);
  }
}

/** The chain of which the page is the next one: that of the page before it, or a later one. */
function chainOf({ run, chains }: Reading, page: ManifestPage, current: ListedChain | undefined): ListedChain {
  const stated: SliceRef = pageAt(run, page.key) ?? { slice: page.slice };
  const { slice, attempt } = stated;
  const isNext = current === undefined || numberOf(stated) > numberOf(current);
  const chain = isNext ? { slice, attempt, totals: zeroTotals, endsAfterPages: false } : current;
  chains.set(numberOf(chain), chain);
  chain.totals = sumTotals([chain.totals, { ...page, pages: 1 }]);
  return chain;
}

/** The pages of the log, as long as it is the one of a complete run. */
async function* loggedPages(reading: Reading): AsyncGenerator<PageEntry, undefined> {
  const { run, findings } = reading;
  const read = foldContent(run);
  try {
    yield* unbrokenChains(run, read, loggedEntries(reading));
    reading.logged = read.content();
  } catch (error) {
    if (reading.isLogged) findings.reportConflict(null, error);
  }
}

/**
 * The log of the run. Entries that may have expired are not read: they disappear in any order, over days. The newest
 * attempt of each slice is the published one.
 */
async function* loggedEntries(reading: Reading): AsyncGenerator<LogEntry> {
  const { log, run } = reading;
  // The plan of a run may have no parents.
  let isEmpty = run.slices?.count !== 0;
  for await (const entry of log.mayHaveExpired(run.startedAt) ? [] : entriesOfAny(log, refOf(run))) {
    isEmpty = false;
    yield entry;
  }
  reading.isLogged = !isEmpty;
}

/** `slices.0.pages 3, not 2`: the fields that are in `stated` with another value than in `expected`. */
function differences(stated: unknown, expected: object, path = ''): string[] {
  return Object.entries(expected).flatMap(([field, wanted]) => {
    const found = (stated as Record<string, unknown> | null | undefined)?.[field];
    if (typeof wanted === 'object' && wanted !== null) return differences(found, wanted as object, `${path}${field}.`);
    return found === wanted ? [] : [`${path}${field} ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`];
  });
}

async function verifyPage(reading: Reading, listed: ListedPage): Promise<void> {
  const { store, findings, onPage } = reading;
  const { key, page, bytes } = listed.page;
  const finding = findProblem(reading, listed);
  const problem = await finding.catch((error: unknown) => findings.reportConflict(page, error));
  if (problem !== undefined) findings.report(page, `${store.locate(key)} ${problem}`);
  onPage(bytes);
}

/** Where the object of a page, or its metadata, contradicts the manifest; undefined if it does not. */
async function findProblem(
  { store, run: { run }, isLogged }: Reading,
  { page, chain, number, entry, followingCursor }: ListedPage,
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
    // A published page is what the manifest says. Its metadata is lost together with the log, as when state.sqlite was
    // deleted.
    if (isLogged || !isExportError(error, 'PageConflictError')) throw error;
    return undefined;
  });
  if (stored === undefined) return undefined;
  // Without the log, only the last page itself shows that something was requested after it.
  const nextCursor = entry === undefined ? followingCursor : entry.nextCursor;
  if (followingCursor === undefined) chain.endsAfterPages = stored.nextCursor !== null;
  const { bytes, sha256, reports, transferredBytes } = page;
  const { slice, attempt } = chain;
  const expected = {
    run,
    slice,
    attempt,
    page: number,
    bytes,
    sha256,
    reports,
    transferredBytes,
    cursor: cursorHash(page.cursor),
    nextCursor: cursorHash(nextCursor === undefined ? stored.nextCursor : nextCursor),
    // Not the revision: after a move to another bucket, an ETag differs if a key of KMS encrypts the copy, or it was
    // copied in other parts. Then the SHA-256 decides, which has been compared.
  };
  const stated = { ...stored, cursor: cursorHash(stored.cursor), nextCursor: cursorHash(stored.nextCursor) };
  return differences(stated, expected).map((difference) => `has the ${difference}, in its metadata`)[0];
}

/** A cursor may be stored as its hash. */
const cursorHash = (cursor: StoredCursor): string | null =>
  typeof cursor === 'string' ? hash('sha256', cursor) : (cursor?.sha256 ?? null);

/**
 * Reports pages in the folder of the run that its manifest does not include. Returns a note about pages of other
 * attempts, which are left over as those of an abandoned run are: an earlier attempt of a slice has left them, or one
 * that received a page where another one found the end.
 */
async function verifyFolder(reading: Reading): Promise<string[]> {
  const { store, run, findings } = reading;
  let other = 0;
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageAt(run, key);
    if (page === undefined) continue;
    const kind = kindOfStored(page, reading);
    if (kind === 'of another attempt') other += 1;
    if (kind === 'unknown') {
      findings.report(page.page, `${store.locate(key)} exists, but the manifest does not include it`);
    }
  }
  const ofOthers = other === 1 ? '1 page of another attempt' : `${other} pages of other attempts`;
  return other === 0 ? [] : [`${ofOthers} left over in its folder: the run does not contain them`];
}

function kindOfStored(stored: PageRef, reading: Reading): 'of the run' | 'of another attempt' | 'unknown' {
  const { page, attempt = 1 } = stored;
  const slice = numberOf(stored);
  const {
    attempt: newest = 1,
    totals,
    endsAfterPages,
  } = reading.chains.get(slice) ?? chainWithoutPages(reading, slice);
  if (attempt < newest) return 'of another attempt';
  if (attempt > newest || page > totals.pages + 1) return 'unknown';
  if (page <= totals.pages) return 'of the run';
  return endsAfterPages ? 'of another attempt' : 'unknown';
}

function chainWithoutPages({ logged, missing }: Reading, slice: number): ListedChain {
  const { attempts, ends } = logged?.ignoredPages ?? {};
  // Without the log, it is not known in which attempt its parent was found to be gone.
  const attempt = logged === undefined && missing.has(slice) ? Number.POSITIVE_INFINITY : attempts?.get(slice);
  return { attempt, totals: zeroTotals, endsAfterPages: ends?.has(slice) ?? false };
}

/** Compares the header with the manifest's own key, with the pages, and with the log. */
function verifyHeader(
  { address, published, run, chains, missing, logged, findings, isLogged }: Reading,
  totals: RunTotals,
): void {
  const { header, manifest } = published;
  const { since, until, slices = [header.totals], parents } = header;
  const counted = { missing: [...missing.values()] };
  const expected = {
    // The key has export, run and date.
    key: manifest,
    startedAt: startOf(header.run),
    totals,
    slicesWithPages: chains.size,
    slices: header.slices?.map((slice, index) => ({
      since: index === 0 ? since : header.slices?.[index - 1]?.until,
      until: index === slices.length - 1 ? (until ?? null) : slice.until,
      ...(chains.get(index + 1)?.totals ?? zeroTotals),
    })),
    parents: parents && { gone: countMissing(counted, 'gone'), skipped: countMissing(counted, 'skipped') },
    ...(logged &&
      isLogged && {
        serviceStartedAt: logged.serviceStartedAt,
        serviceCompletedAt: logged.serviceCompletedAt,
        sliceCount: logged.complete,
        parents: parents && parentsOf({ ...run, parents }, logged),
      }),
  };
  const lowerBound = header.filter.date?.gte;
  if (header.api === undefined && lowerBound !== secondOf(since)) {
    findings.report(null, `${address}: its since, ${since}, is not that of its filter, ${lowerBound}`);
  }
  const stated = {
    ...header,
    key: manifestKey(header),
    startedAt: secondOf(header.startedAt),
    slicesWithPages: parents ? parents.count - parents.withoutPages : slices.filter(({ pages }) => pages > 0).length,
    sliceCount: sliceCountOf(run),
  };
  for (const difference of differences(stated, expected)) findings.report(null, `${address}: it has the ${difference}`);
}

/** `run.json`, or `bounded.json`, repeats the header of the manifest. */
async function verifySummary({ store, findings, published }: Reading): Promise<void> {
  const { header, manifest } = published;
  const key = summaryKey(header);
  const address = store.locate(key);
  const summary = await readSummary(store, key);
  if (summary === undefined) return findings.report(null, `${address} is missing, so tables of runs lack this run`);
  const { runVersion: _, watermark: __, ...repeated } = summary;
  for (const difference of differences({ ...header, ...header.totals, manifest }, repeated)) {
    findings.report(null, `${address} is not that of the manifest, which has the ${difference}`);
  }
}

/** `latest.json` points to the verified run or to a newer one, and never to a bounded one. */
async function verifyPointer({ store, findings, published }: Reading): Promise<void> {
  const { header, manifest } = published;
  const { export: exportName, run, sequence, bounded } = header;
  if (bounded) return;
  const address = store.locate(latestKey(exportName));
  const pointer = await readLatestPointer(store, exportName);
  if (pointer === undefined) return findings.report(null, `${address} is missing`);
  const isNewer = pointer.sequence > sequence && pointer.run !== run;
  const wrong = differences(pointer, { run, sequence, manifest });
  if (isNewer || wrong.length === 0) return;
  const ofThisRun = `this run with the ${wrong.join(', ')}`;
  const what = pointer.run === run ? ofThisRun : `run ${pointer.run}, not to this run or a newer one`;
  findings.report(null, `${address} points to ${what}`);
}

/**
 * The parents without pages by slice, from their list. The page log has them, too; those of an expired log are known
 * from the list.
 */
async function readMissing(
  store: StoreReader,
  { parents }: ManifestHeader,
  findings: Findings,
): Promise<ReadonlyMap<number, MissingParent>> {
  if (parents?.missing === undefined) return new Map();
  const { key, bytes, sha256 } = parents.missing;
  const chunks = await store.read(key);
  const content = chunks && (await buffer(chunks));
  const found = content && { bytes: content.length, sha256: hash('sha256', content) };
  const [problem] =
    found === undefined ? ['is missing'] : differences(found, { bytes, sha256 }).map((wrong) => `has the ${wrong}`);
  if (problem !== undefined) findings.report(null, `${store.locate(key)} ${problem}`);
  if (content === undefined || problem !== undefined) return new Map();
  const lines = content.toString().trimEnd().split('\n');
  const listed = lines.map((line) => missingParentSchema.parse(JSON.parse(line)));
  return new Map(listed.map((parent) => [parent.slice, parent]));
}
