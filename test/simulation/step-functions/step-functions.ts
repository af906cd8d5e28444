/**
 * Simulated Step Functions: interprets the real definition in virtual time, retries tasks as the definition says, and
 * counts the events of each execution's history as the real service does, up to its limit.
 *
 * It supports the part of the language in lib/core/state-machine/asl.ts. The tests in test/aws-e2e run the same
 * definition in an emulator.
 */

import type { ChoiceRule, Retrier, State, StateMachine, TaskState } from '../../../lib/core/state-machine/asl.ts';
import type { VirtualTime } from '../world/virtual-time.ts';
import { type Context, getPath, resolveTemplate, setPath } from './data-flow.ts';

/** The events that the history of a Standard execution can hold (Step Functions Developer Guide, "Quotas"). */
export const maxHistoryEvents = 25_000;

type ExecutionStatus = 'RUNNING' | 'SUCCEEDED' | 'FAILED' | 'TIMED_OUT' | 'ABORTED';

export interface SimulatedExecution {
  readonly arn: string;
  readonly name: string;
  readonly input: unknown;
  readonly startedAt: number;
  status: ExecutionStatus;
  endedAt?: number;
  /** Events in its history so far. */
  eventCount: number;
  /** Attempts of tasks that have failed so far. */
  failedTasks: number;
  /** The state entered last, and its input. */
  state: string;
  stateInput?: unknown;
  /** The state machine's when the execution was started. */
  readonly definition: StateMachine<string>;
  redriveCount: number;
  /** The last time. */
  redrivenAt?: number;
  output?: unknown;
  error?: string;
  cause?: string;
}

/** One attempt of a task. */
export interface TaskCall {
  readonly execution: SimulatedExecution;
  readonly state: string;
  readonly resource: string;
  readonly parameters: unknown;
  /** Counts from 1 each time the state is entered. */
  readonly attempt: number;
  /** Whether the state still waits for the task: neither has the task's timeout passed, nor has the execution ended. */
  readonly isAwaited: () => boolean;
}

/** A failed task as it appears in the history. Retriers and catchers match its `name`. */
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
  /** The definition that a new execution gets, if it is updated; by default `definition`. */
  readonly definitionFor?: (execution: string) => StateMachine<string>;
  readonly stateMachineArn: string;
  readonly time: VirtualTime;
  /** From 0 (inclusive) to 1 (exclusive), for jitter; `decision` has the same name when the history is replayed. */
  readonly random: (decision: string) => number;
  /** @throws TaskFailure if the task fails; any other error is a defect of the simulation */
  readonly perform: (call: TaskCall) => Promise<unknown>;
  /** Time between two states; 0 if absent. */
  readonly transitionMs?: number;
  readonly onEvent?: (event: ExecutionEvent) => void;
}

export type ExecutionEvent =
  | { readonly type: 'started' | 'ended' | 'stopped' | 'redriven'; readonly execution: SimulatedExecution }
  | {
      readonly type: 'entered' | 'exited';
      readonly execution: SimulatedExecution;
      readonly state: string;
      readonly data: unknown;
    }
  | {
      readonly type: 'task-failed';
      readonly execution: SimulatedExecution;
      readonly state: string;
      readonly error: string;
      readonly cause: string;
      /** undefined: there is no further attempt. */
      readonly retryInMs: number | undefined;
    };

export interface StepFunctions {
  /**
   * StartExecution: returns the running execution if it has the same name and input.
   * @throws TaskFailure if another execution has the name
   */
  start(name: string, input: unknown): SimulatedExecution;
  stop(execution: SimulatedExecution): void;
  /**
   * RedriveExecution: an execution that has failed, timed out or was stopped continues with the state in which it
   * ended, with the same input and definition. Retries and the timeout start over; the history continues. Others are
   * left as they are.
   */
  redrive(execution: SimulatedExecution): void;
  find(arn: string): SimulatedExecution | undefined;
  readonly executions: readonly SimulatedExecution[];
}

