/**
 * Makes the plan of a run whose parents are reports of another export. The first invocation of ExportPage does, and
 * records it in the state of the run. So every later one sees the same parents, whatever has been published meanwhile.
 *
 * The parts of the plan are written before the state names them. A crash in between leaves parts that nothing names.
 */

import { type ExportState, refOf, type Run } from '../model.ts';
import { coverParents, readCoverage } from '../parents/coverage.ts';
import type { Parent } from '../parents/plan.ts';
import { storeParents } from '../parents/plan-parts.ts';
import { readParents } from '../parents/read-parents.ts';
import { exportedParents } from '../parents/run-parents.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import type { StepDependencies } from '../ports.ts';
import { contradictionOf } from '../start/contradiction.ts';
import { updateOwnedRun } from './export-state.ts';

interface UnplannedRun {
  readonly run: Run;
  readonly state: ExportState | undefined;
}

/**
 * The run with its plan. If a concurrent invocation has made one meanwhile, that counts.
 * @throws as `readPlan`; RunSupersededError if `execution` does not own the run any more
 */
export async function withPlan(
  deps: Pick<StepDependencies, 'definition' | 'log' | 'store' | 'reportReader' | 'emit'>,
  { run, state }: UnplannedRun,
  { execution, signal }: { readonly execution: string; readonly signal?: AbortSignal | undefined },
): Promise<Run> {
  if (run.parents === undefined || run.parents.parts !== undefined) return run;
  // ExportPage does not compare the request of a complete run, and a run is complete at once if its plan is empty.
  const contradiction = contradictionOf(run, false, deps.definition);
  if (contradiction !== undefined) throw contradiction;
  const plan = await readPlan(deps, { run, state }, signal);
  const parts = await storeParents(deps.store, run.export, plan.parents);
  const planned = await updateOwnedRun<Run>(deps, { execution, run: run.run }, (active, current) => {
    if (active.parents === undefined || active.parents.parts !== undefined) return { result: active };
    const slices = { count: plan.parents.length, parallel: active.parents.parallel };
    const result: Run = { ...active, slices, parents: { ...active.parents, run: plan.run, parts } };
    return { change: { ...current, active: result }, result };
  });
  const about = { parentExport: run.parents.export, parentRun: plan.run, parents: plan.parents.length };
  deps.emit({ event: 'parents-planned', ...refOf(planned), ...about });
  return planned;
}

/** The parents that the run would have if its plan was made now. @throws as `readParents` and `readCoverage` */
export async function readPlan(
  deps: Pick<StepDependencies, 'definition' | 'reportReader'> & { readonly store: DocumentReader },
  { run, state }: UnplannedRun,
  signal?: AbortSignal,
) {
  const parents = exportedParents(deps.definition);
  if (parents === undefined) throw new Error(`Export ${run.export} no longer has the parents of run ${run.run}`);
  const read = await readParents({ ...deps, signal }, parents, run.parents?.run);
  const found: Parent[] = [];
  for await (const parent of read.found) found.push(parent);
  return { run: read.run, parents: coverParents(found, await readCoverage(deps.store, run, state)) };
}
