/**
 * The state machine of an export, as typed data: one source for the deployment, the tests and the local runner.
 *
 * JSONPath without variables, because the local interpreter silently ignores JSONata and Assign. The payload carries
 * identity and small counters only, so no cursor, key or page ever lies in an execution's history.
 *
 * ```
 * BeginRun ─ skip ─▶ Skipped
 *    │ export / finish
 *    ▼
 * ExportPage ─▶ next? ─ page ─────▶ ExportPage
 *                     ─ wait ─────▶ WaitForService ─▶ ExportPage
 *                     ─ continue ─▶ ContinueInNewExecution ─▶ Continued
 *                     ─ finish ───▶ FinishRun ─▶ AnnounceCompleted ─▶ Completed
 * superseded ─▶ Skipped;  any error left over ─▶ FailRun ─▶ AnnounceFailed ─▶ Failed
 * ```
 */

import type { ErrorName } from '../errors.ts';
import type { Catcher, State, StateMachine, TaskState, Template } from './asl.ts';
import { retryAnything, retryWithBackoff, stepRetries } from './retry-policy.ts';

export const stepNames = ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'] as const;
export type StepName = (typeof stepNames)[number];

/** A value for each step. */
export function byStep<Value>(make: (step: StepName) => Value): Readonly<Record<StepName, Value>> {
  return {
    BeginRun: make('BeginRun'),
    ExportPage: make('ExportPage'),
    FinishRun: make('FinishRun'),
    FailRun: make('FailRun'),
  };
}

export type StateName =
  | StepName
  | 'HasWork'
  | 'NextAction'
  | 'WaitForService'
  | 'ContinueInNewExecution'
  | 'AnnounceCompleted'
  | 'AnnounceFailed'
  | 'Skipped'
  | 'Continued'
  | 'Completed'
  | 'Failed';

/** What a deployment fills in. Each may be a placeholder such as `${BeginRunArn}`. */
export interface StateMachineBinding {
  readonly exportName: string;
  /** The functions, by step. */
  readonly functions: Readonly<Record<StepName, string>>;
  readonly eventBus: string;
  /** `aws`, or another partition's name; of every ARN of an integration. */
  readonly partition: string;
  /** Seconds a step may take: more than its function's own timeout, which is more than the service's deadline. */
  readonly stepTimeoutSeconds: Readonly<Record<StepName, number>>;
  /** Seconds one execution may take, waits included. */
  readonly executionTimeoutSeconds: number;
}

export const eventSource = 'report-exporter';
export const detailTypes = { completed: 'Report Export Completed', failed: 'Report Export Failed' } as const;
/** Of the detail's shape (`../storage/published-schemas.ts`). */
const eventVersion = 1;

