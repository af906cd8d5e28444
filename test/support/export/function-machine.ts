/** Runs the deployed state machine with the given functions, passing payloads and results as Step Functions does. */

import {
  ExecutionError,
  StateMachine as Interpreter,
  type RunOptions,
  type StateMachineDefinition,
} from 'aws-local-stepfunctions';
import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import { byStep, type StepName, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';

export interface ExecutionResult {
  readonly status: 'succeeded' | 'failed';
  /** The entered states, in order. */
  readonly states: readonly string[];
  readonly output?: unknown;
  /** The error of a failed execution, as in its history. */
  readonly error?: string | undefined;
  readonly cause?: unknown;
  /** The details of the events that were sent. */
  readonly events: readonly unknown[];
  /** The interpreter's log: inputs and outputs of states, retries, errors. */
  readonly history: readonly unknown[];
  /** The execution in which this one continues. */
  readonly next?: { readonly name: string; readonly input: unknown };
}

export type Functions = Readonly<Record<StepName, StepHandler<unknown>>>;

/** The ARN of the execution with this name. */
export const executionArn = (name: string): string => `arn:aws:states:us-east-1:123456789012:execution:reports:${name}`;

/** Runs one execution, without delays before retries and in Wait states. */
export async function execute(
  functions: Functions,
  { name, input = {}, remainingMs = 60_000 }: { name: string; input?: unknown; remainingMs?: number },
): Promise<ExecutionResult> {
  const machine = stateMachine({
    functions: { BeginRun: 'BeginRun', ExportPage: 'ExportPage', FinishRun: 'FinishRun', FailRun: 'FailRun' },
    eventBus: 'default',
    store: { bucket: 'reports', prefix: 'exports/' },
    partition: 'aws',
    stepTimeoutSeconds: byStep(() => 900),
    executionTimeoutSeconds: 3_600,
  });
  const events: unknown[] = [];
  let next: ExecutionResult['next'];
  const context = { awsRequestId: `request-of-${name}`, getRemainingTimeInMillis: () => remainingMs };
  // The interpreter has no state in its context object, so the attempts are counted here.
  let failed: { step: StepName; attempts: number } | undefined;
  const invoke = (step: StepName) => async (parameters: unknown) => {
    const { Payload } = JSON.parse(JSON.stringify(parameters)) as { Payload: Parameters<StepHandler<unknown>>[0] };
    const retries = failed?.step === step ? failed.attempts : 0;
    failed = { step, attempts: retries + 1 };
    const outcome = await functions[step](step === 'ExportPage' ? { ...Payload, retries } : Payload, context);
    failed = undefined;
    return { Payload: JSON.parse(JSON.stringify(outcome)) as unknown };
  };
  const putEvents = async (parameters: unknown) => {
    const { Entries } = parameters as { Entries: readonly { readonly Detail: unknown }[] };
    events.push(...Entries.map(({ Detail }) => Detail));
    return {};
  };
  const handlers = {
    ...Object.fromEntries(stepNames.map((step) => [step, invoke(step)])),
    AnnounceCompleted: putEvents,
    AnnounceFailed: putEvents,
    ContinueInNewExecution: async (parameters: unknown) => {
      const { Name, Input } = parameters as { Name: string; Input: unknown };
      next = { name: Name, input: Input };
      return {};
    },
  };
  const execution = new Interpreter(machine as unknown as StateMachineDefinition, {
    validationOptions: { noValidate: true },
  }).run(input as Parameters<Interpreter['run']>[0], {
    overrides: {
      taskResourceLocalHandlers: handlers as unknown as NonNullable<
        NonNullable<RunOptions['overrides']>['taskResourceLocalHandlers']
      >,
      retryIntervalOverrides: Object.fromEntries(stepNames.map((step) => [step, 0])),
      waitTimeOverrides: { WaitForService: 0, WaitForSlot: 0 },
    },
    context: {
      Execution: { Id: executionArn(name), Name: name, Input: input },
      StateMachine: { Id: 'reports' },
      State: { EnteredTime: '', RetryCount: 0 },
    } as NonNullable<RunOptions['context']>,
  });
  const states: string[] = [];
  const history: unknown[] = [];
  const failures: Pick<ExecutionResult, 'error' | 'cause'>[] = [];
  const readLog = (async () => {
    for await (const event of execution.eventLogs) {
      history.push(event);
      if (event.type === 'StateEntered') states.push(event.state.name);
      if (event.type === 'ExecutionFailed') failures.push({ error: event.Error, cause: event.Cause });
    }
  })();
  const outcome = await execution.result.then(
    (output: unknown) => ({ status: 'succeeded' as const, output }),
    (error: unknown) => {
      if (error instanceof ExecutionError) return { status: 'failed' as const };
      throw error;
    },
  );
  await readLog;
  return { ...outcome, ...failures[0], states, events, history, ...(next && { next }) };
}
