/** Reads the parents of a run from the manifest and the pages of another export. */

import { concurrentReads, mapConcurrently } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, ExportedParents, RunId } from '../model.ts';
import type { ReportReader, ReportValues } from '../ports.ts';
import { DifferentContentError, readPage } from '../storage/compression.ts';
import { type DocumentReader, openPublishedRun, readLatestPointer } from '../storage/published-runs.ts';
import type { ManifestPage } from '../storage/published-schemas.ts';
import { createPlan, type Parent, tooManyError } from './plan.ts';

export interface ParentSource {
  readonly store: DocumentReader;
  readonly reportReader: ReportReader;
}

interface ReadPlan {
  /** The run whose reports are the parents. */
  readonly run: RunId;
  readonly parents: readonly Parent[];
}

interface ReadOptions {
  /** In place of the newest run. */
  readonly named?: RunId | undefined;
  /** Reads no further once a parent is found. */
  readonly isFirstEnough?: boolean;
  readonly signal?: AbortSignal | undefined;
}

const maxPages = 200_000;

/**
 * The parents in the newest published run of their export, or in the one that is named.
 * @throws ConfigurationError if there is no such run, it is too large, or its pages do not have as many reports as its
 *   manifest says; ContractError as `createPlan`; PageConflictError if a page was changed
 */
export async function readParents(
  source: ParentSource,
  parents: ExportedParents,
  { named, isFirstEnough = false, signal }: ReadOptions = {},
): Promise<ReadPlan> {
  const run = named ?? (await readLatestPointer(source.store, parents.export))?.run;
  if (run === undefined) {
    const message = `Export ${parents.export} has no published run, so there are no parents. Start it first`;
    throw new ExportError('ConfigurationError', message);
  }
  const { header, pages } = await openPublishedRun(source.store, parents.export, run);
  if (header.totals.pages > maxPages) throw tooManyError(parents, `${maxPages.toLocaleString('en')} pages`);
  const plan = createPlan(parents);
  for await (const batch of inBatches(pages)) {
    signal?.throwIfAborted();
    const read = await mapConcurrently(batch, concurrentReads, (page) => readReports(source, page, plan.paths));
    read.forEach((reports, index) => {
      const page = batch[index]?.page;
      reports.forEach((values, at) => plan.add(values, `report ${at + 1} of page ${page} of run ${run}`));
    });
    if (isFirstEnough && plan.found.size > 0) return { run, parents: [...plan.found.values()] };
  }
  return { run, parents: plan.parents() };
}

/**
 * The first parent that a run would request; undefined if the export has no parents.
 * @throws ConfigurationError if it would have none; otherwise as `readParents`
 */
export async function firstParent(
  { store, reportReader }: { readonly store: DocumentReader; readonly reportReader?: ReportReader | undefined },
  { parents }: Pick<ExportDefinition, 'parents'>,
): Promise<Parent | undefined> {
  if (parents === undefined) return undefined;
  if ('values' in parents) return { id: parents.values[0] ?? '' };
  if (reportReader === undefined) throw new Error(`Nothing reads the pages of export ${parents.export}`);
  const [first] = (await readParents({ store, reportReader }, parents, { isFirstEnough: true })).parents;
  if (first !== undefined) return first;
  throw new ExportError('ConfigurationError', `No report of export ${parents.export} is a parent now`);
}

async function* inBatches(pages: AsyncIterable<ManifestPage>): AsyncGenerator<readonly ManifestPage[]> {
  let batch: ManifestPage[] = [];
  for await (const page of pages) {
    batch.push(page);
    if (batch.length < concurrentReads) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

async function readReports(
  { store, reportReader }: ParentSource,
  page: ManifestPage,
  paths: readonly string[],
): Promise<readonly ReportValues[]> {
  const address = store.locate(page.key);
  try {
    const reports = await reportReader.read(readUnchanged(store, page), paths).catch(async (error: unknown) => {
      // A page that was changed may be unreadable before its checksum shows it.
      for await (const _ of readUnchanged(store, page));
      throw error;
    });
    if (page.reports === null || page.reports === reports.length) return reports;
    const counts = `it has ${page.reports} reports by its manifest, and ${reports.length} by the settings`;
    throw new ExportError('ContractError', counts);
  } catch (error) {
    if (error instanceof DifferentContentError) {
      throw new ExportError(
        'PageConflictError',
        `${address} ${error.message}, so the parents cannot be read. Restore it from a bucket version or a backup, or complete another run of its export`,
      );
    }
    if (!isExportError(error, 'ContractError')) throw error;
    throw new ExportError(
      'ConfigurationError',
      `${address} cannot be read by the settings: ${error.message}. Its description has changed since. Complete a run with the new description, then start again`,
      { cause: error },
    );
  }
}

/** @throws DifferentContentError if the page is missing or was changed */
async function* readUnchanged(store: DocumentReader, page: ManifestPage): AsyncGenerator<Uint8Array> {
  const chunks = await store.read(page.key);
  if (chunks === undefined) throw new DifferentContentError('does not exist');
  yield* readPage(page, chunks);
}
