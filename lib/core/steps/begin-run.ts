/**
 * Decides what an execution does: begin a new run, resume an unfinished one, or nothing.
 *
 * An export has at most one active run, recorded in its state. A start is skipped while the run's execution is running. If
 * that execution has ended, the start takes the run over and resumes it after its last logged page. An execution begins one
 * run at most.
 *
 * What is exported once begins only as its state says that it is planned.
 */

import { ExportError } from '../errors.ts';
import { hasTooFewReports } from '../expected-reports.ts';
import {
  type ExportDefinition,
  type ExportState,
  type LoopState,
  type PageEntry,
  type Run,
  totalsOf,
} from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { epochMsOf } from '../timestamps.ts';
import { changedRequestError, contradictionOf, identifyRun, type StateChange, updateState } from './export-state.ts';
import { parseStartInput, type StartInput } from './start-input.ts';
import { appliesTo, chooseSince, type Since } from './watermark.ts';

export type BeginRunDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime' | 'emit'>;

export type BeginRunOutcome =
  | ({ readonly next: 'export' | 'finish' } & LoopState)
  | ({ readonly next: 'skip'; readonly export: string } & SkippedStart);

interface SkippedStart {
  readonly reason: string;
  /** Set if what is exported once needs no further start. `abandoned`: its plan was. */
  readonly done?: 'completed' | 'abandoned' | undefined;
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
  const { definition, log, emit } = deps;
  const input = parseStartInput(command.input);
  const { stateName } = definition;
  const decision = await updateState(log, stateName, (state) => decide(deps, state, input, command.execution));
  if (decision.act === 'skip') {
    const { reason, done } = decision;
    emit({ event: 'run-skipped', export: definition.name, reason });
    return { next: 'skip', export: stateName, reason, ...(done === undefined ? {} : { done }) };
  }
  const { act, run, last } = decision;
  const page = (last?.page ?? 0) + 1;
  emit({
    event: act === 'start' ? 'run-started' : 'run-resumed',
    export: run.export,
    run: run.run,
    since: run.since,
    ...(run.until === undefined ? {} : { until: run.until }),
    executionNumber: run.executionNumber,
    page,
    ...totalsOf(last),
  });
  return {
    next: last !== undefined && last.nextCursor === null ? 'finish' : 'export',
    export: stateName,
    run: run.run,
    executionNumber: run.executionNumber,
    page,
    iterations: 0,
    waits: input.waits ?? 0,
  };
}

/** What an execution does, before it is recorded. */
export type Decision =
  | ({ readonly act: 'skip' } & SkippedStart)
  /** `reason` is why the run starts at its `since`. */
  | { readonly act: 'start'; readonly run: Run; readonly last: undefined; readonly reason: string }
  | { readonly act: 'resume'; readonly run: Run; readonly last: PageEntry | undefined };

/**
 * What `execution` would do in this state, and the state it would leave. Only reads.
 * @throws ConfigurationError if the start contradicts an unfinished run or a plan, or no watermark applies to it
 */
