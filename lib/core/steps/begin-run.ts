/**
 * Decides what an execution does: begin a new run, resume an unfinished one, or nothing.
 *
 * An export has at most one active run, recorded in its state. A start is skipped while the run's execution is running. If
 * that execution has ended, the start takes the run over and resumes it after its last logged page. An execution begins one
 * run at most.
 *
 * A start with two bounds begins a bounded run, which has a state of its own (`../bounded-runs.ts`). No other bounded run overlaps it.
 */

import { assertBoundable, assertNoOverlap, definitionOfStart, exportedBy } from '../bounded-runs.ts';
import { ExportError } from '../errors.ts';
import { hasTooFewReports } from '../expected-reports.ts';
import { selectionOf, selectsSame } from '../filter.ts';
import {
  type Bounds,
  type ExportDefinition,
  type ExportState,
  type LoopState,
  periodOf,
  refOf,
  type Run,
  type RunLimits,
  type RunSlices,
} from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { chooseSlices } from '../slices.ts';
import { epochMsOf } from '../timestamps.ts';
import { announceBeginning, contradictionOf, identifyRun, type StateChange, updateState } from './export-state.ts';
import { isLastPage, loopOf, progressOf, readProgress, type RunProgress } from '../run-progress.ts';
import { parseStartInput, type StartInput } from './start-input.ts';
import { assertWindowOutlastsLag, chooseBounds, type ChosenBounds, chooseUntil, firstStartOf } from './watermark.ts';

type DecideDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime'>;
export type BeginRunDependencies = DecideDependencies & Pick<StepDependencies, 'emit'>;

export type BeginRunOutcome =
  | ({ readonly next: 'export' | 'finish' } & LoopState)
  | ({ readonly next: 'skip'; readonly export: string } & SkippedStart);

interface SkippedStart {
  readonly reason: string;
  /** Set if the bounds of a bounded run have been exported already. */
  readonly done?: true | undefined;
}

/**
 * Makes `execution` the owner of the run that it is to export, and returns the page to start with. Repeated in the same
 * execution, it finds that run and returns the same.
 *
 * @throws ConfigurationError for an invalid start input, or one that contradicts an unfinished run
 */
export async function beginRun(
  deps: BeginRunDependencies,
  command: { readonly input: unknown; readonly execution: string },
): Promise<BeginRunOutcome> {
  const { log, emit } = deps;
  const input = parseStartInput(command.input);
  const definition = definitionFor(deps, input);
  const { stateName } = definition;
  const decision = await updateState(log, stateName, async (state) => {
    const decided = await decide({ ...deps, definition }, state, input, command.execution);
    const { change, result } = decided;
    if (definition.bounds === undefined || result.act !== 'start' || change === undefined) return decided;
    const { execution } = command;
    const sequence = await announceBeginning(deps, { stateName, execution, minSequence: result.run.sequence });
    const bounds = boundsToCheck(definition, state, input);
    if (bounds !== undefined) await assertNoOverlap(log, definition, bounds, new Set([stateName]));
    const run = { ...result.run, sequence };
    return { change: { ...change, sequence, active: run }, result: { ...result, run } };
  });
  if (decision.act === 'skip') {
    const { reason, done } = decision;
    emit({ event: 'run-skipped', export: definition.name, reason });
    return { next: 'skip', export: stateName, reason, done };
  }
  const { act, run, progress } = decision;
  const loop: LoopState = { ...loopOf(stateName, run, progress), iterations: 0, waits: input.waits ?? 0 };
  emit({
    event: act === 'start' ? 'run-started' : 'run-resumed',
    ...refOf(run),
    ...periodOf(run),
    slices: run.slices && progress.counts,
    executionNumber: run.executionNumber,
    page: loop.page,
    ...progress.totals,
  });
  return { next: progress.isComplete ? 'finish' : 'export', ...loop };
}

