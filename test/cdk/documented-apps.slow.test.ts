/** The CDK apps in docs, as they are written there, except for the path of the package. */

import { execFile } from 'node:child_process';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { Stack, StackProps } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import type { Construct } from 'constructs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { anApp, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');
const pageOf = {
  'reports-stack.ts': 'docs/cdk.md',
  'app.ts': 'docs/cdk.md',
};

let directory: TemporaryDirectory;
const pathOf = (name: string) => join(directory.path, name);

beforeAll(async () => {
  directory = await temporaryDirectory();
  await symlink(join(root, 'node_modules'), pathOf('node_modules'));
  await writeFile(pathOf('package.json'), '{ "type": "module" }');
  for (const [name, page] of Object.entries(pageOf)) {
    await writeFile(pathOf(name), exampleIn(page, name).replace("'report-exporter'", `'${root}/lib/api/index.ts'`));
  }
});
afterAll(() => directory.remove());

describe('the CDK apps in docs', () => {
  it('compile', async () => {
    const config = {
      extends: join(root, 'tsconfig.json'),
      include: [],
      exclude: [],
      files: Object.keys(pageOf),
    };
    await writeFile(pathOf('tsconfig.json'), JSON.stringify(config));
    const tsc = join(root, 'node_modules/.bin/tsc');
    // Its output is part of the error.
    await expect(promisify(execFile)(tsc, ['-p', directory.path])).resolves.toMatchObject({ stdout: '' });
  });

  it('have two services with all that they need, and a reader', async () => {
    const { ReportsStack } = (await import(pathToFileURL(pathOf('reports-stack.ts')).href)) as {
      ReportsStack: new (scope: Construct, id: string, props?: StackProps) => Stack;
    };
    const template = Template.fromStack(new ReportsStack(anApp(), 'Reports'));
    template.resourceCountIs('AWS::StepFunctions::StateMachine', 2);
    template.resourceCountIs('AWS::S3::Bucket', 2);
    const functions = Object.entries(resourcesOf(template, 'AWS::Lambda::Function'));
    const inVpc = functions.filter(([, { Properties }]) => Properties.VpcConfig !== undefined).map(([id]) => id);
    expect(inVpc.filter((id) => id.startsWith('Orders'))).toHaveLength(4);
    expect(inVpc.filter((id) => id.startsWith('Invoices'))).toEqual([]);
    const { Statement } = resource(template, 'AWS::IAM::Policy', 'Loader').Properties.PolicyDocument;
    expect(Statement.map(({ Action }: { Action: string }) => Action)).toEqual([
      's3:GetObject',
      's3:ListBucket',
      'states:StartExecution',
    ]);
    expect(resource(template, 'AWS::CloudWatch::Alarm', 'SlowService').Properties.ExtendedStatistic).toBe('p90');
  });

  /** Synthesizes the app in a process of its own. */
  async function synthesize(name: string) {
    const output = pathOf(`${name}.out`);
    const env = {
      PATH: process.env.PATH,
      CDK_OUTDIR: output,
      CDK_CONTEXT_JSON: JSON.stringify({ 'aws:cdk:bundling-stacks': [] }),
    };
    const code = `await import('${pathToFileURL(pathOf(name)).href}')`;
    const node = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code], {
      cwd: directory.path,
      env,
    });
    expect((await node).stdout).toBe('');
    return async (file: string) => JSON.parse(await readFile(join(output, file), 'utf8'));
  }

  it('have a stack with the properties that are shown, and set on its resources what has no setting', async () => {
    const read = await synthesize('app.ts');
    expect((await read('manifest.json')).artifacts.Reports).toMatchObject({
      environment: 'aws://123456789012/eu-central-1',
      properties: { terminationProtection: true, tags: { team: 'finance' } },
    });
    const template = JSON.stringify(await read('Reports.template.json'));
    expect(template).toContain('"ReservedConcurrentExecutions":10');
    expect(template).toContain('"Prefix":"acme/nightly/date="');
    expect(template).toContain(':iam::210987654321:root');
    expect(template).toMatch(/"Action":"kms:Decrypt","Effect":"Allow","Resource":"arn:aws:kms:/);
  });
});