export async function decide(
  deps: Omit<BeginRunDependencies, 'emit'>,
  state: ExportState,
  input: StartInput,
  execution: string,
): Promise<StateChange<Decision>> {
  const { active } = state;
  const skipped = deps.definition.once === undefined ? undefined : decideOnce(deps.definition, state, input);
  if (skipped !== undefined) return skip(skipped.reason, skipped.done);
  if (active === undefined) {
    if (input.continues !== undefined) return skip(`the run of execution ${input.continues} has ended`);
    if (input.scheduledTime !== undefined && hasBegun(input.scheduledTime, state.lastScheduledTime)) {
      return skip(`a run for the scheduled time ${input.scheduledTime}, or a later one, has already begun`);
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
  if (input.restart === true && !hasBegunIt) return start(deps, state, input, execution);
  if (await deps.executions.isRunning(active.execution)) {
    return skip(`execution ${active.execution} is still exporting run ${active.run}`);
  }
  const last = await deps.log.last(active);
  // Such a run must never be published.
  if (last?.repeats || hasTooFewReports(deps.definition, active, last)) return start(deps, state, input, execution);
  const contradiction = contradictionOf(active, last, deps.definition, input.since);
  if (contradiction !== undefined) {
    // A run without a logged page can be replaced: nothing is lost.
    if (last === undefined)
      return start(deps, state, input, execution, sinceOfReplaced(active, deps.definition, input));
    throw contradiction;
  }
  const taken = { ...state, recentExecutions: withExecution(state, execution) };
  const refusedPage = active.lastFailure?.error === 'ContractError' ? (last?.page ?? 0) + 1 : undefined;
  return resume(deps, taken, { ...takeOver(active, execution, input.scheduledTime), refusedPage });
}

const skip = (reason: string, done?: SkippedStart['done']) => ({
  result: { act: 'skip', reason, done } satisfies Decision as Decision,
});

/**
 * Why what is exported once needs no run, if it needs none. Its own state decides, which each change of the plan replaces. So a run
 * that begins while the plan is changed begins either before that, or not at all.
 * @throws ConfigurationError if it is not planned, or was planned with another request, or the start names a `since`
 */
function decideOnce(
  { name, stateName, once }: ExportDefinition,
  { active, lastCompleted, plan }: ExportState,
  { since, restart }: StartInput,
): SkippedStart | undefined {
  if (since !== undefined) {
    throw new ExportError('ConfigurationError', 'A window begins where its name says. Leave out since');
  }
  if (active === undefined && lastCompleted !== undefined && restart !== true) {
    return { reason: `run ${lastCompleted.result.run} has exported the window`, done: 'completed' };
  }
  if (plan === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `${stateName} is not a window of the backfill of export ${name}. The command backfill starts its windows`,
    );
  }
  // It may be published already. Whatever became of its plan, its reports are exported once only if it completes.
  if (active?.completion !== undefined && restart !== true) return undefined;
  if (plan.abandonedAt !== undefined) {
    return { reason: `the backfill was abandoned at ${plan.abandonedAt}`, done: 'abandoned' };
  }
  if (plan.requestChecksum !== once?.requestChecksum) throw changedRequestError(name);
  return undefined;
}

/**
 * Begins a run, unless this execution has begun one before. A suspended invocation may resume after its execution has ended, and no
 * execution would continue a second run.
 */
async function start(
  deps: Omit<BeginRunDependencies, 'emit'>,
  state: ExportState,
  input: StartInput,
  execution: string,
  replaced?: Since,
): Promise<StateChange<Decision>> {
  const { definition, runtime } = deps;
  if (hasHadRun(state, execution)) return skip(runIsOver);
  await assertNotEnded(deps, input, execution);
  const { until, request, compression } = definition;
  const identity = identifyRun(definition, state, runtime);
  const { since, reason } = replaced ?? chooseSince(definition, state, input, epochMsOf(identity.startedAt));
  const run: Run = {
    export: definition.name,
    ...identity,
    since,
    ...(until === undefined ? {} : { until }),
    request,
    ...(compression === undefined ? {} : { compression }),
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
    recentExecutions: withExecution(state, execution),
    lastAbandoned: undefined,
  };
  return { change, result: { act: 'start', run, last: undefined, reason } satisfies Decision as Decision };
}

/** An operator may have named the `since` of the replaced run. It stays, unless the start or another selection of reports says otherwise. */
function sinceOfReplaced(
  { run, since, request }: Run,
  definition: ExportDefinition,
  input: StartInput,
): Since | undefined {
  const isOfSameSelection = appliesTo({ ...request, requestSha256: request.api.requestSha256 }, definition.request);
  if (input.since !== undefined || !isOfSameSelection) return undefined;
  return { since, reason: `that of run ${run}, which has no page and is replaced` };
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
  if (!replacesWork || !(await executions.hasEnded(execution))) return;
  throw new ExportError(
    'ServiceUnavailableError',
    `Execution ${execution} has ended, so it begins no run of export ${definition.stateName}. If it was redriven, the attempt is retried`,
  );
}

async function resume(deps: Omit<BeginRunDependencies, 'emit'>, state: ExportState, run: Run) {
  const result: Decision = { act: 'resume', run, last: await deps.log.last(run) };
  if (run === state.active) return { result };
  return {
    change: { ...state, active: run, lastScheduledTime: newestScheduledTime(run.scheduledTime, state) },
    result,
  };
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
  return {
    ...run,
    execution,
    executionNumber: run.executionNumber + 1,
    scheduledTime,
    lastFailure: undefined,
    refusedPage: undefined,
  };
}
