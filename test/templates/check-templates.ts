/**
 * `npm run check:templates`: cdk-nag, cfn-lint and checkov on templates with default, full and minimal settings. Every warning is an
 * error unless `suppressions.ts` has a reason for it. A template with known faults is checked each time, too: a linter that finds
 * nothing in it does not work.
 */

import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { pythonEnvironment } from '../aws-e2e/emulators/python.ts';
import { anApp } from '../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { suppressions } from './suppressions.ts';

const root = join(import.meta.dirname, '../..');
const keyArn = (digit: string) =>
  `arn:aws:kms:us-east-1:123456789012:key/${'11111111-1111-1111-1111-111111111111'.replaceAll('1', digit)}`;
const schedule = {
  expression: 'cron(0 4 * * ? *)',
  timeZone: 'Europe/Berlin',
  flexibleWindow: 'PT15M',
  freshness: 'PT26H',
};
const service = { baseUrl: 'https://reports.example.com', vendor: 'ACME' };

/** The settings by the name of the template. `full` has every kind of resource, so add settings that create or change one. */
const deployments: Readonly<Record<string, object>> = {
  default: JSON.parse(readFileSync(join(root, 'report-exporter.json'), 'utf8')) as object,
  full: {
    services: {
      acme: {
        ...service,
        filterUntil: 'date.lt',
        maxConcurrentPages: 2,
        apiKeySecret: { field: 'key' },
      },
      globex: { ...service, apiKeySecret: { existing: 'globex/key' } },
    },
    bucket: { prefix: 'team/', kmsKeyArn: keyArn('3') },
    kmsKeyArn: keyArn('4'),
    alarms: { email: 'operator@example.com', runbookUrl: 'https://wiki.example.com/runbook' },
    logRetentionDays: 400,
    exports: [
      { name: 'nightly', service: 'acme', schedule, filter: { type: 'daily' }, pagesPerInvocation: 25 },
      { name: 'hourly', service: 'globex', schedule: { expression: 'rate(1 hour)', freshness: 'PT3H' } },
      { name: 'weekly', service: 'globex', schedule: { expression: 'cron(0 2 ? * SUN *)', freshness: 'P14D' } },
      { name: 'manual', service: 'globex' },
    ],
  },
  existing: {
    services: { acme: { ...service, apiKeySecret: { existing: 'acme/key' } } },
    bucket: { existing: 'our-bucket', kmsKeyArn: keyArn('5') },
    alarms: { existingTopicArn: 'arn:aws:sns:us-east-1:123456789012:our-alarms' },
    exports: [{ name: 'manual' }],
  },
};

const faultyName = 'faulty';
/** A placeholder in the ARN of an integration, which cfn-lint reports, and a bucket that is neither private nor versioned. */
const faultyTemplate = {
  Resources: {
    Machine: {
      Type: 'AWS::StepFunctions::StateMachine',
      Properties: {
        RoleArn: 'arn:aws:iam::123456789012:role/machine',
        DefinitionString: JSON.stringify({
          StartAt: 'Invoke',
          // oxlint-disable-next-line no-template-curly-in-string -- CloudFormation's placeholder
          States: { Invoke: { Type: 'Task', Resource: 'arn:${Partition}:states:::lambda:invoke', End: true } },
        }),
        DefinitionSubstitutions: { Partition: 'aws' },
      },
    },
    Bucket: { Type: 'AWS::S3::Bucket', Properties: { AccessControl: 'PublicRead' } },
  },
};

interface Finding {
  readonly template: string;
  readonly rule: string;
  /** The logical ID; with the type before it, as checkov has it. */
  readonly resource: string;
  readonly message: string;
}

/** Synthesizes the stack, and rejects findings of cdk-nag. */
function writeTemplate(folder: string, name: string, settings: object): string {
  const app = anApp({}, { isValidated: true });
  const stack = new ReportExporterStack(app, 'ReportExporter', { settings });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  const { directory } = app.synth();
  const file = join(folder, `${name}.json`);
  writeFileSync(file, readFileSync(join(directory, stack.templateFile)));
  return file;
}

