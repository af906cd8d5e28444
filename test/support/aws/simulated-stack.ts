/**
 * A deployed stack in this process: the real functions, run by the real state machine, with the DynamoDB and S3 of the
 * simulation. An execution is over when StartExecution responds, unless executions are held.
 */

import { DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetAccountSettingsCommand, InvokeCommand, type InvokeCommandInput } from '@aws-sdk/client-lambda';
import { GetSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import {
  DescribeExecutionCommand,
  GetExecutionHistoryCommand,
  StartExecutionCommand,
  type StartExecutionCommandInput,
} from '@aws-sdk/client-sfn';
import { GetTopicAttributesCommand } from '@aws-sdk/client-sns';
import { vi } from 'vitest';
import { beginRunHandler } from '../../../functions/begin-run.ts';
import { exportPageHandler } from '../../../functions/export-page.ts';
import { failRunHandler } from '../../../functions/fail-run.ts';
import { finishRunHandler } from '../../../functions/finish-run.ts';
import type { Platform } from '../../../lib/aws/lambda/platform.ts';
import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import type { Runtime } from '../../../lib/core/ports.ts';
import { environmentVariable, functionSettings, settingsVersion } from '../../../lib/settings/deployed-settings.ts';
import { createSimulatedDynamoDb } from '../../simulation/world/dynamodb.ts';
import { createSimulatedS3, type SimulatedS3 } from '../../simulation/world/s3.ts';
import type { Command } from '../../simulation/world/sdk-clients.ts';
import { execute, type Functions } from '../export/function-machine.ts';
import {
  type AService,
  arn,
  aStack,
  awsError,
  mockAws,
  mockSchedules,
  parsedService,
  serviceOutput,
  stackName,
  stubAwsEnvironment,
} from './mocked-stack.ts';

export interface SimulatedStack extends Disposable {
  readonly s3: SimulatedS3;
  /** Whether new executions stay in progress, and do nothing, until `release`. */
  isHeld: boolean;
  /** Runs the executions that are held, to their end. */
  release(): Promise<void>;
}

interface Execution {
  readonly executionArn: string;
  readonly startDate: Date;
  readonly run: () => Promise<void>;
  status: string;
  output?: string;
  error?: string | undefined;
  cause?: string | undefined;
}

/** No test needs more, and a run that makes no progress would continue for ever. */
const maxExecutions = 50;

const topic = 'arn:aws:sns:eu-central-1:123456789012:alarms';

/** Replaces the clients of AWS until it is disposed of. */
export function simulateStack(services: readonly AService[], runtime: Runtime, apiKey: string): SimulatedStack {
  stubAwsEnvironment();
  const aws = mockAws(services);
  mockSchedules(aws, services);
  const s3 = createSimulatedS3(() => {});
  const table = createSimulatedDynamoDb({
    tableName: 'page-log',
    onWrite: () => {},
    returnsExisting: true,
    maxBatch: 100,
  });
  const executions = new Map<string, Execution>();
  // One after the other, so that all histories are the same each time.
  let last: Promise<unknown> = Promise.resolve();
  const stack = { s3, isHeld: false, release, [Symbol.dispose]: dispose };
  // Otherwise the mock rejects what no test has announced.
  aws.dynamoDb.reset();
  aws.s3.reset();
  aws.dynamoDb.send.callsFake(async (command) => table.perform(command as unknown as Command) as never);
  aws.s3.send.callsFake(async (command) => s3.perform(command as unknown as Command) as never);
  const alarmTopic = { OutputKey: 'AlarmTopicArn', OutputValue: topic };
  const { Outputs = [], ...described } = aStack(services);
  const Stacks = [{ ...described, Outputs: [...Outputs, alarmTopic] }];
  aws.cloudFormation
    .on(DescribeStacksCommand)
    .rejects(awsError('ValidationError', 'Stack does not exist'))
    .on(DescribeStacksCommand, { StackName: stackName })
    .resolves({ Stacks })
    .on(DescribeStacksCommand, {}, true)
    .resolves({ Stacks });
  aws.sns.on(GetTopicAttributesCommand).resolves({ Attributes: { SubscriptionsConfirmed: '1' } });
  aws.lambda
    .on(GetAccountSettingsCommand)
    .resolves({ AccountLimit: { UnreservedConcurrentExecutions: 1_000 } })
    .on(InvokeCommand)
    .callsFake(invoke);
  aws.secretsManager.on(GetSecretValueCommand).callsFake(() => ({ SecretString: apiKey }));
  aws.stepFunctions
    .on(StartExecutionCommand)
    .callsFake(startExecution)
    .on(DescribeExecutionCommand)
    .callsFake(({ executionArn = '' }) => {
      const found = executions.get(executionArn);
      if (found === undefined) throw awsError('ExecutionDoesNotExist');
      return found;
    })
    .on(GetExecutionHistoryCommand)
    .resolves({ events: [] });

  const functionsOf = new Map(services.map((service) => [service.name, createFunctions(service, runtime)]));

  /** The execution is in progress, and does nothing before `run`. */
  function begin(stateMachineArn: string, name: string, input: string): Execution {
    const service = stateMachineArn.split(':').at(-1) ?? '';
    const execution: Execution = {
      executionArn: arn('execution', `${service}:${name}`),
      startDate: new Date(runtime.now()),
      status: 'RUNNING',
      async run() {
        const start = { name, input: JSON.parse(input) as unknown, machine: stateMachineArn };
        const { status, output, error, cause, next } = await execute(functionsOf.get(service) as Functions, start);
        Object.assign(execution, { status: status.toUpperCase(), output: JSON.stringify(output), error, cause });
        if (next !== undefined) await begin(stateMachineArn, next.name, JSON.stringify(next.input)).run();
      },
    };
    executions.set(execution.executionArn, execution);
    if (executions.size > maxExecutions) throw new Error(`More than ${maxExecutions} executions: a run does not end`);
    return execution;
  }

  async function startExecution({ stateMachineArn = '', name = '', input = '' }: StartExecutionCommandInput) {
    const { run, executionArn, startDate } = begin(stateMachineArn, name, input);
    if (!stack.isHeld) await (last = last.then(run));
    return { executionArn, startDate };
  }

  async function invoke({ FunctionName = '', Payload }: InvokeCommandInput) {
    const [service = ''] = (FunctionName.split(':').at(-1) ?? '').split('-');
    try {
      const event = JSON.parse(Buffer.from(Payload as Uint8Array).toString()) as never;
      const result = await (functionsOf.get(service) as Functions).ExportPage(event, invocation);
      return { Payload: Buffer.from(JSON.stringify(result)) as never };
    } catch (error) {
      const { name: errorType, message: errorMessage } = error as Error;
      return { FunctionError: 'Unhandled', Payload: Buffer.from(JSON.stringify({ errorType, errorMessage })) as never };
    }
  }

  async function release(): Promise<void> {
    stack.isHeld = false;
    for (const { status, run } of executions.values()) if (status === 'RUNNING') await run();
  }

  function dispose(): void {
    aws.restore();
    vi.unstubAllEnvs();
  }
  return stack;
}

const invocation = { awsRequestId: 'request', getRemainingTimeInMillis: () => 900_000 };

/** The functions of a service, each in a container of its own. */
function createFunctions(service: AService, runtime: Runtime): Functions {
  const output = serviceOutput(service);
  const env = { [environmentVariable]: JSON.stringify({ ...output, version: settingsVersion, deployment: stackName }) };
  const loadSettings = () => functionSettings(parsedService(service));
  const platform: Platform = {
    runtime,
    createClient: (type, config) => new type(config),
    telemetryOutput: silent,
  };
  const handlers = { BeginRun: beginRunHandler, FinishRun: finishRunHandler, FailRun: failRunHandler };
  const created = Object.entries({ ...handlers, ExportPage: exportPageHandler }).map(([step, create]) => [
    step,
    create(env, loadSettings, platform) as StepHandler<unknown>,
  ]);
  return Object.fromEntries(created) as Functions;
}

const silent: Platform['telemetryOutput'] = {
  createLogger: () => ({ appendKeys: () => {}, resetKeys: () => {}, info: () => {}, error: () => {} }),
  createMetrics: () => ({
    addMetric: () => {},
    addMetadata: () => {},
    hasStoredMetrics: () => false,
    publishStoredMetrics: () => {},
  }),
};