/** The bounds of a new run that must not overlap others. One that replaces a run with the same reports overlaps none that it did not. */
function boundsToCheck(
  { bounds, request }: ExportDefinition,
  { active }: ExportState,
  { again }: StartInput,
): Bounds | undefined {
  const isReplacement = active !== undefined && selectsSame(selectionOf(active.request), request);
  return again === true || isReplacement ? undefined : bounds;
}

/**
 * The definition of the run that the start begins or resumes.
 * @throws ConfigurationError if its bounds, or its slices, do not fit
 */
export function definitionFor(
  { definition, runtime }: Pick<BeginRunDependencies, 'definition' | 'runtime'>,
  input: StartInput,
): ExportDefinition {
  // A start may name the state of a bounded run as its export.
  assertBoundable(definition, input.continues === undefined ? { ...input, ...definition.bounds } : {}, runtime.now());
  return definitionOfStart(definition, input);
}

/** What an execution does, before it is recorded. */
export type Decision =
  | ({ readonly act: 'skip' } & SkippedStart)
  | {
      readonly act: 'start' | 'resume';
      readonly run: Run;
      readonly progress: RunProgress;
      /** Why a new run starts at its `since`. */
      readonly reason?: string;
    };

/**
 * What `execution` would do in this state, and the state it would leave. Only reads.
 * @throws ConfigurationError if the start contradicts an unfinished run, or no watermark applies to it
 */
export async function decide(
  deps: DecideDependencies,
  state: ExportState,
  input: StartInput,
  execution: string,
): Promise<StateChange<Decision>> {
  const { active } = state;
  if (active === undefined) {
    if (input.continues !== undefined) return skip(`the run of execution ${input.continues} has ended`);
    if (input.scheduledTime !== undefined && hasBegun(input.scheduledTime, state.lastScheduledTime)) {
      return skip(`a run for the scheduled time ${input.scheduledTime}, or a later one, has already begun`);
    }
    const exported = deps.definition.bounds && exportedBy(state, deps.definition.request);
    if (exported !== undefined && input.again !== true) {
      return skip(`run ${exported.result.run} has exported these bounds`, true);
    }
    return start(deps, state, input, execution);
  }
  if (active.execution === execution) return resume(deps, state, active);
  if (input.continues !== undefined) {
    return input.continues === active.execution
      ? resume(deps, state, takeOver(active, execution))
      : skip(`run ${active.run} now belongs to execution ${active.execution}`);
  }
  const hasBegunIt = active.startedBy === execution;
  if (hasHadRun(state, execution) && !hasBegunIt) return skip(runIsOver);
  // A duplicate BeginRun invocation must not abandon the run that its own execution has begun, whichever owns it now.
  if (input.restart === true && !hasBegunIt) {
    assertMayBeAbandoned(active, state);
    return start(deps, state, input, execution);
  }
  if ((await deps.executions.status(active.execution)) === 'running') {
    return skip(`execution ${active.execution} is still exporting run ${active.run}`);
  }
  const progress = await readProgress(deps.log, active);
  // Such a run must never be published.
  if (progress.last?.repeats || hasTooFewReports(deps.definition, active, progress)) {
    return start(deps, state, input, execution);
  }
  const contradiction = contradictionOf(active, progress.isComplete, deps.definition, input);
  // Nothing is lost with a run without a logged page, and a new one also exports what has appeared since. Bounds that are
  // named stay the same, so a bounded run is resumed.
  const isReplaceable = contradiction !== undefined || deps.definition.bounds === undefined;
  if (progress.totals.pages === 0 && isReplaceable) return start(deps, state, input, execution, active);
  if (contradiction !== undefined) throw contradiction;
  const taken = { ...state, recentExecutions: withExecution(state, execution) };
  const { limits, slicing } = deps.definition;
  const parallel = input.parallel ?? slicing.parallel;
  const isDoubtful = active.slices !== undefined && (await isRootDoubtful(deps, active.slices, progress));
  const how = { parallel, isRootDoubtful: isDoubtful };
  const slices = active.slices && slicesOfStart(active.slices, progress, limits, how);
  return resume(deps, taken, { ...takeOver(active, execution, input.scheduledTime), slices });
}

