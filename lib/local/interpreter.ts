/**
 * Makes one execution of the state machine on this machine, from the very definition that is deployed.
 *
 * What Step Functions does in the cloud, the interpreter does here: loop, retry, wait, catch. Only the doors differ: a
 * Lambda invocation is a function call, a new execution is reported to the caller, and events are told by `emit` alone.
 */

import {
  ExecutionAbortedError,
  ExecutionError,
  StateMachine as Interpreter,
  type RunOptions,
  type StateMachineDefinition,
} from 'aws-local-stepfunctions';
import type { LoopState } from '../core/model.ts';
import { asRunId, type FailedRun, type RunResult } from '../core/model.ts';
import type { Retry } from '../core/operations/deployment.ts';
import type { StepDependencies } from '../core/ports.ts';
import { byStep, type StateName, stateMachine, stepNames } from '../core/state-machine/definition.ts';
import { beginRun } from '../core/steps/begin-run.ts';
import { exportPage } from '../core/steps/export-page.ts';
import { failRun } from '../core/steps/fail-run.ts';
import { finishRun } from '../core/steps/finish-run.ts';

export interface ExecutionStart {
  readonly name: string;
  readonly input: unknown;
}

export type ExecutionEnd =
  | { readonly status: 'completed'; readonly result: RunResult }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'continued'; readonly next: ExecutionStart }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' };

export interface InterpretOptions {
  /** Breaks the execution off where it stands; nothing of its run is undone. */
  readonly signal?: AbortSignal | undefined;
  /** Told of every failed attempt that will be repeated. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
  /** Seconds between attempts and in Wait states, for tests; left out, the definition's own. */
  readonly pauseSeconds?: number | undefined;
}

/** How the execution with this name is known to the head item, as an ARN is in the cloud. */
export const executionId = (name: string): string => `local:${name}`;

/** How long one invocation may go on with further pages, and sit out short Retry-Afters, before it hands over. */
const patienceMs = 60_000;

/** A disk takes its time to say that something is on it: meanwhile others come in. */
const maxInFlight = 4;

/** Beyond what the service's deadline and a local disk can take, and within what a timer can hold (24 days). */
const timeouts = { stepTimeoutSeconds: byStep(() => 900), executionTimeoutSeconds: 20 * 86_400 };

/**
 * Runs the machine from `start` to its end. A failed run is an end, not an exception.
 * @throws only where the interpreter itself is at fault.
 */
export async function interpretExecution(
  deps: StepDependencies,
  start: ExecutionStart,
  { signal, onRetry, pauseSeconds }: InterpretOptions = {},
): Promise<ExecutionEnd> {
  const steps = bindSteps(deps, signal);
  const machine = stateMachine({
    exportName: deps.definition.name,
    functions: byStep((step) => step),
    eventBus: 'local',
    partition: 'aws',
    ...timeouts,
  });
  const execution = new Interpreter(machine as unknown as StateMachineDefinition, {
    // The definition is validated by the tests; doing it at each start would cost more than the run.
    validationOptions: { noValidate: true },
  }).run(start.input as Parameters<Interpreter['run']>[0], {
    overrides: { taskResourceLocalHandlers: steps.handlers, ...paces(pauseSeconds) },
    context: { Execution: { Id: executionId(start.name), Name: start.name }, StateMachine: { Id: 'local' } },
  });
  const abort = () => execution.abort();
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted) abort();
  const following = follow(execution.eventLogs, onRetry);
  try {
    await execution.result;
  } catch (error) {
    if (!(error instanceof ExecutionAbortedError || error instanceof ExecutionError)) throw error;
  } finally {
    signal?.removeEventListener('abort', abort);
    // An interrupted step must let go of the store and the log before the caller closes them.
    await steps.settled();
  }
  const { reached, failure } = await following;
  const end = steps.end();
  if (end?.status === 'completed') return end;
  if (signal?.aborted) return { status: 'interrupted' };
  if (end !== undefined) return end;
  if (reached === 'Skipped') return { status: 'skipped', reason: failure.message };
  // Not even FailRun could be done: the error that led there is what a person must see.
  const unknown = { run: null, since: null, pages: 0, reports: 0, bytes: 0, resumable: true };
  return { status: 'failed', failed: { export: deps.definition.name, ...unknown, ...failure } };
}

