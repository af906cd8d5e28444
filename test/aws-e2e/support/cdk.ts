/**
 * The real app, or another with its stack in it, deployed by the real CDK CLI: synthesized from a cdk.json that differs from
 * the project's in its settings alone, and deployed as it was synthesized, but for what MiniStack does not know.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inject } from 'vitest';
import type { ExportDeploymentSettings, ServiceInput } from '../../../lib/cdk/settings/deployed-export.ts';
import { contextKey } from '../../../lib/cdk/settings/deployment-settings.ts';
import { accountId, credentials, region } from '../emulators/ministack.ts';
import { runTool } from '../emulators/processes.ts';

const project = join(import.meta.dirname, '../../..');
const work = inject('workDirectory');
const assembly = join(work, 'cdk.out');

export type Outputs = Readonly<Record<string, string>>;

/** Of what cdk.json holds, what the tests set. */
export interface Settings {
  readonly stackName: string;
  readonly service: ServiceInput;
  readonly bucket: { readonly prefix: string };
  readonly exports: readonly ExportDeploymentSettings[];
}

/** Makes the account ready for CDK, as an operator does once. */
export async function bootstrap(): Promise<void> {
  await cdk('bootstrap', `aws://${accountId}/${region}`);
}

/** Deploys the stack with these settings, or brings it up to them. Resolves to its outputs. */
export async function deploy(settings: Settings): Promise<Outputs> {
  const app = { file: join(project, 'bin/app.ts'), context: { [contextKey]: settings }, assembly };
  return (await deployApp(app, [settings.stackName]))[settings.stackName] ?? {};
}

interface App {
  readonly file: string;
  /** What its cdk.json has under `context`, beside the feature flags of the project's. */
  readonly context: Readonly<Record<string, unknown>>;
  /** A folder of its own, for what is made of it. */
  readonly assembly: string;
}

/** Deploys every stack of an app. Resolves to their outputs, by the stack's name. */
export async function deployApp(app: App, stackNames: readonly string[]): Promise<Readonly<Record<string, Outputs>>> {
  const { context, ...rest } = JSON.parse(await readFile(join(project, 'cdk.json'), 'utf8'));
  const config = { ...rest, app: `"${process.execPath}" "${app.file}"`, context: { ...context, ...app.context } };
  await writeFile(join(work, 'cdk.json'), JSON.stringify(config));
  await cdk('synth', '--quiet', '--output', app.assembly);
  for (const stackName of stackNames) await adapt(templateFile(stackName, app.assembly));
  const outputsFile = `${app.assembly}.outputs.json`;
  const unasked = ['--require-approval', 'never', '--outputs-file', outputsFile];
  await cdk('deploy', '--app', app.assembly, ...stackNames, ...unasked);
  return JSON.parse(await readFile(outputsFile, 'utf8'));
}

/** The template as it was deployed. */
export const templateFile = (stackName: string, folder = assembly): string =>
  join(folder, `${stackName}.template.json`);

interface Template {
  readonly Resources: Readonly<
    Record<string, { readonly Type: string; readonly Properties?: Readonly<Record<string, unknown>> }>
  >;
}

/**
 * Two things MiniStack 1.5.33 does otherwise than CloudFormation, and nothing else, are changed:
 * - It refuses alarms on metric math ("Properties.Metrics is not supported"); they are left out.
 * - To it, the Ref of a secret is its name, where CloudFormation has its ARN; so the ARN is asked for by GetAtt, which both have.
 */
async function adapt(file: string): Promise<void> {
  const template: Template = JSON.parse(await readFile(file, 'utf8'));
  const resources = Object.entries(template.Resources);
  const known = resources.filter(
    ([, { Type, Properties }]) => !(Type === 'AWS::CloudWatch::Alarm' && Properties?.Metrics !== undefined),
  );
  let text = JSON.stringify({ ...template, Resources: Object.fromEntries(known) });
  for (const [id, { Type }] of resources) {
    if (Type === 'AWS::SecretsManager::Secret')
      text = text.replaceAll(`{"Ref":"${id}"}`, `{"Fn::GetAtt":["${id}","Id"]}`);
  }
  await writeFile(file, text);
}

async function cdk(command: string, ...parameters: string[]): Promise<void> {
  const cli = join(project, 'node_modules/aws-cdk/bin/cdk');
  const nowhere = join(work, 'no-such-file');
  await runTool(
    `cdk-${command}`,
    process.execPath,
    [cli, command, ...parameters, '--no-color', '--no-notices', '--progress', 'events'],
    {
      cwd: work,
      env: {
        AWS_ENDPOINT_URL: inject('miniStack'),
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
        AWS_REGION: region,
        // Not a person's own.
        AWS_CONFIG_FILE: nowhere,
        AWS_SHARED_CREDENTIALS_FILE: nowhere,
        CDK_HOME: join(work, 'cdk-home'),
        CDK_DISABLE_CLI_TELEMETRY: 'true',
      },
    },
  );
}