export function createStepFunctions(options: StepFunctionsOptions): StepFunctions {
  const { definition, definitionFor = () => definition, stateMachineArn, time, onEvent = () => {} } = options;
  const byName = new Map<string, SimulatedExecution>();
  const byArn = new Map<string, SimulatedExecution>();
  const executions: SimulatedExecution[] = [];
  const cancelTimeouts = new Map<SimulatedExecution, () => void>();
  const arnPrefix = stateMachineArn.replace(':stateMachine:', ':execution:');

  const end: End = (execution, status, result = {}) => {
    if (execution.status !== 'RUNNING') return;
    cancelTimeouts.get(execution)?.();
    cancelTimeouts.delete(execution);
    Object.assign(execution, result, { status, endedAt: time.now(), eventCount: execution.eventCount + 1 });
    onEvent({ type: status === 'ABORTED' ? 'stopped' : 'ended', execution });
  };

  const begin = (name: string, input: unknown): SimulatedExecution => {
    const arn = `${arnPrefix}:${name}`;
    const execution: SimulatedExecution = {
      arn,
      name,
      input,
      startedAt: time.now(),
      status: 'RUNNING',
      eventCount: 1,
      failedTasks: 0,
      state: '',
      definition: definitionFor(name),
      redriveCount: 0,
    };
    byName.set(name, execution);
    byArn.set(arn, execution);
    executions.push(execution);
    onEvent({ type: 'started', execution });
    run(execution, { next: execution.definition.StartAt, data: input });
    return execution;
  };

  const run = (execution: SimulatedExecution, first: Transition) => {
    const onTimeout = () => end(execution, 'TIMED_OUT', { error: 'States.Timeout' });
    cancelTimeouts.set(execution, time.after(execution.definition.TimeoutSeconds * 1_000, onTimeout));
    void runExecution(options, execution, first, end);
  };

  return {
    executions,
    start(name, input) {
      const existing = byName.get(name);
      if (existing === undefined) return begin(name, input);
      const isSameInput = JSON.stringify(existing.input) === JSON.stringify(input);
      if (existing.status === 'RUNNING' && isSameInput) return existing;
      throw new TaskFailure('StepFunctions.ExecutionAlreadyExistsException', `Execution Already Exists: '${name}'`);
    },
    stop: (execution) => end(execution, 'ABORTED'),
    redrive(execution) {
      const { status, state, stateInput, input } = execution;
      if (status === 'RUNNING' || status === 'SUCCEEDED' || execution.eventCount >= maxHistoryEvents - 1) return;
      Object.assign(execution, {
        status: 'RUNNING',
        endedAt: undefined,
        error: undefined,
        cause: undefined,
        eventCount: execution.eventCount + 1,
        redriveCount: execution.redriveCount + 1,
        redrivenAt: time.now(),
      });
      onEvent({ type: 'redriven', execution });
      const isNotBegun = state === '';
      run(
        execution,
        isNotBegun ? { next: execution.definition.StartAt, data: input } : { next: state, data: stateInput },
      );
    },
    find: (arn) => byArn.get(arn),
  };
}

type End = (execution: SimulatedExecution, status: ExecutionStatus, result?: Partial<SimulatedExecution>) => void;

/** The next state, and its input. */
interface Transition {
  readonly next: string;
  readonly data: unknown;
}

async function runExecution(
  options: StepFunctionsOptions,
  execution: SimulatedExecution,
  first: Transition,
  end: End,
): Promise<void> {
  const { definition, redriveCount } = execution;
  // A task that was running when the execution ended must not continue it after a redrive.
  const isOver = () => execution.status !== 'RUNNING' || execution.redriveCount !== redriveCount;
  const { time, onEvent = () => {}, transitionMs = 0 } = options;
  let transition = first;
  for (;;) {
    const { next: name, data } = transition;
    const state = (definition.States as Readonly<Record<string, State>>)[name];
    if (state === undefined) throw new Error(`The definition has no state ${name}`);
    await time.sleep(transitionMs);
    if (isOver()) return;
    execution.state = name;
    execution.stateInput = data;
    onEvent({ type: 'entered', execution, state: name, data });
    execution.eventCount += 1;
    const following = await runState(options, execution, name, state, data, end, isOver);
    if (following === undefined || isOver()) return;
    execution.eventCount += 1;
    onEvent({ type: 'exited', execution, state: name, data: following.data });
    if (execution.eventCount >= maxHistoryEvents) {
      end(execution, 'FAILED', { error: 'States.Runtime', cause: `The history has ${maxHistoryEvents} events` });
      return;
    }
    transition = following;
  }
}

/** undefined: the execution has ended. */
async function runState(
  options: StepFunctionsOptions,
  execution: SimulatedExecution,
  name: string,
  state: State,
  data: unknown,
  end: End,
  isOver: () => boolean,
): Promise<Transition | undefined> {
  switch (state.Type) {
    case 'Succeed':
      execution.eventCount += 1;
      end(execution, 'SUCCEEDED', { output: data });
      return undefined;
    case 'Fail':
      end(execution, 'FAILED', {
        error: String(getPath(data, state.ErrorPath)),
        cause: String(getPath(data, state.CausePath)),
      });
      return undefined;
    case 'Choice': {
      const choice = state.Choices.find((rule) => isTrue(rule, data));
      return { next: choice?.Next ?? state.Default, data };
    }
    case 'Pass': {
      const result = resolveTemplate(state.Parameters, data, contextOf(options, execution, options.time.now(), 1));
      return { next: state.Next, data: setPath(data, state.ResultPath, result) };
    }
    case 'Wait':
      await options.time.sleep(Number(getPath(data, state.SecondsPath)) * 1_000);
      return { next: state.Next, data };
    case 'Task':
      return runTask(options, execution, name, state, data, end, isOver);
  }
}

