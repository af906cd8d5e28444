/**
 * Checks before publication that the store holds exactly the pages that were logged: none deleted, truncated, replaced or
 * added since it was committed.
 *
 * Stores list keys in different orders: S3 lists page 1,000,000 before page 100,001, a directory has no order. So both
 * sides are summed up per chunk of pages, by a sum that does not depend on the order: some 250 sums for a million pages.
 * Only a chunk whose sums differ is compared page by page, to name the first page that differs.
 *
 * The store is listed while the log is read: of a large run, each takes minutes of waiting. The store already holds every page
 * when the check begins, because a page is logged after it is stored.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { PageEntry, Run } from '../model.ts';
import type { ListedObject, StepDependencies } from '../ports.ts';
import { objectDigest } from '../storage/compression.ts';
import { pageNumberAt, runFolder } from '../storage/keys.ts';

type InventoryDependencies = Pick<StepDependencies, 'log' | 'store'>;

const chunkPages = 4_096;
const chunkOf = (page: number): number => Math.floor((page - 1) / chunkPages);

/** For each chunk, the sum of a hash of each of its pages. */
type ChunkSums = Map<number, bigint>;

/**
 * Yields the log entries of `run` in page order, and completes only if the store holds each page with the size and revision
 * that were logged, and no other page of the run. Other objects in the run's folder are ignored.
 * @throws PageConflictError at the end, about the first page that differs
 */
export async function* storedEntries(deps: InventoryDependencies, run: Run): AsyncGenerator<PageEntry> {
  const logged: ChunkSums = new Map();
  const abandoned = new AbortController();
  const listing = sumUpStored(deps, run, abandoned.signal);
  // It may fail before it is awaited, and is not awaited if the log cannot be read.
  const listingSettled = listing.catch(() => {});
  try {
    for await (const entry of deps.log.entries(run)) {
      add(logged, entry.page, { ...entry, bytes: objectDigest(entry).bytes });
      yield entry;
    }
    const chunk = firstDifference(logged, await listing);
    if (chunk !== undefined) throw await conflictIn(chunk, deps, run);
  } finally {
    abandoned.abort();
    await listingSettled;
  }
}

async function sumUpStored(deps: InventoryDependencies, run: Run, signal: AbortSignal): Promise<ChunkSums> {
  const stored: ChunkSums = new Map();
  for await (const [page, object] of storedPages(deps, run)) {
    if (signal.aborted) break;
    add(stored, page, object);
  }
  return stored;
}

async function* storedPages(
  { store }: InventoryDependencies,
  run: Run,
): AsyncGenerator<readonly [number, ListedObject]> {
  for await (const object of store.list(runFolder(run))) {
    const page = pageNumberAt(run, object.key);
    if (page !== undefined) yield [page, object];
  }
}

function add(sums: ChunkSums, page: number, { key, bytes, revision }: ListedObject): void {
  const digest = hash('sha256', JSON.stringify([key, bytes, revision]));
  const chunk = chunkOf(page);
  sums.set(chunk, (sums.get(chunk) ?? 0n) + BigInt(`0x${digest.slice(0, 32)}`));
}

function firstDifference(logged: ChunkSums, stored: ChunkSums): number | undefined {
  return [...new Set([...logged.keys(), ...stored.keys()])]
    .sort((a, b) => a - b)
    .find((chunk) => logged.get(chunk) !== stored.get(chunk));
}

async function conflictIn(chunk: number, deps: InventoryDependencies, run: Run): Promise<ExportError> {
  const stored = new Map<number, ListedObject>();
  for await (const [page, object] of storedPages(deps, run)) if (chunkOf(page) === chunk) stored.set(page, object);
  for await (const entry of deps.log.entries(run)) {
    if (chunkOf(entry.page) > chunk) break;
    if (chunkOf(entry.page) < chunk) continue;
    const difference = differenceOf(entry, stored.get(entry.page));
    if (difference !== undefined) return conflict(run, entry.page, `${deps.store.locate(entry.key)} ${difference}`);
    stored.delete(entry.page);
  }
  const [unlogged] = [...stored.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  return unlogged === undefined
    ? conflict(run, chunk * chunkPages + 1, 'this page, or one after it, changed during the check')
    : conflict(
        run,
        pageNumberAt(run, unlogged.key) ?? 0,
        `${deps.store.locate(unlogged.key)} exists but was never logged`,
      );
}

function differenceOf(logged: PageEntry, stored: ListedObject | undefined): string | undefined {
  if (stored === undefined) return 'does not exist';
  const { bytes } = objectDigest(logged);
  if (stored.bytes !== bytes) return `has ${stored.bytes} bytes instead of ${bytes}`;
  if (stored.revision === logged.revision) return undefined;
  return `was replaced: its revision is ${stored.revision} instead of ${logged.revision}`;
}

function conflict({ run, export: exportName }: Run, page: number, reason: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `Page ${page} of run ${run} of export ${exportName} is not in the store as it was logged: ${reason}. The run is not ` +
      'published. Restore the page and start again, or start with --restart to abandon the run and begin a new one',
  );
}
