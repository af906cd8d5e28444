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

import type { ErrorName } from './errors.ts';

export interface Retrier {
  readonly ErrorEquals: readonly string[];
  readonly IntervalSeconds?: number;
  readonly MaxAttempts: number;
  readonly BackoffRate?: number;
  readonly MaxDelaySeconds?: number;
  readonly JitterStrategy?: 'FULL';
}

export interface Catcher {
  readonly ErrorEquals: readonly string[];
  /** Left out: the error takes the place of the whole input. The interpreter takes a spelled-out `$` for a field's name. */
  readonly ResultPath?: string;
  readonly Next: string;
}

type Template = { readonly [key: string]: string | Template | readonly Template[] };

export interface TaskState {
  readonly Type: 'Task';
  readonly Comment: string;
  readonly Resource: string;
  readonly Parameters: Template;
  readonly ResultSelector?: Template;
  readonly ResultPath?: string | null;
  readonly OutputPath?: string;
  readonly TimeoutSeconds: number;
  readonly Retry: readonly Retrier[];
  readonly Catch: readonly Catcher[];
  readonly Next: string;
}

interface ChoiceRule {
  readonly Variable: string;
  readonly StringEquals: string;
  readonly Next: string;
}

export type State =
  | TaskState
  | { readonly Type: 'Choice'; readonly Choices: readonly ChoiceRule[] }
  | { readonly Type: 'Wait'; readonly Comment: string; readonly SecondsPath: string; readonly Next: string }
  | { readonly Type: 'Succeed'; readonly Comment: string }
  | { readonly Type: 'Fail'; readonly Comment: string; readonly ErrorPath: string; readonly CausePath: string };

export interface StateMachine {
  readonly Comment: string;
  readonly StartAt: string;
  readonly TimeoutSeconds: number;
  readonly States: Readonly<Record<StateName, State>>;
}

export const stepNames = ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'] as const;
export type StepName = (typeof stepNames)[number];
export type StateName =
  | StepName
  | 'HasWork'
  | 'NextTurn'
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
  /** Seconds one step may take: more than its function's own timeout, which is more than the service's deadline. */
  readonly stepTimeoutSeconds: number;
  /** Seconds one execution may take, waits included. */
  readonly executionTimeoutSeconds: number;
}

export const eventSource = 'report-exporter';
export const completedDetailType = 'Report Export Run Completed';
export const failedDetailType = 'Report Export Run Failed';

