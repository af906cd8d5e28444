/** The parents of a run: the values of the settings, or those of its plan. */

import type { ExportDefinition, ExportedParents, Run } from '../model.ts';
import { numberOf, type Slice } from '../slices.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import { withSince } from './coverage.ts';
import type { Parent } from './plan.ts';
import { loadPart, parentsPerPart } from './plan-parts.ts';

/** The parent of a slice; undefined if the run has none. The only slice, as that of a proof, has the first parent. */
export type ParentOf = (slice: Pick<Slice, 'slice'>) => Promise<Parent | undefined>;

/** Reads each part of the plan once, when it is needed; PageConflictError if it was changed. */
export function parentsOfRun(
  { definition, store }: { readonly definition: Pick<ExportDefinition, 'parents'>; readonly store: DocumentReader },
  run: Pick<Run, 'export' | 'parents'>,
): ParentOf {
  const parts = new Map<string, Promise<readonly Parent[]>>();
  return async (slice) => {
    const index = numberOf(slice) - 1;
    if (run.parents === undefined) return parentIn(definition, index);
    const digest = run.parents.parts?.[Math.floor(index / parentsPerPart)];
    if (digest === undefined) return undefined;
    const part = parts.get(digest) ?? loadPart(store, run.export, digest);
    parts.set(digest, part);
    const parent = (await part)[index % parentsPerPart];
    return parent && withSince(parent, run);
  };
}

function parentIn({ parents }: Pick<ExportDefinition, 'parents'>, index: number): Parent | undefined {
  const id = parents !== undefined && 'values' in parents ? parents.values[index] : undefined;
  return id === undefined ? undefined : { id };
}

/** Whether an operator skips the parent. */
export const isSkipped = ({ skipped }: Pick<Run, 'skipped'>, parent: Parent | undefined): boolean =>
  parent !== undefined && skipped?.includes(parent.id) === true;

/** The parents of the definition, if they are reports of another export. */
export const exportedParents = ({ parents }: Pick<ExportDefinition, 'parents'>): ExportedParents | undefined =>
  parents !== undefined && 'export' in parents ? parents : undefined;
