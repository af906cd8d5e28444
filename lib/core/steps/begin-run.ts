/**
 * Decides what an execution does: begin a new run, resume an unfinished one, or nothing.
 *
 * An export has at most one active run, recorded in its state. A start is skipped while the run's execution is running. If
 * that execution has ended, the start takes the run over and resumes it after its last logged page.
 */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import {
  type ExportRequest,
  type ExportState,
  type Instant,
  type LoopState,
  type PageEntry,
  type Run,
  totalsOf,
} from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { createRunId } from '../storage/keys.ts';
import { instantOf } from '../timestamps.ts';
import { nextSequence, type StateChange, updateState } from './export-state.ts';
import { parseStartInput, type StartInput } from './start-input.ts';
import { chooseSince, summarize } from './watermark.ts';

export type BeginRunDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime' | 'emit'>;

export type BeginRunOutcome =
  | ({ readonly next: 'export' | 'finish' } & LoopState)
  | { readonly next: 'skip'; readonly export: string; readonly reason: string };

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
  const decision = await updateState(log, definition.name, (state) => decide(deps, state, input, command.execution));
  if (decision.act === 'skip') {
    emit({ event: 'run-skipped', export: definition.name, reason: decision.reason });
    return { next: 'skip', export: definition.name, reason: decision.reason };
  }
  const { act, run, last } = decision;
  const page = (last?.page ?? 0) + 1;
  emit({
    event: act === 'start' ? 'run-started' : 'run-resumed',
    export: run.export,
    run: run.run,
    since: run.since,
    executionNumber: run.executionNumber,
    page,
    ...totalsOf(last),
  });
  return {
    next: last !== undefined && last.nextCursor === null ? 'finish' : 'export',
    export: run.export,
    run: run.run,
    executionNumber: run.executionNumber,
    page,
    iterations: 0,
    waits: input.waits ?? 0,
  };
}

/** What an execution does, before it is recorded. */
export type Decision =
  | { readonly act: 'skip'; readonly reason: string }
  | { readonly act: 'start' | 'resume'; readonly run: Run; readonly last: PageEntry | undefined };

/**
 * What `execution` would do in this state, and the state it would leave. Only reads.
 * @throws ConfigurationError if the start contradicts an unfinished run, or no watermark applies to it
 */
export async function decide(
  deps: Omit<BeginRunDependencies, 'emit'>,
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
    return start(deps, state, input, execution);
  }
  if (active.execution === execution) return resume(deps, state, active);
  if (input.continues !== undefined) {
    return input.continues === active.execution
      ? resume(deps, state, takeOver(active, execution))
      : skip(`run ${active.run} now belongs to execution ${active.execution}`);
  }
  // A duplicate BeginRun invocation must not abandon the run that its own execution has just begun.
  if (input.restart === true && active.startedBy !== execution) return start(deps, state, input, execution);
  if (await deps.executions.isRunning(active.execution)) {
    return skip(`execution ${active.execution} is still exporting run ${active.run}`);
  }
  const last = await deps.log.last(active);
  // A run whose cursors repeat must never be published.
  if (last?.repeats) return start(deps, state, input, execution);
  const contradictions = contradictionsOf(active, deps.definition.request, input.since);
  if (contradictions.length > 0) {
    // A run without a logged page can be replaced: nothing is lost.
    if (last === undefined) return start(deps, state, input, execution);
    throw contradictionError(active, contradictions);
  }
  return resume(deps, state, takeOver(active, execution, input.scheduledTime));
}

const skip = (reason: string) => ({ result: { act: 'skip', reason } satisfies Decision as Decision });

function start(deps: Omit<BeginRunDependencies, 'emit'>, state: ExportState, input: StartInput, execution: string) {
  const { definition, runtime } = deps;
  const now = runtime.now();
  const run: Run = {
    export: definition.name,
    run: createRunId(now, runtime.randomHex(6)),
    sequence: nextSequence(state, now),
    since: chooseSince(definition, state, input, now).since,
    request: definition.request,
    startedAt: instantOf(now),
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
    lastAbandoned: undefined,
  };
  return { change, result: { act: 'start', run, last: undefined } satisfies Decision as Decision };
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
  return { ...run, execution, executionNumber: run.executionNumber + 1, scheduledTime, lastFailure: undefined };
}

function contradictionsOf(run: Run, request: ExportRequest, since: Instant | undefined): string[] {
  const contradictions = (['source', 'filter', 'format', 'container', 'size'] as const)
    .filter((field) => !isDeepStrictEqual(run.request[field], request[field]))
    .map((field) => {
      const [before, now] = [run.request[field], request[field]].map((value) =>
        value === undefined ? 'not set' : summarize(value),
      );
      return `${field === 'source' ? 'service' : field} was ${before} and is now ${now}`;
    });
  if (since !== undefined && since !== run.since) contradictions.push(`since was ${run.since} and is now ${since}`);
  return contradictions;
}

function contradictionError(run: Run, contradictions: readonly string[]): ExportError {
  return new ExportError(
    'ConfigurationError',
    `Run ${run.run} of export ${run.export} is unfinished and was started with another request: ` +
      `${contradictions.join('; ')}. A cursor is valid only with the request that returned it. Restore these values to ` +
      'finish the run, or start with --restart to abandon it (and with --since, if the filter or the service has changed)',
  );
}
