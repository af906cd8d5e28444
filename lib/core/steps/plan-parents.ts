/**
 * Makes the plan of a run whose parents are reports of another export. The first invocation of ExportPage does, and
 * records it in the state of the run. So every later one sees the same parents, whatever has been published meanwhile.
 *
 * The parts of the plan are written before the state names them. A crash in between leaves parts that nothing names.
 */

import type { Run } from '../model.ts';
import { readParents } from '../parents/read-parents.ts';
import { exportedParents, storePart } from '../parents/run-parents.ts';
import type { StepDependencies } from '../ports.ts';
import { updateOwnedRun } from './export-state.ts';

type PlanDependencies = Pick<StepDependencies, 'definition' | 'log' | 'store' | 'reportReader'>;

/**
 * The run with its plan. If a concurrent invocation has made one meanwhile, that counts.
 * @throws as `readParents`; RunSupersededError if `execution` does not own the run any more
 */
export async function withPlan(
  { definition, log, store, reportReader }: PlanDependencies,
  run: Run,
  { execution, signal }: { readonly execution: string; readonly signal?: AbortSignal | undefined },
): Promise<Run> {
  if (run.parents === undefined || run.parents.parts !== undefined) return run;
  const parents = exportedParents(definition);
  if (parents === undefined || reportReader === undefined) {
    throw new Error(`The parents of run ${run.run} are not in the definition of export ${run.export}`);
  }
  const plan = await readParents({ store, reportReader }, parents, signal);
  const parts: string[] = [];
  for (const lines of plan.parts) parts.push(await storePart(store, run.export, lines));
  return await updateOwnedRun<Run>({ definition, log }, { execution, run: run.run }, (active, state) => {
    if (active.parents === undefined || active.parents.parts !== undefined) return { result: active };
    const slices = { count: plan.count, parallel: active.parents.parallel };
    const planned: Run = { ...active, slices, parents: { ...active.parents, run: plan.run, parts } };
    return { change: { ...state, active: planned }, result: planned };
  });
}
