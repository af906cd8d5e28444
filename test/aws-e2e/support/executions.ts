/** Starts executions and waits for their end. */

import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { stepFunctions } from './aws.ts';
import { eventually } from './eventually.ts';

interface EndedExecution {
  readonly arn: string;
  readonly name: string;
  readonly status: string | undefined;
  readonly error: string | undefined;
  readonly cause: string | undefined;
  readonly output: Readonly<Record<string, unknown>>;
  readonly history: readonly HistoryEvent[];
  /** The states it entered, in order. A retried state is listed once. */
  readonly states: readonly string[];
  /** The errors of failed attempts, in order. */
  readonly failures: readonly string[];
}

/** An export, and the state machine of its service. */
export interface DeployedMachine {
  readonly stateMachineArn: string;
  readonly exportName: string;
}

/** Starts an execution of the export. Resolves to its ARN. */
async function startExecution({ stateMachineArn, exportName }: DeployedMachine, input: object = {}): Promise<string> {
  const text = JSON.stringify({ export: exportName, ...input });
  const { executionArn } = await stepFunctions.send(new StartExecutionCommand({ stateMachineArn, input: text }));
  return executionArn as string;
}

/** Starts an execution of the export and waits for its end. */
export async function runExecution(machine: DeployedMachine, input: object = {}): Promise<EndedExecution> {
  return await endOfExecution(await startExecution(machine, input));
}

export async function endOfExecution(executionArn: string): Promise<EndedExecution> {
  const description = await eventually(`the end of ${executionArn}`, async () => {
    const description = await stepFunctions.send(new DescribeExecutionCommand({ executionArn }));
    return description.status === 'RUNNING' ? undefined : description;
  }).catch(async (error: Error) => {
    const failed = (await historyOf(executionArn)).findLast(({ type }) => type === 'TaskFailed');
    throw new Error(`${error.message}; last error: ${failed?.taskFailedEventDetails?.cause ?? 'none'}`);
  });
  return toEndedExecution(executionArn, description, await historyOf(executionArn));
}

function toEndedExecution(
  arn: string,
  description: DescribeExecutionCommandOutput,
  history: readonly HistoryEvent[],
): EndedExecution {
  const { name = '', status, error, cause } = description;
  return {
    arn,
    name,
    status,
    error,
    cause,
    output: JSON.parse(description.output ?? '{}'),
    history,
    states: history.flatMap(({ stateEnteredEventDetails }) => stateEnteredEventDetails?.name ?? []),
    failures: history.flatMap(({ taskFailedEventDetails, taskTimedOutEventDetails }) => {
      return taskFailedEventDetails?.error ?? taskTimedOutEventDetails?.error ?? [];
    }),
  };
}

async function historyOf(executionArn: string): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  let nextToken: string | undefined;
  do {
    const response = await stepFunctions.send(
      new GetExecutionHistoryCommand({ executionArn, maxResults: 1_000, nextToken }),
    );
    events.push(...(response.events ?? []));
    nextToken = response.nextToken;
  } while (nextToken !== undefined);
  return events;
}

/** All executions of an export, the newest first. */
export async function executionsOf({
  stateMachineArn,
  exportName,
}: DeployedMachine): Promise<{ readonly arn: string; readonly name: string }[]> {
  const { executions = [] } = await stepFunctions.send(new ListExecutionsCommand({ stateMachineArn }));
  const described = await Promise.all(
    executions.map(({ executionArn }) => stepFunctions.send(new DescribeExecutionCommand({ executionArn }))),
  );
  return described
    .filter(({ input = '{}' }) => (JSON.parse(input) as { export?: unknown } | null)?.export === exportName)
    .map(({ executionArn: arn = '', name = '' }) => ({ arn, name }));
}
