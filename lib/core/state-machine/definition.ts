/**
 * The state machine of a service, as typed data, used by the deployment and the tests. An execution exports one run, or
 * part of one, of the export that its start input names.
 *
 * It uses JSONPath without variables, because the interpreter of the tests silently ignores JSONata and Assign. The
 * payload carries only identity and small counters, so an execution's history never contains a cursor, an API key or
 * page content.
 *
 * ```
 * BeginRun ─ skip ─▶ Skipped
 *    │ export / finish
 *    ▼
 * ExportPage ─▶ next? ─ page ─────▶ ExportPage
 *                     ─ wait ─────▶ WaitForService ─▶ ExportPage
 *                     ─ queue ────▶ WaitForSlot ─▶ ExportPage
 *                     ─ continue ─▶ ContinueInNewExecution ─▶ Continued
 *                     ─ finish ───▶ FinishRun ─▶ published? ─ yes ─▶ AnnounceCompleted ─▶ Completed
 *                                                           ─ no ──▶ Completed
 * any other action ─▶ UnknownAction ─▶ FailRun
 * superseded ─▶ Skipped;  any other error ─▶ FailRun ─▶ AnnounceFailed ─▶ Failed
 *                                            FailRun fails ─▶ FailureNotRecorded ─▶ AnnounceFailed
 * ```
 */

import type { ErrorName } from '../errors.ts';
import type { LoopState } from '../model.ts';
import type { Catcher, State, StateMachine, TaskState, Template } from './asl.ts';
import { retryAnything, retryWithBackoff, type StepName, stepNames, stepRetries } from './retry-policy.ts';

export { type StepName, stepNames };

/** Creates a value for each step. */
export function byStep<Value>(make: (step: StepName) => Value): Readonly<Record<StepName, Value>> {
  return Object.fromEntries(stepNames.map((step) => [step, make(step)])) as Record<StepName, Value>;
}

export type StateName = keyof ReturnType<typeof stateMachine>['States'];

/** The values that a deployment provides. Each may be a placeholder such as `${BeginRunArn}`. */
export interface DefinitionSubstitutions {
  /** The ARN of each step's function. */
  readonly functions: Readonly<Record<StepName, string>>;
  readonly eventBus: string;
  /** Where the manifests and pages are that the events name. */
  readonly store: { readonly bucket: string; readonly prefix: string };
  /** The partition in the ARNs of service integrations: `aws`, or another. */
  readonly partition: string;
  /** Must exceed the timeout of the step's function, which must exceed the deadline of a request to the service. */
  readonly stepTimeoutSeconds: Readonly<Record<StepName, number>>;
  /** For one execution, including its waits. */
  readonly executionTimeoutSeconds: number;
}

export const eventSource = 'report-exporter';
export const detailTypes = { completed: 'Report Export Completed', failed: 'Report Export Failed' } as const;
/** The version of the event detail's schema (`../storage/published-schemas.ts`). */
const eventVersion = 1;

export function stateMachine(binding: DefinitionSubstitutions) {
  return {
    Comment: 'Exports reports: one or more pages per iteration, while the service returns a cursor',
    StartAt: 'BeginRun',
    TimeoutSeconds: binding.executionTimeoutSeconds,
    States: {
      BeginRun: step(binding, 'BeginRun', 'Begins a run, resumes an unfinished one, or skips', 'HasWork'),
      HasWork: choice({ skip: 'Skipped', export: 'ExportPage', finish: 'FinishRun' }),
      ExportPage: step(binding, 'ExportPage', 'Fetches, stores and logs one or more pages', 'NextAction', {
        'retries.$': '$$.State.RetryCount',
      }),
      NextAction: choice({
        page: 'ExportPage',
        wait: 'WaitForService',
        queue: 'WaitForSlot',
        continue: 'ContinueInNewExecution',
        finish: 'FinishRun',
      }),
      WaitForService: wait("Waits at least the service's Retry-After"),
      WaitForSlot: wait('Waits for its turn, while other exports request as many pages as maxConcurrentPages allows'),
      ContinueInNewExecution: startExecution(
        binding,
        'The history of an execution is limited to 25,000 events, so a long run continues in another one. Retries start the same one',
        {
          // As `continuationName` below.
          'Name.$':
            "States.Format('{}-{}-{}', States.ArrayGetItem(States.StringSplit($.export, '/'), 0), $.run, States.MathAdd($.executionNumber, 1))",
          Input: { 'export.$': '$.export', 'continues.$': '$$.Execution.Id', 'waits.$': '$.waits' },
        },
        'Continued',
      ),
      FinishRun: step(binding, 'FinishRun', 'Publishes the manifest, then moves the watermark', 'IsPublished'),
      IsPublished: {
        Type: 'Choice',
        Comment:
          'Without reports and with publishEmptyRuns: false, a run is not published, so there is nothing to announce',
        Choices: [{ Variable: '$.manifest', IsNull: true, Next: 'Completed' }],
        Default: 'AnnounceCompleted',
      },
      AnnounceCompleted: announceCompleted(binding, 'Completed'),
      UnknownAction: {
        Type: 'Pass',
        Comment:
          'The function is of another version of the deployment, and returned an action that this definition lacks',
        // In the form in which a Catch passes an error to FailRun. It replaces the input.
        Parameters: {
          Error: 'UnknownActionError',
          'Cause.$':
            "States.Format('The state machine has no action {}, which a step returned during a deployment. Start again: the run resumes', $.next)",
        },
        Next: 'FailRun',
      },
      FailRun: {
        ...step(binding, 'FailRun', 'Records the failure; the next start resumes the run', 'AnnounceFailed'),
        Parameters: {
          FunctionName: binding.functions.FailRun,
          // The input is the error, so only the start input names the export.
          Payload: { 'input.$': '$', 'execution.$': '$$.Execution.Id', 'startInput.$': '$$.Execution.Input' },
        },
        // The original error must stay at the top level of the payload, because Failed shows it. The whole result is
        // kept: only that of a bounded run has `until`.
        ResultPath: '$.failed',
        OutputPath: '$',
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failed', Next: 'FailureNotRecorded' }],
      },
      FailureNotRecorded: {
        Type: 'Pass',
        Comment: 'FailRun failed, so only its error is known, not the state of the export',
        Parameters: { Payload: { export: null, 'recordingError.$': '$.failed' } },
        ResultPath: '$.failed',
        Next: 'AnnounceFailed',
      },
      AnnounceFailed: sendEvent(
        binding,
        detailTypes.failed,
        { 'export.$': '$.failed.Payload.export', 'error.$': '$.Error', 'failed.$': '$.failed.Payload' },
        [{ ErrorEquals: ['States.ALL'], ResultPath: '$.announceFailure', Next: 'Failed' }],
        'Failed',
      ),
      Skipped: { Type: 'Succeed', Comment: 'There is nothing to do, or another execution does it' },
      Continued: { Type: 'Succeed', Comment: 'The run continues in the next execution' },
      Completed: {
        Type: 'Succeed',
        Comment: 'The run is complete, and published unless it has no reports and publishEmptyRuns is false',
      },
      Failed: {
        Type: 'Fail',
        Comment: 'Fails with the original error and cause',
        ErrorPath: '$.Error',
        CausePath: '$.Cause',
      },
    },
  } satisfies StateMachine<string>;
}

