/** Asks Step Functions whether the execution that owns a run is still running. */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput, type SFNClient } from '@aws-sdk/client-sfn';
import type { Executions } from '../../core/ports.ts';
import { isAccessDenied } from '../access-denied.ts';

/** Not over: such an execution continues, by itself or once its redrive begins. */
const activeStatuses: ReadonlySet<string> = new Set(['RUNNING', 'PENDING_REDRIVE']);

/** No such execution: it ended so long ago that Step Functions no longer knows it, or it never was one. */
const notFoundErrors: ReadonlySet<string> = new Set(['ExecutionDoesNotExist', 'InvalidArn']);

/**
 * `ownArn` is the ARN of the deployment's state machine, or of one of its executions. Needs states:DescribeExecution for its
 * executions; every other error about them is thrown, a denied access included, because they may be running.
 *
 * A run may belong to an execution of another state machine, if the stack was replaced or its table was restored elsewhere.
 * If such an execution cannot be described, it counts as ended; otherwise the run would be blocked for good. If it is
 * running after all, it is superseded and stops at its next step, as after any takeover (docs/architecture.md, "Active run").
 */
export function createExecutions(client: SFNClient, ownArn: string): Executions {
  return {
    isRunning: async (execution) => activeStatuses.has((await findExecution(client, ownArn, execution))?.status ?? ''),
    // An execution that has just started may not be found yet.
    async hasEnded(execution) {
      const status = (await findExecution(client, ownArn, execution))?.status;
      return status !== undefined && !activeStatuses.has(status);
    },
  };
}

/** As `createExecutions` says. Undefined if there is no such execution, or it is one of another state machine that cannot be described. */
async function findExecution(
  client: SFNClient,
  ownArn: string,
  execution: string,
): Promise<DescribeExecutionCommandOutput | undefined> {
  // A run that began outside AWS, and whose state was copied here.
  if (!execution.startsWith('arn:')) return undefined;
  try {
    return await client.send(new DescribeExecutionCommand({ executionArn: execution }));
  } catch (error) {
    if (error instanceof Error && notFoundErrors.has(error.name)) return undefined;
    if (isAccessDenied(error) && machineOf(execution) !== machineOf(ownArn)) return undefined;
    throw error;
  }
}

/** Region, account and name of the state machine, from its ARN or from that of an execution. */
function machineOf(arn: string): string {
  const [, , , region, account, , name] = arn.split(':');
  return [region, account, name].join(':');
}