function isTrue(rule: ChoiceRule, data: unknown): boolean {
  const value = getPath(data, rule.Variable);
  return 'IsNull' in rule ? (value === null) === rule.IsNull : value === rule.StringEquals;
}

function contextOf(
  { stateMachineArn }: StepFunctionsOptions,
  { arn, name, input }: SimulatedExecution,
  enteredAt: number,
  attempt: number,
): Context {
  return {
    Execution: { Id: arn, Name: name, Input: input },
    StateMachine: { Id: stateMachineArn },
    State: { EnteredTime: new Date(enteredAt).toISOString(), RetryCount: attempt - 1 },
  };
}

async function runTask(
  options: StepFunctionsOptions,
  execution: SimulatedExecution,
  name: string,
  state: TaskState,
  data: unknown,
  end: End,
  isOver: () => boolean,
): Promise<Transition | undefined> {
  const { time, perform, random, onEvent = () => {} } = options;
  const enteredAt = time.now();
  const retries = new Map<Retrier, number>();
  for (let attempt = 1; ; attempt += 1) {
    // Scheduled, started, and succeeded or failed.
    execution.eventCount += 3;
    try {
      const context = contextOf(options, execution, enteredAt, attempt);
      const parameters = resolveTemplate(state.Parameters, data, context);
      let isAwaited = true;
      const call = {
        execution,
        state: name,
        resource: state.Resource,
        parameters,
        attempt,
        isAwaited: () => isAwaited && !isOver(),
      };
      const onTimeout = () => {
        isAwaited = false;
      };
      const result = await withTimeout(perform(call), state.TimeoutSeconds * 1_000, time, onTimeout);
      if (isOver()) return undefined;
      const output = setPath(data, state.ResultPath, result);
      return { next: state.Next, data: state.OutputPath === undefined ? output : getPath(output, state.OutputPath) };
    } catch (error) {
      if (!(error instanceof TaskFailure)) throw error;
      if (isOver()) return undefined;
      execution.failedTasks += 1;
      const decision = `${execution.name}/${name}/retry#${attempt}/${execution.eventCount}`;
      const retryInMs = nextRetryDelay(state.Retry, error.name, retries, () => random(decision));
      onEvent({ type: 'task-failed', execution, state: name, error: error.name, cause: error.cause, retryInMs });
      if (retryInMs !== undefined) {
        await time.sleep(retryInMs);
        if (isOver()) return undefined;
        continue;
      }
      const catcher = state.Catch.find(({ ErrorEquals }) => matches(ErrorEquals, error.name));
      if (catcher === undefined) {
        end(execution, 'FAILED', { error: error.name, cause: error.cause });
        return undefined;
      }
      const caught = { Error: error.name, Cause: error.cause };
      return { next: catcher.Next, data: setPath(data, catcher.ResultPath, caught) };
    }
  }
}

/** Milliseconds until the next attempt; undefined if there is none. Each retrier counts its own retries. */
function nextRetryDelay(
  retriers: readonly Retrier[],
  error: string,
  retries: Map<Retrier, number>,
  random: () => number,
): number | undefined {
  const retrier = retriers.find(({ ErrorEquals }) => matches(ErrorEquals, error));
  if (retrier === undefined) return undefined;
  const retryCount = retries.get(retrier) ?? 0;
  if (retryCount >= retrier.MaxAttempts) return undefined;
  retries.set(retrier, retryCount + 1);
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY } = retrier;
  const seconds = Math.min(MaxDelaySeconds, IntervalSeconds * BackoffRate ** retryCount);
  return Math.round(seconds * 1_000 * (retrier.JitterStrategy === 'FULL' ? random() : 1));
}

function matches(errorEquals: readonly string[], error: string): boolean {
  return (
    errorEquals.includes(error) ||
    errorEquals.includes('States.ALL') ||
    (errorEquals.includes('States.TaskFailed') && error !== 'States.Timeout')
  );
}

/** Rejects after `ms`. The work continues, as that of a timed-out task does. */
async function withTimeout<T>(work: Promise<T>, ms: number, time: VirtualTime, onTimeout: () => void): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const cancel = time.after(ms, () => {
    onTimeout();
    reject(new TaskFailure('States.Timeout', ''));
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    cancel();
  }
}