/**
 * Consumers may have read the manifest of a run that is being published, and only its completion is left. If its publication has failed
 * because pages were changed, it is not published.
 * @throws ConfigurationError
 */
function assertMayBeAbandoned({ run, export: name, completion, lastFailure }: Run, { failedStart }: ExportState): void {
  const hasConflict = [lastFailure, failedStart].some((failure) => failure?.error === 'PageConflictError');
  if (completion?.isPublished !== true || hasConflict) return;
  throw new ExportError(
    'ConfigurationError',
    `Run ${run} of export ${name} has all its pages and may be published already, so it can no longer be abandoned. ` +
      'Start without --restart to complete it. After that, a start begins a new run',
  );
}

/**
 * Whether the first pages of the run may be error documents with status 200, whose root then refuses all others: no setting and no
 * completed run says that it is right, and no slice has a second page.
 */
async function isRootDoubtful(
  { definition, log }: Pick<DecideDependencies, 'definition' | 'log'>,
  { setAside = [] }: RunSlices,
  { slices }: RunProgress,
): Promise<boolean> {
  const wasRefused = setAside.some(({ error }) => error === 'ContractError');
  const hasSecondPage = slices.some(({ last }) => last !== undefined && last.page > 1);
  const hasRoot = slices.some(({ last }) => last?.documentRoot);
  if (!wasRefused || hasSecondPage || !hasRoot || definition.documentRoot !== undefined) return false;
  return (await log.exportState(definition.name))?.documentRoot === undefined;
}

/**
 * A new start walks slices whose cursors repeat, or were rejected once too often, from their beginning, and every slice if its root is
 * doubtful. Each may start over as often as the settings say.
 */
function slicesOfStart(
  slices: RunSlices,
  { slices: begun }: RunProgress,
  { maxCursorRestarts }: RunLimits,
  { parallel, isRootDoubtful }: { readonly parallel: number; readonly isRootDoubtful: boolean },
): RunSlices {
  const startingOver = begun.flatMap(({ slice: { slice = 1, attempt = 1 }, last }) => {
    const isRejected = !isLastPage(last) && (slices.restarts?.[slice] ?? 0) > maxCursorRestarts;
    const isDoubtful = isRootDoubtful && last !== undefined;
    return last?.repeats || isRejected || isDoubtful ? [[String(slice), attempt + 1] as const] : [];
  });
  return {
    ...slices,
    parallel,
    attempts: { ...slices.attempts, ...Object.fromEntries(startingOver) },
    restarts: undefined,
    setAside: undefined,
  };
}

const skip = (reason: string, done?: true): StateChange<Decision> => ({ result: { act: 'skip', reason, done } });

/**
 * Begins a run, unless this execution has begun one before. A suspended invocation may resume after its execution has ended, and no
 * execution would continue a second run. `replaced`: a run without a page, whose place it takes.
 */
async function start(
  deps: DecideDependencies,
  state: ExportState,
  input: StartInput,
  execution: string,
  replaced?: Run,
): Promise<StateChange<Decision>> {
  const { definition, runtime } = deps;
  if (hasHadRun(state, execution)) return skip(runIsOver);
  await assertNotEnded(deps, input, execution);
  const { request, compression, lagMs, slicing, dates, bounds } = definition;
  const identity = identifyRun(state, runtime);
  const now = epochMsOf(identity.startedAt);
  const { since, until, reason } =
    boundsOfReplacement(replaced, definition, input, now) ?? chooseBounds(definition, state, input, now);
  if (until !== undefined && epochMsOf(until) <= epochMsOf(since)) {
    assertWindowOutlastsLag(definition);
    return skip(
      `there is nothing to export yet, because a run would start at ${since} and end at ${until}, now less the lag`,
    );
  }
  const chosen = { parallel: input.parallel ?? slicing.parallel, lengthMs: input.slice ?? slicing.lengthMs };
  const period = { since, until, startedAt: identity.startedAt };
  const run: Run = {
    export: definition.name,
    ...identity,
    since,
    until,
    bounded: bounds === undefined ? undefined : true,
    lagMs,
    slices: chooseSlices(period, chosen, dates, state.lastCompleted),
    request,
    compression,
    startedBy: execution,
    execution,
    executionNumber: 1,
    scheduledTime: input.scheduledTime,
    cursorRestarts: 0,
  };
  const change: ExportState = {
    ...state,
    sequence: run.sequence,
    active: run,
    lastScheduledTime: newestScheduledTime(input.scheduledTime, state),
    firstStart: bounds === undefined ? firstStartOf(definition, state, input, now) : undefined,
    recentExecutions: withExecution(state, execution),
    failedStart: undefined,
    lastAbandoned: undefined,
  };
  return { change, result: { act: 'start', run, progress: progressOf(run, 0, []), reason } };
}

