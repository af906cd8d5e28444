/** The constructs, state machines and statements in docs/recipes, as far as they can be checked without AWS. */

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import validateStatesLanguage from 'asl-validator';
import { describe, expect, it } from 'vitest';
import { schemaFile } from '../support/docs/published-schemas.ts';
import { recipe } from '../support/docs/recipes.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');

const textOf = (file: string) => readFileSync(recipe(file), 'utf8');

describe('the recipes for AWS services', () => {
  it.each(['aws/process-run.asl.json', 'aws/start-once.asl.json'])('have a valid state machine %s', (file) => {
    const { isValid, errors } = validateStatesLanguage(JSON.parse(textOf(file)), { checkArn: false });
    expect({ isValid, errors }).toEqual({ isValid: true, errors: [] });
  });

  it('have a state machine that accepts every prefix and copies no tags', () => {
    const text = textOf('aws/process-run.asl.json');
    // A single quote in a substituted value would end the literal of the intrinsic function.
    expect(text).not.toMatch(/States\.Format\('[^']*\$\{/);
    const { MarkComplete } = (JSON.parse(text) as { States: Record<string, object> }).States;
    expect(MarkComplete).toMatchObject({ Parameters: { TaggingDirective: 'REPLACE' } });
  });

  it('have alarms for failed executions, and roles that delete nothing', async () => {
    const template = await synthesize();
    const alarms = template
      .filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm')
      .map(({ Properties }) => Properties as { MetricName?: string; Dimensions?: { Value: { Ref?: string } }[] });
    for (const name of ['ProcessRun', 'StartOnce']) {
      const isItsAlarm = ({ MetricName, Dimensions }: (typeof alarms)[number]) =>
        MetricName === 'ExecutionsFailed' && Dimensions?.[0]?.Value.Ref?.startsWith(name);
      expect(alarms.filter(isItsAlarm)).toHaveLength(1);
    }
    const policies = template.filter(
      ({ Type, Properties }) =>
        Type === 'AWS::IAM::Policy' && /"(ProcessRun|CopyRun|Worker)/.test(JSON.stringify(Properties)),
    );
    expect(policies.length).toBeGreaterThan(2);
    expect(JSON.stringify(policies)).not.toMatch(/s3:(Delete|\*)/);
  });

  it('have a table for Athena with a column for every field of run.json', () => {
    const schema = JSON.parse(readFileSync(schemaFile('run.v1'), 'utf8')) as { properties: Record<string, object> };
    const columns = [...textOf('athena/create-runs.sql').matchAll(/^ {2}`?(\w+)`? (\w+),?$/gm)];
    const types: Record<string, string> = { string: 'text', boolean: 'boolean', int: 'number', bigint: 'number' };
    const typeOf = (schema: object) => {
      const text = JSON.stringify(schema);
      return text.includes('"boolean"') ? 'boolean' : /"(integer|number)"/.test(text) ? 'number' : 'text';
    };
    expect(Object.fromEntries(columns.map(([, name, type = '']) => [name, types[type]]))).toEqual(
      Object.fromEntries(Object.entries(schema.properties).map(([name, each]) => [name.toLowerCase(), typeOf(each)])),
    );
  });
});

/** The resources of an app with all the constructs. */
async function synthesize() {
  await using directory = await temporaryDirectory();
  const deployment = {
    stackName: 'Recipes',
    services: { acme: { baseUrl: 'https://reports.example.com', vendor: 'ACME' } },
    exports: [{ name: 'nightly', size: 2 }],
  };
  const settings = { deployment, exportName: 'nightly' };
  const file = join(directory.path, 'recipes.json');
  await writeFile(file, JSON.stringify(settings));
  const context = { recipes: file, 'aws:cdk:bundling-stacks': [] };
  const CDK_OUTDIR = join(directory.path, 'out');
  await promisify(execFile)(process.execPath, [join(root, 'test/aws-e2e/support/recipes-app.ts')], {
    cwd: directory.path,
    env: { ...process.env, CDK_OUTDIR, CDK_CONTEXT_JSON: JSON.stringify(context) },
  });
  const { Resources } = JSON.parse(readFileSync(join(CDK_OUTDIR, 'Recipes.template.json'), 'utf8')) as {
    Resources: Record<string, { readonly Type: string; readonly Properties?: Readonly<Record<string, unknown>> }>;
  };
  return Object.values(Resources);
}
