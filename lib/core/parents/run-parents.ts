/**
 * The parents of a run. Those that are reports of another export are in a plan, whose parts are objects that the state
 * of the run names by their digests.
 */

import { createHash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import type { ExportDefinition, ExportedParents, Run } from '../model.ts';
import type { PageStore } from '../ports.ts';
import { numberOf, type Slice } from '../slices.ts';
import { planKey } from '../storage/keys.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import { type Parent, parentsPerPart } from './plan.ts';

/** Stores a part of the plan, and returns its digest. */
export async function storePart(
  store: Pick<PageStore, 'putDocument'>,
  exportName: string,
  lines: readonly string[],
): Promise<string> {
  const hash = createHash('sha256');
  for (const line of lines) hash.update(line);
  const digest = hash.digest('hex');
  async function* chunks() {
    yield* lines;
  }
  await store.putDocument(planKey(exportName, digest), chunks());
  return digest;
}

/** The parent of a slice; undefined if the run has none. The only slice, as that of a proof, has the first parent. */
export type ParentOf = (slice: Pick<Slice, 'slice'>) => Promise<Parent | undefined>;

/** Reads each part of the plan once, when it is needed; PageConflictError if it was changed. */
export function parentsOfRun(
  { definition, store }: { readonly definition: Pick<ExportDefinition, 'parents'>; readonly store: DocumentReader },
  run: Pick<Run, 'export' | 'parents'>,
): ParentOf {
  const { parents } = definition;
  const parts = new Map<number, Promise<readonly Parent[]>>();
  const readPart = async (number: number): Promise<readonly Parent[]> => {
    const digest = run.parents?.parts?.[number];
    if (digest === undefined) return [];
    return await loadPart(store, planKey(run.export, digest), digest);
  };
  return async (slice) => {
    const index = numberOf(slice) - 1;
    if (parents === undefined) return undefined;
    if ('values' in parents) return parentWith(parents.values[index]);
    const number = Math.floor(index / parentsPerPart);
    const part = parts.get(number) ?? readPart(number);
    parts.set(number, part);
    return (await part)[index % parentsPerPart];
  };
}

/** The IDs of all parents in the plan of the run. @throws PageConflictError if it is missing or was changed */
export async function parentsInPlan(
  store: DocumentReader,
  { export: name, parents }: Pick<Run, 'export' | 'parents'>,
): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (const digest of parents?.parts ?? []) {
    for (const { id } of await loadPart(store, planKey(name, digest), digest)) ids.add(id);
  }
  return ids;
}

/** Whether an operator skips the parent. */
export const isSkipped = ({ skipped }: Pick<Run, 'skipped'>, parent: Parent | undefined): boolean =>
  parent !== undefined && skipped?.includes(parent.id) === true;

const parentWith = (id: string | undefined): Parent | undefined => (id === undefined ? undefined : { id });

/** The parents in a part of a plan. @throws PageConflictError if it is missing or was changed */
export async function loadPart(store: DocumentReader, key: string, digest: string): Promise<readonly Parent[]> {
  const hash = createHash('sha256');
  const chunks: Uint8Array[] = [];
  const stored = await store.read(key);
  for await (const chunk of stored ?? []) {
    hash.update(chunk);
    chunks.push(chunk);
  }
  if (hash.digest('hex') !== digest) {
    const [problem, first] = stored === undefined ? ['is missing', ''] : ['was changed', 'delete it and '];
    throw new ExportError(
      'PageConflictError',
      `${store.locate(key)}, a part of the plan of the run, ${problem}. Restore it from a bucket version or a backup, ` +
        `or ${first}start with --restart to abandon the run and begin a new one`,
    );
  }
  const lines = Buffer.concat(chunks).toString().split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Parent);
}

/** The parents of the definition, if they are reports of another export. */
export const exportedParents = ({ parents }: Pick<ExportDefinition, 'parents'>): ExportedParents | undefined =>
  parents !== undefined && 'export' in parents ? parents : undefined;