/** An operator may have named the `since` of the replaced run. It stays, unless the start or another selection of reports says otherwise. */
function boundsOfReplacement(
  replaced: Run | undefined,
  definition: ExportDefinition,
  input: StartInput,
  now: number,
): ChosenBounds | undefined {
  if (replaced === undefined || input.since !== undefined || definition.bounds !== undefined) return undefined;
  const { run, since, request } = replaced;
  if (!selectsSame(selectionOf(request), definition.request)) return undefined;
  const reason = `the since of run ${run}, which has no page and is replaced`;
  return { since, until: chooseUntil(definition, now), reason };
}

/** So many executions may begin or resume a run of the export while an invocation is suspended. */
const maxRecentExecutions = 10;

const runIsOver = 'this execution has had its run, and begins no other';

const hasHadRun = ({ recentExecutions = [] }: ExportState, execution: string): boolean =>
  recentExecutions.includes(execution);

function withExecution({ recentExecutions = [] }: ExportState, execution: string): readonly string[] {
  return [execution, ...recentExecutions.filter((each) => each !== execution)].slice(0, maxRecentExecutions);
}

/**
 * Any other start begins a run that the next start resumes, as if its execution had been stopped a moment later.
 * @throws ServiceUnavailableError, which is retried: of an execution that was redriven, the status may be the one before
 */
async function assertNotEnded(
  { definition, executions }: Pick<BeginRunDependencies, 'definition' | 'executions'>,
  { restart, since }: StartInput,
  execution: string,
): Promise<void> {
  const replacesWork = restart === true || since !== undefined;
  if (!replacesWork || (await executions.status(execution)) !== 'ended') return;
  throw new ExportError(
    'ServiceUnavailableError',
    `Execution ${execution} has ended, so it begins no run of export ${definition.stateName}. If it was redriven, the attempt is retried`,
  );
}

async function resume(deps: DecideDependencies, state: ExportState, run: Run): Promise<StateChange<Decision>> {
  const result: Decision = { act: 'resume', run, progress: await readProgress(deps.log, run) };
  const lastScheduledTime = newestScheduledTime(run.scheduledTime, state);
  const taken = { ...state, active: run, lastScheduledTime, failedStart: undefined };
  return { change: run === state.active ? undefined : taken, result };
}

/** The scheduler repeats a start for an hour at most. A time that is later than this was not sent by a schedule, and blocks none. */
const maxRepeatDelayMs = 86_400_000;

/** Whether a run for this scheduled time, or for a later one, has begun: the scheduler may deliver a time late, and again. */
function hasBegun(scheduledTime: string, newest: string | undefined): boolean {
  if (newest === undefined || newest === scheduledTime) return newest !== undefined;
  // Not a number if one of them is no date: then only the same text is a repetition.
  const laterByMs = Date.parse(newest) - Date.parse(scheduledTime);
  return laterByMs > 0 && laterByMs <= maxRepeatDelayMs;
}

const newestScheduledTime = (time: string | undefined, { lastScheduledTime }: ExportState): string | undefined =>
  time === undefined || hasBegun(time, lastScheduledTime) ? lastScheduledTime : time;

function takeOver(run: Run, execution: string, scheduledTime = run.scheduledTime): Run {
  return { ...run, execution, executionNumber: run.executionNumber + 1, scheduledTime, lastFailure: undefined };
}
