/** Lists the running executions of a state machine: one request instead of one for each execution. */

import { ListExecutionsCommand, type SFNClient } from '@aws-sdk/client-sfn';

export interface RunningExecutions {
  readonly arns: ReadonlySet<string>;
  /** Whether all of them were listed. */
  readonly isComplete: boolean;
}

/** Of a thousand executions each. */
const maxListPages = 5;

/** The newest ones first. An execution that started or ended just now may be missing or included. Needs states:ListExecutions. */
export async function listRunningExecutions(client: SFNClient, stateMachineArn: string): Promise<RunningExecutions> {
  const arns = new Set<string>();
  let nextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const response = await client.send(
      new ListExecutionsCommand({ stateMachineArn, statusFilter: 'RUNNING', maxResults: 1_000, nextToken }),
    );
    for (const { executionArn = '' } of response.executions ?? []) arns.add(executionArn);
    nextToken = response.nextToken;
    if (nextToken === undefined) return { arns, isComplete: true };
  }
  return { arns, isComplete: false };
}
