/** Runs the deployed state machine with the given functions, passing payloads and results as Step Functions does. */

import { systemRuntime } from '../../../lib/core/clock.ts';
import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import { asRunId, type Invocation, type LoopState } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { byStep, type StepName, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun, recordedFailure } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import {
  createStepFunctions,
  type ExecutionEvent,
  type SimulatedExecution,
  TaskFailure,
} from '../../simulation/step-functions/step-functions.ts';

export interface ExecutionResult {
  readonly status: 'succeeded' | 'failed';
  /** The entered states, in order. */
  readonly states: readonly string[];
  readonly output?: unknown;
  /** The error of a failed execution, as in its history. */
  readonly error?: string | undefined;
  readonly cause?: string | undefined;
  /** The details of the events that were sent. */
  readonly events: readonly unknown[];
  /** Inputs and outputs of states, retries, errors. */
  readonly history: readonly ExecutionEvent[];
  /** Events in the history as the real service counts them. */
  readonly eventCount: number;
  /** The execution in which this one continues. */
  readonly next?: { readonly name: string; readonly input: unknown };
}

export type Functions = Readonly<Record<StepName, StepHandler<unknown>>>;

/** The steps as functions invoke them. */
export const stepFunctions = (deps: StepDependencies, limits: () => Invocation = () => ({})): Functions => ({
  BeginRun: ({ input, execution }) => beginRun(deps, { input, execution }),
  ExportPage: ({ input, execution }) => exportPage(deps, { loop: input as LoopState, execution, ...limits() }),
  FinishRun: ({ input, execution }) => finishRun(deps, { run: asRunId((input as LoopState).run), execution }),
  FailRun: async ({ input, execution }) => recordedFailure(await failRun(deps, { failure: input, execution })),
});

/** The ARN of the execution with this name. */
export const executionArn = (name: string): string => `arn:aws:states:us-east-1:123456789012:execution:reports:${name}`;

export const definition = stateMachine({
  functions: byStep((step) => step),
  eventBus: 'default',
  store: { bucket: 'reports', prefix: 'exports/' },
  partition: 'aws',
  stepTimeoutSeconds: byStep(() => 900),
  executionTimeoutSeconds: 3_600 * 24 * 30,
});
export const stateMachineArn = 'arn:aws:states:us-east-1:123456789012:stateMachine:reports';

let skippedMs = 0;
/** Delays before retries and in Wait states take no time. */
const time = {
  now: Date.now,
  sleep: async (ms: number) => {
    skippedMs += ms;
  },
  after: () => () => {},
};

/** The clock of a process that has lived through these delays. */
export const monotonicNow = (): number => systemRuntime.monotonicNow() + skippedMs;

/** Runs one execution. */
export async function execute(
  functions: Functions,
  {
    name,
    input = {},
    remainingMs = 60_000,
    machine = stateMachineArn,
  }: { name: string; input?: unknown; remainingMs?: number; machine?: string },
): Promise<ExecutionResult> {
  const events: unknown[] = [];
  const history: ExecutionEvent[] = [];
  let next: ExecutionResult['next'];
  const context = { awsRequestId: `request-of-${name}`, getRemainingTimeInMillis: () => remainingMs };
  const { promise: ended, resolve: end } = Promise.withResolvers<SimulatedExecution>();
  const stepFunctions = createStepFunctions({
    definition,
    stateMachineArn: machine,
    time,
    random: () => 0,
    async perform({ state, parameters }) {
      const { Payload, Entries, Name, Input } = clone(parameters) as {
        readonly Payload: Parameters<StepHandler<unknown>>[0];
        readonly Entries?: readonly { readonly Detail: unknown }[];
        readonly Name: string;
        readonly Input: unknown;
      };
      if (Entries !== undefined) events.push(...Entries.map(({ Detail }) => Detail));
      if (state === 'ContinueInNewExecution') next = { name: Name, input: Input };
      const step = stepNames.find((each) => each === state);
      if (step === undefined) return {};
      try {
        return { Payload: clone(await functions[step](Payload, context)) };
      } catch (error) {
        const { name: errorType, message: errorMessage } = error as Error;
        throw new TaskFailure(errorType, JSON.stringify({ errorType, errorMessage }));
      }
    },
    onEvent(event) {
      if (event.type === 'ended') end(event.execution);
      else history.push(event);
    },
  });
  stepFunctions.start(name, clone(input));
  const { status, output, error, cause, eventCount } = await ended;
  return {
    status: status === 'SUCCEEDED' ? 'succeeded' : 'failed',
    states: history.flatMap((event) => (event.type === 'entered' ? event.state : [])),
    output,
    error,
    cause,
    events,
    history,
    eventCount,
    next,
  };
}

const clone = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
