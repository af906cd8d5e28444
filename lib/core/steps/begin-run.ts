/**
 * Decides what an execution is for: a new run, the rest of an unfinished one, or nothing.
 *
 * One run of an export is active at a time, held in its head. Whoever starts while that run is alive is skipped; whoever
 * starts after its execution died takes it over where its page log ends.
 */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import type { ExportRequest, ExportState, Instant, LoopState, PageEntry, Run } from '../model.ts';
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
 * Makes `execution` the owner of the run it is to work on, and says with which page to go on. Repeating it in the same
 * execution finds the run already its own and answers the same.
 *
 * @throws ConfigurationError for a start input it cannot read, or one that contradicts an unfinished run.
 */
export async function beginRun(
  deps: BeginRunDependencies,
  command: { readonly input: unknown; readonly execution: string },
): Promise<BeginRunOutcome> {
  const { definition, log, emit } = deps;
  const input = parseStartInput(command.input);
  const decision = await updateState(log, definition.name, (head) => decide(deps, head, input, command.execution));
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
    pages: last?.page ?? 0,
    reports: last === undefined ? 0 : last.totals.reports,
    bytes: last?.totals.bytes ?? 0,
  });
  const next = last !== undefined && last.nextCursor === null ? 'finish' : 'export';
  return {
    next,
    export: run.export,
    run: run.run,
    executionNumber: run.executionNumber,
    page,
    iterations: 0,
    waits: input.waits ?? 0,
  };
}

/** What an execution is for: not yet written down. */
export type Decision =
  | { readonly act: 'skip'; readonly reason: string }
  | { readonly act: 'start' | 'resume'; readonly run: Run; readonly last: PageEntry | undefined };

/**
 * What `execution` would be for, as the head stands, with the head as it would leave it. Asks, and changes nothing.
 * @throws ConfigurationError where the start contradicts an unfinished run, or has no watermark it could start at
 */
export async function decide(
  deps: Omit<BeginRunDependencies, 'emit'>,
  head: ExportState,
  input: StartInput,
  execution: string,
): Promise<StateChange<Decision>> {
  const { active } = head;
  if (active === undefined) {
    if (input.continues !== undefined) return skip(`the run that ${input.continues} worked on is over`);
    if (input.scheduledTime !== undefined && input.scheduledTime === head.lastScheduledTime) {
      return skip(`the run scheduled for ${input.scheduledTime} has been made already`);
    }
    return start(deps, head, input, execution);
  }
  if (active.execution === execution) return resume(deps, head, active);
  if (input.continues !== undefined) {
    return input.continues === active.execution
      ? resume(deps, head, takenOver(active, execution))
      : skip(`run ${active.run} belongs to execution ${active.execution} now`);
  }
  // Once: an invocation that lived on unheard must not give up the very run that it has begun, whoever works on it now.
  if (input.restart === true && active.startedBy !== execution) return start(deps, head, input, execution);
  if (await deps.executions.isRunning(active.execution)) {
    return skip(`run ${active.run} is still being worked on by ${active.execution}`);
  }
  const last = await deps.log.last(active);
  // A walk in circles must never be published.
  if (last?.repeats) return start(deps, head, input, execution);
  const contradictions = contradictionsOf(active, deps.definition.request, input.since);
  if (contradictions.length > 0) {
    // No page is lost with a run that never logged one.
    if (last === undefined) return start(deps, head, input, execution);
    throw contradictionError(active, contradictions);
  }
  return resume(deps, head, takenOver(active, execution, input.scheduledTime));
}

const skip = (reason: string) => ({ result: { act: 'skip', reason } satisfies Decision as Decision });

function takenOver(run: Run, execution: string, scheduledTime = run.scheduledTime): Run {
  // How its last execution failed says nothing of this one.
  return { ...run, execution, executionNumber: run.executionNumber + 1, scheduledTime, lastFailure: undefined };
}

async function resume(deps: Omit<BeginRunDependencies, 'emit'>, head: ExportState, run: Run) {
  const result: Decision = { act: 'resume', run, last: await deps.log.last(run) };
  if (run === head.active) return { result };
  return { change: { ...head, active: run, lastScheduledTime: run.scheduledTime ?? head.lastScheduledTime }, result };
}

function start(deps: Omit<BeginRunDependencies, 'emit'>, head: ExportState, input: StartInput, execution: string) {
  const { definition, runtime } = deps;
  const now = runtime.now();
  const run: Run = {
    export: definition.name,
    run: createRunId(now, runtime.randomHex(6)),
    sequence: nextSequence(head, now),
    since: chooseSince(definition, head, input, now).since,
    request: definition.request,
    startedAt: instantOf(now),
    startedBy: execution,
    execution,
    executionNumber: 1,
    scheduledTime: input.scheduledTime,
    cursorRestarts: 0,
  };
  const change: ExportState = {
    ...head,
    sequence: run.sequence,
    active: run,
    lastScheduledTime: input.scheduledTime ?? head.lastScheduledTime,
  };
  return { change, result: { act: 'start', run, last: undefined } satisfies Decision as Decision };
}

function contradictionsOf(run: Run, request: ExportRequest, since: Instant | undefined): string[] {
  const contradictions = (['source', 'filter', 'format', 'container', 'size'] as const)
    .filter((field) => !isDeepStrictEqual(run.request[field], request[field]))
    .map((field) => `${field} ${summarize(run.request[field])}, now ${summarize(request[field])}`);
  if (since !== undefined && since !== run.since) contradictions.push(`since ${run.since}, now ${since}`);
  return contradictions;
}

function contradictionError(run: Run, contradictions: readonly string[]): ExportError {
  return new ExportError(
    'ConfigurationError',
    `Run ${run.run} of export ${run.export} is unfinished and was begun with ${contradictions.join('; ')}. ` +
      'A cursor only goes with the request it was given for: start again with what the run began with to finish it, ' +
      'or with restart to abandon it (and since, where the filter or the service is another than that of the last run)',
  );
}
