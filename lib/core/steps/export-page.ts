/**
 * Exports the next pages of a run, and decides how it continues: the only place that ends an iteration of the loop. A run with one slice
 * is one with a single chain. How chains are walked is in `walk-slices.ts`.
 */

import { isDeepStrictEqual } from 'node:util';
import { assertRootOfSettings, type ExpectedRoot, rootOfFirstPage, rootOfOtherSlice } from '../document-root.ts';
import { type ExportError, isExportError } from '../errors.ts';
import { type ExportDefinition, type ExportState, type Invocation, type LoopState, refOf, type Run } from '../model.ts';
import { loopOf, readProgress, type RunProgress } from '../run-progress.ts';
import { shorten } from '../sanitize.ts';
import { sliceOf } from '../slices.ts';
import { contradictionOf, identifyRun, ownedRun, updateOwnedRun } from './export-state.ts';
import { assertContinues, type ExportPageOutcome, maxPagesError, pendingDelays, queue, wait } from './loop-outcome.ts';
import { type ExportPageDependencies, type Failure, walkSlices } from './walk-slices.ts';

/**
 * Exports the next page of the run that `execution` owns, or as many as the settings and the invocation's time allow, and
 * returns how the run continues. Repeated for pages that are already logged, it changes nothing and returns the same.
 *
 * @throws RunSupersededError if the execution no longer owns the run
 * @throws ExportError with any other name of `errors.ts`
 */
export async function exportPage(
  deps: ExportPageDependencies,
  command: { readonly loop: LoopState; readonly execution: string } & Invocation,
): Promise<ExportPageOutcome> {
  const { definition, log } = deps;
  const { loop, execution } = command;
  const state = await log.exportState(definition.stateName);
  const run = ownedRun(state, execution, definition.name);
  const isSameRun = run.run === loop.run;
  const before = await readProgress(log, run, isSameRun ? loop.slices : undefined);
  const contradiction = contradictionOf(run, before.isComplete, definition);
  if (contradiction !== undefined) throw contradiction;
  for (const { last } of before.slices) if (last !== undefined) assertRootOfSettings(definition, last);
  const isRepeated = isSameRun && before.totals.pages >= loop.page;
  const delays = pendingDelays(command, isRepeated);
  const loopWith = (progress: RunProgress): LoopState => ({
    ...loopOf(definition.stateName, run, progress),
    iterations: loop.iterations,
    // Those in a row: a page ends them.
    waits: progress.totals.pages > before.totals.pages ? 0 : loop.waits,
    delays: delays.current,
  });
  if (before.totals.pages > 0) {
    const outcome = outcomeAfter(definition, run, before, loopWith(before));
    if (isRepeated || outcome.next === 'finish') return outcome;
  }
  // Reached only after a wait: after a page, `outcomeAfter` returns `continue`.
  if (loop.iterations >= definition.limits.iterationsPerExecution) return { next: 'continue', ...loopWith(before) };

  const { progress, failures, backoffSeconds, needsSlot } = await walkSlices(deps, run, before, {
    ...command,
    delays,
    firstRoot: { current: await rootOfFirstPages(deps, run, state, before) },
    // An iteration that succeeded leaves nothing unlogged. A retried attempt may, but looking it up would cost every iteration
    // a request to the store for a rare case: such a page is found when it is stored again.
    checkExisting: loop.iterations === 0 || !isSameRun,
  });
  const waiting = loopWith(progress);
  if (progress.isComplete) return outcomeAfter(definition, run, progress, waiting);
  const noted = noteSetAside(deps, run, execution, failures);
  // A Retry-After is kept although the note cannot be written.
  await (backoffSeconds > 0 ? noted.catch(() => {}) : noted);
  const error = failures[0]?.error;
  if (backoffSeconds > 0) return wait(deps, run, waiting, error, backoffSeconds);
  // While one of several slices makes progress, the run continues.
  const isStuck = run.slices === undefined || progress.totals.pages === before.totals.pages;
  if (isStuck && failures.length > 0) {
    const isRejected = run.slices === undefined && isExportError(error, 'CursorRejectedError');
    if (isRejected) return await restartRun(deps, run, progress, waiting, execution, error);
    throw error;
  }
  if (isStuck && needsSlot) return queue(deps, run, waiting);
  return outcomeAfter(definition, run, progress, waiting);
}

