/**
 * The state machine of the backfills of a service, as typed data, used by the deployment and the tests. An execution exports the
 * windows that are listed in an object: a Distributed Map reads it, and has one child execution for each window, which starts the window
 * in the state machine of the service (`definition.ts`) until it is done.
 *
 * ```
 * ExportWindows ─▶ AnyNotStarted ─ none ─▶ Ended
 *                        └──────── some ─▶ NotStarted
 *
 * for each window:
 * ExportWindow ─▶ HasEnded ─ completed, abandoned ─▶ WindowDone
 *      ▲              └───── any other ─▶ WaitForWindow ─┐
 *      └─────────────────────────────────────────────────┘
 * the execution failed or timed out ─▶ WindowFailed;  any other error ─▶ WindowNotStarted
 * ```
 *
 * The results of all windows together are limited to 256 KiB, and what Step Functions reports for a failed child execution has a kilobyte.
 * So a child execution ends with one word, also if its window has failed. The failed execution of the service has recorded and announced
 * the failure; the next start of the backfill exports the window again. A window whose execution could not be started leaves no such
 * record, so the execution of the backfill fails once all its windows have ended. A window that BeginRun refuses, because the settings have
 * changed, has no run in which its failure could be recorded: it is announced, and waits.
 */

import type {
  DistributedMapState,
  State,
  StatedFailState,
  StateMachine,
  TaskState,
  TestingChoiceState,
} from './asl.ts';
import { retryApiErrors } from './retry-policy.ts';

export type BackfillStateName = 'ExportWindows' | 'AnyNotStarted' | 'NotStarted' | 'Ended';
export type WindowStateName =
  | 'ExportWindow'
  | 'HasEnded'
  | 'WaitForWindow'
  | 'WasStarted'
  | 'WindowDone'
  | 'WindowFailed'
  | 'WindowNotStarted';

/** How a child execution ends: its output. */
type WindowOutcome = 'done' | 'failed' | 'not started';

type ItemProcessorState =
  | TaskState
  | TestingChoiceState
  | { readonly Type: 'Wait'; readonly Comment: string; readonly Seconds: number; readonly Next: WindowStateName }
  | { readonly Type: 'Pass'; readonly Comment: string; readonly Result: WindowOutcome; readonly End: true };
export type MachineState =
  | DistributedMapState<WindowStateName, ItemProcessorState>
  | TestingChoiceState
  | StatedFailState
  | Extract<State, { readonly Type: 'Succeed' }>;

/** The values that a deployment provides. Each may be a placeholder such as `${BeginRunArn}`. */
export interface BackfillSubstitutions {
  /** The bucket that has the lists of windows. */
  readonly bucket: string;
  /** The ARN of the state machine of the service. */
  readonly stateMachine: string;
  /** The partition in the ARNs of service integrations: `aws`, or another. */
  readonly partition: string;
  /** The timeout of an execution of the service's state machine. */
  readonly executionTimeoutSeconds: number;
}

/** The input of an execution. It does not have the windows, because an input holds 256 KiB. */
export interface BackfillInput {
  /** How many windows are exported at the same time. */
  readonly parallel: number;
  /** The key of the object with the windows: a JSON array of `WindowInput`. */
  readonly windows: string;
}

/** The input of a child execution. */
export interface WindowInput {
  readonly export: string;
  /** Its bounds, as in the name of its state. */
  readonly window: string;
}

/** The folder of the lists of windows, in the prefix of the service. No export has this name. */
export const windowListFolder = '_backfills/';

/** In the ARNs of the child executions. */
export const mapLabel = 'Windows';

/** The next start of the backfill exports what is left. Step Functions allows a year. */
export const backfillTimeoutSeconds = 90 * 86_400;

/**
 * An execution of another start may be exporting the window, or one that continues its run. A round of waiting takes ten of the 25,000
 * events that a child execution may have, so a window may be waited for for 40 hours.
 */
const pollSeconds = 60;

