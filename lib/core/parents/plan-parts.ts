/** Lists of parents in the store: objects that are named by their digests, which the state of the export has. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { ExportError } from '../errors.ts';
import type { PageStore } from '../ports.ts';
import { planKey } from '../storage/keys.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import type { Parent } from './plan.ts';

/** How many parents a part has; the last one has fewer. */
export const parentsPerPart = 2_000;

const digestOf = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/** Stores the parents in parts, and returns the digests of these. */
export async function storeParents(
  store: Pick<PageStore, 'putDocument'>,
  exportName: string,
  parents: readonly Parent[],
): Promise<readonly string[]> {
  const digests: string[] = [];
  for (let start = 0; start < parents.length; start += parentsPerPart) {
    const part = parents.slice(start, start + parentsPerPart);
    const text = part.map((parent) => `${JSON.stringify(parent)}\n`).join('');
    const digest = digestOf(text);
    await store.putDocument(planKey(exportName, digest), Readable.from([text]));
    digests.push(digest);
  }
  return digests;
}

/** @throws PageConflictError if the part is missing or was changed. Its message ends with a start with --restart */
export async function loadPart(store: DocumentReader, exportName: string, digest: string): Promise<readonly Parent[]> {
  const key = planKey(exportName, digest);
  const stored = await store.read(key);
  const content = stored && (await buffer(stored));
  if (content === undefined || digestOf(content) !== digest) {
    const [problem, first] = stored === undefined ? ['is missing', ''] : ['was changed', 'delete it and '];
    throw new ExportError(
      'PageConflictError',
      `${store.locate(key)}, a list of parents of export ${exportName}, ${problem}. Restore it from a bucket version or a backup, ` +
        `or ${first}start with --restart`,
    );
  }
  const lines = content.toString().trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Parent);
}

export async function* loadParents(
  store: DocumentReader,
  exportName: string,
  digests: readonly string[] = [],
): AsyncGenerator<Parent> {
  for (const digest of digests) yield* await loadPart(store, exportName, digest);
}