/** How the run continues after its pages so far. Depends on the page log alone, so a retry returns the same. */
function outcomeAfter(
  definition: ExportDefinition,
  run: Run,
  progress: RunProgress,
  loop: LoopState,
): ExportPageOutcome {
  const { maxPages = Number.POSITIVE_INFINITY, iterationsPerExecution } = definition.limits;
  const next: LoopState = { ...loop, iterations: loop.iterations + 1, waits: 0 };
  if (progress.isComplete) return { next: 'finish', ...next };
  // One of several slices is set aside instead.
  if (progress.last !== undefined) assertContinues(definition, progress.last);
  if (progress.totals.pages >= maxPages) throw maxPagesError(definition, run);
  return { next: next.iterations >= iterationsPerExecution ? 'continue' : 'page', ...next };
}

/** What the first page of a slice must have, also of one that starts over; undefined if there is none, or nothing is known. */
async function rootOfFirstPages(
  { definition, log }: Pick<ExportPageDependencies, 'definition' | 'log'>,
  run: Run,
  state: ExportState | undefined,
  { slices, begun }: RunProgress,
): Promise<ExpectedRoot | undefined> {
  if (run.slices === undefined && slices.every(({ last }) => last !== undefined)) return undefined;
  // The state of a bounded run has none: what scheduled runs have found applies to it, too.
  const { name, stateName } = definition;
  const recorded = (stateName === name ? state : await log.exportState(name))?.documentRoot;
  const expected = rootOfFirstPage(definition, recorded, run);
  if (expected !== undefined) return expected;
  const read = new Set(slices.map(({ slice }) => slice.slice));
  // Slices that are known to be complete have not been read.
  const complete = Array.from({ length: begun }, (_, index) => index + 1).find((each) => run.slices && !read.has(each));
  const known = slices.find(({ last }) => last?.documentRoot)?.last;
  const entry = known ?? (complete === undefined ? undefined : await log.last(sliceOf(run, complete)));
  return entry && rootOfOtherSlice(entry);
}

/** More would make the state large. */
const maxSetAside = 10;
const maxMessageLength = 300;

/** Notes in the state, for operators, which of several slices this invocation has set aside. */
async function noteSetAside(
  deps: ExportPageDependencies,
  run: Run,
  execution: string,
  failures: readonly Failure[],
): Promise<void> {
  if (run.slices === undefined) return;
  const all = failures.map(({ slice, error }) => {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { slice, error: name, message: shorten(message, maxMessageLength).toWellFormed() };
  });
  const setAside = all.length === 0 ? undefined : all.slice(0, maxSetAside);
  const known = new Set(run.slices.setAside?.map(({ slice }) => slice));
  if (isDeepStrictEqual(setAside, run.slices.setAside)) return;
  await updateOwnedRun<void>(deps, { execution, run: run.run }, (active, current) => {
    const slices = active.slices && { ...active.slices, setAside };
    return { change: { ...current, active: { ...active, slices } }, result: undefined };
  });
  for (const each of all) {
    if (!known.has(each.slice)) deps.emit({ event: 'slice-set-aside', ...refOf(run), ...each });
  }
}

/**
 * Replaces `run`, which cannot continue because of `error`, by a new run with the same `since` in the same execution. The pages of the
 * abandoned run stay in the store and are never published. A run that is being published is not replaced: a concurrent invocation has
 * exported its last page.
 * @throws `error` if the run has used up `maxCursorRestarts`
 */
async function restartRun(
  deps: ExportPageDependencies,
  run: Run,
  { last }: RunProgress,
  loop: LoopState,
  execution: string,
  error: ExportError,
): Promise<ExportPageOutcome> {
  if (run.cursorRestarts >= deps.definition.limits.maxCursorRestarts) throw error;
  type Restart = { readonly replacement: Run | undefined; readonly isNew: boolean };
  const { replacement, isNew } = await updateOwnedRun<Restart>(deps, { execution }, (active, state) => {
    // A concurrent invocation of the same execution has restarted the run already: its replacement stays.
    if (active.run !== run.run) return { result: { replacement: active, isNew: false } };
    if (active.completion !== undefined) return { result: { replacement: undefined, isNew: false } };
    const next: Run = {
      ...active,
      lastFailure: undefined,
      ...identifyRun(state, deps.runtime),
      cursorRestarts: active.cursorRestarts + 1,
      documentRoot: last?.documentRoot ?? active.documentRoot,
    };
    return { change: { ...state, sequence: next.sequence, active: next }, result: { replacement: next, isNew: true } };
  });
  const restarted = { ...loop, delays: undefined };
  if (replacement === undefined) return { next: 'finish', ...restarted };
  const reason = error.message;
  if (isNew) deps.emit({ event: 'run-restarted', ...refOf(replacement), abandoned: run.run, reason });
  return { next: 'page', ...restarted, run: replacement.run, page: 1, iterations: loop.iterations + 1, waits: 0 };
}