export function stateMachine(binding: StateMachineBinding): StateMachine {
  return {
    Comment: `Exports ${binding.exportName}: one page a turn, while the service returns a cursor`,
    StartAt: 'BeginRun',
    TimeoutSeconds: binding.executionTimeoutSeconds,
    States: {
      BeginRun: step(binding, 'BeginRun', 'A new run, the rest of an unfinished one, or nothing', 'HasWork'),
      HasWork: choice({ skip: 'Skipped', export: 'ExportPage', finish: 'FinishRun' }),
      ExportPage: step(binding, 'ExportPage', 'Fetches, stores and logs one page', 'NextTurn'),
      NextTurn: choice({
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
        Resource: 'arn:aws:states:::states:startExecution',
        Parameters: {
          'StateMachineArn.$': '$$.StateMachine.Id',
          // The name this segment gives the next: unique to it, so that a repetition finds it started.
          'Name.$': "States.Format('{}-{}', $.run, States.MathAdd($.segment, 1))",
          Input: { 'continues.$': '$$.Execution.Id' },
        },
        ResultPath: null,
        TimeoutSeconds: 60,
        Retry: [{ ErrorEquals: [alreadyStarted], MaxAttempts: 0 }, retryAnything],
        Catch: [{ ErrorEquals: [alreadyStarted], Next: 'Continued' }, failRun],
        Next: 'Continued',
      },
      FinishRun: step(binding, 'FinishRun', 'Publishes the manifest, then moves the watermark', 'AnnounceCompleted'),
      AnnounceCompleted: announcement(binding, completedDetailType, { 'result.$': '$' }, [failRun], 'Completed'),
      FailRun: {
        ...step(binding, 'FailRun', 'Records the failure; the next start goes on from it', 'AnnounceFailed'),
        // Whatever happens here, the error that led here is what Failed must show: it stays at the top.
        ResultSelector: {
          'run.$': '$.Payload.run',
          'since.$': '$.Payload.since',
          'pages.$': '$.Payload.pages',
          'message.$': '$.Payload.message',
          'resumable.$': '$.Payload.resumable',
        },
        ResultPath: '$.failed',
        OutputPath: '$',
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failed', Next: 'AnnounceFailed' }],
      },
      AnnounceFailed: announcement(
        binding,
        failedDetailType,
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

/** Lambda's and the interpreter's own failures: the code may not have run, or may still be running. Repeating is safe. */
const platformErrors = [
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
  'Lambda.ClientExecutionTimeoutException',
  'Lambda.TooManyRequestsException',
  'Lambda.Unknown',
  'Sandbox.Timedout',
  'Runtime.ExitError',
  'States.Timeout',
] as const;

const worthWaitingFor: readonly ErrorName[] = ['ServiceUnavailableError', 'ServiceThrottledError'];
const perhapsAGlitch: readonly ErrorName[] = ['ContractError'];
const final: readonly ErrorName[] = [
  'ConfigurationError',
  'RequestRejectedError',
  'CursorRejectedError',
  'PageConflictError',
  'RunSupersededError',
];

/** The name is this segment's own, so only an earlier attempt of this very state can have started it. */
const alreadyStarted = 'StepFunctions.ExecutionAlreadyExistsException';

/**
 * 2 + 4 + 8 + … + 256 s for eight attempts, then 300 s for twelve: up to 68 minutes in all, half of it on average under
 * full jitter. A nightly export outlives an hour of outage; beyond that a person should know.
 */
const patiently = {
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 300,
  MaxAttempts: 20,
  JitterStrategy: 'FULL',
} as const;

/** 2 + 4 + 8 s: for storage and bugs, whose clients have retried already. */
const retryAnything: Retrier = {
  ErrorEquals: ['States.ALL'],
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxAttempts: 3,
  JitterStrategy: 'FULL',
};

const retries: readonly Retrier[] = [
  { ErrorEquals: final, MaxAttempts: 0 },
  { ErrorEquals: [...worthWaitingFor, ...platformErrors], ...patiently },
  { ErrorEquals: perhapsAGlitch, IntervalSeconds: 5, BackoffRate: 3, MaxAttempts: 2, JitterStrategy: 'FULL' },
  retryAnything,
];

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
    Resource: 'arn:aws:states:::lambda:invoke',
    Parameters: {
      FunctionName: binding.functions[name],
      Payload: { 'input.$': '$', 'execution.$': '$$.Execution.Id' },
    },
    OutputPath: '$.Payload',
    TimeoutSeconds: binding.stepTimeoutSeconds,
    Retry: retries,
    Catch: [endQuietly, failRun],
    Next: next,
  };
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
  { exportName, eventBus }: StateMachineBinding,
  detailType: string,
  detail: Template,
  catchers: readonly Catcher[],
  next: StateName,
): TaskState {
  return {
    Type: 'Task',
    Comment: `Tells the event bus: ${detailType}`,
    Resource: 'arn:aws:states:::events:putEvents',
    Parameters: {
      Entries: [
        {
          EventBusName: eventBus,
          Source: eventSource,
          DetailType: detailType,
          Detail: { export: exportName, 'execution.$': '$$.Execution.Id', ...detail },
        },
      ],
    },
    ResultPath: null,
    TimeoutSeconds: 60,
    Retry: [retryAnything],
    Catch: catchers,
    Next: next,
  };
}
