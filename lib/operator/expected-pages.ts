/** The pages that a run should consist of according to its manifest and its log, and where those two disagree. */

import { isExportError } from '../core/errors.ts';
import {
  addPage,
  type Instant,
  type PageEntry,
  type Run,
  type RunTotals,
  type StoredCursor,
  zeroTotals,
} from '../core/model.ts';
import type { ChainRef, PageLog, RunHistory, StoreReader } from '../core/ports.ts';
import { sliceOf } from '../core/slices.ts';
import { describePage, pageAt, type PageRef, type RunKeyParts } from '../core/storage/keys.ts';
import { chainProblem } from '../core/storage/manifest.ts';
import type { PublishedRun } from '../core/storage/published-runs.ts';
import type { ManifestPage } from '../core/storage/published-schemas.ts';
import { epochMsOf } from '../core/timestamps.ts';

export interface Finding {
  readonly page: number | null;
  /** What is wrong, with the address of the object. */
  readonly message: string;
}

export interface VerifiedStores {
  readonly store: StoreReader;
  readonly log: PageLog & Pick<RunHistory, 'mayHaveExpired'>;
}

/** Further findings are only counted. */
const maxFindings = 100;

/** Collects what is wrong with a run. */
export class Findings {
  readonly found: Finding[] = [];
  count = 0;

  report(page: number | null, message: string): void {
    this.count += 1;
    if (this.found.length < maxFindings) this.found.push({ page, message });
  }

