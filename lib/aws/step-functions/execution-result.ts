/** Determines how an execution of the state machine ended, and what that means for its run. */

import type { DescribeExecutionCommandOutput, SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import {
  type ExportState,
  type FailedRun,
  type Run,
  resultSchema,
  type RunResult,
  zeroTotals,
} from '../../core/model.ts';
import type { PageLog } from '../../core/ports.ts';
import { continuationName } from '../../core/state-machine/definition.ts';
import { readProgress } from '../../core/run-progress.ts';
import { type Failure, failureOf, parseJson, toFailure } from './failure.ts';

export type ExecutionResult =
  /** `laterFailure`: how the execution failed after it had published the run. */
  | { readonly kind: 'completed'; readonly result: RunResult; readonly laterFailure?: Failure }
  | { readonly kind: 'skipped'; readonly reason: string; readonly done?: true | undefined }
  /** `execution` continues the run. */
  | { readonly kind: 'continued'; readonly execution: string }
  | { readonly kind: 'failed'; readonly failed: FailedRun };

export interface ExecutionResultDependencies {
  readonly client: SFNClient;
  readonly exportName: string;
  /** Of the export, or of the bounded run that is started. */
  readonly stateName: string;
  readonly log: Pick<PageLog, 'exportState' | 'last' | 'lastSlice'>;
}

/** The run of an execution, and which of the run's executions it is. */
export type RunExecution = Pick<Run, 'run' | 'executionNumber'>;

/** The result of an execution that has ended; `lastSeen` is what it was last seen to work on. */
export async function readExecutionResult(
  deps: ExecutionResultDependencies,
  ended: DescribeExecutionCommandOutput,
  lastSeen: RunExecution | undefined,
): Promise<ExecutionResult> {
  const { executionArn = '', status } = ended;
  if (status !== 'SUCCEEDED') return await readFailure(deps, ended, lastSeen);
  const output = parseJson(ended.output);
  const completed = resultSchema.safeParse(output);
  if (completed.success) return { kind: 'completed', result: completed.data };
  const continued = continuedSchema.safeParse(output).data;
  if (continued !== undefined) {
    return { kind: 'continued', execution: nextExecution(executionArn, deps.exportName, continued) };
  }
  const skipped = skippedSchema.safeParse(output).data;
  if (skipped !== undefined) return { kind: 'skipped', reason: skipped.reason, done: skipped.done };
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
const skippedSchema = z.object({ next: z.literal('skip'), reason: z.string(), done: z.literal(true).optional() });
const caughtErrorSchema = z
  .object({ Error: z.string().optional(), Cause: z.string().optional() })
  .catch({ Error: undefined, Cause: undefined });

/** The ARN under which the state ContinueInNewExecution starts the next execution. */
function nextExecution(
  executionArn: string,
  exportName: string,
  ended: { readonly run: string; readonly executionNumber: number },
): string {
  return siblingExecution(executionArn, continuationName({ export: exportName, ...ended }));
}

/** The ARN of the execution `name` of the same state machine. */
export const siblingExecution = (executionArn: string, name: string): string =>
  `${executionArn.slice(0, executionArn.lastIndexOf(':'))}:${name}`;

/** If the export state names the execution as that of the last completed run, only the event can have failed after it. */
async function readFailure(
  deps: ExecutionResultDependencies,
  ended: DescribeExecutionCommandOutput,
  lastSeen: RunExecution | undefined,
): Promise<ExecutionResult> {
  const { executionArn = '' } = ended;
  const failure = failureOf(ended);
  const state = await deps.log.exportState(deps.stateName);
  if (state?.lastCompleted?.execution === executionArn) {
    return { kind: 'completed', result: state.lastCompleted.result, laterFailure: failure };
  }
  return { kind: 'failed', failed: await readFailedRun(deps, executionArn, failure, state, lastSeen) };
}

/**
 * What FailRun has recorded: with the active run, or with the last one if that can never complete. If FailRun did not run or failed, what the
 * export state and the page log show.
 */
async function readFailedRun(
  { exportName: name, log }: ExecutionResultDependencies,
  executionArn: string,
  failure: Failure,
  state: ExportState | undefined,
  lastSeen: RunExecution | undefined,
): Promise<FailedRun> {
  const { active, lastAbandoned } = state ?? {};
  if (active?.execution === executionArn) {
    const { totals, slices } = await readProgress(log, active);
    const { run, since, until, bounded } = active;
    const resumable = active.slices !== undefined || slices[0]?.last?.repeats !== true;
    return { export: name, run, since, until, bounded, ...totals, ...failure, resumable };
  }
  // The state of the export names no execution of an abandoned run.
  const isAbandoned =
    lastAbandoned !== undefined &&
    lastAbandoned.failure.error === failure.error &&
    (lastSeen?.run === lastAbandoned.run || state?.recentExecutions?.[0] === executionArn);
  if (active === undefined && isAbandoned) {
    const { run, since, pages, reports, bytes } = lastAbandoned;
    return { export: name, run, since, pages, reports, bytes, ...failure, resumable: false };
  }
  return { export: name, run: null, since: null, ...zeroTotals, ...failure, resumable: active !== undefined };
}
