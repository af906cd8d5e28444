/**
 * Follows a backfill in AWS: reads the states of its windows until its execution ends, and reports what has changed. Following only
 * observes, as that of a run does (`follow-execution.ts`).
 */

import {
  DescribeExecutionCommand,
  ListExecutionsCommand,
  type SFNClient,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { type Backfill, type ExportState, totalsOf } from '../../core/model.ts';
import { progressOf, readWindowStates, type WindowStates } from '../../backfill/backfill.ts';
import type { BackfillEnd, BackfillOptions } from '../../target/target.ts';
import type { Clock, PageLog, RunHistory } from '../../core/ports.ts';
import { parseWindowName } from '../../core/windows.ts';
import { isBackfillOf } from './execution-names.ts';
import { toFailure } from './history.ts';
import { pollUntilEnd } from './polling.ts';

export interface FollowBackfillDependencies {
  readonly client: SFNClient;
  readonly backfill: Backfill;
  readonly log: Pick<PageLog, 'last'> & Pick<RunHistory, 'windowStates'>;
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
  const { client, backfill, log, clock } = deps;
  let seen = before;
  const end = await pollUntilEnd(
    async () => {
      // The status is read before the states, so that no change before the end is missed.
      const { status, error, cause } = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
      const states = await readWindowStates(log, backfill.export);
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
    const { error, message } = toFailure(end, end.status === 'ABORTED' ? 'ExecutionAborted' : 'States.Timeout');
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
  for (const [name, state] of now) {
    const window = parseWindowName(name)?.window;
    const previous = before.get(name);
    if (window === undefined || previous?.version === state.version) continue;
    const { active, lastCompleted } = state;
    const isNew = <Value>(value: (of: ExportState) => Value | undefined): boolean =>
      value(state) !== undefined && value(state) !== (previous && value(previous));
    if (lastCompleted !== undefined && isNew((each) => each.lastCompleted?.execution)) {
      emit({ event: 'run-completed', ...lastCompleted.result });
    }
    if (active?.lastFailure !== undefined && isNew((each) => each.active?.lastFailure?.at)) {
      const { export: exportName, run, lastFailure } = active;
      const { error, message } = lastFailure;
      const totals = totalsOf(await log.last(active));
      emit({ event: 'run-failed', export: exportName, run, ...window, ...totals, error, message, resumable: true });
    }
    const abandoned = state.lastAbandoned;
    if (abandoned !== undefined && isNew((each) => each.lastAbandoned?.run)) {
      const { run, failure, pages, reports, bytes } = abandoned;
      const { error, message } = failure;
      const exportName = parseWindowName(name)?.export ?? name;
      emit({
        event: 'run-failed',
        export: exportName,
        run,
        ...window,
        pages,
        reports,
        bytes,
        error,
        message,
        resumable: false,
      });
    }
  }
}

/** Of a thousand executions each. */
const maxListPages = 5;

/**
 * The execution that exports the windows of the export's backfill; undefined if none is running. Step Functions may list one that has just
 * started a second later. Needs states:ListExecutions.
 */
export async function findRunningBackfill(
  client: SFNClient,
  stateMachineArn: string,
  exportName: string,
): Promise<string | undefined> {
  let nextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const response = await client.send(
      new ListExecutionsCommand({ stateMachineArn, statusFilter: 'RUNNING', maxResults: 1_000, nextToken }),
    );
    const found = response.executions?.find(({ name = '' }) => isBackfillOf(exportName, name));
    if (found !== undefined) return found.executionArn;
    nextToken = response.nextToken;
    if (nextToken === undefined) return undefined;
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
