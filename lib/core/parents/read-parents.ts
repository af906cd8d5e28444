/** Reads the parents of a run from the manifest and the pages of another export. */

import { concurrentReads, mapConcurrently } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, ExportedParents, RunId } from '../model.ts';
import type { ReportReader, ReportValues } from '../ports.ts';
import { DifferentContentError, readPage } from '../storage/compression.ts';
import {
  type DocumentReader,
  findManifest,
  missingManifest,
  openPublishedRun,
  readLatestPointer,
} from '../storage/published-runs.ts';
import type { ManifestPage } from '../storage/published-schemas.ts';
import { createPlan, type Parent } from './plan.ts';

export interface ParentSource {
  readonly store: DocumentReader;
  readonly reportReader: ReportReader;
}

interface ReadPlan {
  /** The run whose reports are the parents. */
  readonly run: RunId;
  /** A line for each parent. */
  readonly lines: readonly string[];
}

const maxPages = 200_000;

/**
 * The parents in the newest published run of their export, or in the one that `parents` names.
 * @throws ConfigurationError if there is no such run, its pages do not have as many reports as its manifest says, or no
 *   report has a value at a path of the settings; ContractError if only some reports lack a value, or it is invalid;
 *   PageConflictError if a page was changed
 */
export async function readParents(
  source: ParentSource,
  parents: ExportedParents,
  signal?: AbortSignal,
): Promise<ReadPlan> {
  const { header, pages } = await openRunOfParents(source.store, parents);
  const plan = createPlan(parents);
  if (header.totals.pages > maxPages) {
    throw new ExportError(
      'ConfigurationError',
      `Run ${header.run} of export ${parents.export} has more than ${maxPages.toLocaleString('en')} pages, too many to read the parents of a run from`,
    );
  }
  for await (const batch of inBatches(pages)) {
    signal?.throwIfAborted();
    const read = await mapConcurrently(batch, concurrentReads, (page) => readReports(source, page, plan.paths));
    read.forEach((reports, index) => {
      const page = batch[index]?.page;
      reports.forEach((values, at) => plan.add(values, `report ${at + 1} of page ${page} of run ${header.run}`));
    });
  }
  return { run: header.run, lines: plan.lines() };
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
  const { pages } = await openRunOfParents(store, parents);
  const plan = createPlan(parents);
  for await (const page of pages) {
    for (const values of await readReports({ store, reportReader }, page, plan.paths)) {
      plan.add(values, `a report of page ${page.page}`);
      const line = plan.first();
      if (line !== undefined) return JSON.parse(line) as Parent;
    }
  }
  plan.lines();
  throw new ExportError('ConfigurationError', `No report of export ${parents.export} is a parent now`);
}

async function openRunOfParents(store: ParentSource['store'], { export: name, run }: ExportedParents) {
  if (run !== undefined) return await openPublishedRun(store, name, run);
  const latest = await readLatestPointer(store, name);
  if (latest === undefined) {
    const message = `Export ${name} has no published run, so there are no parents. Start it first`;
    throw new ExportError('ConfigurationError', message);
  }
  const found = await findManifest(store, latest.manifest);
  if (found === undefined) throw missingManifest(store.locate(latest.manifest));
  return found;
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
  const chunks = await store.read(page.key);
  if (chunks === undefined) throw changedPage(address, 'does not exist');
  const reports = await reportReader.read(readPage(page, chunks), paths).catch(async (error: unknown) => {
    if (error instanceof DifferentContentError) throw changedPage(address, error.message);
    if (!isExportError(error, 'ContractError')) throw error;
    await assertUnchanged(store, page);
    throw new ExportError(
      'ConfigurationError',
      `${address} cannot be read by the settings: ${error.message}. Its description has changed since. Complete a run with the new description, then start again`,
      { cause: error },
    );
  });
  if (page.reports === null || page.reports === reports.length) return reports;
  throw new ExportError(
    'ConfigurationError',
    `${address} has ${page.reports} reports by its manifest, and ${reports.length} by the settings: its description has changed since. ` +
      'Complete a run with the new description, then start again',
  );
}

/** A page that was changed may be unreadable before its checksum shows it. */
async function assertUnchanged(store: DocumentReader, page: ManifestPage): Promise<void> {
  const chunks = await store.read(page.key);
  try {
    if (chunks !== undefined) for await (const _ of readPage(page, chunks));
  } catch (error) {
    throw error instanceof DifferentContentError ? changedPage(store.locate(page.key), error.message) : error;
  }
}

const changedPage = (address: string, reason: string): ExportError =>
  new ExportError(
    'PageConflictError',
    `${address} ${reason}, so the parents cannot be read. Restore it from a bucket version or a backup, or complete another run of its export`,
  );
