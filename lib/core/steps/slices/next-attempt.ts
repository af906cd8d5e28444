/**
 * Starts a slice over: its next attempt has pages, a log and keys of its own, and those of the attempt before no longer
 * count. The state of the run says which attempt is the newest.
 */

import type { ExportState, Pass, ProgressRecord, Run } from '../../model.ts';
import type { StepDependencies } from '../../ports.ts';
import { endsChain, generationOf } from '../../run-progress.ts';
import { maxSlices, numberOf, type Slice, sliceCountOf, sliceOf } from '../../slices.ts';
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
  /** The root of the run's pages. */
  readonly documentRoot: Run['documentRoot'];
}

/** The run once the slice has its next attempt. `isNew`: this call has begun it. */
interface Restarted {
  readonly run: Run;
  readonly isNew: boolean;
}

/**
 * Begins the next attempt of the slice, unless a concurrent invocation has begun it, or has logged the end of the
 * slice. Undefined: the slice must not start over, as it has `maxCursorRestarts` times.
 */
export function beginNextAttempt(
  { definition, log }: Pick<StepDependencies, 'definition' | 'log'>,
  { execution, recorded }: RunInProgress,
  slice: Slice,
  { isCounted, pass, documentRoot }: StartOver,
): Promise<Restarted | undefined> {
  const { attempt = 1 } = slice;
  const number = numberOf(slice);
  return updateOwnedRun<Restarted | undefined>(
    { definition, log },
    { execution, run: slice.run },
    async (run, state) => {
      const newest = sliceOf(run, number);
      const isOver = (newest.attempt ?? 1) !== attempt || endsChain(await log.last(newest));
      if (isOver) return { result: { run, isNew: false } };
      const { restarts, attempts, passes } = withoutComplete(run, recorded);
      const count = (restarts?.[number] ?? 0) + 1;
      const counted: Run = {
        ...run,
        restarts: isCounted ? { ...restarts, [number]: count } : restarts,
        passes,
      };
      const changeTo = (active: Run): ExportState => ({ ...state, active });
      const isUsedUp = isCounted && count > definition.limits.maxCursorRestarts;
      // The count is recorded all the same: it tells the next start to begin the slice from its beginning. The pass is
      // not: the slice may be walked again without a next attempt, and would confirm itself.
      if (isUsedUp) return { change: changeTo(counted), result: undefined };
      const restarted: Run = {
        ...counted,
        generation: generationOf(run) + 1,
        attempts: { ...attempts, [number]: attempt + 1 },
        passes: pass === undefined ? passes : { ...passes, [number]: pass },
        documentRoot: documentRoot ?? run.documentRoot,
      };
      return { change: changeTo(restarted), result: { run: restarted, isNew: true } };
    },
  );
}

type NumberedFacts = Pick<Run, 'attempts' | 'restarts' | 'passes'>;

/**
 * The facts of single slices in the state of a run, without those that nothing needs any more, which keeps the state
 * small: the passes of complete slices, and if the run has many, also their attempts, as the log has the newest ones.
 */
function withoutComplete(run: Run, recorded: ProgressRecord | undefined): NumberedFacts {
  const { attempts, restarts, passes } = run;
  const isKnown = recorded?.run === run.run && recorded.generation === generationOf(run);
  if (!isKnown) return { attempts, restarts, passes };
  const open = new Set([...recorded.open, ...recorded.setAside]);
  const mayBeOpen = (number: number): boolean => number > recorded.begun || open.has(number);
  const ofOpen = <Fact>(facts: Readonly<Record<string, Fact>> | undefined) =>
    facts && Object.fromEntries(Object.entries(facts).filter(([number]) => mayBeOpen(Number(number))));
  return sliceCountOf(run) <= maxSlices
    ? { attempts, restarts, passes: ofOpen(passes) }
    : { attempts: ofOpen(attempts), restarts: ofOpen(restarts), passes: ofOpen(passes) };
}
