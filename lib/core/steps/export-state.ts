/**
 * Changes an export's head, whoever else is changing it.
 *
 * The head is the only thing executions contend for. Every change reads it, decides, and replaces it only if it is
 * still the one that was read; otherwise the decision is made anew from what stands there now.
 */

import { ExportError } from '../errors.ts';
import type { ExportState, Run, RunId } from '../model.ts';
import type { PageLog } from '../ports.ts';

/**
 * For the next run of the export. Counts from the clock where that is further on: so a state that is begun anew, or put
 * back as it was, never counts below manifests that are there.
 */
export const nextSequence = ({ sequence }: ExportState, now: number): number =>
  Math.max(sequence + 1, Math.floor(now / 1_000));

/** More lost races than this for one small item means that something else is wrong. */
const attempts = 20;

/**
 * `decide` sees the head as it stands and returns the changed head with its result, or only a result to leave it be.
 * It may be called several times. A head not written yet appears as version 0.
 */
export async function updateState<Result>(
  log: PageLog,
  exportName: string,
  decide: (head: ExportState) => Promise<StateChange<Result>> | StateChange<Result>,
): Promise<Result> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const head = (await log.exportState(exportName)) ?? { export: exportName, version: 0, sequence: 0 };
    const { change, result } = await decide(head);
    if (change === undefined || (await log.replaceState({ ...change, version: head.version + 1 }))) return result;
  }
  throw new ExportError(
    'ServiceUnavailableError',
    `The head of export ${exportName} changed ${attempts} times while it was being changed; it is tried again for a while`,
  );
}

export interface StateChange<Result> {
  /** The head to put in place; its version is set here. Absent: nothing changes. */
  readonly change?: ExportState;
  readonly result: Result;
}

/**
 * The active run of `head`, if `execution` owns it; `run`, where one is named, and no other.
 * @throws RunSupersededError where another execution has taken the run over, or a new run has replaced it.
 */
export function ownedRun(head: ExportState | undefined, execution: string, exportName: string, run?: RunId): Run {
  const active = head?.active;
  if (active?.execution === execution && (run === undefined || active.run === run)) return active;
  throw new ExportError(
    'RunSupersededError',
    `${whyNot(active, execution, exportName, run)}; this execution ends here`,
  );
}

function whyNot(active: Run | undefined, execution: string, exportName: string, run: RunId | undefined): string {
  if (active === undefined) return `Export ${exportName} has no active run any more`;
  return active.execution === execution
    ? `Run ${active.run} of export ${exportName} has taken the place of run ${run}`
    : `Run ${active.run} of export ${exportName} belongs to execution ${active.execution} now`;
}
