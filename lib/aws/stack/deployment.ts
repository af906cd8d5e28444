/** A deployed stack, as the operator's commands see it. Its outputs list its exports. */

import { type CloudFormationClient, DescribeStacksCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { ExportError } from '../../core/errors.ts';
import type { Deployment } from '../../core/operations/deployment.ts';
import type { Runtime } from '../../core/ports.ts';
import { type ExportOutput, exportOutputSchema, exportOutputSuffix } from '../../core/settings/stack-output.ts';
import type { Environment } from '../sdk-config.ts';
import { createOperatorClients } from './clients.ts';
import { openDeployedExport } from './deployed-export.ts';

export interface StackOptions {
  readonly stackName: string;
  /** For what the SDK does not find by itself. It finds profile, region, endpoints and credentials. */
  readonly env: Environment;
  readonly runtime: Runtime;
}

/**
 * Reads the stack once, and the settings of an export each time it is opened.
 * @throws ConfigurationError if there is no such stack, it is not ready or has no exports, or AWS denies access
 */
export async function openStack({ stackName, env, runtime }: StackOptions): Promise<Deployment> {
  const clients = createOperatorClients(env);
  try {
    const exports = await readExports(clients.cloudFormation, stackName);
    const region = await clients.cloudFormation.config.region();
    return {
      name: `stack ${stackName} in ${region}`,
      option: `--stack ${stackName}`,
      exportNames: async () => [...exports.keys()],
      async open(exportName) {
        const output = exports.get(exportName);
        if (output !== undefined) return await openDeployedExport(output, clients, runtime);
        throw new ExportError(
          'ConfigurationError',
          `There is no export ${exportName} in stack ${stackName} in ${region}. Its exports: ${[...exports.keys()].join(', ')}`,
        );
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

/** The exports of the stack by name, in alphabetical order. Needs cloudformation:DescribeStacks. */
async function readExports(
  client: CloudFormationClient,
  stackName: string,
): Promise<ReadonlyMap<string, ExportOutput>> {
  const stack = await findStack(client, stackName);
  if (stack === undefined) throw await stackNotFound(client, stackName);
  const exports = exportsOf(stack);
  if (exports.size === 0) throw noExports(stack, stackName);
  return exports;
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

function exportsOf({ Outputs = [] }: Stack): ReadonlyMap<string, ExportOutput> {
  const outputs = Outputs.flatMap(({ OutputKey = '', OutputValue = '' }) => {
    return OutputKey.endsWith(exportOutputSuffix) ? (parseOutput(OutputValue) ?? []) : [];
  });
  return new Map(outputs.map((each) => [each.export, each] as const).sort(([one], [other]) => (one < other ? -1 : 1)));
}

function parseOutput(text: string): ExportOutput | undefined {
  try {
    return exportOutputSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function stackNotFound(client: CloudFormationClient, stackName: string): Promise<ExportError> {
  const region = await client.config.region();
  const stacks = await listExportStacks(client).catch(() => []);
  const hint = stacks.length === 0 ? '' : ` Stacks with exports there: ${stacks.join(', ')}.`;
  return new ExportError(
    'ConfigurationError',
    `There is no stack ${stackName} in ${region}.${hint} Set the stack with --stack, its region with AWS_REGION and its ` +
      'account with AWS_PROFILE, or deploy it: npx cdk deploy',
  );
}

/** Each has up to a hundred stacks; a longer list would not help anyone to choose. */
const maxListPages = 5;

async function listExportStacks(client: CloudFormationClient): Promise<string[]> {
  const names: string[] = [];
  let NextToken: string | undefined;
  for (let listPage = 0; listPage < maxListPages; listPage += 1) {
    const response = await client.send(new DescribeStacksCommand({ NextToken }));
    const exportStacks = (response.Stacks ?? []).filter((stack) => exportsOf(stack).size > 0);
    names.push(...exportStacks.map(({ StackName = '' }) => StackName));
    NextToken = response.NextToken;
    if (NextToken === undefined) break;
  }
  return names.sort();
}

function noExports({ StackStatus, Outputs = [] }: Stack, stackName: string): ExportError {
  const isOlderVersion = Outputs.some(({ OutputKey = '' }) => OutputKey.endsWith('StateMachineArn'));
  const problem = isOlderVersion
    ? 'was deployed by an older version, whose outputs do not list its exports. Update it: npx cdk deploy'
    : problemOfStatus(StackStatus ?? '');
  return new ExportError('ConfigurationError', `Stack ${stackName} ${problem}`);
}

function problemOfStatus(status: string): string {
  if (/^(CREATE|REVIEW|IMPORT)_IN_PROGRESS$/.test(status)) {
    return `is still being created (${status}). Wait until npx cdk deploy is done, then try again`;
  }
  if (status.startsWith('DELETE_')) return `is being deleted (${status}). Deploy it again: npx cdk deploy`;
  if (/FAILED$|^ROLLBACK_/.test(status)) {
    return `was not created (${status}). See its events in CloudFormation, then deploy it again: npx cdk deploy`;
  }
  return 'has no exports, so it is not a Report Exporter stack. Set another with --stack, or deploy one: npx cdk deploy';
}
