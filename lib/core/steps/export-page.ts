/**
 * Exports the next pages of a run, and decides how it continues: the only place that ends an iteration of the loop. The
 * pages of each slice are a chain, which `walk-slices.ts` walks.
 */

import { createRootCheck, expectedRoot, haveOneRoot } from '../document-root.ts';
import {
  type ExportDefinition,
  type ExportState,
  type Invocation,
  type LoopState,
  refOf,
  type Run,
  type SetAsideSlice,
} from '../model.ts';
import { loopOf, readProgress, type RunProgress } from '../run-progress.ts';
import { contradictionOf } from '../start/contradiction.ts';
import { ownedRun } from './export-state.ts';
import {
  type ExportPageOutcome,
  maxPagesError,
  parkedOutcome,
  type PendingDelays,
  pendingDelays,
  queueOutcome,
  waitOutcome,
} from './loop-outcome.ts';
import { withPlan } from './plan-parents.ts';
import { type ExportPageDependencies, type WalkResult, walkSlices } from './walk-slices.ts';

type ExportPageCommand = { readonly loop: LoopState; readonly execution: string } & Invocation;

/** The facts of an invocation when it begins. */
interface Iteration {
  readonly command: ExportPageCommand;
  /** The state of the export, or of the bounded run. */
  readonly state: ExportState | undefined;
  readonly run: Run;
  readonly before: RunProgress;
  readonly delays: PendingDelays;
}

/**
 * Exports the next page of the run that `execution` owns, or as many as the settings and the invocation's time allow,
 * and returns how the run continues. Repeated for pages that are already logged, it changes nothing and returns the
 * same.
 *
 * @throws RunSupersededError if the execution no longer owns the run
 * @throws ExportError with any other name of `errors.ts`
 */
export async function exportPage(deps: ExportPageDependencies, command: ExportPageCommand): Promise<ExportPageOutcome> {
  const { definition, log } = deps;
  const { loop, execution } = command;
  const state = await log.exportState(definition.stateName);
  const run = await withPlan(deps, { run: ownedRun(state, execution, definition.name), state }, command);
  const isSameRun = run.run === loop.run;
  const before = await readProgress(log, run);
  const contradiction = contradictionOf(run, before.isComplete, definition);
  if (contradiction !== undefined) throw contradiction;
  // Whether an earlier attempt of this iteration has logged the page that the iteration exports.
  const isRepeated = isSameRun && before.totals.pages >= loop.page;
  const iteration = { command, state, run, before, delays: pendingDelays(command, isRepeated) };
  // Throws if the pages so far have reached `maxPages`.
  const outcome = outcomeAfter(definition, iteration, before);
  if (isRepeated || outcome.next === 'finish') return outcome;
  // A wait may have reached this limit. After a page, `outcomeAfter` compares it at the end of the iteration.
  if (loop.iterations >= definition.limits.iterationsPerExecution) {
    return { next: 'continue', ...loopAfter(definition, iteration, before) };
  }

  const walked = await walkSlices(deps, run, before, {
    ...command,
    delays: iteration.delays,
    roots: createRootCheck(await readExpectedRoot(deps, iteration), { learns: haveOneRoot(run) }),
    // An earlier execution may have left a page that is stored and not logged. Later on, only a failed attempt leaves
    // one. That is rare, and each look-up costs a request: such a page is found when it is stored again.
    checkExisting: loop.iterations === 0 || !isSameRun,
  });
  return await continueAfter(deps, iteration, walked);
}

/** The loop state once the run has come as far as `progress`. After a page, waits are counted from zero. */
const loopAfter = (
  { stateName }: ExportDefinition,
  { command: { loop }, run, before, delays }: Iteration,
  progress: RunProgress,
): LoopState => ({
  ...loopOf(stateName, run, progress),
  iterations: loop.iterations,
  waits: progress.totals.pages > before.totals.pages ? 0 : loop.waits,
  delays: delays.current,
});

