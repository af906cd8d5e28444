/**
 * Looks into the store before a run is published: a page that was deleted, cut or replaced since it was committed must
 * not be published as if it were there.
 *
 * Stores list in an order of their own: S3 by key, where page 1,000,000 comes before page 100,001, a directory in none.
 * So both sides are added up, by sums that do not mind the order, one for each stretch of pages: some 250 for a million.
 * Only where two sums differ are the pages of that stretch taken one by one, to name the first that is not as logged.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { PageEntry, Run } from '../model.ts';
import type { ListedObject, StepDependencies } from '../ports.ts';
import { pageNumberAt, runFolder } from '../storage/keys.ts';

type InventoryDependencies = Pick<StepDependencies, 'log' | 'store'>;

const chunkPages = 4_096;
const chunkOf = (page: number): number => Math.floor((page - 1) / chunkPages);

/** By stretch: the sum of a hash of each page in it. */
type Sums = Map<number, bigint>;

/**
 * The entries of `run` in page order. Comes to its end only if the store holds the pages they name, each in the size and
 * the revision that was committed, and no other page of the run. What else lies in the run's folder is let be.
 * @throws PageConflictError at its end, about the first page that is not so
 */
export async function* storedEntries(deps: InventoryDependencies, run: Run): AsyncGenerator<PageEntry> {
  const logged: Sums = new Map();
  for await (const entry of deps.log.entries(run)) {
    add(logged, entry.page, entry);
    yield entry;
  }
  const lying: Sums = new Map();
  for await (const [page, object] of pagesIn(deps, run)) add(lying, page, object);
  const chunk = firstDifference(logged, lying);
  if (chunk !== undefined) throw await conflictIn(chunk, deps, run);
}

async function* pagesIn({ store }: InventoryDependencies, run: Run): AsyncGenerator<readonly [number, ListedObject]> {
  for await (const object of store.list(runFolder(run))) {
    const page = pageNumberAt(run, object.key);
    if (page !== undefined) yield [page, object];
  }
}

function add(sums: Sums, page: number, { key, bytes, revision }: ListedObject): void {
  const digest = hash('sha256', JSON.stringify([key, bytes, revision]));
  const chunk = chunkOf(page);
  sums.set(chunk, (sums.get(chunk) ?? 0n) + BigInt(`0x${digest.slice(0, 32)}`));
}

function firstDifference(one: Sums, other: Sums): number | undefined {
  return [...new Set([...one.keys(), ...other.keys()])]
    .sort((a, b) => a - b)
    .find((chunk) => one.get(chunk) !== other.get(chunk));
}

async function conflictIn(chunk: number, deps: InventoryDependencies, run: Run): Promise<ExportError> {
  const lying = new Map<number, ListedObject>();
  for await (const [page, object] of pagesIn(deps, run)) if (chunkOf(page) === chunk) lying.set(page, object);
  for await (const entry of deps.log.entries(run)) {
    if (chunkOf(entry.page) > chunk) break;
    if (chunkOf(entry.page) < chunk) continue;
    const change = changeOf(entry, lying.get(entry.page));
    if (change !== undefined) return conflict(run, entry.page, `${deps.store.locate(entry.key)} ${change}`);
    lying.delete(entry.page);
  }
  const [stray] = [...lying.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  return stray === undefined
    ? conflict(run, chunk * chunkPages + 1, 'it, or one behind it, changed while the store was looked at')
    : conflict(
        run,
        pageNumberAt(run, stray.key) ?? 0,
        `${deps.store.locate(stray.key)} is there, but was never logged`,
      );
}

function changeOf(logged: PageEntry, lying: ListedObject | undefined): string | undefined {
  if (lying === undefined) return 'is gone';
  if (lying.bytes !== logged.bytes) return `has ${lying.bytes} bytes now, not ${logged.bytes}`;
  if (lying.revision === logged.revision) return undefined;
  return `was replaced: it is ${lying.revision} now, not ${logged.revision}`;
}

function conflict({ run, export: exportName }: Run, page: number, what: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `Page ${page} of run ${run} of export ${exportName} is not in the store as it was logged: ${what}. The run is not ` +
      'published; put things back as they were and start again, or start with restart to abandon it and begin a new one',
  );
}
