/**
 * Checks before publication that the store holds exactly the pages that were logged: none deleted, truncated, replaced
 * or added since it was committed.
 *
 * Stores list keys in different orders: S3 lists page 1,000,000 before page 100,001, a directory has no order. So both
 * sides are summed up per chunk of pages, by a sum that does not depend on the order: some 250 sums for a million
 * pages. Only a chunk whose sums differ is compared page by page, to name the first page that differs.
 *
 * The store is listed while the log is read, because each takes minutes in a large run. The store already holds every
 * page when the check begins, because a page is logged after it is stored.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { LogEntry, PageEntry, Run } from '../model.ts';
import type { ListedObject, StepDependencies } from '../ports.ts';
import { capitalize } from '../sanitize.ts';
import { objectDigest } from '../storage/compression.ts';
import { newestEntries } from '../run-progress.ts';
import { hasParents, numberOf, sliceOf } from '../slices.ts';
import { describePage, pageAt, type PageRef, runFolder } from '../storage/keys.ts';
import type { IgnoredPages } from '../storage/run-content.ts';

interface InventoryDependencies {
  readonly log: StepDependencies['log'];
  readonly store: Pick<StepDependencies['store'], 'list' | 'locate'>;
}

const chunkPages = 4_096;
const chunkSlices = 64;

/** For each chunk, the sum of a hash of each of its pages. */
type ChunkSums = Map<string, bigint>;

/**
 * Yields the log entries of `run` by slice and page, and completes only if the store holds each page with the size and
 * revision that were logged, and no other page of the run.
 *
 * Pages of earlier attempts of a slice, and other objects in the run's folder, are ignored. So is a page if the log has
 * the end of its slice in its place: another invocation received that page, but the end was logged first.
 * An `unfinished` run may have stored pages that it has not logged yet.
 * @throws PageConflictError at the end, about the first page that differs
 */
export async function* storedEntries(
  deps: InventoryDependencies,
  run: Run,
  ignored: IgnoredPages,
  { unfinished = false }: { readonly unfinished?: boolean } = {},
): AsyncGenerator<LogEntry> {
  const logged: ChunkSums = new Map();
  const cancellation = new AbortController();
  const counted = { run, ...ignored };
  const listing = sumUpStored(deps, counted, cancellation.signal);
  // The listing may reject before it is awaited, and is not awaited if the log cannot be read.
  const listingSettled = listing.catch(() => {});
  try {
    for await (const entry of entriesOf(deps.log, run)) {
      if (entry.kind === 'page') addToSum(logged, entry, { ...entry, bytes: objectDigest(entry).bytes });
      yield entry;
    }
    for (const chunk of differentChunks(logged, await listing)) {
      const found = await conflictIn(chunk, deps, counted);
      if (found.isLogged || !unfinished) throw found.error;
    }
  } finally {
    cancellation.abort();
    await listingSettled;
  }
}

/** The log entries of `run`, by slice and page. */
const entriesOf = (log: InventoryDependencies['log'], run: Run): AsyncIterable<LogEntry> =>
  run.slices === undefined ? log.entries(sliceOf(run, 1)) : newestEntries(log, run);

/** Reads which pages in the folder of an unfinished run do not belong to it. */
export async function readIgnoredPages(log: InventoryDependencies['log'], run: Run): Promise<IgnoredPages> {
  const ends = new Map<number, number>();
  const attempts = new Map(Object.entries(run.attempts ?? {}).map(([slice, attempt]) => [Number(slice), attempt]));
  for await (const entry of entriesOf(log, run)) {
    const { kind, page, attempt = 1 } = entry;
    if (kind === 'end') ends.set(numberOf(entry), page);
    if (attempt > 1) attempts.set(numberOf(entry), attempt);
  }
  return { ends, attempts };
}

interface CountedRun extends IgnoredPages {
  readonly run: Run;
}

async function sumUpStored(deps: InventoryDependencies, run: CountedRun, signal: AbortSignal): Promise<ChunkSums> {
  const stored: ChunkSums = new Map();
  for await (const [page, object] of storedPages(deps, run)) {
    if (signal.aborted) break;
    addToSum(stored, page, object);
  }
  return stored;
}

