/**
 * The state machine of a service, as typed data, used by the deployment and the tests. An execution exports one run, or
 * part of one, of the export that its start input names.
 *
 * It uses JSONPath without variables, because the interpreter of the tests silently ignores JSONata and Assign. The
 * payload carries only identity and small counters, so an execution's history never contains a cursor, an API key or
 * page content.
 *
 * ```
 * BeginRun - skip -> Skipped
 *    | export / finish
 *    v
 * ExportPage -> next? - page -----> ExportPage
 *                     - wait -----> WaitForService -> ExportPage
 *                     - queue ----> WaitForTurn -> ExportPage
 *                     - continue -> ContinueInNewExecution -> Continued
 *                     - finish ---> FinishRun -> published? - yes -> AnnounceCompleted -> Completed
 *                                                           - no --> Completed
 * any other action -> UnknownAction -> FailRun
 * superseded -> Skipped;  any other error -> FailRun -> AnnounceFailed -> Failed
 *                                            FailRun fails -> FailureNotRecorded -> AnnounceFailed
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
    States: { ...pageLoop(binding), ...publication(binding), ...failureHandling(binding), ...ends },
  } satisfies StateMachine<string>;
}

const pageLoop = (binding: DefinitionSubstitutions) => ({
  BeginRun: step(binding, {
    name: 'BeginRun',
    comment: 'Begins a run, resumes an unfinished one, or skips',
    next: 'HasWork',
  }),
  HasWork: choice({ skip: 'Skipped', export: 'ExportPage', finish: 'FinishRun' }),
  ExportPage: step(binding, {
    name: 'ExportPage',
    comment: 'Fetches, stores and logs one or more pages',
    next: 'NextAction',
    payload: { 'retries.$': '$$.State.RetryCount' },
  }),
  NextAction: choice({
    page: 'ExportPage',
    wait: 'WaitForService',
    queue: 'WaitForTurn',
    continue: 'ContinueInNewExecution',
    finish: 'FinishRun',
  }),
  WaitForService: wait("Waits at least the service's Retry-After"),
  WaitForTurn: wait(
    'Waits for its turn, while the service receives as many requests as maxConcurrentPages and rate allow',
  ),
  ContinueInNewExecution: continueInNewExecution(binding),
});

function continueInNewExecution(binding: DefinitionSubstitutions): TaskState {
  // Only an earlier attempt of the same state can have started an execution with this name.
  const alreadyStarted = 'StepFunctions.ExecutionAlreadyExistsException';
  return {
    Type: 'Task',
    Comment:
      'The history of an execution is limited to 25,000 events, so a long run continues in another one. Retries start the same one',
    Resource: integration(binding, 'states:startExecution'),
    Parameters: {
      'StateMachineArn.$': '$$.StateMachine.Id',
      // As `continuationName` below.
      'Name.$':
        "States.Format('{}-{}-{}', States.ArrayGetItem(States.StringSplit($.export, '/'), 0), $.run, States.MathAdd($.executionNumber, 1))",
      Input: { 'export.$': '$.export', 'continues.$': '$$.Execution.Id', 'waits.$': '$.waits' },
    },
    ResultPath: null,
    TimeoutSeconds: 60,
    Retry: [{ ErrorEquals: [alreadyStarted], MaxAttempts: 0 }, retryAnything],
    Catch: [{ ErrorEquals: [alreadyStarted], Next: 'Continued' }, failRun],
    Next: 'Continued',
  };
}

/**
 * The name of the execution in which the run continues. It is unique to this transition, so a retry finds that the
 * execution exists. It begins with the export, also for a bounded run.
 */
export const continuationName = (
  ended: Pick<LoopState, 'export' | 'executionNumber'> & { readonly run: string },
): string => `${ended.export.split('/')[0]}-${ended.run}-${ended.executionNumber + 1}`;

