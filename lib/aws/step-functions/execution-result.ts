/** How an execution of the state machine ended, and what follows from it for whoever watches its run. */

import { type DescribeExecutionCommandOutput, GetExecutionHistoryCommand, type SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import type { FailedRun, Run, RunResult } from '../../core/model.ts';
import type { PageLog } from '../../core/ports.ts';
import { resultSchema, runSchema } from '../../core/storage/stored-records.ts';
import { type Failure, failureOf, parsed } from './history.ts';

export type ExecutionEnd =
  /** `untold`: how its execution failed all the same, once the run was published. */
  | { readonly kind: 'completed'; readonly result: RunResult; readonly untold?: Failure }
  | { readonly kind: 'skipped'; readonly reason: string }
  /** `execution` goes on with the run. */
  | { readonly kind: 'continued'; readonly execution: string }
  | { readonly kind: 'failed'; readonly failed: FailedRun };

export interface ExecutionResultDependencies {
  readonly client: SFNClient;
  readonly exportName: string;
  readonly log: Pick<PageLog, 'exportState' | 'last'>;
}

/** The run and segment that an execution was last seen to work on. */
export type Segment = { readonly run: string; readonly executionNumber: number };

/** Of an execution that has ended; needs GetExecutionHistory where it has failed. */
export async function endOf(
  deps: ExecutionResultDependencies,
  ended: DescribeExecutionCommandOutput,
  seen: Segment | undefined,
): Promise<ExecutionEnd> {
  const { executionArn = '', status } = ended;
  if (status !== 'SUCCEEDED') return await badEnd(deps, ended);
  const output = parsed(ended.output);
  const completed = resultSchema.safeParse(output);
  if (completed.success) return { kind: 'completed', result: completed.data };
  const continued = continuedSchema.safeParse(output).data;
  if (continued !== undefined) return { kind: 'continued', execution: nextOf(executionArn, continued) };
  const skipped = skippedSchema.safeParse(output).data;
  if (skipped !== undefined) return { kind: 'skipped', reason: skipped.reason };
  const { Error: error, Cause: cause } = caughtSchema.parse(output);
  // Its first attempt had started the next execution already, and nobody heard of it.
  if (error === 'StepFunctions.ExecutionAlreadyExistsException') {
    const execution = /arn:[^\s']+/.exec(cause ?? '')?.[0] ?? (seen && nextOf(executionArn, seen));
    if (execution !== undefined && execution !== executionArn) return { kind: 'continued', execution };
  }
  return { kind: 'skipped', reason: failureOf({ error, cause }, 'States.Unknown').message };
}

const continuedSchema = z.object({ next: z.literal('continue'), run: z.string(), executionNumber: z.int() });
const skippedSchema = z.object({ next: z.literal('skip'), reason: z.string() });
const caughtSchema = z
  .object({ Error: z.string().optional(), Cause: z.string().optional() })
  .catch({ Error: undefined, Cause: undefined });

/** As the state machine names it. */
function nextOf(executionArn: string, { run, executionNumber }: Segment): string {
  return `${executionArn.slice(0, executionArn.lastIndexOf(':'))}:${run}-${executionNumber + 1}`;
}

/** Behind the head's last word nothing but the event is left to fail: then the run is published, and not failed. */
async function badEnd(deps: ExecutionResultDependencies, ended: DescribeExecutionCommandOutput): Promise<ExecutionEnd> {
  const { executionArn = '', status, error, cause } = ended;
  const failure = failureOf({ error, cause }, status === 'ABORTED' ? 'ExecutionAborted' : 'States.Timeout');
  const head = await deps.log.exportState(deps.exportName);
  if (head?.lastCompleted?.execution === executionArn) {
    return { kind: 'completed', result: head.lastCompleted.result, untold: failure };
  }
  return { kind: 'failed', failed: await failedRun(deps, ended, failure, head?.active) };
}

/** In FailRun's own words where it has left any, which is what the event tells, too; else by the head and the log. */
async function failedRun(
  deps: ExecutionResultDependencies,
  { executionArn = '', status }: DescribeExecutionCommandOutput,
  failure: Failure,
  active: Run | undefined,
): Promise<FailedRun> {
  const { exportName: name, log } = deps;
  const told = status === 'FAILED' ? await toldByFailRun(deps, executionArn) : undefined;
  if (told !== undefined) return { export: name, ...told, error: failure.error };
  if (active?.execution !== executionArn) {
    return { export: name, run: null, since: null, ...nothing, ...failure, resumable: active !== undefined };
  }
  const last = await log.last(active);
  const amount = last === undefined ? nothing : { pages: last.page, ...last.totals };
  const resumable = last?.repeats !== true;
  return { export: name, run: active.run, since: active.since, ...amount, ...failure, resumable };
}

const nothing = { pages: 0, reports: 0, bytes: 0 };

const failStateSchema = z.object({
  failed: z.object({
    run: z.nullable(runSchema.shape.run),
    since: z.nullable(runSchema.shape.since),
    pages: z.int(),
    reports: z.int().nullable(),
    bytes: z.int(),
    message: z.string(),
    resumable: z.boolean(),
  }),
});

/** The state Failed is the last one, and what it is entered with stands among the last events. */
async function toldByFailRun({ client }: ExecutionResultDependencies, executionArn: string) {
  const { events = [] } = await client.send(
    new GetExecutionHistoryCommand({ executionArn, reverseOrder: true, maxResults: 5 }),
  );
  const input = events.find(({ type }) => type === 'FailStateEntered')?.stateEnteredEventDetails?.input;
  return failStateSchema.safeParse(parsed(input)).data?.failed;
}