/**
 * The name of the execution in which the run continues. It is unique to this transition, so a retry finds that the
 * execution exists. It begins with the export, also for a bounded run.
 */
export const continuationName = (
  ended: Pick<LoopState, 'export' | 'executionNumber'> & { readonly run: string },
): string => `${ended.export.split('/')[0]}-${ended.run}-${ended.executionNumber + 1}`;

/** Only an earlier attempt of the same state can have started an execution with this name. */
const alreadyStarted = 'StepFunctions.ExecutionAlreadyExistsException';

/** The error replaces the input: it could not be added to a start input that is not an object. */
const failRun: Catcher = { ErrorEquals: ['States.ALL'], Next: 'FailRun' };
const skipSuperseded: Catcher = {
  ErrorEquals: ['RunSupersededError' satisfies ErrorName],
  Next: 'Skipped',
};

function step(
  binding: DefinitionSubstitutions,
  name: StepName,
  comment: string,
  next: string,
  more: Template = {},
): TaskState {
  return {
    Type: 'Task',
    Comment: comment,
    Resource: integration(binding, 'lambda:invoke'),
    Parameters: {
      FunctionName: binding.functions[name],
      Payload: { 'input.$': '$', 'execution.$': '$$.Execution.Id', ...more },
    },
    OutputPath: '$.Payload',
    TimeoutSeconds: binding.stepTimeoutSeconds[name],
    Retry: stepRetries(name),
    Catch: [skipSuperseded, failRun],
    Next: next,
  };
}

/** Starts the execution that the parameters name, once. */
const startExecution = (
  binding: DefinitionSubstitutions,
  comment: string,
  parameters: Template,
  next: string,
): TaskState => ({
  Type: 'Task',
  Comment: comment,
  Resource: integration(binding, 'states:startExecution'),
  Parameters: { 'StateMachineArn.$': '$$.StateMachine.Id', ...parameters },
  ResultPath: null,
  TimeoutSeconds: 60,
  Retry: [{ ErrorEquals: [alreadyStarted], MaxAttempts: 0 }, retryAnything],
  Catch: [{ ErrorEquals: [alreadyStarted], Next: next }, failRun],
  Next: next,
});

const wait = (comment: string): State => ({
  Type: 'Wait',
  Comment: comment,
  SecondsPath: '$.waitSeconds',
  Next: 'ExportPage',
});

function integration({ partition }: DefinitionSubstitutions, name: string): string {
  return `arn:${partition}:states:::${name}`;
}

function choice(next: Readonly<Record<string, string>>): State {
  return {
    Type: 'Choice',
    Choices: Object.entries(next).map(([value, state]) => ({
      Variable: '$.next',
      StringEquals: value,
      Next: state,
    })),
    // Without it, the execution would fail without an event and without a record of the failure.
    Default: 'UnknownAction',
  };
}

const announceCompleted = (binding: DefinitionSubstitutions, next: string): TaskState =>
  sendEvent(binding, detailTypes.completed, { 'export.$': '$.export', 'result.$': '$' }, [failRun], next);

function sendEvent(
  binding: DefinitionSubstitutions,
  detailType: string,
  detail: Template,
  catchers: readonly Catcher[],
  next: string,
): TaskState {
  return {
    Type: 'Task',
    Comment: `Sends the event "${detailType}"`,
    Resource: integration(binding, 'events:putEvents'),
    Parameters: {
      Entries: [
        {
          EventBusName: binding.eventBus,
          Source: eventSource,
          DetailType: detailType,
          Detail: { eventVersion, 'execution.$': '$$.Execution.Id', ...binding.store, ...detail },
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