export function stateMachine(binding: StateMachineBinding): StateMachine<StateName> {
  return {
    Comment: `Exports ${binding.exportName}: a page a turn, or some, while the service returns a cursor`,
    StartAt: 'BeginRun',
    TimeoutSeconds: binding.executionTimeoutSeconds,
    States: {
      BeginRun: step(binding, 'BeginRun', 'A new run, the rest of an unfinished one, or nothing', 'HasWork'),
      HasWork: choice({ skip: 'Skipped', export: 'ExportPage', finish: 'FinishRun' }),
      ExportPage: step(binding, 'ExportPage', 'Fetches, stores and logs a page, or some', 'NextAction'),
      NextAction: choice({
        page: 'ExportPage',
        wait: 'WaitForService',
        continue: 'ContinueInNewExecution',
        finish: 'FinishRun',
      }),
      WaitForService: {
        Type: 'Wait',
        Comment: "At least the service's Retry-After",
        SecondsPath: '$.waitSeconds',
        Next: 'ExportPage',
      },
      ContinueInNewExecution: {
        Type: 'Task',
        Comment:
          'An execution holds 25,000 events, so a long run goes on in the next; repeated, it starts the same one',
        Resource: integration(binding, 'states:startExecution'),
        Parameters: {
          'StateMachineArn.$': '$$.StateMachine.Id',
          // The name this segment gives the next: unique to it, so that a repetition finds it started.
          'Name.$': "States.Format('{}-{}', $.run, States.MathAdd($.executionNumber, 1))",
          Input: { 'continues.$': '$$.Execution.Id', 'waits.$': '$.waits' },
        },
        ResultPath: null,
        TimeoutSeconds: 60,
        Retry: [{ ErrorEquals: [alreadyStarted], MaxAttempts: 0 }, retryAnything],
        Catch: [{ ErrorEquals: [alreadyStarted], Next: 'Continued' }, failRun],
        Next: 'Continued',
      },
      FinishRun: step(binding, 'FinishRun', 'Publishes the manifest, then moves the watermark', 'AnnounceCompleted'),
      AnnounceCompleted: announcement(binding, detailTypes.completed, { 'result.$': '$' }, [failRun], 'Completed'),
      FailRun: {
        ...step(binding, 'FailRun', 'Records the failure; the next start goes on from it', 'AnnounceFailed'),
        // Whatever happens here, the error that led here is what Failed must show: it stays at the top.
        ResultSelector: {
          'run.$': '$.Payload.run',
          'since.$': '$.Payload.since',
          'pages.$': '$.Payload.pages',
          'reports.$': '$.Payload.reports',
          'bytes.$': '$.Payload.bytes',
          'message.$': '$.Payload.message',
          'resumable.$': '$.Payload.resumable',
        },
        ResultPath: '$.failed',
        OutputPath: '$',
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failed', Next: 'AnnounceFailed' }],
      },
      AnnounceFailed: announcement(
        binding,
        detailTypes.failed,
        { 'error.$': '$.Error', 'failed.$': '$.failed' },
        [{ ErrorEquals: ['States.ALL'], ResultPath: '$.announceFailure', Next: 'Failed' }],
        'Failed',
      ),
      Skipped: { Type: 'Succeed', Comment: 'Nothing to do, or another execution does it' },
      Continued: { Type: 'Succeed', Comment: 'The next execution has taken over' },
      Completed: { Type: 'Succeed', Comment: 'The manifest is published' },
      Failed: { Type: 'Fail', Comment: 'The real error and cause', ErrorPath: '$.Error', CausePath: '$.Cause' },
    },
  };
}

/** The name is this segment's own, so only an earlier attempt of this very state can have started it. */
const alreadyStarted = 'StepFunctions.ExecutionAlreadyExistsException';

/** The error takes the place of the input: a start input that is no object could not hold it beside itself. */
const failRun: Catcher = { ErrorEquals: ['States.ALL'], Next: 'FailRun' };
const endQuietly: Catcher = {
  ErrorEquals: ['RunSupersededError' satisfies ErrorName],
  Next: 'Skipped',
};

function step(binding: StateMachineBinding, name: StepName, comment: string, next: StateName): TaskState {
  return {
    Type: 'Task',
    Comment: comment,
    Resource: integration(binding, 'lambda:invoke'),
    Parameters: {
      FunctionName: binding.functions[name],
      Payload: { 'input.$': '$', 'execution.$': '$$.Execution.Id' },
    },
    OutputPath: '$.Payload',
    TimeoutSeconds: binding.stepTimeoutSeconds[name],
    Retry: stepRetries,
    Catch: [endQuietly, failRun],
    Next: next,
  };
}

function integration({ partition }: StateMachineBinding, name: string): string {
  return `arn:${partition}:states:::${name}`;
}

function choice(next: Readonly<Record<string, StateName>>): State {
  return {
    Type: 'Choice',
    Choices: Object.entries(next).map(([value, state]) => ({
      Variable: '$.next',
      StringEquals: value,
      Next: state,
    })),
  };
}

function announcement(
  binding: StateMachineBinding,
  detailType: string,
  detail: Template,
  catchers: readonly Catcher[],
  next: StateName,
): TaskState {
  return {
    Type: 'Task',
    Comment: `Tells the event bus: ${detailType}`,
    Resource: integration(binding, 'events:putEvents'),
    Parameters: {
      Entries: [
        {
          EventBusName: binding.eventBus,
          Source: eventSource,
          DetailType: detailType,
          Detail: { eventVersion, export: binding.exportName, 'execution.$': '$$.Execution.Id', ...detail },
        },
      ],
    },
    ResultPath: null,
    TimeoutSeconds: 60,
    Retry: [retryWithBackoff],
    Catch: catchers,
    Next: next,
  };
}
