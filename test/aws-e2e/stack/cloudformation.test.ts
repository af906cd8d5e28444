/** Deployments without the CDK CLI: with the scripts in docs/cloudformation, by CloudFormation and by Terraform. */

import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { contextKey } from '../../../lib/cdk/settings/read-settings.ts';
import { exampleIn } from '../../support/docs/doc-pages.ts';
import { root } from '../../support/package/installation.ts';
import { run } from '../../support/process/command-line.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { s3 } from '../support/aws.ts';
import { adaptToMiniStack, awsVariables, templateFile } from '../support/cdk.ts';
import { apiKey, putApiKey, serviceName, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-environment.ts';
import { openService } from '../support/service.ts';

const execute = promisify(execFile);
const folder = join(inject('workDirectory'), 'cloudformation');
const bucket = 'my-artifacts';
const script = (name: string) => join(root, 'docs/cloudformation', name);

async function runTool(command: string, words: readonly string[], cwd = folder): Promise<string> {
  const path = [dirname(await pythonEnvironment()), process.env['PATH'] ?? ''].join(delimiter);
  const region = { AWS_DEFAULT_REGION: awsVariables()['AWS_REGION'], NO_PROXY: '127.0.0.1' };
  // The plugins of Terraform, where its registry cannot be reached.
  const { HOME, TF_CLI_CONFIG_FILE } = process.env;
  const env = { HOME, ...(TF_CLI_CONFIG_FILE && { TF_CLI_CONFIG_FILE }), ...awsVariables(), ...region, PATH: path };
  const { stdout } = await execute(command, [...words], { cwd, env });
  return stdout;
}

/** Synthesizes the app in the docs with a stack of this name, and collects its template and assets in `dist`. */
async function packageStack(stackName: string, size = 2): Promise<string> {
  const app = join(folder, 'app.ts');
  const example = exampleIn('docs/aws.md', 'app.js');
  await writeFile(
    app,
    example
      .replace(`'report-exporter'`, `'${root}/lib/api/index.ts'`)
      .replace(`'aws-cdk-lib'`, `'${root}/node_modules/aws-cdk-lib/index.js'`)
      .replace('synthesizer:', `tags: ${JSON.stringify(tags)}, synthesizer:`),
  );
  const { context } = JSON.parse(await readFile(join(root, 'cdk.json'), 'utf8'));
  const settings = {
    stackName,
    services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
    exports: [{ name: 'nightly', size, pagesPerInvocation: 25 }],
  };
  const outdir = join(folder, 'cdk.out');
  const env = { CDK_OUTDIR: outdir, CDK_CONTEXT_JSON: JSON.stringify({ ...context, [contextKey]: settings }) };
  await execute(process.execPath, [app], { cwd: folder, env });
  await adaptToMiniStack(templateFile('ReportExporter', outdir));
  const dist = join(folder, `dist-${stackName}`);
  await rm(dist, { recursive: true, force: true });
  await runTool('bash', [script('package.sh'), 'ReportExporter', 'cdk.out', dist]);
  return dist;
}

/** What start and verify print of the first run. */
async function exportNightly(stackName: string, secretId: string): Promise<string> {
  await putApiKey({ secretId }, apiKey);
  const env = stubOperatorEnvironment();
  await using _ = await openService(5);
  const started = await run(['start', 'nightly', '--stack', stackName, '--follow'], env);
  const verified = await run(['verify', 'nightly', '--stack', stackName], env);
  return started.stdout + verified.stdout;
}

async function tagsOf(stackName: string): Promise<unknown> {
  const describeStack = ['cloudformation', 'describe-stacks', '--stack-name', stackName, '--query', 'Stacks[0].Tags'];
  const tags: { Key: string; Value: string }[] = JSON.parse(
    await runTool('aws', [...describeStack, '--output', 'json']),
  );
  return Object.fromEntries(tags.map(({ Key, Value }) => [Key, Value]));
}
const tags = { team: 'finance', note: 'a=b c' };

const exported = /Completed: \w+ \(3 pages, 5 reports[^]*Verified: /;

describe('a stack that is deployed without the CDK CLI', () => {
  beforeAll(async () => {
    await mkdir(folder, { recursive: true });
    await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  });

  it('by CloudFormation exports, and is updated by a second deployment', async () => {
    const stackName = 'WithoutCdk';
    const dist = await packageStack(stackName);
    const deploy = [script('deploy.sh'), stackName, bucket, dist];
    await runTool('bash', deploy);
    const query = `Stacks[0].Outputs[?OutputKey=='AcmeApiKeySecretId'].OutputValue`;
    const describeStack = ['cloudformation', 'describe-stacks', '--stack-name', stackName, '--output', 'text'];
    const secretId = (await runTool('aws', [...describeStack, '--query', query])).trim();
    expect(await exportNightly(stackName, secretId)).toMatch(exported);
    await runTool('bash', deploy);
    expect(await tagsOf(stackName)).toEqual(tags);
  });

  it('by Terraform exports, and keeps the old assets until an update has succeeded', async ({ skip }) => {
    const stackName = 'WithTerraform';
    const module = join(folder, 'terraform');
    await mkdir(module, { recursive: true });
    await copyFile(script('main.tf'), join(module, 'main.tf'));
    // The emulator has no host names for buckets, and knows no account.
    const provider = `provider "aws" {\n  s3_use_path_style = true\n  skip_requesting_account_id = true\n}\n`;
    await writeFile(join(module, 'emulator.tf'), provider);
    const plugins = process.env['TERRAFORM_PLUGINS'];
    const init = ['init', '-input=false', ...(plugins === undefined ? [] : [`-plugin-dir=${plugins}`])];
    const canRun = await runTool('terraform', init, module).catch(() => undefined);
    if (canRun === undefined) return skip('Terraform or its provider for AWS is not installed');
    await runTool('terraform', ['validate'], module);
    const apply = async (size: number) => {
      const values = { stack: stackName, bucket, files: await packageStack(stackName, size) };
      const variables = Object.entries(values).flatMap(([name, value]) => ['-var', `${name}=${value}`]);
      return runTool('terraform', ['apply', '-auto-approve', '-input=false', '-no-color', ...variables], module);
    };
    await apply(2);
    const outputs = JSON.parse(await runTool('terraform', ['output', '-json', 'stack'], module));
    expect(await exportNightly(stackName, outputs['AcmeApiKeySecretId'])).toMatch(exported);
    expect(await tagsOf(stackName)).toEqual(tags);

    const steps = (await apply(3)).match(/^aws_.*: (Modifications complete|Destroying)/gm) ?? [];
    const [updated = '', ...deleted] = steps.map((step) => step.replace(/ ?[[(].*:/, ':'));
    expect(updated).toBe('aws_cloudformation_stack.report_exporter: Modifications complete');
    expect(new Set(deleted)).toEqual(
      new Set(['aws_s3_object.asset: Destroying', 'aws_s3_object.template: Destroying']),
    );
  });
});
