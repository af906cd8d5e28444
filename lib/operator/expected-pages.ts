/** The pages that a run should consist of according to its manifest and its log, and where those two disagree. */

import { isExportError } from '../core/errors.ts';
import { addPage, type PageEntry, type Run, type RunTotals, type StoredCursor, zeroTotals } from '../core/model.ts';
import type { ChainRef, PageLog, RunHistory, StoreReader } from '../core/ports.ts';
import { sliceOf } from '../core/slices.ts';
import { describePage, pageAt, type PageRef, type RunKeyParts } from '../core/storage/keys.ts';
import { chainProblem } from '../core/storage/manifest.ts';
import type { PublishedRun } from '../core/storage/published-runs.ts';
import type { ManifestPage } from '../core/storage/published-schemas.ts';

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
  /** The cursor that the page after it was requested with. */
  readonly nextCursor: StoredCursor;
}

/** A slice of the run, or the run if it has one slice, as far as its pages have been expected. */
export class Chain {
  readonly ref: ChainRef;
  totals: RunTotals = zeroTotals;
  logged = 0;
  first: PageEntry | undefined;
  last: PageEntry | undefined;

  constructor(ref: ChainRef) {
    this.ref = ref;
  }

  add(page: Pick<ManifestPage, 'reports' | 'bytes'>): void {
    this.totals = { pages: this.totals.pages + 1, ...addPage(this.totals, page) };
  }

  addEntry(entry: PageEntry | undefined): void {
    this.first = this.totals.pages === 1 ? entry : this.first;
    this.last = entry;
    if (entry !== undefined) this.logged += 1;
  }
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
): AsyncGenerator<ExpectedPage, readonly Chain[]> {
  const hasExpired = log.mayHaveExpired(header.startedAt);
  const report = (page: number | null, message: string) =>
    findings.report(page, `${store.locate(manifest)}: ${message}`);
  const reportLog = (page: number, message: string) => findings.report(page, `The page log${message}`);
  const chains: Chain[] = [];
  let entries: AsyncGenerator<PageEntry, undefined> | undefined;
  let root: PageEntry['documentRoot'] = null;
  let count = 0;
  for await (const [page, following] of withFollowing(findings.readable(pages))) {
    count += 1;
    const ref = pageAt(run, page.key);
    const isLast = following === undefined || following.slice !== page.slice;
    const nextCursor = isLast ? null : following.cursor;
    if (entries === undefined) {
      const attempt = page.slice === undefined ? undefined : (ref?.attempt ?? 1);
      const chain = { export: run.export, run: run.run, slice: page.slice, attempt };
      chains.push(new Chain(chain));
      const slice = header.slices && chains.length;
      if (page.slice !== slice) report(page.page, `page ${page.page} is of slice ${page.slice}, not ${slice}`);
      entries = findings.readable(hasExpired ? noEntries() : log.entries(chain));
    }
    const chain = chains.at(-1) as Chain;
    const previous = chain.last;
    chain.add(page);
    const number = chain.totals.pages;
    if (page.page !== count) report(page.page, `it lists page ${page.page} where page ${count} is expected`);
    if (ref?.page !== number || ref.slice !== chain.ref.slice || ref.attempt !== chain.ref.attempt) {
      report(page.page, `page ${page.page} has the key ${page.key}`);
    }
    const { value: entry } = await entries.next();
    chain.addEntry(entry);
    if (entry !== undefined) {
      const listed = { ...optionalFields, ...page, page: number, nextCursor };
      const [difference] = differences(entry, listed).map((text) => `${describePage(entry)} has the ${text}`);
      const problem = chainProblem(run, previous, entry, root) ?? difference;
      if (problem !== undefined) reportLog(page.page, `: ${problem}`);
      root = entry.documentRoot ?? root;
    }
    yield { page, entry, ref, nextCursor };
    if (!isLast) continue;
    if ((await entries.next()).value !== undefined) {
      reportLog(count + 1, ` continues after ${describePage({ ...chain.ref, page: number })}, where the manifest ends`);
    }
    entries = undefined;
  }
  if (count === 0) report(null, 'it lists no pages');
  let before = 0;
  for (const { ref, logged, totals } of chains) {
    if (isLogged(chains) && logged < totals.pages) {
      const end = describePage({ ...ref, page: logged });
      reportLog(before + logged + 1, ` ends after ${end}, but the manifest lists ${totals.pages} pages`);
    }
    before += totals.pages;
  }
  return chains;
}

/** Whether the log still has pages of the run. */
export const isLogged = (chains: readonly Chain[]): boolean => chains.some(({ logged }) => logged > 0);

/** The fields of a page in the manifest; absent is a value, too. */
const optionalFields = {
  compression: undefined,
  storedBytes: undefined,
  storedSha256: undefined,
  transferredBytes: undefined,
};

/** `slices.0.pages 3, not 2`: the fields that are in `stated` with another value than in `expected`. */
export function differences(stated: unknown, expected: object, path = ''): string[] {
  return Object.entries(expected).flatMap(([field, wanted]) => {
    const found = (stated as Record<string, unknown> | null | undefined)?.[field];
    if (typeof wanted === 'object' && wanted !== null) return differences(found, wanted as object, `${path}${field}.`);
    return found === wanted ? [] : [`${path}${field} ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`];
  });
}

/** The pages in the log of a run that has no manifest. */
export async function* pagesOfLog(
  { log }: Pick<VerifiedStores, 'log'>,
  run: Run,
  findings: Findings,
): AsyncGenerator<ExpectedPage, readonly Chain[]> {
  const chains: Chain[] = [];
  const begun = run.slices === undefined ? 1 : await log.lastSlice(run);
  let root: PageEntry['documentRoot'] = null;
  for (let number = 1; number <= begun; number += 1) {
    const { since: _, until: __, ...ref } = sliceOf(run, number);
    const chain = new Chain(ref);
    chains.push(chain);
    for await (const entry of findings.readable(log.entries(ref))) {
      const problem = chainProblem(run, chain.last, entry, root);
      if (problem !== undefined) findings.report(entry.page, `The page log: ${problem}`);
      chain.add(entry);
      chain.addEntry(entry);
      root = entry.documentRoot ?? root;
      yield { page: entry, entry, ref: entry, nextCursor: entry.nextCursor };
    }
  }
  return chains;
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
