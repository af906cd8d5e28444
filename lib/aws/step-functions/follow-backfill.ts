/**
 * Follows a backfill in AWS: reads the states of its windows until its execution ends, and reports what has changed. Following only
 * observes, as that of a run does (`follow-execution.ts`).
 */

import {
  DescribeExecutionCommand,
  paginateListExecutions,
  type SFNClient,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { totalsOf } from '../../core/model.ts';
import { progressOf, readWindowStates, type WindowStates } from '../../backfill/window-states.ts';
import type { BackfillEnd, BackfillOptions } from '../../target/target.ts';
import type { Clock, PageLog } from '../../core/ports.ts';
import type { Backfill, BackfillStore } from '../../backfill/store.ts';
import { parseWindowName } from '../../backfill/windows.ts';
import { isBackfillOf } from './execution-names.ts';
import { failureOf } from './failure.ts';
import { pollUntilEnd } from './polling.ts';

export interface FollowBackfillDependencies {
  readonly client: SFNClient;
  readonly backfill: Backfill;
  readonly log: Pick<PageLog, 'last'>;
  readonly backfills: Pick<BackfillStore, 'windowStates'>;
  readonly clock: Clock;
}

type FollowOptions = Pick<BackfillOptions, 'say' | 'emit' | 'onProgress' | 'signal'>;

/** Reading the states of all windows takes a request per megabyte: of about a thousand windows. */
const intervalMsPerWindow = 5;

/** `before` are the states before the execution started. Needs states:DescribeExecution. */
export async function followBackfill(
  deps: FollowBackfillDependencies,
  execution: string,
  before: WindowStates,
  options: FollowOptions,
): Promise<BackfillEnd> {
  const { client, backfill, log, backfills, clock } = deps;
  let seen = before;
  const end = await pollUntilEnd(
    async () => {
      // The status is read before the states, so that no change before the end is missed.
      const { status, error, cause } = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
      const states = await readWindowStates(backfills, backfill.export);
      await reportChanges(log, seen, states, options);
      options.onProgress(progressOf(backfill, states));
      seen = states;
      return isRunning(status) ? undefined : { result: { status, error, cause } };
    },
    {
      clock,
      signal: options.signal,
      minIntervalMs: () => seen.size * intervalMsPerWindow,
      onGiveUp: () => options.say(`Execution ${execution} continues, but its progress can no longer be followed`),
    },
  );
  if (end === undefined) return { status: 'started', execution };
  if (end.status !== 'SUCCEEDED') {
    const { error, message } = failureOf(end);
    options.say(`Execution ${execution} has ended before all windows were exported: ${error}: ${message}`);
  }
  return { status: 'ended' };
}

const isRunning = (status: string | undefined): boolean => status === 'RUNNING' || status === 'PENDING_REDRIVE';

async function reportChanges(
  log: FollowBackfillDependencies['log'],
  before: WindowStates,
  now: WindowStates,
  { emit }: Pick<FollowOptions, 'emit'>,
): Promise<void> {
  for (const [name, { version, active, lastCompleted, lastAbandoned }] of now) {
    const named = parseWindowName(name);
    const previous = before.get(name);
    if (named === undefined || previous?.version === version) continue;
    const { export: exportName, window } = named;
    if (lastCompleted !== undefined && lastCompleted.execution !== previous?.lastCompleted?.execution) {
      emit({ event: 'run-completed', ...lastCompleted.result });
    }
    const failure = active?.lastFailure;
    if (active !== undefined && failure !== undefined && failure.at !== previous?.active?.lastFailure?.at) {
      const { error, message } = failure;
      const totals = totalsOf(await log.last(active));
      emit({
        event: 'run-failed',
        export: exportName,
        run: active.run,
        ...window,
        ...totals,
        error,
        message,
        resumable: true,
      });
    }
    if (lastAbandoned !== undefined && lastAbandoned.run !== previous?.lastAbandoned?.run) {
      const { run, pages, reports, bytes } = lastAbandoned;
      const { error, message } = lastAbandoned.failure;
      const totals = { pages, reports, bytes };
      emit({ event: 'run-failed', export: exportName, run, ...window, ...totals, error, message, resumable: false });
    }
  }
}

/**
 * The execution that exports the windows of the export's backfill; undefined if none is running. Step Functions may list one that has just
 * started a second later. Needs states:ListExecutions.
 */
export async function findRunningBackfill(
  client: SFNClient,
  stateMachineArn: string,
  exportName: string,
): Promise<string | undefined> {
  for await (const { executions = [] } of paginateListExecutions(
    { client },
    { stateMachineArn, statusFilter: 'RUNNING', maxResults: 1_000 },
  )) {
    const found = executions.find(({ name = '' }) => isBackfillOf(exportName, name));
    if (found !== undefined) return found.executionArn;
  }
  return undefined;
}

/**
 * Stops the execution that exports the windows of the export's backfill, and returns its ARN; undefined if none is running. The
 * executions of its windows continue: they end by themselves. Needs states:ListExecutions and states:StopExecution.
 */
export async function stopRunningBackfill(
  client: SFNClient,
  stateMachineArn: string,
  exportName: string,
): Promise<string | undefined> {
  const executionArn = await findRunningBackfill(client, stateMachineArn, exportName);
  if (executionArn === undefined) return undefined;
  await client.send(
    new StopExecutionCommand({ executionArn, error: 'Abandoned', cause: 'The backfill was abandoned' }),
  );
  return executionArn;
}
