/** Finds the runs that are published, as any reader does: by the manifests, and by the pointer to the newest one. */

import type { z } from 'zod';
import { ExportError } from '../errors.ts';
import type { StoreReader } from '../ports.ts';
import { latestKey, manifestKeyFromRunId } from './keys.ts';
import { type OpenManifest, openManifest } from './manifest-reader.ts';
import { latestSchema } from './published-schemas.ts';
import { maxPointerBytes } from './stored-records.ts';

export interface PublishedRun extends OpenManifest {
  /** The manifest's key. */
  readonly manifest: string;
}

const pointerSchema = latestSchema.pick({ manifest: true, run: true, sequence: true });
export type Pointer = z.infer<typeof pointerSchema>;

/** The manifest of `run`, or that which `latest.json` names. @throws ConfigurationError where there is none */
export async function openPublishedRun(store: StoreReader, exportName: string, run?: string): Promise<PublishedRun> {
  const manifest = run === undefined ? await newestManifest(store, exportName) : manifestKeyFromRunId(exportName, run);
  const found = await findManifest(store, manifest);
  if (found !== undefined) return found;
  throw new ExportError(
    'ConfigurationError',
    run === undefined
      ? `${store.locate(latestKey(exportName))} names ${store.locate(manifest)}, and there is nothing`
      : `Run ${run} of export ${exportName} is not published: there is no ${store.locate(manifest)}. Status tells which runs are`,
  );
}

/** The manifest at `key`, opened; undefined where there is none. */
export async function findManifest(store: StoreReader, key: string): Promise<PublishedRun | undefined> {
  const chunks = await store.read(key);
  return chunks && { manifest: key, ...(await openManifest(store.locate(key), chunks)) };
}

async function newestManifest(store: StoreReader, exportName: string): Promise<string> {
  const pointer = await readLatestPointer(store, exportName);
  if (pointer !== undefined) return pointer.manifest;
  throw new ExportError(
    'ConfigurationError',
    `Export ${exportName} has published no run yet: there is no ${store.locate(latestKey(exportName))}`,
  );
}

/** What `latest.json` says; undefined where there is none. @throws PageConflictError where it cannot be read */
export async function readLatestPointer(store: StoreReader, exportName: string): Promise<Pointer | undefined> {
  const key = latestKey(exportName);
  const chunks = await store.read(key);
  if (chunks === undefined) return undefined;
  const read: Uint8Array[] = [];
  for await (const chunk of chunks) {
    read.push(chunk);
    if (read.reduce((bytes, { length }) => bytes + length, 0) > maxPointerBytes) break;
  }
  try {
    return pointerSchema.parse(JSON.parse(Buffer.concat(read).toString()));
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `${store.locate(key)} is not as this exporter wrote it. The next run to complete puts it right`,
      { cause },
    );
  }
}
