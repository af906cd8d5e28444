/** Executions of a state machine, as an operator starts and watches them. */

import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  type SFNClient,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { stepFunctions } from './aws.ts';
import { eventually } from './eventually.ts';

interface Ended {
  readonly arn: string;
  readonly name: string;
  readonly status: string | undefined;
  readonly error: string | undefined;
  readonly cause: string | undefined;
  readonly output: Readonly<Record<string, unknown>>;
  readonly history: readonly HistoryEvent[];
  /** The states it went through, in order; a state that was retried stands there once. */
  readonly states: readonly string[];
  /** The errors of failed attempts, in order. */
  readonly failures: readonly string[];
}

/** Resolves to the execution's ARN. */
export async function start(stateMachineArn: string, input: unknown = {}, client = stepFunctions): Promise<string> {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  const { executionArn } = await client.send(new StartExecutionCommand({ stateMachineArn, input: text }));
  return executionArn as string;
}

/** Starts an execution and waits for its end. */
export async function run(stateMachineArn: string, input: unknown = {}, client = stepFunctions): Promise<Ended> {
  return await ended(await start(stateMachineArn, input, client), client);
}

export async function ended(executionArn: string, client: SFNClient = stepFunctions): Promise<Ended> {
  const description = await eventually(`the end of ${executionArn}`, async () => {
    const seen = await client.send(new DescribeExecutionCommand({ executionArn }));
    return seen.status === 'RUNNING' ? undefined : seen;
  }).catch(async (error: Error) => {
    const failed = (await historyOf(executionArn, client)).findLast(({ type }) => type === 'TaskFailed');
    throw new Error(`${error.message}; it last met ${failed?.taskFailedEventDetails?.cause ?? 'no error'}`);
  });
  return endOf(executionArn, description, await historyOf(executionArn, client));
}

function endOf(arn: string, seen: DescribeExecutionCommandOutput, history: readonly HistoryEvent[]): Ended {
  const { name = '', status, error, cause } = seen;
  return {
    arn,
    name,
    status,
    error,
    cause,
    output: JSON.parse(seen.output ?? '{}'),
    history,
    states: history.flatMap(({ stateEnteredEventDetails }) => stateEnteredEventDetails?.name ?? []),
    failures: history.flatMap(({ taskFailedEventDetails, taskTimedOutEventDetails }) => {
      return taskFailedEventDetails?.error ?? taskTimedOutEventDetails?.error ?? [];
    }),
  };
}

async function historyOf(executionArn: string, client: SFNClient): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  let nextToken: string | undefined;
  do {
    const part = await client.send(new GetExecutionHistoryCommand({ executionArn, maxResults: 1_000, nextToken }));
    events.push(...(part.events ?? []));
    nextToken = part.nextToken;
  } while (nextToken !== undefined);
  return events;
}

/** All executions there ever were of a machine, the newest first. */
export async function executionsOf(
  stateMachineArn: string,
): Promise<{ readonly arn: string; readonly name: string }[]> {
  const { executions = [] } = await stepFunctions.send(new ListExecutionsCommand({ stateMachineArn }));
  return executions.map(({ executionArn: arn = '', name = '' }) => ({ arn, name }));
}