export function backfillStateMachine(binding: BackfillSubstitutions): StateMachine<BackfillStateName, MachineState> {
  return {
    Comment: 'Exports the windows of a backfill, several at the same time',
    StartAt: 'ExportWindows',
    TimeoutSeconds: backfillTimeoutSeconds,
    States: {
      ExportWindows: {
        Type: 'Map',
        Comment: 'Exports each window. One that fails does not stop the others',
        Label: mapLabel,
        ItemReader: {
          Resource: `arn:${binding.partition}:states:::s3:getObject`,
          ReaderConfig: { InputType: 'JSON' },
          Parameters: { Bucket: binding.bucket, 'Key.$': '$.windows' },
        },
        MaxConcurrencyPath: '$.parallel',
        ToleratedFailurePercentage: 100,
        ItemProcessor: {
          ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
          StartAt: 'ExportWindow',
          States: windowStates(binding),
        },
        ResultSelector: {
          'notStarted.$': "States.ArrayContains($, 'not started')",
        },
        Next: 'AnyNotStarted',
      },
      AnyNotStarted: {
        Type: 'Choice',
        Comment: 'The executions of windows report everything else',
        Choices: [{ Variable: '$.notStarted', BooleanEquals: true, Next: 'NotStarted' }],
        Default: 'Ended',
      },
      NotStarted: {
        Type: 'Fail',
        Comment: 'Nothing else reports these windows',
        Error: 'WindowsNotStarted',
        Cause:
          'Step Functions could not start the executions of some windows: see the errors of ExportWindow in its child executions. Start the backfill again',
      },
      Ended: { Type: 'Succeed', Comment: 'Each window is done, or its execution has failed' },
    },
  };
}

function windowStates(binding: BackfillSubstitutions): Readonly<Record<WindowStateName, ItemProcessorState>> {
  return {
    ExportWindow: {
      Type: 'Task',
      Comment: 'Exports the window in an execution of the service, and waits for its end',
      Resource: `arn:${binding.partition}:states:::states:startExecution.sync:2`,
      Parameters: {
        StateMachineArn: binding.stateMachine,
        // At most 79 of 80 characters.
        'Name.$': "States.Format('{}-w-{}', $.export, States.UUID())",
        Input: { 'export.$': "States.Format('{}/{}', $.export, $.window)" },
      },
      ResultSelector: { 'output.$': '$.Output' },
      ResultPath: '$.ended',
      // The execution ends by itself before.
      TimeoutSeconds: binding.executionTimeoutSeconds + 300,
      // A failed execution has retried already.
      Retry: [retryApiErrors],
      Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failure', Next: 'WasStarted' }],
      Next: 'HasEnded',
    },
    HasEnded: {
      Type: 'Choice',
      Comment:
        'By the output of the execution: that of BeginRun if it was skipped, that of FinishRun if its run is complete',
      Choices: [
        { Variable: '$.ended.output.done', IsPresent: true, Next: 'WindowDone' },
        { Variable: '$.ended.output.pages', IsPresent: true, Next: 'WindowDone' },
      ],
      Default: 'WaitForWindow',
    },
    WaitForWindow: {
      Type: 'Wait',
      Comment: 'Another execution exports the window, or the next one of its run',
      Seconds: pollSeconds,
      Next: 'ExportWindow',
    },
    WasStarted: {
      Type: 'Choice',
      Comment: 'What an execution that has failed is called, also if it timed out',
      // Not ErrorEquals of a Catch, where States.TaskFailed stands for any error.
      Choices: [
        { Variable: '$.failure.Error', StringEquals: 'States.TaskFailed', Next: 'WindowFailed' },
        { Variable: '$.failure.Error', StringEquals: 'States.Timeout', Next: 'WindowFailed' },
      ],
      Default: 'WindowNotStarted',
    },
    WindowDone: outcome('done', 'The window is exported, or its backfill was abandoned'),
    WindowFailed: outcome('failed', 'The next start of the backfill exports the window again'),
    WindowNotStarted: outcome('not started', 'The next start of the backfill exports the window'),
  };
}

function outcome(Result: WindowOutcome, Comment: string): ItemProcessorState {
  return { Type: 'Pass', Comment, Result, End: true };
}
