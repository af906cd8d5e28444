/**
 * Step Functions, simulated: interprets the real definition in virtual time, tries tasks again as it says, and counts the
 * events of each execution's history as the real one does, up to its limit.
 *
 * It knows the part of the language that `states-language.ts` spells out. A test holds it to the interpreter that the
 * local runner uses, execution by execution.
 */

import type { Retrier, State, StateMachine, TaskState } from '../../../lib/core/state-machine/asl.ts';
import type { VirtualTime } from '../world/virtual-time.ts';
import { type Context, pick, place, resolveTemplate } from './data-flow.ts';

/** Step Functions' own limits (facts; AWS documentation, "Service quotas"). */
export const mostHistoryEvents = 25_000;

type ExecutionStatus = 'RUNNING' | 'SUCCEEDED' | 'FAILED' | 'TIMED_OUT' | 'ABORTED';

export interface SimulatedExecution {
  readonly arn: string;
  readonly name: string;
  readonly input: unknown;
  readonly startedAt: number;
  status: ExecutionStatus;
  endedAt?: number;
  /** Of its history, so far. */
  events: number;
  /** The state entered last. */
  state: string;
  output?: unknown;
  error?: string;
  cause?: string;
}

/** What a state asks the world to do, once for each attempt. */
export interface TaskCall {
  readonly execution: SimulatedExecution;
  readonly state: string;
  readonly resource: string;
  readonly parameters: unknown;
  /** From 1, within this visit of the state. */
  readonly attempt: number;
}

/** As a failed task appears in a history; by `name` the definition decides. */
export class TaskFailure extends Error {
  override readonly name: string;
  override readonly cause: string;

  constructor(name: string, cause: string) {
    super(`${name}: ${cause}`);
    this.name = name;
    this.cause = cause;
  }
}

export interface StepFunctionsOptions {
  readonly definition: StateMachine<string>;
  /** The machine's ARN. */
  readonly machine: string;
  readonly time: VirtualTime;
  /** From 0 up to 1; `about` names what it decides, the same each time that history is repeated. */
  readonly random: (about: string) => number;
  /** @throws TaskFailure; any other error is the simulation's own */
  readonly perform: (call: TaskCall) => Promise<unknown>;
  /** Milliseconds from one state to the next. */
  readonly transitionMs?: number;
  readonly on?: (fact: ExecutionFact) => void;
}

export type ExecutionFact =
  | { readonly what: 'started' | 'ended' | 'stopped'; readonly execution: SimulatedExecution }
  | {
      readonly what: 'entered' | 'exited';
      readonly execution: SimulatedExecution;
      readonly state: string;
      readonly data: unknown;
    }
  | {
      readonly what: 'failed';
      readonly execution: SimulatedExecution;
      readonly state: string;
      readonly error: string;
      readonly cause: string;
      /** undefined: it is not tried again. */
      readonly againInMs: number | undefined;
    };

export interface StepFunctions {
  /**
   * As StartExecution: the same name with the same input, while it runs, is the same execution.
   * @throws TaskFailure where the name is taken otherwise
   */
  start(name: string, input: unknown): SimulatedExecution;
  stop(execution: SimulatedExecution): void;
  find(arn: string): SimulatedExecution | undefined;
  /** As though it had ended long ago: its name is free again. */
  forget(execution: SimulatedExecution): void;
  readonly executions: readonly SimulatedExecution[];
}

export function createStepFunctions(options: StepFunctionsOptions): StepFunctions {
  const { definition, machine, time, on = () => {} } = options;
  const byName = new Map<string, SimulatedExecution>();
  const byArn = new Map<string, SimulatedExecution>();
  const executions: SimulatedExecution[] = [];
  const timers = new Map<SimulatedExecution, () => void>();
  const prefix = machine.replace(':stateMachine:', ':execution:');

  const end = (execution: SimulatedExecution, status: ExecutionStatus, how: Partial<SimulatedExecution> = {}) => {
    if (execution.status !== 'RUNNING') return;
    timers.get(execution)?.();
    timers.delete(execution);
    Object.assign(execution, how, { status, endedAt: time.now(), events: execution.events + 1 });
    on({ what: status === 'ABORTED' ? 'stopped' : 'ended', execution });
  };

  const begin = (name: string, input: unknown): SimulatedExecution => {
    const arn = `${prefix}:${name}`;
    const execution: SimulatedExecution = {
      arn,
      name,
      input,
      startedAt: time.now(),
      status: 'RUNNING',
      events: 1,
      state: '',
    };
    byName.set(name, execution);
    byArn.set(arn, execution);
    executions.push(execution);
    on({ what: 'started', execution });
    const timeUp = () => end(execution, 'TIMED_OUT', { error: 'States.Timeout' });
    timers.set(execution, time.after(definition.TimeoutSeconds * 1_000, timeUp));
    void interpret(options, execution, end);
    return execution;
  };

  return {
    executions,
    start(name, input) {
      const existing = byName.get(name);
      if (existing === undefined) return begin(name, input);
      const same = JSON.stringify(existing.input) === JSON.stringify(input);
      if (existing.status === 'RUNNING' && same) return existing;
      throw new TaskFailure('StepFunctions.ExecutionAlreadyExistsException', `Execution Already Exists: '${name}'`);
    },
    stop: (execution) => end(execution, 'ABORTED'),
    find: (arn) => byArn.get(arn),
    forget(execution) {
      byName.delete(execution.name);
      byArn.delete(execution.arn);
      executions.splice(executions.indexOf(execution), 1);
    },
  };
}

type End = (execution: SimulatedExecution, status: ExecutionStatus, how?: Partial<SimulatedExecution>) => void;

interface Step {
  readonly next: string;
  readonly data: unknown;
}