type Handler = (parameters: unknown) => Promise<unknown>;
type Handlers = NonNullable<NonNullable<RunOptions['overrides']>['taskResourceLocalHandlers']>;

function bindSteps(deps: StepDependencies, signal: AbortSignal | undefined) {
  const inFlight = new Set<Promise<unknown>>();
  let end: ExecutionEnd | undefined;

  /** As Lambda is called by the definition: the payload in, `{ Payload }` out. */
  const step = <Input, Output>(act: (payload: { input: Input; execution: string }) => Promise<Output>): Handler => {
    return async (parameters) => {
      const acting = act((parameters as { Payload: { input: Input; execution: string } }).Payload);
      inFlight.add(acting);
      try {
        return { Payload: await acting };
      } catch (error) {
        // As from Lambda, name and message are all that comes through; of a cause, the interpreter would show nothing else.
        const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
        throw Object.assign(new Error(message), { name });
      } finally {
        inFlight.delete(acting);
      }
    };
  };
  const handlers = {
    BeginRun: step<unknown, unknown>(async ({ input, execution }) => {
      const begun = await beginRun(deps, { input, execution });
      if (begun.next === 'skip') end = { status: 'skipped', reason: begun.reason };
      return begun;
    }),
    ExportPage: step<LoopState, unknown>(({ input, execution }) =>
      exportPage(deps, { loop: input, execution, signal, maxInFlight, ...patienceFrom(deps.runtime) }),
    ),
    FinishRun: step<LoopState, unknown>(async ({ input, execution }) => {
      const result = await finishRun(deps, { run: asRunId(input.run), execution });
      end = { status: 'completed', result };
      return result;
    }),
    FailRun: step<unknown, unknown>(async ({ input, execution }) => {
      const failed = await failRun(deps, { failure: input, execution });
      end = { status: 'failed', failed };
      return failed;
    }),
    ContinueInNewExecution: async (parameters) => {
      const { Name, Input } = parameters as { Name: string; Input: unknown };
      end = { status: 'continued', next: { name: Name, input: Input } };
      return {};
    },
    AnnounceCompleted: async () => ({}),
    AnnounceFailed: async () => ({}),
  } satisfies Partial<Record<StateName, Handler>>;

  return {
    handlers: handlers as unknown as Handlers,
    end: () => end,
    settled: () => Promise.allSettled(inFlight),
  };
}

function patienceFrom({ now }: StepDependencies['runtime']) {
  const retryAfterDeadline = now() + patienceMs;
  return { retryAfterDeadline, hasTime: () => now() <= retryAfterDeadline };
}

function paces(seconds: number | undefined) {
  if (seconds === undefined) return {};
  return {
    retryIntervalOverrides: Object.fromEntries(stepNames.map((name) => [name, seconds])),
    waitTimeOverrides: { ['WaitForService' satisfies StateName]: seconds * 1_000 },
  };
}

/** Reports retries as they happen; resolves to the last state reached and the last error caught or thrown on the way. */
async function follow(
  events: ReturnType<Interpreter['run']>['eventLogs'],
  onRetry: InterpretOptions['onRetry'],
): Promise<{ reached: string; failure: { error: string; message: string } }> {
  let reached = '';
  let failure = { error: '', message: '' };
  for await (const event of events) {
    if (event.type === 'StateEntered') reached = event.state.name;
    if (event.type === 'StateFailed') failure = { error: event.Error, message: String(event.Cause) };
    if (event.type !== 'StateRetried') continue;
    const { attempt, retrier } = event.retry;
    onRetry?.({ state: event.state.name, ...failure, attempt, maxAttempts: retrier.MaxAttempts ?? 3 });
  }
  return { reached, failure };
}