const publication = (binding: DefinitionSubstitutions) => ({
  FinishRun: step(binding, {
    name: 'FinishRun',
    comment: 'Publishes the manifest, then moves the watermark',
    next: 'IsPublished',
  }),
  IsPublished: {
    Type: 'Choice',
    Comment:
      'Without reports and with publishEmptyRuns: false, a run is not published, so there is nothing to announce',
    Choices: [{ Variable: '$.manifest', IsNull: true, Next: 'Completed' }],
    Default: 'AnnounceCompleted',
  } as const,
  AnnounceCompleted: sendEvent(binding, {
    detailType: detailTypes.completed,
    detail: { 'export.$': '$.export', 'result.$': '$' },
    catcher: failRun,
    next: 'Completed',
  }),
});

const failureHandling = (binding: DefinitionSubstitutions) => ({
  UnknownAction: {
    Type: 'Pass',
    Comment: 'The function is of another version of the deployment, and returned an action that this definition lacks',
    // The form in which a Catch passes an error to FailRun. It replaces the input.
    Parameters: {
      Error: 'UnknownActionError',
      'Cause.$':
        "States.Format('The state machine has no action {}, which a step returned during a deployment. Start again: the run resumes', $.next)",
    },
    Next: 'FailRun',
  } as const,
  FailRun: {
    ...step(binding, {
      name: 'FailRun',
      comment: 'Records the failure; the next start resumes the run',
      next: 'AnnounceFailed',
      // The input is the error, so only the start input names the export.
      payload: { 'startInput.$': '$$.Execution.Input' },
    }),
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
  } as const,
  AnnounceFailed: sendEvent(binding, {
    detailType: detailTypes.failed,
    detail: { 'export.$': '$.failed.Payload.export', 'error.$': '$.Error', 'failed.$': '$.failed.Payload' },
    catcher: { ErrorEquals: ['States.ALL'], ResultPath: '$.announceFailure', Next: 'Failed' },
    next: 'Failed',
  }),
});

const ends = {
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
} as const;

/** The error replaces the input: it could not be added to a start input that is not an object. */
const failRun: Catcher = { ErrorEquals: ['States.ALL'], Next: 'FailRun' };
const skipSuperseded: Catcher = { ErrorEquals: ['RunSupersededError' satisfies ErrorName], Next: 'Skipped' };

interface StepSettings {
  readonly name: StepName;
  readonly comment: string;
  readonly next: string;
  /** Fields that the function gets besides the input and the execution. */
  readonly payload?: Template;
}

const step = (binding: DefinitionSubstitutions, { name, comment, next, payload }: StepSettings): TaskState => ({
  Type: 'Task',
  Comment: comment,
  Resource: integration(binding, 'lambda:invoke'),
  Parameters: {
    FunctionName: binding.functions[name],
    Payload: { 'input.$': '$', 'execution.$': '$$.Execution.Id', ...payload },
  },
  OutputPath: '$.Payload',
  TimeoutSeconds: binding.stepTimeoutSeconds[name],
  Retry: stepRetries(name),
  Catch: [skipSuperseded, failRun],
  Next: next,
});

const wait = (comment: string): State => ({
  Type: 'Wait',
  Comment: comment,
  SecondsPath: '$.waitSeconds',
  Next: 'ExportPage',
});

const choice = (next: Readonly<Record<string, string>>): State => ({
  Type: 'Choice',
  Choices: Object.entries(next).map(([value, state]) => ({ Variable: '$.next', StringEquals: value, Next: state })),
  // Without it, the execution would fail without an event and without a record of the failure.
  Default: 'UnknownAction',
});

interface EventSettings {
  readonly detailType: string;
  readonly detail: Template;
  readonly catcher: Catcher;
  readonly next: string;
}

const sendEvent = (
  binding: DefinitionSubstitutions,
  { detailType, detail, catcher, next }: EventSettings,
): TaskState => ({
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
  Catch: [catcher],
  Next: next,
});

const integration = ({ partition }: DefinitionSubstitutions, name: string): string =>
  `arn:${partition}:states:::${name}`;
