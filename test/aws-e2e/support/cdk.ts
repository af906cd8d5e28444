/**
 * Deploys the real app, or another one with its stack, with the real CDK CLI. The app has the project's feature flags,
 * and its templates are changed only where MiniStack differs from CloudFormation.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inject } from 'vitest';
import type { SettingsFile } from '../../../lib/settings/props.ts';
import { contextKey } from '../../../lib/cdk/settings/read-settings.ts';
import { accountId, credentials, region } from '../emulators/ministack.ts';
import { runTool } from '../emulators/processes.ts';
import { once } from './once.ts';

const project = join(import.meta.dirname, '../../..');
const workDirectory = inject('workDirectory');
const assembly = join(workDirectory, 'cdk.out');

export type Outputs = Readonly<Record<string, string>>;

/** The settings that the tests set. */
export type Settings = Pick<SettingsFile, 'services' | 'bucket' | 'exports'> & { readonly stackName: string };

/** Bootstraps the account for CDK, unless an earlier test file has done so. */
export async function bootstrap(): Promise<void> {
  await once('bootstrap', async () => {
    await cdk('bootstrap', `aws://${accountId}/${region}`);
    return true;
  });
}

/** Creates or updates the stack. Resolves to its outputs. */
export async function deploy(settings: Settings): Promise<Outputs> {
  const app = { file: join(project, 'bin/app.ts'), context: { [contextKey]: settings }, assembly };
  return (await deployApp(app, [settings.stackName]))[settings.stackName] ?? {};
}

interface App {
  readonly file: string;
  /** In addition to the project's feature flags. */
  readonly context: Readonly<Record<string, unknown>>;
  /** The folder for its cloud assembly. */
  readonly assembly: string;
}

/** Deploys all stacks of an app. Resolves to their outputs by stack name. */
export async function deployApp(app: App, stackNames: readonly string[]): Promise<Readonly<Record<string, Outputs>>> {
  await bootstrap();
  const { context } = JSON.parse(await readFile(join(project, 'cdk.json'), 'utf8'));
  // Without the CLI, which would take as long again. test/cdk/cdk-command.slow.test.ts synthesizes with it.
  const env = { CDK_OUTDIR: app.assembly, CDK_CONTEXT_JSON: JSON.stringify({ ...context, ...app.context }) };
  await runTool('cdk-app', process.execPath, [app.file], { cwd: workDirectory, env });
  for (const stackName of stackNames) await adaptToMiniStack(templateFile(stackName, app.assembly));
  const outputsFile = `${app.assembly}.outputs.json`;
  const options = ['--require-approval', 'never', '--outputs-file', outputsFile];
  await cdk('deploy', '--app', app.assembly, ...stackNames, ...options);
  return JSON.parse(await readFile(outputsFile, 'utf8'));
}

/** The deployed template. */
export const templateFile = (stackName: string, folder = assembly): string =>
  join(folder, `${stackName}.template.json`);

interface Template {
  readonly Resources: Readonly<
    Record<string, { readonly Type: string; readonly Properties?: Readonly<Record<string, unknown>> }>
  >;
}

/**
 * Changes a template only where MiniStack 1.5.33 differs from CloudFormation:
 * - It rejects alarms on metric math ("Properties.Metrics is not supported"), so they are removed.
 * - It resolves the Ref of a secret to its name instead of its ARN, so Ref is replaced by GetAtt, which works in both.
 */
export async function adaptToMiniStack(file: string): Promise<void> {
  const template: Template = JSON.parse(await readFile(file, 'utf8'));
  const resources = Object.entries(template.Resources);
  const supported = resources.filter(
    ([, { Type, Properties }]) => !(Type === 'AWS::CloudWatch::Alarm' && Properties?.Metrics !== undefined),
  );
  let text = JSON.stringify({ ...template, Resources: Object.fromEntries(supported) });
  for (const [id, { Type }] of resources) {
    if (Type === 'AWS::SecretsManager::Secret')
      text = text.replaceAll(`{"Ref":"${id}"}`, `{"Fn::GetAtt":["${id}","Id"]}`);
  }
  await writeFile(file, text);
}

/** The environment variables with which a tool uses MiniStack, and nothing of the developer's. */
export function awsVariables(): Readonly<Record<string, string>> {
  const missingFile = join(workDirectory, 'no-such-file');
  return {
    AWS_ENDPOINT_URL: inject('miniStack'),
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_REGION: region,
    AWS_CONFIG_FILE: missingFile,
    AWS_SHARED_CREDENTIALS_FILE: missingFile,
    CDK_HOME: join(workDirectory, 'cdk-home'),
    CDK_DISABLE_CLI_TELEMETRY: 'true',
  };
}

async function cdk(command: string, ...parameters: string[]): Promise<void> {
  const cli = join(project, 'node_modules/aws-cdk/bin/cdk');
  await runTool(
    `cdk-${command}`,
    process.execPath,
    [cli, command, ...parameters, '--no-color', '--no-notices', '--progress', 'events'],
    { cwd: workDirectory, env: awsVariables() },
  );
}