async function interpret(options: StepFunctionsOptions, execution: SimulatedExecution, end: End): Promise<void> {
  const { definition, time, transitionMs = 0, on = () => {} } = options;
  let step: Step = { next: definition.StartAt, data: execution.input };
  for (;;) {
    const name = step.next;
    const state = (definition.States as Readonly<Record<string, State>>)[name];
    if (state === undefined) throw new Error(`the definition has no state ${name}`);
    await time.sleep(transitionMs);
    if (execution.status !== 'RUNNING') return;
    execution.state = name;
    on({ what: 'entered', execution, state: name, data: step.data });
    // Entered; where a state goes on, its exit is counted with it.
    execution.events += 1;
    const done = await visit(options, execution, name, state, step.data, end);
    if (done === undefined || execution.status !== 'RUNNING') return;
    execution.events += 1;
    on({ what: 'exited', execution, state: name, data: done.data });
    if (execution.events >= mostHistoryEvents) {
      end(execution, 'FAILED', { error: 'States.Runtime', cause: `more than ${mostHistoryEvents} events` });
      return;
    }
    step = done;
  }
}

/** How the execution goes on behind the state; undefined where it ends there. */
async function visit(
  options: StepFunctionsOptions,
  execution: SimulatedExecution,
  name: string,
  state: State,
  data: unknown,
  end: End,
): Promise<Step | undefined> {
  switch (state.Type) {
    case 'Succeed':
      execution.events += 1;
      end(execution, 'SUCCEEDED', { output: data });
      return undefined;
    case 'Fail':
      end(execution, 'FAILED', {
        error: String(pick(data, state.ErrorPath)),
        cause: String(pick(data, state.CausePath)),
      });
      return undefined;
    case 'Choice': {
      const chosen = state.Choices.find(({ Variable, StringEquals }) => pick(data, Variable) === StringEquals);
      if (chosen !== undefined) return { next: chosen.Next, data };
      end(execution, 'FAILED', { error: 'States.NoChoiceMatched', cause: `in ${name}` });
      return undefined;
    }
    case 'Wait':
      await options.time.sleep(Number(pick(data, state.SecondsPath)) * 1_000);
      return { next: state.Next, data };
    case 'Task':
      return runTask(options, execution, name, state, data, end);
  }
}

async function runTask(
  options: StepFunctionsOptions,
  execution: SimulatedExecution,
  name: string,
  state: TaskState,
  data: unknown,
  end: End,
): Promise<Step | undefined> {
  const { machine, time, perform, random, on = () => {} } = options;
  const context: Context = { Execution: { Id: execution.arn, Name: execution.name }, StateMachine: { Id: machine } };
  const attempts = new Map<Retrier, number>();
  for (let attempt = 1; ; attempt += 1) {
    // Scheduled, started, and succeeded or failed.
    execution.events += 3;
    try {
      const parameters = resolveTemplate(state.Parameters, data, context);
      const call = { execution, state: name, resource: state.Resource, parameters, attempt };
      const result = await within(perform(call), state.TimeoutSeconds * 1_000, time);
      if (execution.status !== 'RUNNING') return undefined;
      const selected = state.ResultSelector ? resolveTemplate(state.ResultSelector, result, context) : result;
      const output = place(data, state.ResultPath, selected);
      return { next: state.Next, data: state.OutputPath === undefined ? output : pick(output, state.OutputPath) };
    } catch (error) {
      if (!(error instanceof TaskFailure)) throw error;
      if (execution.status !== 'RUNNING') return undefined;
      const about = `${execution.name}/${name}/retry#${attempt}/${execution.events}`;
      const againInMs = pauseBefore(state.Retry, error.name, attempts, () => random(about));
      on({ what: 'failed', execution, state: name, error: error.name, cause: error.cause, againInMs });
      if (againInMs !== undefined) {
        await time.sleep(againInMs);
        if (execution.status !== 'RUNNING') return undefined;
        continue;
      }
      const catcher = state.Catch.find(({ ErrorEquals }) => matches(ErrorEquals, error.name));
      if (catcher === undefined) {
        end(execution, 'FAILED', { error: error.name, cause: error.cause });
        return undefined;
      }
      const caught = { Error: error.name, Cause: error.cause };
      return { next: catcher.Next, data: place(data, catcher.ResultPath, caught) };
    }
  }
}

/** Milliseconds until the next attempt; undefined where there is none. Each retrier counts its own attempts. */
function pauseBefore(
  retriers: readonly Retrier[],
  error: string,
  attempts: Map<Retrier, number>,
  random: () => number,
): number | undefined {
  const retrier = retriers.find(({ ErrorEquals }) => matches(ErrorEquals, error));
  if (retrier === undefined) return undefined;
  const made = attempts.get(retrier) ?? 0;
  if (made >= retrier.MaxAttempts) return undefined;
  attempts.set(retrier, made + 1);
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY } = retrier;
  const seconds = Math.min(MaxDelaySeconds, IntervalSeconds * BackoffRate ** made);
  return Math.round(seconds * 1_000 * (retrier.JitterStrategy === 'FULL' ? random() : 1));
}

/** `States.ALL` stands for every error that can be caught at all. */
function matches(names: readonly string[], error: string): boolean {
  return (
    names.includes(error) ||
    names.includes('States.ALL') ||
    (names.includes('States.TaskFailed') && error !== 'States.Timeout')
  );
}

/** What was asked for goes on; only nobody waits for it any more. */
async function within<T>(work: Promise<T>, ms: number, time: VirtualTime): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const cancel = time.after(ms, () => reject(new TaskFailure('States.Timeout', '')));
  try {
    return await Promise.race([work, timeout]);
  } finally {
    cancel();
  }
}
