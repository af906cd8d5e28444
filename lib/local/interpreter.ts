/**
 * Runs one execution of the state machine in this process, from the same definition that is deployed to Step Functions.
 *
 * The interpreter does what Step Functions does: it loops, retries, waits and catches. Only the integrations differ: a Lambda
 * invocation is a function call, a new execution is returned to the caller, and events are reported to `emit` only.
 */

import {
  ExecutionAbortedError,
  ExecutionError,
  StateMachine as Interpreter,
  type RunOptions,
  type StateMachineDefinition,
} from 'aws-local-stepfunctions';
import { asRunId, type FailedRun, type LoopState, type RunResult, zeroTotals } from '../core/model.ts';
import type { Retry } from '../core/operations/deployment.ts';
import type { StepDependencies } from '../core/ports.ts';
import type { State, StateMachine } from '../core/state-machine/asl.ts';
import { byStep, type StateName, type StepName, stateMachine } from '../core/state-machine/definition.ts';
import { limitRetries } from '../core/state-machine/retry-policy.ts';
import { beginRun } from '../core/steps/begin-run.ts';
import { exportPage } from '../core/steps/export-page.ts';
import { failRun, recordedFailure } from '../core/steps/fail-run.ts';
import { finishRun } from '../core/steps/finish-run.ts';
import { createRetryDelays, type RetryDelays } from './retry-delays.ts';

export interface ExecutionStart {
  readonly name: string;
  readonly input: unknown;
}

export type LocalExecutionOutcome =
  | { readonly status: 'completed'; readonly result: RunResult }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'continued'; readonly next: ExecutionStart; readonly waitSeconds: number }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' };

export interface InterpretOptions {
  /** Stops the execution. What its run has stored and logged stays. */
  readonly signal?: AbortSignal | undefined;
  /** Called when a retry is due, before its delay. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
  /** How often a step is tried at most, per retrier. Absent, or more than the definition says: as it says. */
  readonly maxAttempts?: number | undefined;
  /** How many pages are in flight at most. Default: 8. */
  readonly maxInFlight?: number | undefined;
  /** Seconds between attempts and in Wait states, for tests. Default: those of the definition. */
  readonly pauseSeconds?: number | undefined;
}

/** Identifies the execution in the export state, as its ARN does on AWS. */
export const executionId = (name: string): string => `local:${name}`;

/** How long one invocation may begin further pages and wait out short Retry-Afters. */
const maxInvocationMs = 60_000;

/** While the disk is awaited, or a body arrives slowly, other pages can be received. */
const defaultMaxInFlight = 8;

/**
 * A longer wait is left to the caller, before the next execution: the interpreter's timers hold at most 24 days, and the
 * timeout of an execution includes its waits.
 */
const maxWaitSeconds = 3_600;

/** Longer than the service's deadlines and a local disk need, shorter than the 24 days that a timer can hold. */
const timeouts = { stepTimeoutSeconds: byStep(() => 900), executionTimeoutSeconds: 20 * 86_400 };

/** Runs the state machine from `start` to its end. A failed run is an outcome: only a defect of the interpreter throws. */
export async function interpretExecution(
  deps: StepDependencies,
  start: ExecutionStart,
  { signal, onRetry, maxAttempts, maxInFlight = defaultMaxInFlight, pauseSeconds }: InterpretOptions = {},
): Promise<LocalExecutionOutcome> {
  const retryDelays = createRetryDelays(deps.runtime, onRetry ?? (() => {}), {
    maxAttempts,
    fixedDelaySeconds: pauseSeconds,
  });
  const tasks = createTasks(deps, retryDelays, { signal, maxInFlight, pauseSeconds });
  const definition = stateMachine({
    functions: byStep((step) => step),
    eventBus: 'local',
    partition: 'aws',
    ...timeouts,
  });
  const machine = withMaxAttempts(definition, maxAttempts);
  const execution = new Interpreter(machine as unknown as StateMachineDefinition, {
    // Tests validate the definition. Validating it at each start would take longer than the run.
    validationOptions: { noValidate: true },
  }).run(start.input as Parameters<Interpreter['run']>[0], {
    overrides: {
      taskResourceLocalHandlers: tasks.handlers,
      retryIntervalOverrides: retryDelays.overrides,
      ...waitOverrides(pauseSeconds),
    },
    context: {
      Execution: { Id: executionId(start.name), Name: start.name, Input: start.input },
      StateMachine: { Id: 'local' },
    } as NonNullable<RunOptions['context']>,
  });
  const abort = () => execution.abort();
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted) abort();
  const trace = traceExecution(execution.eventLogs);
  try {
    await execution.result;
  } catch (error) {
    if (!(error instanceof ExecutionAbortedError || error instanceof ExecutionError)) throw error;
  } finally {
    signal?.removeEventListener('abort', abort);
    // An interrupted step must stop using the store and the page log before the caller closes them.
    await tasks.settled();
  }
  const { lastState, lastError } = await trace;
  const outcome = tasks.outcome();
  if (outcome?.status === 'completed') return outcome;
  if (signal?.aborted) return { status: 'interrupted' };
  if (outcome !== undefined) return outcome;
  if (lastState === 'Skipped') return { status: 'skipped', reason: lastError.message };
  // FailRun failed too. Report the error that led to it, which is the one to act on.
  const failed = { export: deps.definition.name, run: null, since: null, ...zeroTotals, ...lastError, resumable: true };
  return { status: 'failed', failed };
}