/** How the run continues after its pages so far. Depends only on the page log, so a retry returns the same. */
function outcomeAfter(definition: ExportDefinition, iteration: Iteration, progress: RunProgress): ExportPageOutcome {
  const { maxPages = Number.POSITIVE_INFINITY, iterationsPerExecution } = definition.limits;
  const loop = loopAfter(definition, iteration, progress);
  const next: LoopState = { ...loop, iterations: loop.iterations + 1, waits: 0 };
  if (progress.isComplete) return { next: 'finish', ...next };
  if (progress.totals.pages >= maxPages) throw maxPagesError(definition, iteration.run);
  return { next: next.iterations >= iterationsPerExecution ? 'continue' : 'page', ...next };
}

/** How the run continues after its chains were walked. */
async function continueAfter(
  deps: ExportPageDependencies,
  iteration: Iteration,
  { progress, hasRestarted, failures, backoffSeconds, turn, parkedUntil, record }: WalkResult,
): Promise<ExportPageOutcome> {
  const { definition } = deps;
  const { run, before } = iteration;
  if (progress.isComplete) {
    await record();
    return outcomeAfter(definition, iteration, progress);
  }
  const loop = loopAfter(definition, iteration, progress);
  const firstError = failures[0]?.error;
  if (backoffSeconds > 0) {
    // A write that fails must not lose the Retry-After.
    await record().catch(() => {});
    announceFailures(deps, iteration, progress, ({ error }) => error !== 'ServiceThrottledError');
    return waitOutcome(deps, run, loop, { backoffSeconds, cause: firstError });
  }
  await record();
  announceFailures(deps, iteration, progress);
  // As long as one of several chains gets on, the run continues, although others have failed.
  const getsOn = hasRestarted || hasMore(before, progress);
  if (run.slices !== undefined && getsOn) return outcomeAfter(definition, iteration, progress);
  // Jobs in progress come before failures: a failed run could waste them. The failures count once the jobs are over.
  if (parkedUntil !== undefined) return parkedOutcome(deps, loop, parkedUntil);
  if (failures.length > 0) throw firstError;
  if (turn !== undefined) return queueOutcome(deps, run, { loop, turn });
  return outcomeAfter(definition, iteration, progress);
}

/** Whether a chain has logged a page or its end. */
const hasMore = (before: RunProgress, after: RunProgress): boolean =>
  after.totals.pages > before.totals.pages || after.counts.done > before.counts.done;

/** The root that the first page of a chain must have; undefined if none is known, or no first page is requested. */
async function readExpectedRoot(
  { definition, log }: Pick<ExportPageDependencies, 'definition' | 'log'>,
  { state, run, before }: Iteration,
) {
  if (!haveOneRoot(run)) return expectedRoot(definition, undefined);
  const { name, stateName } = definition;
  const mayRequestFirstPage = run.slices !== undefined || before.totals.pages === 0;
  // The state of a bounded run has no root. The root of the scheduled runs applies to it, too.
  const isBounded = stateName !== name;
  const completed = isBounded && mayRequestFirstPage ? await log.exportState(name) : state;
  return expectedRoot(definition, completed, { ...run, logged: before.documentRoot });
}

/**
 * Announces the chains that this invocation has set aside, and that were not set aside before: a Retry-After alone is
 * no failure.
 */
function announceFailures(
  { emit }: ExportPageDependencies,
  { run, before }: Iteration,
  { failures, counts }: RunProgress,
  isAnnounced: (failure: SetAsideSlice) => boolean = () => true,
): void {
  if (run.slices === undefined) return;
  const wasThrottled = new Map(before.failures.map((each) => [each.slice, each.error === 'ServiceThrottledError']));
  const isNew = ({ slice, error }: SetAsideSlice): boolean =>
    !before.setAside.includes(slice) || (wasThrottled.get(slice) === true && error !== 'ServiceThrottledError');
  const announced = failures.filter((failure) => isAnnounced(failure) && isNew(failure));
  for (const each of announced) emit({ event: 'slice-set-aside', ...refOf(run), ...each, slices: counts });
}
