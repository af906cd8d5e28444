/** Finds published runs as a consumer does: by their manifests, and by `latest.json`, which names the newest one. */

import * as z from 'zod/mini';
import { ExportError, isExportError } from '../errors.ts';
import { latestSchema, type RunRef } from '../model.ts';
import type { PageStore } from '../ports.ts';
import { latestKey, manifestKeyFromRunId, parseRunId, runLocation, summaryKey } from './keys.ts';
import { type OpenManifest, openManifest } from './manifest-reader.ts';
import { type RunSummary, runSummarySchema } from './published-schemas.ts';
import { maxDocumentBytes } from './stored-records.ts';

/** Read access to documents, such as manifests and summaries. */
export type DocumentReader = Pick<PageStore, 'read' | 'locate'>;

export interface PublishedRun extends OpenManifest {
  /** The manifest's key. */
  readonly manifest: string;
}

/** @throws ConfigurationError if it is not published; PageConflictError if its manifest is missing or was changed */
export async function openPublishedRun(store: DocumentReader, exportName: string, run: string): Promise<PublishedRun> {
  const manifest = manifestKeyFromRunId(exportName, run);
  const found = await findManifest(store, manifest);
  if (found !== undefined) return found;
  const wasPublished = await findSummary(store, { export: exportName, run: parseRunId(run) });
  if (wasPublished) throw missingManifest(store.locate(manifest));
  throw new ExportError(
    'ConfigurationError',
    `Run ${run} of export ${exportName} is not published: ${store.locate(manifest)} does not exist. Status lists the published runs`,
  );
}

/** The error about a run that was published, and whose manifest at `address` no longer exists. */
export const missingManifest = (address: string): ExportError =>
  new ExportError(
    'PageConflictError',
    `The manifest ${address} is missing, although its run was published. Restore it from a bucket version or a backup, or ` +
      'export its reports again: docs/runbook.md#pageconflicterror of the package',
  );

/** The manifest at `key`; undefined if there is none. @throws PageConflictError if it was changed */
export async function findManifest(store: DocumentReader, key: string): Promise<PublishedRun | undefined> {
  const chunks = await store.read(key);
  return chunks && { manifest: key, ...(await openManifest(store.locate(key), chunks)) };
}

const pointerSchema = z.pick(latestSchema, { manifest: true, run: true, sequence: true });
export type Pointer = z.infer<typeof pointerSchema>;

/** The content of `latest.json`; undefined if there is none. @throws PageConflictError if it cannot be read */
export async function readLatestPointer(store: DocumentReader, exportName: string): Promise<Pointer | undefined> {
  const repair = 'The next run that completes replaces it';
  return await readSmallDocument(store, latestKey(exportName), pointerSchema, repair);
}

/** The summary at `key`; undefined if there is none. @throws PageConflictError if it was changed */
export async function readSummary(store: DocumentReader, key: string): Promise<RunSummary | undefined> {
  return await readSmallDocument(store, key, runSummarySchema, 'Restore it from a bucket version or a backup');
}

/**
 * The summary of a run, which is written after its manifest, so that only a run that was published has one.
 * `unreadable` if it was changed.
 */
export async function findSummary(
  store: DocumentReader,
  { export: exportName, run }: RunRef,
): Promise<RunSummary | 'unreadable' | undefined> {
  const location = runLocation(exportName, run);
  try {
    const summary = await readSummary(store, summaryKey(location));
    return summary ?? (await readSummary(store, summaryKey({ ...location, bounded: true })));
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unreadable';
    throw error;
  }
}

export async function exists(store: DocumentReader, key: string): Promise<boolean> {
  const chunks = await store.read(key);
  // Leaving the loop closes the file.
  if (chunks !== undefined) for await (const _ of chunks) break;
  return chunks !== undefined;
}

async function readSmallDocument<Schema extends z.ZodMiniType>(
  store: DocumentReader,
  key: string,
  schema: Schema,
  repair: string,
): Promise<z.infer<Schema> | undefined> {
  const chunks = await store.read(key);
  if (chunks === undefined) return undefined;
  const content: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    content.push(chunk);
    bytes += chunk.length;
    if (bytes > maxDocumentBytes) break;
  }
  try {
    return schema.parse(JSON.parse(Buffer.concat(content).toString()));
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `${store.locate(key)} does not match what this exporter wrote. ${repair}`,
      { cause },
    );
  }
}
