/** Determines how an execution of the state machine ended, and what that means for its run. */

import { type DescribeExecutionCommandOutput, GetExecutionHistoryCommand, type SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import { type FailedRun, type Run, type RunResult, totalsOf, zeroTotals } from '../../core/model.ts';
import type { PageLog } from '../../core/ports.ts';
import { resultSchema, runSchema } from '../../core/storage/stored-records.ts';
import { continuationName } from './execution-names.ts';
import { type Failure, parseJson, toFailure } from './history.ts';

export type ExecutionResult =
  /** `laterFailure`: how the execution failed after it had published the run. */
  | { readonly kind: 'completed'; readonly result: RunResult; readonly laterFailure?: Failure }
  | { readonly kind: 'skipped'; readonly reason: string }
  /** `execution` continues the run. */
  | { readonly kind: 'continued'; readonly execution: string }
  | { readonly kind: 'failed'; readonly failed: FailedRun };

export interface ExecutionResultDependencies {
  readonly client: SFNClient;
  readonly exportName: string;
  readonly log: Pick<PageLog, 'exportState' | 'last'>;
}

/** The run of an execution, and which of the run's executions it is. */
export type RunExecution = Pick<Run, 'run' | 'executionNumber'>;

/**
 * The result of an execution that has ended; `lastSeen` is what it was last seen to work on. Needs
 * states:GetExecutionHistory if the execution has failed.
 */
export async function readExecutionResult(
  deps: ExecutionResultDependencies,
  ended: DescribeExecutionCommandOutput,
  lastSeen: RunExecution | undefined,
): Promise<ExecutionResult> {
  const { executionArn = '', status } = ended;
  if (status !== 'SUCCEEDED') return await readFailure(deps, ended);
  const output = parseJson(ended.output);
  const completed = resultSchema.safeParse(output);
  if (completed.success) return { kind: 'completed', result: completed.data };
  const continued = continuedSchema.safeParse(output).data;
  if (continued !== undefined) {
    return { kind: 'continued', execution: nextExecution(executionArn, deps.exportName, continued) };
  }
  const skipped = skippedSchema.safeParse(output).data;
  if (skipped !== undefined) return { kind: 'skipped', reason: skipped.reason };
  const { Error: error, Cause: cause } = caughtErrorSchema.parse(output);
  // An earlier attempt had started the next execution, but its response was lost.
  if (error === 'StepFunctions.ExecutionAlreadyExistsException') {
    const named = /arn:[^\s']+/.exec(cause ?? '')?.[0];
    const execution = named ?? (lastSeen && nextExecution(executionArn, deps.exportName, lastSeen));
    if (execution !== undefined && execution !== executionArn) return { kind: 'continued', execution };
  }
  return { kind: 'skipped', reason: toFailure({ error, cause }, 'States.Unknown').message };
}

const continuedSchema = z.object({ next: z.literal('continue'), run: z.string(), executionNumber: z.int() });
const skippedSchema = z.object({ next: z.literal('skip'), reason: z.string() });
const caughtErrorSchema = z
  .object({ Error: z.string().optional(), Cause: z.string().optional() })
  .catch({ Error: undefined, Cause: undefined });

/** The ARN under which the state ContinueInNewExecution starts the next execution. */
function nextExecution(
  executionArn: string,
  exportName: string,
  { run, executionNumber }: { readonly run: string; readonly executionNumber: number },
): string {
  const name = continuationName(exportName, run, executionNumber + 1);
  return `${executionArn.slice(0, executionArn.lastIndexOf(':'))}:${name}`;
}

/** If the export state names the execution as that of the last completed run, only the event can have failed after it. */
async function readFailure(
  deps: ExecutionResultDependencies,
  ended: DescribeExecutionCommandOutput,
): Promise<ExecutionResult> {
  const { executionArn = '', status, error, cause } = ended;
  const failure = toFailure({ error, cause }, status === 'ABORTED' ? 'ExecutionAborted' : 'States.Timeout');
  const state = await deps.log.exportState(deps.exportName);
  if (state?.lastCompleted?.execution === executionArn) {
    return { kind: 'completed', result: state.lastCompleted.result, laterFailure: failure };
  }
  return { kind: 'failed', failed: await readFailedRun(deps, ended, failure, state?.active) };
}

/** What FailRun returned, as in the event; if FailRun did not run or failed, what the export state and the page log show. */
async function readFailedRun(
  deps: ExecutionResultDependencies,
  { executionArn = '', status }: DescribeExecutionCommandOutput,
  failure: Failure,
  active: Run | undefined,
): Promise<FailedRun> {
  const { exportName: name, log } = deps;
  const failRunOutput = status === 'FAILED' ? await readFailRunOutput(deps, executionArn) : undefined;
  if (failRunOutput !== undefined) return { export: name, ...failRunOutput, error: failure.error };
  if (active?.execution !== executionArn) {
    return { export: name, run: null, since: null, ...zeroTotals, ...failure, resumable: active !== undefined };
  }
  const last = await log.last(active);
  const resumable = last?.repeats !== true;
  return { export: name, run: active.run, since: active.since, ...totalsOf(last), ...failure, resumable };
}

const recordedFailureSchema = z.object({
  run: z.nullable(runSchema.shape.run),
  since: z.nullable(runSchema.shape.since),
  pages: z.int(),
  reports: z.int().nullable(),
  bytes: z.int(),
  message: z.string(),
  resumable: z.boolean(),
});
const failStateSchema = z.object({
  // The definition of version 1.0 selected the fields.
  failed: z.union([z.object({ Payload: recordedFailureSchema }), recordedFailureSchema]),
});

/** From the input of the state Failed, which is among the last events. */
async function readFailRunOutput({ client }: ExecutionResultDependencies, executionArn: string) {
  const { events = [] } = await client.send(
    new GetExecutionHistoryCommand({ executionArn, reverseOrder: true, maxResults: 5 }),
  );
  const input = events.find(({ type }) => type === 'FailStateEntered')?.stateEnteredEventDetails?.input;
  const failed = failStateSchema.safeParse(parseJson(input)).data?.failed;
  return failed !== undefined && 'Payload' in failed ? failed.Payload : failed;
}
