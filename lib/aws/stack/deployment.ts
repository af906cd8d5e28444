/** A deployed stack, as an operator's commands see it: found by its name, and by what its outputs tell. */

import { type CloudFormationClient, DescribeStacksCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { ExportError } from '../../core/errors.ts';
import type { Deployment } from '../../core/operations/deployment.ts';
import type { Runtime } from '../../core/ports.ts';
import { type ExportOutput, exportOutputSchema, exportOutputSuffix } from '../../core/settings/stack-output.ts';
import type { Environment } from '../sdk-config.ts';
import { createOperatorClients } from './clients.ts';
import { deployedExport } from './deployed-export.ts';

export interface StackOptions {
  readonly stackName: string;
  /** For what the SDK does not see by itself; profile, region, endpoints and credentials it finds where it always does. */
  readonly env: Environment;
  readonly runtime: Runtime;
}

/**
 * Looks the stack up once; what its exports are set to is asked for when one is opened.
 * @throws ConfigurationError where there is no such stack, it is not ready, or AWS does not let us look
 */
export async function openStack({ stackName, env, runtime }: StackOptions): Promise<Deployment> {
  const clients = createOperatorClients(env);
  try {
    const exports = await readStack(clients.cloudFormation, stackName);
    const region = await clients.cloudFormation.config.region();
    return {
      name: `stack ${stackName} in ${region}`,
      option: `--stack ${stackName}`,
      exportNames: async () => [...exports.keys()],
      async open(exportName) {
        const found = exports.get(exportName);
        if (found !== undefined) return await deployedExport(found, clients, runtime);
        throw new ExportError(
          'ConfigurationError',
          `There is no export ${exportName} in stack ${stackName} in ${region}. It holds ${[...exports.keys()].join(', ')}`,
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

// MERGED stack-outputs.ts: Finds a deployed stack, and in its outputs the exports it holds.

/**
 * By export, in alphabetical order. Needs DescribeStacks.
 * @throws ConfigurationError where there is no such stack, it is not one of ours, or it is not ready
 */
async function readStack(client: CloudFormationClient, stackName: string): Promise<ReadonlyMap<string, ExportOutput>> {
  const stack = await find(client, stackName);
  if (stack === undefined) throw await noSuchStack(client, stackName);
  const exports = exportsOf(stack);
  if (exports.size === 0) throw withoutExports(stack, stackName);
  return exports;
}

async function find(client: CloudFormationClient, stackName: string): Promise<Stack | undefined> {
  try {
    return (await client.send(new DescribeStacksCommand({ StackName: stackName }))).Stacks?.[0];
  } catch (error) {
    // A name that cannot be one is as good as one that nobody has.
    if (error instanceof Error && error.name === 'ValidationError') return undefined;
    throw error;
  }
}

function exportsOf({ Outputs = [] }: Stack): ReadonlyMap<string, ExportOutput> {
  const found = Outputs.flatMap(({ OutputKey = '', OutputValue = '' }) => {
    return OutputKey.endsWith(exportOutputSuffix) ? (parse(OutputValue) ?? []) : [];
  });
  return new Map(found.map((each) => [each.export, each] as const).sort(([one], [other]) => (one < other ? -1 : 1)));
}

function parse(text: string): ExportOutput | undefined {
  try {
    return exportOutputSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function noSuchStack(client: CloudFormationClient, stackName: string): Promise<ExportError> {
  const region = await client.config.region();
  const names = await ourStacks(client).catch(() => []);
  const others = names.length === 0 ? '' : ` Exports are deployed there in ${names.join(', ')}.`;
  return new ExportError(
    'ConfigurationError',
    `There is no stack ${stackName} in ${region}.${others} Give the name of the stack with --stack, its region with ` +
      'AWS_REGION and its account with AWS_PROFILE, or deploy it: npx cdk deploy',
  );
}

/** More stacks than in so many answers nobody wants to choose from. */
const maxAnswers = 5;

async function ourStacks(client: CloudFormationClient): Promise<string[]> {
  const names: string[] = [];
  let NextToken: string | undefined;
  for (let answers = 0; answers < maxAnswers; answers += 1) {
    const part = await client.send(new DescribeStacksCommand({ NextToken }));
    names.push(
      ...(part.Stacks ?? []).filter((stack) => exportsOf(stack).size > 0).map(({ StackName = '' }) => StackName),
    );
    NextToken = part.NextToken;
    if (NextToken === undefined) break;
  }
  return names.sort();
}

function withoutExports({ StackStatus, Outputs = [] }: Stack, stackName: string): ExportError {
  const isOurs = Outputs.some(({ OutputKey = '' }) => OutputKey.endsWith('StateMachineArn'));
  const what = isOurs
    ? 'was deployed by a version of Report Exporter that did not tell of its exports. Bring it up to date: npx cdk deploy'
    : whatItIs(StackStatus ?? '');
  return new ExportError('ConfigurationError', `The stack ${stackName} ${what}`);
}

function whatItIs(status: string): string {
  if (/^(CREATE|REVIEW|IMPORT)_IN_PROGRESS$/.test(status)) {
    return `is still being made (${status}). Wait until npx cdk deploy is done, and try again`;
  }
  if (status.startsWith('DELETE_')) return `is being removed (${status}). Deploy it anew: npx cdk deploy`;
  if (/FAILED$|^ROLLBACK_/.test(status)) {
    return `could not be made (${status}). CloudFormation's events say why; then npx cdk deploy`;
  }
  return 'holds no exports: it is not one of Report Exporter. Name another with --stack, or deploy one: npx cdk deploy';
}