  /** Reports an object or a record that is not as it was written. Any other error is thrown again. */
  reportConflict(page: number | null, error: unknown): void {
    if (!isExportError(error, 'PageConflictError')) throw error;
    this.report(page, error.message);
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

/** A page as it should be, and its log entry if there is one. */
export interface ExpectedPage {
  readonly page: ManifestPage;
  readonly entry: PageEntry | undefined;
  /** Its number within its slice, and the slice. Undefined: it has the key of no page. */
  readonly ref: PageRef | undefined;
  /** Whether no page of its slice follows. */
  readonly isLast: boolean;
}

/** What pages have been expected. */
export interface Expected {
  /** What could not be verified. */
  readonly notes: readonly string[];
  /** The slices of the run, or the run, if it has one slice. */
  readonly chains: readonly ExpectedChain[];
}

export interface ExpectedChain extends Pick<PageRef, 'slice' | 'attempt'> {
  readonly pages: number;
  /** The cursor that its last page returned. */
  readonly nextCursor: StoredCursor;
}

/** A slice in the manifest, and how far its log was read. */
interface ListedSlice {
  readonly chain: ChainRef;
  readonly entries: AsyncGenerator<PageEntry, undefined>;
  /** How many pages the slices before it have. */
  readonly pagesBefore: number;
  totals: RunTotals;
  logged: number;
  first?: PageEntry | undefined;
  last?: PageEntry | undefined;
}

/**
 * The pages that the manifest lists, compared with the log.
 * The log of a run whose entries may have expired is not read: entries disappear in any order, over days.
 */
export async function* pagesOfManifest(
  { log, store }: VerifiedStores,
  run: RunKeyParts,
  { header, manifest, pages }: PublishedRun,
  findings: Findings,
): AsyncGenerator<ExpectedPage, Expected> {
  const hasExpired = log.mayHaveExpired(header.startedAt);
  const report = (page: number | null, message: string) =>
    findings.report(page, `${store.locate(manifest)}: ${message}`);
  const reportLog = (page: number, message: string) => findings.report(page, `The page log${message}`);
  const slices: ListedSlice[] = [];
  let slice: ListedSlice | undefined;
  let root: PageEntry['documentRoot'] = null;
  let count = 0;
  for await (const [page, following] of withFollowing(findings.readable(pages))) {
    const ref = pageAt(run, page.key);
    const isLast = following === undefined || following.slice !== page.slice;
    if (slice === undefined) {
      const attempt = page.slice === undefined ? undefined : (ref?.attempt ?? 1);
      const chain = { export: run.export, run: run.run, slice: page.slice, attempt };
      const entries = findings.readable(hasExpired ? noEntries() : log.entries(chain));
      slice = { chain, entries, pagesBefore: count, totals: zeroTotals, logged: 0 };
      slices.push(slice);
    }
    const { chain, entries, last: previous } = slice;
    count += 1;
    const number = slice.totals.pages + 1;
    slice.totals = { pages: number, ...addPage(slice.totals, page) };
    if (page.page !== count) report(page.page, `it lists page ${page.page} where page ${count} is expected`);
    if (ref?.page !== number || ref.slice !== chain.slice || ref.attempt !== chain.attempt) {
      report(page.page, `page ${page.page} has the key ${page.key}`);
    }
    const { value: entry } = await entries.next();
    if (entry !== undefined) {
      slice.logged += 1;
      const problem = chainProblem(run, previous, entry, root) ?? differenceOf({ ...page, page: number }, entry);
      if (problem !== undefined) reportLog(page.page, `: ${problem}`);
      if (number === 1) slice.first = entry;
      root = entry.documentRoot ?? root;
    }
    slice.last = entry;
    yield { page, entry, ref, isLast };
    if (!isLast) continue;
    const end = describePage({ ...chain, page: number });
    if (entry !== undefined && entry.nextCursor !== null) {
      reportLog(count, `: ${end} has a next cursor, but the manifest ends with it`);
    }
    if ((await entries.next()).value !== undefined) {
      reportLog(count + 1, ` continues after ${end}, where the manifest ends`);
    }
    slice = undefined;
  }
  if (count === 0) report(null, 'it lists no pages');
  for (const problem of sliceProblems(header, slices)) report(null, problem);
  const isLogged = slices.some(({ logged }) => logged > 0);
  for (const { chain, pagesBefore, logged, totals } of slices) {
    if (!isLogged || logged === totals.pages) continue;
    const end = describePage({ page: logged, ...chain });
    reportLog(pagesBefore + logged + 1, ` ends after ${end}, but the manifest lists ${totals.pages} pages`);
  }
  return {
    notes: isLogged
      ? []
      : ['The page log no longer has the run, so the manifest was verified against the stored pages only'],
    chains: slices.map(({ chain, totals }) => ({ ...chain, pages: totals.pages, nextCursor: null })),
  };
}

/** Where the header contradicts the slices that the manifest lists, or their log. */
function sliceProblems(header: PublishedRun['header'], listed: readonly ListedSlice[]): string[] {
  const { slices, since, until = null, serviceStartedAt, serviceCompletedAt } = header;
  const problems: string[] = [];
  const [first, last] =
    slices === undefined ? ['page 1', `page ${listed[0]?.totals.pages}`] : ['a first page', 'a last page'];
  const started = serviceTimesOf(listed.map((slice) => slice.first));
  if (started !== undefined && (started[0] ?? null) !== serviceStartedAt) {
    problems.push(`its serviceStartedAt is not that of ${first}`);
  }
  const completed = serviceTimesOf(listed.map((slice) => slice.last));
  if (completed !== undefined && (completed.at(-1) ?? null) !== serviceCompletedAt) {
    problems.push(`its serviceCompletedAt is not that of ${last}`);
  }
  if (slices === undefined) return problems;
  if (listed.some(({ chain }, index) => chain.slice !== index + 1) || listed.length !== slices.length) {
    const numbers = listed.map(({ chain }) => chain.slice).join(', ');
    problems.push(`it has ${slices.length} slices, but its pages are of slices ${numbers}`);
  }
  for (const [index, slice] of slices.entries()) {
    const begins = index === 0 ? since : slices[index - 1]?.until;
    if (slice.since !== begins) problems.push(`slice ${index + 1} begins at ${slice.since}, not at ${begins}`);
    const { totals } = listed[index] ?? {};
    if (totals !== undefined) problems.push(...differentTotals(`slice ${index + 1} has`, slice, totals));
  }
  const end = slices.at(-1)?.until;
  if (end !== until) problems.push(`its last slice ends at ${end}, not at ${until}`);
  return problems;
}

/** In order. Undefined: an entry is unknown. */
function serviceTimesOf(entries: readonly (PageEntry | undefined)[]): readonly Instant[] | undefined {
  if (entries.length === 0 || entries.includes(undefined)) return undefined;
  const times = entries.flatMap((entry) => entry?.serviceTime ?? []);
  return times.sort((one, other) => epochMsOf(one) - epochMsOf(other));
}

/** Where the stated totals are not those of the pages. */
export const differentTotals = (what: string, stated: RunTotals, found: RunTotals): string[] =>
  (['pages', 'reports', 'bytes'] as const)
    .filter((field) => stated[field] !== found[field])
    .map((field) => `${what} ${stated[field]} ${field}, but its pages add up to ${found[field]}`);

/** The pages in the log of a run that has no manifest. */
export async function* pagesOfLog(
  { log }: Pick<VerifiedStores, 'log'>,
  run: Run,
  findings: Findings,
): AsyncGenerator<ExpectedPage, Expected> {
  const chains: ExpectedChain[] = [];
  const begun = run.slices === undefined ? 1 : await log.lastSlice(run);
  let root: PageEntry['documentRoot'] = null;
  for (let number = 1; number <= begun; number += 1) {
    const { slice, attempt, ...chain } = sliceOf(run, number);
    let previous: PageEntry | undefined;
    for await (const entry of findings.readable(log.entries({ ...chain, slice, attempt }))) {
      const problem = chainProblem(run, previous, entry, root);
      if (problem !== undefined) findings.report(entry.page, `The page log: ${problem}`);
      yield { page: entry, entry, ref: entry, isLast: entry.nextCursor === null };
      previous = entry;
      root = entry.documentRoot ?? root;
    }
    const nextCursor = previous === undefined || previous.repeats ? null : previous.nextCursor;
    chains.push({ slice, attempt, pages: previous?.page ?? 0, nextCursor });
  }
  return { notes: [], chains };
}

/** Each item with the one after it. */
async function* withFollowing<Item>(items: AsyncIterable<Item>): AsyncGenerator<readonly [Item, Item | undefined]> {
  let current: { readonly item: Item } | undefined;
  for await (const following of items) {
    if (current !== undefined) yield [current.item, following];
    current = { item: following };
  }
  if (current !== undefined) yield [current.item, undefined];
}

async function* noEntries(): AsyncGenerator<PageEntry> {}

const comparedFields = [
  'page',
  'key',
  'bytes',
  'sha256',
  'compression',
  'storedBytes',
  'storedSha256',
  'reports',
  'cursor',
  'transferredBytes',
] as const;

function differenceOf(page: ManifestPage, entry: PageEntry): string | undefined {
  const field = comparedFields.find((name) => page[name] !== entry[name]);
  if (field === undefined) return undefined;
  return `page ${entry.page} has ${field} ${JSON.stringify(entry[field])}, the manifest has ${JSON.stringify(page[field])}`;
}
