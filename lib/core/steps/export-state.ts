/**
 * Updates the state of an export by optimistic concurrency. The state is the only item that executions compete for: each
 * update reads it, decides, and replaces it only if it has not changed; otherwise it decides again from the new state.
 */

import { ExportError } from '../errors.ts';
import { type ExportState, emptyState, type Run, type RunId } from '../model.ts';
import type { PageLog, Runtime, StepDependencies } from '../ports.ts';
import { createRunId } from '../storage/keys.ts';

export interface StateChange<Result> {
  /** The new state; its version is set by {@link updateState}. Absent: nothing changes. */
  readonly change?: ExportState;
  readonly result: Result;
}

/** More conflicts than this for one small item indicate a defect, not contention. */
const maxAttempts = 20;

/** A read and a write of the state take about as long. */
const pauseMs = 20;

/**
 * Applies `decide` to the current state, and returns its result once the change is stored. `decide` may be called several
 * times, with a `pause` between. An export without a state yet has {@link emptyState}.
 * @throws ServiceUnavailableError if the state changes concurrently at every attempt
 */
export async function updateState<Result>(
  log: PageLog,
  exportName: string,
  decide: (state: ExportState) => Promise<StateChange<Result>> | StateChange<Result>,
  pause?: (attempt: number) => Promise<void>,
): Promise<Result> {
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    if (attempt > 0) await pause?.(attempt);
    const state = (await log.exportState(exportName)) ?? emptyState(exportName);
    const { change, result } = await decide(state);
    if (change === undefined || (await log.replaceState({ ...change, version: state.version + 1 }))) return result;
  }
  throw new ExportError(
    'ServiceUnavailableError',
    `The state of export ${exportName} was changed concurrently at each of ${maxAttempts} attempts to update it`,
  );
}

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
 * The sequence of the next run. It follows the clock if that is ahead, so that an export whose state was deleted or
 * restored from a backup never reuses the sequence of a published manifest.
 */
const nextSequence = ({ sequence }: ExportState, now: number): number =>
  Math.max(sequence + 1, Math.floor(now / 1_000));

/**
 * The ID and the sequence of a new run of `definition`, whose state is `state`.
 *
 * The windows of an export share the export's sequence, so a run of a window takes its own from the state of the export. One that is then
 * not used is left out. Many windows begin in the same second, and six random digits would not always differ: the last three digits of
 * their IDs are those of the sequence, which differ among 4,096 runs in a row.
 */
export async function identifyRun(
  { log, definition, runtime }: Pick<StepDependencies, 'log' | 'definition' | 'runtime'>,
  state: ExportState,
  now: number,
): Promise<Pick<Run, 'run' | 'sequence'>> {
  if (definition.window === undefined) {
    return { run: createRunId(now, runtime.randomHex(6)), sequence: nextSequence(state, now) };
  }
  const takeNext = (exportState: ExportState) => {
    const sequence = nextSequence(exportState, now);
    return { change: { ...exportState, sequence }, result: sequence };
  };
  const sequence = await updateState(log, definition.name, takeNext, pauseAmongWindows(runtime));
  const digits = (sequence % 4_096).toString(16).padStart(3, '0');
  return { run: createRunId(now, runtime.randomHex(3) + digits), sequence };
}

/** Between two updates of the state of the export: a hundred of its windows may begin or end at the same moment. */
export const pauseAmongWindows =
  (runtime: Pick<Runtime, 'sleep' | 'randomHex'>) =>
  (attempt: number): Promise<void> =>
    runtime.sleep(Math.round((Math.min(attempt, 10) * pauseMs * Number.parseInt(runtime.randomHex(2), 16)) / 255));
