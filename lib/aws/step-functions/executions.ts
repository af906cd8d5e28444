/** Asks Step Functions whether the execution that owns a run is still running. */

import { DescribeExecutionCommand, type SFNClient } from '@aws-sdk/client-sfn';
import type { Executions } from '../../core/ports.ts';

/** Not over: such an execution continues, by itself or once its redrive begins. */
const activeStatuses: ReadonlySet<string> = new Set(['RUNNING', 'PENDING_REDRIVE']);

/** No such execution: it ended so long ago that Step Functions no longer knows it, or it never was one. */
const notFoundErrors: ReadonlySet<string> = new Set(['ExecutionDoesNotExist', 'InvalidArn']);

/** Needs states:DescribeExecution. Every other error, a denied access included, is thrown: the execution may be running. */
export function createExecutions(client: SFNClient): Executions {
  return {
    async isRunning(execution) {
      // A run that began outside AWS, and whose state was copied here.
      if (!execution.startsWith('arn:')) return false;
      try {
        const { status } = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
        return activeStatuses.has(status ?? '');
      } catch (error) {
        if (error instanceof Error && notFoundErrors.has(error.name)) return false;
        throw error;
      }
    },
  };
}
