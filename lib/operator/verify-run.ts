/**
 * Reads a run again, from its manifest to its last byte, and reports all that is not as it was exported. Manifest and
 * stored objects say the same of each page, so they are compared field by field, while several objects are read and
 * hashed. Nothing is changed.
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
  type StoredCursor,
  type StoredPage,
  sumTotals,
  totalsOf,
  zeroTotals,
} from '../core/model.ts';
import type { ChainRef, PageLog, StoreReader } from '../core/ports.ts';
import { haveOneRoot } from '../core/document-root.ts';
import { readPlaced, storedEntries } from '../core/steps/inventory.ts';
import { DifferentContentError, readPage } from '../core/storage/compression.ts';
import {
  latestKey,
  manifestKey,
  pageAt,
  type PageRef,
  pageKey,
  type RunKeyParts,
  runFolder,
  startOf,
  summaryKey,
} from '../core/storage/keys.ts';
import { entriesOfAny } from '../core/run-progress.ts';
import { numberOf } from '../core/slices.ts';
import { chainProblem, parentRunOf } from '../core/storage/manifest.ts';
import { type PublishedRun, readLatestPointer, readSummary } from '../core/storage/published-runs.ts';
import { type ManifestPage, missingParentSchema } from '../core/storage/published-schemas.ts';
import { addServiceTimes, noServiceTimes } from '../core/storage/run-content.ts';
import { parentRunIn } from './run-view.ts';

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
  const { header } = published;
  const run = { ...header, request: header };
  const findings = new Findings();
  const log = logUpTo(findings.readable(loggedEntries(deps.log, header)));
  const reading: Reading = { ...deps, run, log, slices: [], ended: new Map(), findings };
  // Workers that take the pages from one reader.
  const pages = pagesOfManifest(reading, published);
  const verifyPages = async () => {
    for (let next = await pages.next(); !next.done; next = await pages.next()) await verifyPage(reading, next.value);
  };
  await Promise.all(Array.from({ length: concurrency }, verifyPages));
  await skipTo(reading, Number.POSITIVE_INFINITY);
  await verifyMissing(reading, header);
  const notes = [...verifyLog(reading, header.parents !== undefined), ...(await verifyFolder(reading))];
  const totals = sumTotals(reading.slices.map((slice) => slice.totals));
  verifyHeader(reading, published, totals);
  for (const verify of [verifySummary, verifyPointer]) {
    await verify(reading, published).catch((error: unknown) => findings.reportConflict(null, error));
  }
  const { since, until, bounded } = run;
  const bounds = bounded && until !== undefined ? { since, until } : null;
  const parentRun = parentRunIn(header) ?? null;
  return { run: run.run, published: true, bounds, parentRun, ...totals, notes, ...findings.result() };
}

/** Checks a run that is not published as FinishRun does before it publishes. Its pages are not read. */
export async function verifyUnfinishedRun(deps: VerifyDependencies, run: Run): Promise<VerifiedRun> {
  const findings = new Findings();
  const placed = await readPlaced(deps.log, run);
  let totals = zeroTotals;
  let previous: LogEntry | undefined;
  let root: PageEntry['documentRoot'] = null;
  for await (const entry of findings.readable(storedEntries(deps, run, placed, { unfinished: true }))) {
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

/**
 * The log of the run. Entries that may have expired are not read: they disappear in any order, over days. The newest
 * attempt of each slice is the published one.
 */
function loggedEntries(log: PageLog, header: PublishedRun['header']): AsyncIterable<LogEntry> | readonly LogEntry[] {
  if (log.mayHaveExpired(header.startedAt)) return [];
  return entriesOfAny(log, refOf(header));
}

/** Returns what reads the log of a run once: the entries of slices up to a number that were not read yet. */
function logUpTo(entries: AsyncGenerator<LogEntry, undefined>): Reading['log'] {
  /** An entry that was read, and belongs to a later slice. */
  let pending: LogEntry | undefined;
  return async function* upTo(number) {
    for (;;) {
      const entry = pending ?? (await entries.next()).value;
      const isLater = entry !== undefined && numberOf(entry) > number;
      pending = isLater ? entry : undefined;
      if (entry === undefined || isLater) return undefined;
      yield entry;
    }
  };
}

/** Passes over the slices before `number`, of which the manifest has no pages. */
async function skipTo({ log, ended }: Pick<Reading, 'log' | 'ended'>, number: number): Promise<void> {
  for await (const entry of log(number - 1)) {
    const { kind, page, attempt = 1 } = entry;
    if (kind === 'end' && page === 1) ended.set(numberOf(entry), attempt);
  }
}

/** Compares the list of the parents without pages with the manifest. Those of an expired log are known from it. */
async function verifyMissing({ store, ended, findings }: Reading, { parents }: PublishedRun['header']): Promise<void> {
  const { missing, gone = 0, skipped = 0 } = parents ?? {};
  const address = missing && store.locate(missing.key);
  const chunks = missing && (await store.read(missing.key));
  if (missing === undefined || chunks === undefined) {
    if (gone + skipped > 0) findings.report(null, `${address ?? 'The list of missing parents'} is missing`);
    return;
  }
  const content = await buffer(chunks);
  const { bytes, sha256 } = missing;
  const found = { bytes: content.length, sha256: hash('sha256', content) };
  const [problem] = differences(found, { bytes, sha256 });
  if (problem !== undefined) return findings.report(null, `${address} has the ${problem}`);
  const lines = content.toString().trimEnd().split('\n');
  const listed = lines.map((line) => missingParentSchema.parse(JSON.parse(line)));
  const countOf = (reason: string) => listed.filter((each) => each.reason === reason).length;
  for (const wrong of differences({ gone, skipped }, { gone: countOf('gone'), skipped: countOf('skipped') })) {
    findings.report(null, `The manifest is not that of ${address}: it has the ${wrong}`);
  }
  for (const { slice } of listed) if (!ended.has(slice)) ended.set(slice, Number.POSITIVE_INFINITY);
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
    this.report(page, error.message);
  }

  /** The items up to the first one that cannot be read, which is reported. */
  async *readable<Item>(items: AsyncIterable<Item> | readonly Item[]): AsyncGenerator<Item, undefined> {
    try {
      yield* items;
    } catch (error) {
      this.reportConflict(null, error);
    }
  }
}

/** A run that is being verified, as far as it has been read. */
interface Reading extends Omit<VerifyDependencies, 'log'> {
  readonly run: RunKeyParts;
  readonly log: (number: number) => AsyncGenerator<LogEntry, undefined>;
  readonly slices: SeenSlice[];
  /** The slices without pages, and their attempts, as far as they are known. */
  readonly ended: Map<number, number>;
  readonly findings: Findings;
}

/** A slice of the run, or the run if it has one slice, as far as its pages have been read. */
interface SeenSlice {
  readonly ref: ChainRef;
  /** The entries of the log that have not been read. */
  readonly entries: AsyncGenerator<LogEntry, undefined>;
  /** The newest entry that was read. Undefined: the log no longer has the slice. */
  logged: LogEntry | undefined;
  totals: RunTotals;
  first?: StoredPage | undefined;
  /** Whether its last page has a next cursor, because only the response to that showed its end. */
  endsAfterPages: boolean;
}

interface ExpectedPage {
  readonly page: ManifestPage;
  /** Its number within its slice, and the slice. */
  readonly ref: ChainRef & { readonly page: number };
  readonly slice: SeenSlice;
  /** The cursor that the page after it was requested with. Undefined: that is not known, as only the log has it. */
  readonly nextCursor: StoredCursor | undefined;
}

/** The pages that the manifest lists, each compared with the log, which is not in the store. */
async function* pagesOfManifest(
  reading: Reading,
  { header, manifest, pages }: PublishedRun,
): AsyncGenerator<ExpectedPage> {
  const { store, run, findings } = reading;
  let slice: SeenSlice | undefined;
  let line = 0;
  for await (const [page, following] of withFollowing(findings.readable(pages))) {
    line += 1;
    slice ??= await beginSlice(reading, header, page);
    slice.totals = { pages: slice.totals.pages + 1, ...addPage(slice.totals, page) };
    const ref = { ...slice.ref, page: slice.totals.pages };
    for (const problem of differences(page, {
      page: line,
      slice: (header.slices ?? header.parents) && ref.slice,
      key: pageKey(run, ref),
    })) {
      findings.report(line, `${store.locate(manifest)}: the page in line ${line} has the ${problem}`);
    }
    const { value: entry } = await slice.entries.next();
    slice.logged = entry ?? slice.logged;
    const { bytes, sha256, cursor, parent } = page;
    const [problem] = entry === undefined ? [] : differences(entry, { page: ref.page, bytes, sha256, cursor, parent });
    if (problem !== undefined) findings.report(line, `The page log: page ${ref.page} has the ${problem}`);
    const isLast = following === undefined || following.slice !== page.slice;
    yield { page, ref, slice, nextCursor: isLast ? await cursorAfterLast(slice) : following.cursor };
    if (isLast) slice = undefined;
  }
  if (line === 0 && header.parents === undefined) findings.report(null, `${store.locate(manifest)}: it lists no pages`);
}

/** The cursor of the request after the last page: null if there was none. Reads the rest of the log. */
async function cursorAfterLast(slice: SeenSlice): Promise<StoredCursor | undefined> {
  for await (const entry of slice.entries) slice.logged = entry;
  const { logged } = slice;
  slice.endsAfterPages = logged?.kind === 'end';
  return logged && (logged.kind === 'end' ? logged.cursor : null);
}

/** Begins the slice of the run whose first page is `page`. */
async function beginSlice(reading: Reading, header: PublishedRun['header'], page: ManifestPage): Promise<SeenSlice> {
  const { run, slices, log } = reading;
  const found = pageAt(run, page.key);
  const number = header.slices ? slices.length + 1 : header.parents ? page.slice : found?.slice;
  await skipTo(reading, number ?? 1);
  const attempt = number && (found?.attempt ?? 1);
  const ref = { export: run.export, run: run.run, slice: number, attempt };
  const slice = { ref, entries: log(number ?? 1), logged: undefined, totals: zeroTotals, endsAfterPages: false };
  slices.push(slice);
  return slice;
}

/** Each item with the one after it. */
async function* withFollowing<Item>(
  items: AsyncIterable<Item>,
): AsyncGenerator<readonly [Item, Item | undefined], undefined> {
  let current: { readonly item: Item } | undefined;
  for await (const following of items) {
    if (current !== undefined) yield [current.item, following];
    current = { item: following };
  }
  if (current !== undefined) yield [current.item, undefined];
}

/** `slices.0.pages 3, not 2`: the fields that are in `stated` with another value than in `expected`. */
function differences(stated: unknown, expected: object, path = ''): string[] {
  return Object.entries(expected).flatMap(([field, wanted]) => {
    const found = (stated as Record<string, unknown> | null | undefined)?.[field];
    if (typeof wanted === 'object' && wanted !== null) return differences(found, wanted as object, `${path}${field}.`);
    return found === wanted ? [] : [`${path}${field} ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`];
  });
}

async function verifyPage(reading: Reading, expected: ExpectedPage): Promise<void> {
  const { store, findings, onPage } = reading;
  const { key, page, bytes } = expected.page;
  const finding = findProblem(reading, expected);
  const problem = await finding.catch((error: unknown) => findings.reportConflict(page, error));
  if (problem !== undefined) findings.report(page, `${store.locate(key)} ${problem}`);
  onPage(bytes);
}

/** Where the object of a page, or its metadata, contradicts the manifest; undefined if it does not. */
async function findProblem(
  { store, run: { run } }: Reading,
  { page, ref, slice, nextCursor }: ExpectedPage,
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
    if (slice.logged !== undefined || !isExportError(error, 'PageConflictError')) throw error;
    return undefined;
  });
  if (stored === undefined) return undefined;
  if (ref.page === 1) slice.first = stored;
  // Without the log, only the last page itself shows that something was requested after it.
  if (nextCursor === undefined) slice.endsAfterPages = stored.nextCursor !== null;
  const { bytes, sha256, reports, transferredBytes } = page;
  const expected = {
    run,
    slice: ref.slice,
    attempt: ref.attempt,
    page: ref.page,
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

/** Compares the number of pages and their totals with the newest entry of each slice, which has those up to it. */
function verifyLog({ slices, findings }: Reading, hasParents: boolean): string[] {
  if (slices.every(({ logged }) => logged === undefined)) {
    return ['The page log no longer has the run, so the manifest was verified against the stored pages only'];
  }
  for (const { ref, logged, totals } of slices) {
    const ofSlice = ref.slice === undefined ? '' : ` of ${hasParents ? 'parent' : 'slice'} ${ref.slice}`;
    for (const difference of differences(totals, totalsOf(logged))) {
      findings.report(null, `The manifest is not that of the page log${ofSlice}: it lists the ${difference}`);
    }
  }
  return [];
}

/**
 * Reports pages in the folder of the run that its manifest does not include. Returns a note about pages of other
 * attempts, which are left over as those of an abandoned run are: an earlier attempt of a slice has left them, or one
 * that received a page where another one found the end.
 */
async function verifyFolder({ store, run, slices, ended, findings }: Reading): Promise<string[]> {
  const known = new Map<number, Expected>([
    ...[...ended].map(
      ([slice, attempt]) => [slice, { ref: { attempt }, totals: zeroTotals, endsAfterPages: true }] as const,
    ),
    ...slices.map((slice) => [numberOf(slice.ref), slice] as const),
  ]);
  let other = 0;
  for await (const { key } of store.list(runFolder(run))) {
    const page = pageAt(run, key);
    if (page === undefined) continue;
    const kind = kindOfStored(page, known.get(numberOf(page)));
    if (kind === 'of another attempt') other += 1;
    if (kind === 'unknown') {
      findings.report(page.page, `${store.locate(key)} exists, but the manifest does not include it`);
    }
  }
  const ofOthers = other === 1 ? '1 page of another attempt' : `${other} pages of other attempts`;
  return other === 0 ? [] : [`${ofOthers} left over in its folder: the run does not contain them`];
}

/** What the folder may have of a slice. */
interface Expected extends Pick<SeenSlice, 'totals' | 'endsAfterPages'> {
  readonly ref: Pick<ChainRef, 'attempt'>;
}

function kindOfStored(
  { page, attempt = 1 }: PageRef,
  slice: Expected | undefined,
): 'of the run' | 'of another attempt' | 'unknown' {
  const { ref, totals, endsAfterPages } = slice ?? { ref: {}, totals: zeroTotals, endsAfterPages: false };
  const { attempt: newest = 1 } = ref;
  if (attempt < newest) return 'of another attempt';
  if (attempt > newest || page > totals.pages + 1) return 'unknown';
  if (page <= totals.pages) return 'of the run';
  return endsAfterPages ? 'of another attempt' : 'unknown';
}

/** Compares the header with the manifest's own key, and with the pages. */
function verifyHeader(
  { store, slices, findings }: Reading,
  { header, manifest }: PublishedRun,
  totals: RunTotals,
): void {
  const { since, until } = header;
  const known = slices.flatMap(({ first, logged: last }) => (first && last ? [{ first, last }] : []));
  const expected = {
    // The key has export, run and date.
    key: manifest,
    startedAt: startOf(header.run),
    totals,
    ...(known.length === slices.length ? known.reduce(addServiceTimes, noServiceTimes) : {}),
    sliceCount: slices.length,
    slices:
      header.slices &&
      slices.map((slice, index) => ({
        since: index === 0 ? since : header.slices?.[index - 1]?.until,
        until: index === slices.length - 1 ? (until ?? null) : header.slices?.[index]?.until,
        ...slice.totals,
      })),
  };
  const lowerBound = header.filter.date?.gte;
  if (header.api === undefined && lowerBound !== secondOf(since)) {
    findings.report(null, `${store.locate(manifest)}: its since, ${since}, is not that of its filter, ${lowerBound}`);
  }
  const stated = {
    ...header,
    key: manifestKey(header),
    startedAt: secondOf(header.startedAt),
    sliceCount: header.parents ? header.parents.count - header.parents.withoutPages : (header.slices?.length ?? 1),
  };
  for (const difference of differences(stated, expected)) {
    findings.report(null, `${store.locate(manifest)}: it has the ${difference}`);
  }
}

/** `run.json`, or `bounded.json`, repeats the header of the manifest. */
async function verifySummary({ store, findings }: Reading, { header, manifest }: PublishedRun): Promise<void> {
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
async function verifyPointer({ store, findings }: Reading, { header, manifest }: PublishedRun): Promise<void> {
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
