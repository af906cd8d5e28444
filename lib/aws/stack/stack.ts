/** A deployed stack, as the operator's commands see it. Its outputs describe its services. */

import { type CloudFormationClient, DescribeStacksCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { ExportError } from '../../core/errors.ts';
import type { Target } from '../../target/target.ts';
import type { Runtime } from '../../core/ports.ts';
import { listNames } from '../../core/sanitize.ts';
import type { ServiceOutput } from '../../settings/stack-output.ts';
import type { Environment } from '../sdk-config.ts';
import { createOperatorClients } from './clients.ts';
import { type AskMfaCode, assertProfileExists } from './credentials.ts';
import { openExports, readOnce } from './exports.ts';
import { readExports, servicesOf } from './services.ts';

export interface StackOptions {
  readonly stackName: string;
  /** For what the SDK does not find by itself. It finds profile, region, endpoints and credentials. */
  readonly env: Environment;
  readonly runtime: Runtime;
  /** For a profile that requires a code. */
  readonly askMfaCode: AskMfaCode;
}

/**
 * Reads the stack now, and the settings of its services when they are first needed, each once.
 * @throws ConfigurationError if there is no such profile or stack, it is not ready or has no services, or AWS denies access
 */
export async function openStack({ stackName, env, runtime, askMfaCode }: StackOptions): Promise<Target> {
  await assertProfileExists(env);
  const clients = createOperatorClients(env, askMfaCode);
  try {
    const { services, alarmTopic } = await readStack(clients.cloudFormation, stackName);
    const region = await clients.cloudFormation.config.region();
    const readAll = readOnce(() => readExports(clients.cloudFormation, stackName, services));
    const exports = () => readAll(stackName);
    return {
      name: `stack ${stackName} in ${region}`,
      option: `--stack ${stackName}`,
      exportNames: async () => [...(await exports()).keys()],
      async open(exportName) {
        const all = await exports();
        const found = all.get(exportName);
        const [opened] = openExports(found === undefined ? [] : [found], clients, runtime);
        if (opened !== undefined) return opened;
        throw new ExportError(
          'ConfigurationError',
          `There is no export ${exportName} in stack ${stackName} in ${region}. Its exports: ${listNames([...all.keys()])}`,
        );
      },
      openAll: async () => openExports([...(await exports()).values()], clients, runtime),
      async check() {
        const { checkStack } = await import('./checks.ts');
        return await checkStack({ services, exports: [...(await exports()).values()], alarmTopic }, clients);
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

interface StackContent {
  readonly services: readonly ServiceOutput[];
  /** The ARN of the topic. Undefined: an app has removed the output. */
  readonly alarmTopic: string | undefined;
}

/** Needs cloudformation:DescribeStacks. */
async function readStack(client: CloudFormationClient, stackName: string): Promise<StackContent> {
  const stack = await findStack(client, stackName);
  if (stack === undefined) throw await stackNotFound(client, stackName);
  const services = servicesOf(stack);
  if (services.length === 0) throw noServices(stack, stackName);
  const alarmTopic = stack.Outputs?.find(({ OutputKey }) => OutputKey === alarmTopicOutput)?.OutputValue;
  return { services, alarmTopic };
}

async function findStack(client: CloudFormationClient, stackName: string): Promise<Stack | undefined> {
  try {
    return (await client.send(new DescribeStacksCommand({ StackName: stackName }))).Stacks?.[0];
  } catch (error) {
    // CloudFormation reports a missing stack and an invalid name alike.
    if (error instanceof Error && error.name === 'ValidationError') return undefined;
    throw error;
  }
}

async function stackNotFound(client: CloudFormationClient, stackName: string): Promise<ExportError> {
  const region = await client.config.region();
  const stacks = await listExportStacks(client).catch(() => []);
  const hint = stacks.length === 0 ? '' : ` Stacks with exports there: ${stacks.join(', ')}.`;
  return new ExportError(
    'ConfigurationError',
    `There is no stack ${stackName} in ${region}.${hint} Set the stack with --stack, its region with AWS_REGION and its ` +
      'account with AWS_PROFILE, or deploy it with cdk deploy',
  );
}

/** Each has up to a hundred stacks; a longer list would not help anyone to choose. */
const maxListPages = 5;

async function listExportStacks(client: CloudFormationClient): Promise<string[]> {
  const names: string[] = [];
  let NextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const response = await client.send(new DescribeStacksCommand({ NextToken }));
    const exportStacks = (response.Stacks ?? []).filter((stack) => servicesOf(stack).length > 0);
    names.push(...exportStacks.map(({ StackName = '' }) => StackName));
    NextToken = response.NextToken;
    if (NextToken === undefined) break;
  }
  return names.sort();
}

function noServices(stack: Stack, stackName: string): ExportError {
  return new ExportError('ConfigurationError', `Stack ${stackName} ${problemOfStatus(stack.StackStatus ?? '')}`);
}

function problemOfStatus(status: string): string {
  if (/^(CREATE|REVIEW|IMPORT)_IN_PROGRESS$/.test(status)) {
    return `is still being created (${status}). Wait until cdk deploy is done, then try again`;
  }
  if (status.startsWith('DELETE_')) return `is being deleted (${status}). Deploy it again with cdk deploy`;
  if (/FAILED$|^ROLLBACK_/.test(status)) {
    return `was not created (${status}). See its events in CloudFormation, then deploy it again with cdk deploy`;
  }
  return 'has no exports, so it is not a Report Exporter stack. Set another with --stack, or deploy one with cdk deploy';
}