/** Both linters exit with a status above 0 if they find something. */
async function outputOf(program: string, parameters: readonly string[]): Promise<unknown> {
  const options = { maxBuffer: 64 * 1024 * 1024, env: { ...process.env, PYTHONWARNINGS: 'ignore' } };
  const { stdout, stderr } = await promisify(execFile)(program, parameters, options).catch(
    (error: { stdout?: string; stderr?: string }) => error,
  );
  try {
    return JSON.parse(stdout ?? '');
  } catch {
    throw new Error(`${basename(program)} printed no JSON: ${stderr || stdout || 'nothing'}`);
  }
}

async function lintWithCfnLint(tools: string, templates: readonly string[]): Promise<Finding[]> {
  interface Match {
    readonly Filename: string;
    readonly Rule: { readonly Id: string };
    readonly Location: { readonly Path: readonly (string | number)[] | null };
    readonly Message: string;
  }
  const parameters = ['--format', 'json', '--regions', 'us-east-1', 'eu-central-1', '--template', ...templates];
  const matches = (await outputOf(join(tools, 'cfn-lint'), parameters)) as readonly Match[];
  return matches.map(({ Filename, Rule, Location, Message }) => ({
    template: nameOf(Filename),
    rule: Rule.Id,
    resource: String(Location.Path?.[1] ?? ''),
    message: Message,
  }));
}

async function lintWithCheckov(tools: string, templates: readonly string[]): Promise<Finding[]> {
  interface Check {
    readonly file_path: string;
    readonly check_id: string;
    readonly resource: string;
    readonly check_name: string;
  }
  interface Report {
    readonly results: { readonly failed_checks: readonly Check[] };
    readonly summary: { readonly parsing_errors: number; readonly resource_count: number };
  }
  const files = templates.flatMap((file) => ['--file', file]);
  const parameters = ['--framework', 'cloudformation', '--output', 'json', '--compact', '--quiet', ...files];
  const { results, summary } = (await outputOf(join(tools, 'checkov'), parameters)) as Report;
  if (summary.parsing_errors > 0) throw new Error('checkov cannot read a template');
  if (summary.resource_count === 0) throw new Error('checkov found no resources');
  return results.failed_checks.map((check) => ({
    template: nameOf(check.file_path),
    rule: check.check_id,
    resource: check.resource,
    message: check.check_name,
  }));
}

const nameOf = (file: string) => basename(file, '.json');

async function main(): Promise<void> {
  await using temporary = await temporaryDirectory();
  const templates = Object.entries(deployments).map(([name, settings]) =>
    writeTemplate(temporary.path, name, settings),
  );
  const faulty = join(temporary.path, `${faultyName}.json`);
  writeFileSync(faulty, JSON.stringify(faultyTemplate));
  const python = await pythonEnvironment({
    name: 'linters',
    tools: 'cfn-lint and checkov',
    requirements: join(import.meta.dirname, 'requirements.txt'),
    neededBy: 'npm run check:templates',
  });
  const tools = dirname(python);
  const all = [...templates, faulty];
  const byLinter = await Promise.all([lintWithCfnLint(tools, all), lintWithCheckov(tools, all)]);

  const problems = [
    ...byLinter.flatMap((findings, index) =>
      findings.some(({ template }) => template === faultyName)
        ? []
        : [`${index === 0 ? 'cfn-lint' : 'checkov'} found nothing in a faulty template`],
    ),
    ...evaluate(byLinter.flat().filter(({ template }) => template !== faultyName)),
  ];
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  const names = Object.keys(deployments).join(', ');
  process.stdout.write(
    `Templates ${names}: ${problems.length === 0 ? 'no findings' : `${problems.length} problems`}\n`,
  );
  if (problems.length > 0) process.exitCode = 1;
}

/** A line for each finding that has no suppression, and for each suppression without a finding. */
function evaluate(findings: readonly Finding[]): string[] {
  const used = new Set(
    findings.map(({ rule, resource }) =>
      suppressions.find((suppression) => suppression.rule === rule && suppression.resource.test(resource)),
    ),
  );
  const open = findings.filter(
    ({ rule, resource }) =>
      !suppressions.some((suppression) => suppression.rule === rule && suppression.resource.test(resource)),
  );
  return [
    ...open.map(({ template, rule, resource, message }) => `${template}: ${rule} ${resource}: ${message}`),
    ...suppressions
      .filter((suppression) => !used.has(suppression))
      .map(({ rule }) => `test/templates/suppressions.ts: ${rule} is not found any more. Remove it`),
  ];
}

await main();
