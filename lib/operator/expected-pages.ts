/** The pages that a run should consist of according to its manifest and its log, and where those two disagree. */

import { isExportError } from '../core/errors.ts';
import { addPage, type Instant, type PageEntry, type Run, type RunTotals, zeroTotals } from '../core/model.ts';
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

export interface ExpectedPagesDependencies {
  readonly store: StoreReader;
  readonly log: PageLog & Pick<RunHistory, 'mayHaveExpired'>;
  readonly onFinding: (finding: Finding) => void;
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

export interface ExpectedChain {
  readonly chain: ChainRef;
  readonly pages: number;
}

/** A slice in the manifest, and how far its log was read. */
interface ListedSlice {
  readonly chain: ChainRef;
  readonly entries: AsyncGenerator<PageEntry, undefined>;
  /** The number of its first page, over all slices. */
  readonly firstPage: number;
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
  { log, store, onFinding }: ExpectedPagesDependencies,
  run: RunKeyParts,
  { header, manifest, pages }: PublishedRun,
): AsyncGenerator<ExpectedPage, Expected> {
  const hasExpired = log.mayHaveExpired(header.startedAt);
  const report = (page: number | null, message: string) =>
    onFinding({ page, message: `${store.locate(manifest)}: ${message}` });
  const reportLog = (page: number, message: string) => onFinding({ page, message: `The page log${message}` });
  const slices: ListedSlice[] = [];
  let previous: ExpectedPage | undefined;
  let root: PageEntry['documentRoot'] = null;
  let count = 0;

  const beginSlice = (slice: number | undefined, attempt: number | undefined): ListedSlice => {
    const chain = { export: run.export, run: run.run, ...(slice === undefined ? {} : { slice, attempt }) };
    const entries = readable(hasExpired ? noEntries() : log.entries(chain), onFinding);
    const begun = { chain, entries, firstPage: count, totals: zeroTotals, logged: 0 };
    slices.push(begun);
    return begun;
  };
  /** Compares where the manifest and the log of a slice end. `page` is the last one that was listed. */
  const endSlice = async ({ chain, entries, totals, last }: ListedSlice, page: number): Promise<void> => {
    const at = (inSlice: number) => describePage({ page: inSlice, ...chain });
    if (last !== undefined && last.nextCursor !== null) {
      reportLog(page, `: ${at(totals.pages)} has a next cursor, but the manifest ends with it`);
    }
    if ((await entries.next()).value !== undefined) {
      reportLog(page + 1, ` continues after ${at(totals.pages)}, where the manifest ends`);
    }
  };

  let current: ListedSlice | undefined;
  for await (const page of readable(pages, onFinding)) {
    count += 1;
    const ref = pageAt(run, page.key);
    const isNext = current === undefined || page.slice !== current.chain.slice;
    if (isNext && current !== undefined) await endSlice(current, count - 1);
    const slice: ListedSlice = isNext || current === undefined ? beginSlice(page.slice, ref?.attempt ?? 1) : current;
    current = slice;
    if (page.page !== count) report(page.page, `it lists page ${page.page} where page ${count} is expected`);
    const number = slice.totals.pages + 1;
    const isOfSlice = ref?.slice === slice.chain.slice && ref?.attempt === slice.chain.attempt;
    if (ref?.page !== number || !isOfSlice) report(page.page, `page ${page.page} has the key ${page.key}`);
    slice.totals = { pages: number, ...addPage(slice.totals, page) };
    const { value: entry } = await slice.entries.next();
    if (entry !== undefined) {
      slice.logged += 1;
      const problem =
        chainProblem(run, isNext ? undefined : previous?.entry, entry, root) ??
        differenceOf({ ...page, page: number }, entry);
      if (problem !== undefined) reportLog(page.page, `: ${problem}`);
      if (isNext) slice.first = entry;
      root = entry.documentRoot ?? root;
    }
    slice.last = entry;
    if (previous !== undefined) yield { ...previous, isLast: isNext };
    previous = { page, entry, ref, isLast: false };
  }
  if (previous !== undefined) yield { ...previous, isLast: true };
  if (current === undefined) report(null, 'it lists no pages');
  else await endSlice(current, count);
  for (const problem of sliceProblems(header, slices)) report(null, problem);
  const isLogged = slices.some(({ logged }) => logged > 0);
  for (const { chain, firstPage, logged, totals } of slices) {
    if (!isLogged || logged === totals.pages) continue;
    const end = describePage({ page: logged, ...chain });
    reportLog(firstPage + logged, ` ends after ${end}, but the manifest lists ${totals.pages} pages`);
  }
  return {
    notes: isLogged
      ? []
      : ['The page log no longer has the run, so the manifest was verified against the stored pages only'],
    chains: slices.map(({ chain, totals }) => ({ chain, pages: totals.pages })),
  };
}

/** Where the header contradicts the slices that the manifest lists, or their log. */
function sliceProblems(header: PublishedRun['header'], listed: readonly ListedSlice[]): string[] {
  const { slices, since, until = null, serviceStartedAt, serviceCompletedAt } = header;
  const problems: string[] = [];
  const timesOf = (entries: readonly (PageEntry | undefined)[]) =>
    entries.every((entry) => entry !== undefined)
      ? entries.flatMap(({ serviceTime }) => serviceTime ?? []).sort((one, other) => epochMsOf(one) - epochMsOf(other))
      : undefined;
  const check = (field: string, stated: Instant | null, times: readonly Instant[] | undefined, page: string) => {
    if (times !== undefined && (times[0] ?? null) !== stated) problems.push(`its ${field} is not that of ${page}`);
  };
  if (listed.length > 0) {
    const [first, last] =
      slices === undefined ? ['page 1', `page ${listed[0]?.totals.pages}`] : ['a first page', 'a last page'];
    check('serviceStartedAt', serviceStartedAt, timesOf(listed.map((slice) => slice.first)), first);
    check('serviceCompletedAt', serviceCompletedAt, timesOf(listed.map((slice) => slice.last))?.reverse(), last);
  }
  if (slices === undefined) return problems;
  if (listed.some(({ chain }, index) => chain.slice !== index + 1) || listed.length !== slices.length) {
    problems.push(
      `it has ${slices.length} slices, but its pages are of slices ${listed.map(({ chain }) => chain.slice).join(', ')}`,
    );
  }
  for (const [index, slice] of slices.entries()) {
    const begins = index === 0 ? since : slices[index - 1]?.until;
    if (slice.since !== begins) problems.push(`slice ${index + 1} begins at ${slice.since}, not at ${begins}`);
    const { totals } = listed[index] ?? {};
    for (const field of ['pages', 'reports', 'bytes'] as const) {
      if (totals === undefined || slice[field] === totals[field]) continue;
      problems.push(`slice ${index + 1} has ${slice[field]} ${field}, but its pages add up to ${totals[field]}`);
    }
  }
  const end = slices.at(-1)?.until;
  if (end !== until) problems.push(`its last slice ends at ${end}, not at ${until}`);
  return problems;
}

/** The pages in the log of a run that has no manifest. */
export async function* pagesOfLog(
  { log, onFinding }: ExpectedPagesDependencies,
  run: Run,
): AsyncGenerator<ExpectedPage, Expected> {
  const chains: ExpectedChain[] = [];
  const begun = run.slices === undefined ? 1 : await log.lastSlice(run);
  let root: PageEntry['documentRoot'] = null;
  for (let number = 1; number <= begun; number += 1) {
    const chain = sliceOf(run, number);
    let previous: PageEntry | undefined;
    for await (const entry of readable(log.entries(chain), onFinding)) {
      const problem = chainProblem(run, previous, entry, root);
      if (problem !== undefined) onFinding({ page: entry.page, message: `The page log: ${problem}` });
      yield { page: entry, entry, ref: entry, isLast: entry.nextCursor === null };
      previous = entry;
      root = entry.documentRoot ?? root;
    }
    chains.push({ chain, pages: previous?.page ?? 0 });
  }
  return { notes: [], chains };
}

async function* noEntries(): AsyncGenerator<PageEntry> {}

/** The items up to the first one that cannot be read, which is a finding. */
async function* readable<Item>(
  items: AsyncIterable<Item>,
  onFinding: ExpectedPagesDependencies['onFinding'],
): AsyncGenerator<Item, undefined> {
  try {
    yield* items;
  } catch (error) {
    onFinding(conflictFinding(null, error));
  }
}

/** An object or a record that is not as it was written is a finding. Any other error is thrown again. */
export function conflictFinding(page: number | null, error: unknown): Finding {
  if (isExportError(error, 'PageConflictError')) return { page, message: error.message };
  throw error;
}

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
