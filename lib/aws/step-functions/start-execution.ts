/** Starts executions. */

import { type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';

/**
 * Starts an execution under a unique name and returns its ARN. The name makes the start idempotent: if the SDK retries a
 * request whose response was lost, it gets the same execution, or ExecutionAlreadyExists if that has ended.
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
    if (!(error instanceof Error) || error.name !== 'ExecutionAlreadyExists') throw error;
    return `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
  }
}
