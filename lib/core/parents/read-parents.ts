/** Reads the parents of a run from the manifest and the pages of another export. */

import { concurrentReads } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, ExportedParents, RunId } from '../model.ts';
import type { ReportReader } from '../ports.ts';
import { DifferentContentError, readPage } from '../storage/compression.ts';
import { type DocumentReader, openPublishedRun, readLatestPointer } from '../storage/published-runs.ts';
import type { ManifestPage } from '../storage/published-schemas.ts';
import { findParents, type Parent, type PlacedReport, tooManyError } from './plan.ts';
import { pathsOf } from './values.ts';

interface ParentSource {
  readonly store: DocumentReader;
  readonly reportReader?: ReportReader | undefined;
  readonly signal?: AbortSignal | undefined;
}

const maxPages = 200_000;

/**
 * The parents in the newest published run of their export, or in the one that is named, and the run.
 * @throws ConfigurationError if there is no such run, or it is too large; the iteration, as `readReports` and
 *   `findParents`
 */
export async function readParents(source: ParentSource, parents: ExportedParents, named?: RunId) {
  const run = named ?? (await readLatestPointer(source.store, parents.export))?.run;
  if (run === undefined) {
    const message = `Export ${parents.export} has no published run, so there are no parents. Start it first`;
    throw new ExportError('ConfigurationError', message);
  }
  const { header, pages } = await openPublishedRun(source.store, parents.export, run);
  if (header.totals.pages > maxPages) throw tooManyError(parents, `${maxPages.toLocaleString('en')} pages`);
  return { run, found: findParents(parents, readPages(source, pages, pathsOf(parents))) };
}

/** The reports in the order of the manifest. Several pages are read ahead. */
async function* readPages(
  source: ParentSource,
  pages: AsyncIterable<ManifestPage>,
  paths: readonly string[],
): AsyncGenerator<PlacedReport> {
  const ahead: Promise<readonly PlacedReport[]>[] = [];
  for await (const page of pages) {
    source.signal?.throwIfAborted();
    const reading = readReports(source, page, paths);
    // A failure is thrown below, unless one before it is.
    reading.catch(() => {});
    ahead.push(reading);
    if (ahead.length === concurrentReads) yield* await (ahead.shift() ?? reading);
  }
  for (const reading of ahead) yield* await reading;
}

/**
 * The first parent that a run would request; undefined if the export has no parents.
 * @throws ConfigurationError if it would have none; otherwise as `readParents`
 */
export async function firstParent(
  source: ParentSource,
  { parents }: Pick<ExportDefinition, 'parents'>,
): Promise<Parent | undefined> {
  if (parents === undefined) return undefined;
  if ('values' in parents) return { id: parents.values[0] ?? '' };
  const { found } = await readParents(source, parents);
  for await (const parent of found) return parent;
  throw new ExportError('ConfigurationError', `No report of export ${parents.export} is a parent now`);
}

/**
 * @throws ConfigurationError if the page does not have as many reports as its manifest says, or cannot be read;
 *   PageConflictError if it was changed
 */
async function readReports(
  { store, reportReader }: ParentSource,
  page: ManifestPage,
  paths: readonly string[],
): Promise<readonly PlacedReport[]> {
  if (reportReader === undefined) throw new Error(`Nothing reads ${page.key}`);
  const address = store.locate(page.key);
  try {
    const reports = await reportReader.read(readUnchanged(store, page), paths).catch(async (error: unknown) => {
      // A page that was changed may be unreadable before its checksum shows it.
      for await (const _ of readUnchanged(store, page));
      throw error;
    });
    if (page.reports === null || page.reports === reports.length) {
      return reports.map((values, index) => ({ values, place: `report ${index + 1} of ${address}` }));
    }
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
