/** The TypeScript, state machines and statements in docs/recipes.md that need no AWS to be checked. */

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import validateStatesLanguage from 'asl-validator';
import { describe, expect, it } from 'vitest';
import { exampleIn } from '../support/docs/doc-pages.ts';
import { schemaFile } from '../support/docs/published-schemas.ts';
import { writeDeployedRecipes } from '../support/docs/recipe-project.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');
const page = 'docs/recipes.md';

describe('the recipes for AWS services', () => {
  it("compile with the package's types", async () => {
    await using directory = await temporaryDirectory();
    const files = (await writeDeployedRecipes(directory.path, 'recipes')).filter((name) => name.endsWith('.ts'));
    expect(files).toEqual(expect.arrayContaining(['copy-run.ts', 'send-pages.ts', 'process-pages.ts', 'map-pages.ts']));
    const compilerOptions = {
      // CDK declares classes that do not fit its interfaces with this option, which few apps use.
      exactOptionalPropertyTypes: false,
      paths: { 'report-exporter': [join(root, 'lib/api/index.ts')] },
    };
    const config = {
      compilerOptions,
      extends: join(root, 'tsconfig.json'),
      include: [],
      exclude: [],
      files: files.map((name) => join(directory.path, 'recipes', name)),
    };
    await writeFile(join(directory.path, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(root, 'node_modules/.bin/tsc');
    // Its output is part of the error.
    await expect(promisify(execFile)(tsc, ['-p', directory.path])).resolves.toMatchObject({ stdout: '' });
  });

  it.each(['process-run.asl.json', 'start-once.asl.json'])('have a valid state machine %s', (name) => {
    const { isValid, errors } = validateStatesLanguage(JSON.parse(exampleIn(page, name)), { checkArn: false });
    expect({ isValid, errors }).toEqual({ isValid: true, errors: [] });
  });

  it('have a state machine that accepts every prefix and copies no tags', () => {
    const text = exampleIn(page, 'process-run.asl.json');
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
    const { properties } = JSON.parse(readFileSync(schemaFile('run.v1'), 'utf8')) as {
      properties: Record<string, object>;
    };
    const columns = [...exampleIn(page, 'create-runs.sql').matchAll(/^ {2}`?(\w+)`? (\w+),?$/gm)];
    expect(columns.map(([, name]) => name)).toEqual(Object.keys(properties).map((name) => name.toLowerCase()));
    const isNumber = (schema: object) => /"(integer|number)"/.test(JSON.stringify(schema)) || 'const' in schema;
    expect(columns.map(([, , type]) => (type === 'string' ? 'text' : 'number'))).toEqual(
      Object.values(properties).map((schema) => (isNumber(schema) ? 'number' : 'text')),
    );
  });
});

/** The resources of an app with all the constructs on the page. */
async function synthesize() {
  await using directory = await temporaryDirectory();
  await writeDeployedRecipes(directory.path, 'recipes');
  const deployment = {
    stackName: 'Recipes',
    services: { acme: { baseUrl: 'https://reports.example.com', vendor: 'ACME' } },
    exports: [{ name: 'nightly', size: 2 }],
  };
  const settings = { deployment, exportName: 'nightly', folder: join(directory.path, 'recipes') };
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
