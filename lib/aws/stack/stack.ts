/** A deployed stack, as the operator's commands see it. Its outputs describe its services. */

import { type CloudFormationClient, DescribeStacksCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { mapConcurrently } from '../../core/concurrency.ts';
import { ExportError } from '../../core/errors.ts';
import type { Runtime } from '../../core/ports.ts';
import { listNames } from '../../core/sanitize.ts';
import { hasName } from '../errors.ts';
import type { Environment } from '../sdk-config.ts';
import { createOperatorClients } from './clients.ts';
import { openExports, readOnce, readService, servicesOf } from './exports.ts';

export interface StackOptions {
  readonly stackName: string;
  /** Has what the SDK does not find by itself. It finds profile, region, endpoints and credentials. */
  readonly env: Environment;
  readonly runtime: Runtime;
}

const concurrency = 8;

/**
 * Reads the stack now, and the settings of its services when they are first needed, each once.
 * @throws ConfigurationError if there is no such stack, it is not ready or has no services, or AWS denies access
 */
export async function openStack({ stackName, env, runtime }: StackOptions) {
  const clients = createOperatorClients(env);
  try {
    const { services, alarmTopic } = await readStack(clients.cloudFormation, stackName);
    const region = await clients.cloudFormation.config.region();
    const readServices = readOnce(() =>
      mapConcurrently(services, concurrency, (service) => readService(clients.cloudFormation, stackName, service)),
    );
    const openAll = async () =>
      (await readServices())
        .flatMap((service) => openExports(service, clients, runtime))
        .sort((one, other) => (one.name < other.name ? -1 : 1));
    const exportNames = async () => (await openAll()).map(({ name }) => name);
    return {
      name: `stack ${stackName} in ${region}`,
      option: `--stack ${stackName}`,
      exportNames,
      async open(exportName: string) {
        const found = (await openAll()).find(({ name }) => name === exportName);
        if (found !== undefined) return found;
        throw new ExportError(
          'ConfigurationError',
          `There is no export ${exportName} in stack ${stackName} in ${region}. Its exports: ${listNames(await exportNames())}`,
        );
      },
      openAll,
      async check() {
        const { checkStack } = await import('./checks.ts');
        return await checkStack(await readServices(), alarmTopic, clients);
      },
      async [Symbol.asyncDispose]() {
        clients.close();
      },
    };
  } catch (error) {
    clients.close();
    throw error;
  }
}

/** The name of the stack's output with the topic of its alarms. */
const alarmTopicOutput = 'AlarmTopicArn';

/** Needs cloudformation:DescribeStacks. `alarmTopic` is undefined if an app has removed the output. */
async function readStack(client: CloudFormationClient, stackName: string) {
  const stack = await findStack(client, stackName);
  const services = servicesOf(stack);
  if (services.length === 0) {
    const { StackStatus = '' } = stack;
    const isChanging = StackStatus.endsWith('IN_PROGRESS');
    throw new ExportError(
      'ConfigurationError',
      `Stack ${stackName} has no exports (${StackStatus}). ` +
        (isChanging ? 'Wait until cdk deploy is done' : 'Set another with --stack, or deploy one with cdk deploy'),
    );
  }
  const alarmTopic = stack.Outputs?.find(({ OutputKey }) => OutputKey === alarmTopicOutput)?.OutputValue;
  return { services, alarmTopic };
}

/** @throws ConfigurationError if there is no such stack */
async function findStack(client: CloudFormationClient, stackName: string): Promise<Stack> {
  try {
    const { Stacks = [] } = await client.send(new DescribeStacksCommand({ StackName: stackName }));
    if (Stacks[0] !== undefined) return Stacks[0];
  } catch (error) {
    // CloudFormation reports a missing stack and an invalid name alike.
    if (!hasName(error, 'ValidationError')) throw error;
  }
  throw new ExportError(
    'ConfigurationError',
    `There is no stack ${stackName} in ${await client.config.region()}. Set the stack with --stack, its region with AWS_REGION and ` +
      'its account with AWS_PROFILE, or deploy it with cdk deploy',
  );
}
