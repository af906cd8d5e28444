/** The executions of a state machine: starts one, and says which of them are running. */

import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  type SFNClient,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import type { Executions } from '../../core/ports.ts';
import { hasName, isAccessDenied } from '../errors.ts';

/** Whether the execution continues, by itself or once its redrive begins. */
export const isActive = ({ status }: Pick<DescribeExecutionCommandOutput, 'status'>): boolean =>
  status === 'RUNNING' || status === 'PENDING_REDRIVE';

/** No such execution: it ended so long ago that Step Functions no longer knows it, or it never was one. */
export const isUnknownExecution = (error: unknown): boolean => hasName(error, 'ExecutionDoesNotExist', 'InvalidArn');

/**
 * `ownArn` is the ARN of the deployment's state machine, or of one of its executions. Needs states:DescribeExecution
 * for its executions; every other error about them is thrown, a denied access included, because they may be running.
 *
 * A run may belong to an execution of another state machine, if the stack was replaced or its table was restored
 * elsewhere. If such an execution cannot be described, it counts as ended; otherwise the run would be blocked for good.
 * If it is running after all, it is superseded and stops at its next step, as after any takeover (docs/architecture.md,
 * "Active run").
 */
export function createExecutions(client: SFNClient, ownArn: string): Executions {
  return {
    async status(executionArn) {
      // A run that began outside AWS, and whose state was copied here.
      if (!executionArn.startsWith('arn:')) return 'unknown';
      try {
        return isActive(await client.send(new DescribeExecutionCommand({ executionArn }))) ? 'running' : 'ended';
      } catch (error) {
        const isForeign = machineOf(executionArn) !== machineOf(ownArn);
        if (isUnknownExecution(error) || (isForeign && isAccessDenied(error))) return 'unknown';
        throw error;
      }
    },
  };
}

/** Region, account and name of the state machine, from its ARN or from that of an execution. */
function machineOf(arn: string): string {
  const [, , , region, account, , name] = arn.split(':');
  return [region, account, name].join(':');
}

/**
 * The name of an execution that a command starts. All exports of a service share a state machine, so each name begins
 * with its export, as do those that the state machine chooses (`../../core/state-machine`). `hex` are 16 hexadecimal
 * digits.
 */
export const manualName = (exportName: string, hex: string): string => `${exportName}-manual-${hex}`;

/**
 * Starts an execution under a unique name and returns its ARN. The name makes the start idempotent: if the SDK retries
 * a request whose response was lost, it gets the same execution, or ExecutionAlreadyExists if that has ended.
 */
export async function startExecution(
  client: SFNClient,
  stateMachineArn: string,
  name: string,
  input: string,
): Promise<string> {
  try {
    const { executionArn = '' } = await client.send(new StartExecutionCommand({ stateMachineArn, name, input }));
    return executionArn;
  } catch (error) {
    if (!hasName(error, 'ExecutionAlreadyExists')) throw error;
    return `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
  }
}