async function* storedPages(
  { store }: InventoryDependencies,
  { run, ends, attempts }: CountedRun,
): AsyncGenerator<readonly [PageRef, ListedObject]> {
  for await (const object of store.list(runFolder(run))) {
    const page = pageAt(run, object.key);
    if (page === undefined || ends.get(numberOf(page)) === page.page) continue;
    const { attempt = 1 } = page;
    if (attempt === (attempts.get(numberOf(page)) ?? 1)) yield [page, object];
  }
}

/** The name of the chunk, such as `3/0`: a group of slices, and the number of the chunk within each slice. */
const chunkOf = ({ slice = 0, page }: PageRef): string =>
  `${Math.ceil(slice / chunkSlices)}/${Math.floor((page - 1) / chunkPages)}`;

function firstPageOf(chunk: string): PageRef {
  const [group = 0, index = 0] = chunk.split('/').map(Number);
  const page = index * chunkPages + 1;
  return group === 0 ? { page } : { page, slice: (group - 1) * chunkSlices + 1 };
}

function addToSum(sums: ChunkSums, page: PageRef, { key, bytes, revision }: ListedObject): void {
  const digest = hash('sha256', JSON.stringify([key, bytes, revision]));
  const chunk = chunkOf(page);
  sums.set(chunk, (sums.get(chunk) ?? 0n) + BigInt(`0x${digest.slice(0, 32)}`));
}

function differentChunks(logged: ChunkSums, stored: ChunkSums): readonly string[] {
  return [...new Set([...logged.keys(), ...stored.keys()])]
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .filter((chunk) => logged.get(chunk) !== stored.get(chunk));
}

interface Conflict {
  readonly error: ExportError;
  /** Whether the page has a log entry. */
  readonly isLogged: boolean;
}

/** The conflict about the first page of the chunk that differs. */
async function conflictIn(chunk: string, deps: InventoryDependencies, counted: CountedRun): Promise<Conflict> {
  const { run } = counted;
  // The log first: what it has is in the store by then, also if the run continues in the meantime.
  const logged: PageEntry[] = [];
  for await (const entry of entriesOf(deps.log, run)) {
    if (entry.kind === 'page' && chunkOf(entry) === chunk) logged.push(entry);
  }
  const stored = new Map<string, ListedObject>();
  for await (const [page, object] of storedPages(deps, counted)) {
    if (chunkOf(page) === chunk) stored.set(object.key, object);
  }
  for (const entry of logged) {
    const difference = differenceOf(entry, stored.get(entry.key));
    const reason = `${deps.store.locate(entry.key)} ${difference}`;
    if (difference !== undefined) return { error: conflict(run, entry, reason), isLogged: true };
    stored.delete(entry.key);
  }
  // Only pages that were never logged are left.
  const [unlogged] = [...stored.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  if (unlogged === undefined) {
    const reason = 'this page, or one after it, changed during the check';
    return { error: conflict(run, firstPageOf(chunk), reason), isLogged: false };
  }
  const page = pageAt(run, unlogged.key) ?? { page: 0 };
  const reason = `${deps.store.locate(unlogged.key)} exists but was never logged`;
  return { error: conflict(run, page, reason), isLogged: false };
}

function differenceOf(logged: PageEntry, stored: ListedObject | undefined): string | undefined {
  if (stored === undefined) return 'does not exist';
  const { bytes } = objectDigest(logged);
  if (stored.bytes !== bytes) return `has ${stored.bytes} bytes instead of ${bytes}`;
  if (stored.revision === logged.revision) return undefined;
  return `was replaced: its revision is ${stored.revision} instead of ${logged.revision}`;
}

function conflict({ run, export: exportName, ...of }: Run, page: PageRef, reason: string): ExportError {
  const parent = hasParents(of) ? '' : undefined;
  return new ExportError(
    'PageConflictError',
    `${capitalize(describePage({ ...page, parent }))} of run ${run} of export ${exportName} is not in the store as it was logged: ${reason}. The run is not ` +
      'published. Restore the page and start again, or start with --restart to abandon the run and begin a new one',
  );
}
