/**
 * Updates the state of an export by optimistic concurrency. The state is the only item that executions compete for:
 * each update reads it, decides, and replaces it only if it has not changed; otherwise it decides again from the new
 * state.
 */

import { ExportError } from '../errors.ts';
import { type ExportState, emptyState, type Run, type RunId } from '../model.ts';
import type { PageLog, Runtime, StepDependencies } from '../ports.ts';
import { createRunId } from '../storage/keys.ts';
import { instantOf } from '../timestamps.ts';

export interface StateChange<Result> {
  /** The new state; its version is set by {@link updateState}. Absent: nothing changes. */
  readonly change?: ExportState;
  readonly result: Result;
}

/** More conflicts than this for one small item indicate a defect, not contention. */
const maxAttempts = 20;

/**
 * Applies `decide` to the current state, and returns its result once the change is stored. `decide` may be called
 * several times. An export without a state yet has {@link emptyState}.
 * @throws ServiceUnavailableError if the state changes concurrently at every attempt
 */
export async function updateState<Result>(
  log: PageLog,
  stateName: string,
  decide: (state: ExportState) => Promise<StateChange<Result>> | StateChange<Result>,
): Promise<Result> {
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const state = (await log.exportState(stateName)) ?? emptyState(stateName);
    const { change, result } = await decide(state);
    if (change === undefined || (await log.replaceState({ ...change, version: state.version + 1 }))) return result;
  }
  throw new ExportError(
    'ServiceUnavailableError',
    `The state of export ${stateName} was changed concurrently at each of ${maxAttempts} attempts to update it`,
  );
}

/**
 * Announces in the state of the export that `execution` is about to begin the bounded run whose state is `stateName`.
 * If another run was announced before and has not begun, its state gets a new version, so that its start has to decide
 * and announce itself again. After this call, the start reads the states of bounded runs, and finds every run that has
 * begun. Any other run is announced later: its start finds this run, or makes the start of this run decide again. So
 * no two overlap.
 *
 * Returns the sequence of the run, at least `minSequence`: higher than that of each run that began before, and lower
 * than that of each regular run that begins afterwards.
 *
 * Call it between reading and replacing the state of the bounded run. A change of that state prevents its replacement.
 * @throws ServiceUnavailableError, which is retried, while the execution that was announced before is running and has
 *   begun nothing
 */
export async function announceBeginning(
  { definition, log, executions }: Pick<StepDependencies, 'definition' | 'log' | 'executions'>,
  { stateName, execution, minSequence }: { stateName: string; execution: string; minSequence: number },
): Promise<number> {
  return await updateState(log, definition.name, async (state) => {
    const before = state.beginning;
    if (before !== undefined && before.stateName !== stateName) {
      const other = await log.exportState(before.stateName);
      const hasBegun = other?.recentExecutions?.includes(before.execution) === true;
      if (!hasBegun && (await executions.status(before.execution)) === 'running') {
        throw new ExportError(
          'ServiceUnavailableError',
          `Execution ${before.execution} is about to begin another bounded run of export ${definition.name}. The attempt is retried`,
        );
      }
      if (!hasBegun)
        await updateState(log, before.stateName, (unchanged) => ({ change: unchanged, result: undefined }));
    }
    const sequence = Math.max(state.sequence + 1, minSequence);
    return { change: { ...state, sequence, beginning: { stateName, execution } }, result: sequence };
  });
}

/**
 * The state without its run, which will never complete. Nothing was exported for its scheduled times: each may begin
 * another run.
 */
export function withoutRun(state: ExportState): ExportState {
  const { active: _, ...idle } = state;
  return { ...idle, lastScheduledTime: idle.lastCompleted?.scheduledTime };
}

/**
 * As {@link updateState}, for the run that `execution` owns.
 * @throws RunSupersededError if another execution has taken the run over, or another run has replaced it
 */
export const updateOwnedRun = <Result>(
  { definition, log }: Pick<StepDependencies, 'definition' | 'log'>,
  { execution, run }: { readonly execution: string; readonly run?: RunId },
  decide: (run: Run, state: ExportState) => Promise<StateChange<Result>> | StateChange<Result>,
): Promise<Result> =>
  updateState(log, definition.stateName, (state) => decide(ownedRun(state, execution, definition.name, run), state));

/**
 * The active run, if `execution` owns it and it is `run`, if that is given.
 * @throws RunSupersededError if another execution has taken the run over, or another run has replaced it
 */
export function ownedRun(state: ExportState | undefined, execution: string, exportName: string, run?: RunId): Run {
  const active = state?.active;
  if (active?.execution === execution && (run === undefined || active.run === run)) return active;
  throw new ExportError(
    'RunSupersededError',
    `${whyNotOwned(active, execution, exportName, run)}. This execution stops here`,
  );
}

function whyNotOwned(active: Run | undefined, execution: string, exportName: string, run: RunId | undefined): string {
  if (active === undefined) return `Export ${exportName} no longer has an active run`;
  return active.execution === execution
    ? `Run ${active.run} of export ${exportName} has replaced run ${run}`
    : `Run ${active.run} of export ${exportName} now belongs to execution ${active.execution}`;
}

/**
 * The ID and the sequence of a new run of the export whose state is `state`. The sequence follows the clock if that is
 * ahead, so that an export whose state was deleted or restored from a backup never reuses the sequence of a published
 * manifest.
 */
export function identifyRun(
  { sequence }: ExportState,
  { now, randomHex }: Pick<Runtime, 'now' | 'randomHex'>,
): Pick<Run, 'run' | 'sequence' | 'startedAt'> {
  const startedAt = now();
  return {
    // Bounded runs have states of their own, so no state knows all IDs of an export: 48 random bits have to suffice.
    run: createRunId(startedAt, randomHex(12)),
    sequence: Math.max(sequence + 1, Math.floor(startedAt / 1_000)),
    startedAt: instantOf(startedAt),
  };
}