/** The definition with no more retries than `maxAttempts` allows. */
function withMaxAttempts<Name extends string>(
  definition: StateMachine<Name>,
  maxAttempts = Number.POSITIVE_INFINITY,
): StateMachine<Name> {
  const limited = Object.entries<State>(definition.States).map(([name, state]) =>
    state.Type === 'Task'
      ? [name, { ...state, Retry: state.Retry.map((retrier) => limitRetries(retrier, maxAttempts)) }]
      : [name, state],
  );
  return { ...definition, States: Object.fromEntries(limited) };
}

type TaskHandler = (parameters: unknown) => Promise<unknown>;
type TaskHandlers = NonNullable<NonNullable<RunOptions['overrides']>['taskResourceLocalHandlers']>;

interface StepPayload<Input> {
  readonly input: Input;
  readonly execution: string;
}

/** The handlers of the definition's Task states, and what they find out about the execution's outcome. */
function createTasks(
  deps: StepDependencies,
  retryDelays: RetryDelays,
  { signal, maxInFlight, pauseSeconds }: Pick<InterpretOptions, 'signal' | 'maxInFlight' | 'pauseSeconds'>,
) {
  const inFlight = new Set<Promise<unknown>>();
  let outcome: LocalExecutionOutcome | undefined;
  let waitSeconds = 0;

  /** Has the interface of Lambda's invoke integration: takes the payload, returns `{ Payload }`. */
  const lambda = <Input>(name: StepName, run: (payload: StepPayload<Input>) => Promise<unknown>): TaskHandler => {
    return async (parameters) => {
      const running = run((parameters as { Payload: StepPayload<Input> }).Payload);
      inFlight.add(running);
      try {
        const Payload = await running;
        retryDelays.succeeded(name);
        return { Payload };
      } catch (error) {
        // Like Lambda, pass on the name and the message only: of an error with a cause the interpreter would show the cause alone.
        const { name: errorName, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
        if (!signal?.aborted) retryDelays.failed(name, { error: errorName, message });
        throw Object.assign(new Error(message), { name: errorName });
      } finally {
        inFlight.delete(running);
      }
    };
  };
  const handlers = {
    BeginRun: lambda('BeginRun', async ({ input, execution }) => {
      const begun = await beginRun(deps, { input, execution });
      if (begun.next === 'skip') outcome = { status: 'skipped', reason: begun.reason };
      return begun;
    }),
    ExportPage: lambda<LoopState>('ExportPage', async ({ input, execution }) => {
      const invocation = { loop: input, execution, signal, maxInFlight, ...invocationLimits(deps) };
      const exported = await exportPage(deps, invocation);
      if (exported.next !== 'wait' || exported.waitSeconds <= maxWaitSeconds) return exported;
      waitSeconds = pauseSeconds ?? exported.waitSeconds;
      return { ...exported, next: 'continue' };
    }),
    FinishRun: lambda<LoopState>('FinishRun', async ({ input, execution }) => {
      const result = await finishRun(deps, { run: asRunId(input.run), execution });
      outcome = { status: 'completed', result };
      return result;
    }),
    FailRun: lambda('FailRun', async ({ input, execution }) => {
      const failed = await failRun(deps, { failure: input, execution });
      outcome = { status: 'failed', failed };
      return recordedFailure(failed);
    }),
    ContinueInNewExecution: async (parameters) => {
      const { Name, Input } = parameters as { Name: string; Input: unknown };
      outcome = { status: 'continued', next: { name: Name, input: Input }, waitSeconds };
      return {};
    },
    AnnounceCompleted: async () => ({}),
    AnnounceFailed: async () => ({}),
  } satisfies Partial<Record<StateName, TaskHandler>>;

  return {
    handlers: handlers as unknown as TaskHandlers,
    outcome: () => outcome,
    settled: () => Promise.allSettled(inFlight),
  };
}

function invocationLimits({ runtime: { monotonicNow } }: StepDependencies) {
  const retryAfterDeadline = monotonicNow() + maxInvocationMs;
  return { retryAfterDeadline, hasTime: () => monotonicNow() <= retryAfterDeadline };
}

function waitOverrides(seconds: number | undefined) {
  if (seconds === undefined) return {};
  return { waitTimeOverrides: { ['WaitForService' satisfies StateName]: seconds * 1_000 } };
}

/** Resolves, when the execution ends, to the last state it entered and the last error in it. */
async function traceExecution(
  events: ReturnType<Interpreter['run']>['eventLogs'],
): Promise<{ lastState: string; lastError: { error: string; message: string } }> {
  let lastState = '';
  let lastError = { error: '', message: '' };
  for await (const event of events) {
    if (event.type === 'StateEntered') lastState = event.state.name;
    if (event.type === 'StateFailed') lastError = { error: event.Error, message: String(event.Cause) };
  }
  return { lastState, lastError };
}
