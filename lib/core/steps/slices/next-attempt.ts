/**
 * Starts a slice over: its next attempt has pages, a log and keys of its own, and those of the attempt before no longer
 * count. The state of the run says which attempt is the newest.
 */

import type { ExportState, Pass, ProgressRecord, Run, RunSlices } from '../../model.ts';
import type { StepDependencies } from '../../ports.ts';
import { endsChain, generationOf } from '../../run-progress.ts';
import { maxSlices, numberOf, type Slice, sliceOf } from '../../slices.ts';
import { updateOwnedRun } from '../export-state.ts';

interface RunInProgress {
  /** The execution that must own the run. */
  readonly execution: string;
  /** The newest record of the run's progress. */
  readonly recorded: ProgressRecord | undefined;
}

export interface StartOver {
  /** Whether it counts for `maxCursorRestarts`: its cursor was rejected, or another pass is needed. */
  readonly isCounted: boolean;
  /** The pass that the next attempt has to confirm. */
  readonly pass?: Pass | undefined;
}

/**
 * Begins the next attempt of the slice, and returns the slices of the run with it. Undefined: the slice must not start
 * over, as a concurrent invocation has logged its end, or it has started over `maxCursorRestarts` times.
 */
export function beginNextAttempt(
  { definition, log }: Pick<StepDependencies, 'definition' | 'log'>,
  { execution, recorded }: RunInProgress,
  slice: Slice,
  { isCounted, pass }: StartOver,
): Promise<RunSlices | undefined> {
  const { attempt = 1 } = slice;
  const number = numberOf(slice);
  return updateOwnedRun({ definition, log }, { execution, run: slice.run }, async (active, state) => {
    if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
    const newest = sliceOf(active, number);
    // A concurrent invocation of the same execution has started it over already.
    if (newest.attempt !== attempt) return { result: active.slices };
    if (endsChain(await log.last(newest))) return { result: undefined };
    const { restarts, attempts, passes } = withoutComplete(active.run, active.slices, recorded);
    const count = (restarts[number] ?? 0) + 1;
    const counted: RunSlices = {
      ...active.slices,
      restarts: isCounted ? { ...restarts, [number]: count } : restarts,
      passes: pass === undefined ? passes : { ...passes, [number]: pass },
    };
    const changeTo = (slices: RunSlices): ExportState => ({ ...state, active: { ...active, slices } });
    const isUsedUp = isCounted && count > definition.limits.maxCursorRestarts;
    // The count is recorded all the same: it tells the next start to begin the slice from its beginning.
    if (isUsedUp) return { change: changeTo(counted), result: undefined };
    const generation = generationOf(active.slices) + 1;
    const restarted = { ...counted, generation, attempts: { ...attempts, [number]: attempt + 1 } };
    return { change: changeTo(restarted), result: restarted };
  });
}

type NumberedFacts = Required<Pick<RunSlices, 'attempts' | 'restarts'>> & Pick<RunSlices, 'passes'>;

/**
 * The facts of single slices in the state of a run, without those that nothing needs any more, which keeps the state
 * small: the passes of complete slices, and if the run has many, also their attempts, as the log has the newest ones.
 */
function withoutComplete(run: Run['run'], slices: RunSlices, recorded: ProgressRecord | undefined): NumberedFacts {
  const { attempts = {}, restarts = {}, passes } = slices;
  const isKnown = recorded?.run === run && recorded.generation === generationOf(slices);
  if (!isKnown) return { attempts, restarts, passes };
  const open = new Set([...recorded.open, ...recorded.setAside]);
  const mayBeOpen = (number: number): boolean => number > recorded.begun || open.has(number);
  const ofOpen = <Fact>(facts: Readonly<Record<string, Fact>>) =>
    Object.fromEntries(Object.entries(facts).filter(([number]) => mayBeOpen(Number(number))));
  const openPasses = passes && ofOpen(passes);
  return slices.count <= maxSlices
    ? { attempts, restarts, passes: openPasses }
    : { attempts: ofOpen(attempts), restarts: ofOpen(restarts), passes: openPasses };
}
