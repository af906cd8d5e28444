/**
 * Makes the plan of a run whose parents are reports of another export. The first invocation of ExportPage does, and
 * records it in the state of the run. So every later one sees the same parents, whatever has been published meanwhile.
 *
 * The parts of the plan are written before the state names them. A crash in between leaves parts that nothing names.
 */

import { type ExportState, refOf, type Run } from '../model.ts';
import { coverLines, type CoveredPlan, readCoverage, storeLines } from '../parents/coverage.ts';
import type { Parent } from '../parents/plan.ts';
import { readParents } from '../parents/read-parents.ts';
import { exportedParents } from '../parents/run-parents.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import type { StepDependencies } from '../ports.ts';
import { contradictionOf } from '../start/contradiction.ts';
import { updateOwnedRun } from './export-state.ts';

type PlanDependencies = Pick<StepDependencies, 'definition' | 'log' | 'store' | 'reportReader' | 'emit'>;

/**
 * The run with its plan. If a concurrent invocation has made one meanwhile, that counts.
 * @throws as `readParents`; RunSupersededError if `execution` does not own the run any more
 */
export async function withPlan(
  { definition, log, store, reportReader, emit }: PlanDependencies,
  { run, state }: { readonly run: Run; readonly state: ExportState | undefined },
  { execution, signal }: { readonly execution: string; readonly signal?: AbortSignal | undefined },
): Promise<Run> {
  if (run.parents === undefined || run.parents.parts !== undefined) return run;
  const parents = exportedParents(definition);
  if (parents === undefined || reportReader === undefined) {
    throw new Error(`The parents of run ${run.run} are not in the definition of export ${run.export}`);
  }
  // ExportPage does not compare the request of a complete run, and a run is complete at once if its plan is empty.
  const contradiction = contradictionOf(run, false, definition);
  if (contradiction !== undefined) throw contradiction;
  const plan = await readParents({ store, reportReader }, parents, signal);
  const { lines, absent } = await withCoverage(store, run, state, plan.lines);
  const parts = await storeLines(store, run.export, lines);
  const absentParts = absent.length === 0 ? undefined : await storeLines(store, run.export, absent);
  const planned = await updateOwnedRun<Run>({ definition, log }, { execution, run: run.run }, (active, current) => {
    if (active.parents === undefined || active.parents.parts !== undefined) return { result: active };
    const slices = { count: lines.length, parallel: active.parents.parallel };
    const ofPlan = { run: plan.run, parts, absent: absentParts };
    const result: Run = { ...active, slices, parents: { ...active.parents, ...ofPlan } };
    return { change: { ...current, active: result }, result };
  });
  const unknownSkipped = countUnknown(plan.lines, planned.skipped);
  const about = { parentExport: parents.export, parentRun: plan.run, parents: lines.length, unknownSkipped };
  emit({ event: 'parents-planned', ...refOf(planned), ...about });
  return planned;
}

/** How many of the parents to skip are not in the plan. */
function countUnknown(lines: readonly string[], skipped: Run['skipped'] = []): number {
  if (skipped.length === 0) return 0;
  const ids = new Set(lines.map((line) => (JSON.parse(line) as Parent).id));
  return skipped.filter((id) => !ids.has(id)).length;
}

/** The lines of the plan, and where the chain of each parent begins. */
export async function withCoverage(
  store: DocumentReader,
  run: Pick<Run, 'export' | 'request' | 'parents'>,
  state: ExportState | undefined,
  lines: readonly string[],
): Promise<CoveredPlan> {
  const rules = run.parents?.coverage;
  if (rules === undefined) return { lines, absent: [] };
  return coverLines(lines, await readCoverage(store, run, state ?? {}), rules);
}
