/** Asks Step Functions whether the execution that owns a run is still at work. */

import { DescribeExecutionCommand, type SFNClient } from '@aws-sdk/client-sfn';
import type { Executions } from '../../core/ports.ts';

/** Not over: it goes on by itself, or once its redrive begins. */
const alive: ReadonlySet<string> = new Set(['RUNNING', 'PENDING_REDRIVE']);

/** Nothing runs under such a name: it is over for so long that it is forgotten, or was never an execution at all. */
const unknown: ReadonlySet<string> = new Set(['ExecutionDoesNotExist', 'InvalidArn']);

/** Needs DescribeExecution. What it is not allowed to look at is an error, never taken for dead. */
export function createExecutions(client: SFNClient): Executions {
  return {
    async isRunning(execution) {
      // A run begun elsewhere, such as on a laptop, whose state was carried over.
      if (!execution.startsWith('arn:')) return false;
      try {
        const { status } = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
        return alive.has(status ?? '');
      } catch (error) {
        if (error instanceof Error && unknown.has(error.name)) return false;
        throw error;
      }
    },
  };
}
