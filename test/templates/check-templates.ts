/**
 * `npm run check:templates`: cdk-nag and cfn-lint on templates with default, full and minimal settings. Every warning
 * is an error. A template with a known fault is checked each time, too: a linter that finds nothing in it does not
 * work.
 */

import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { acceptFindings } from '../../bin/accepted-findings.ts';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { pythonEnvironment } from '../aws-e2e/emulators/python.ts';
import { anApp } from '../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');
const keyArn = (digit: string) =>
  `arn:aws:kms:us-east-1:123456789012:key/${'11111111-1111-1111-1111-111111111111'.replaceAll('1', digit)}`;
const schedule = {
  expression: 'cron(0 4 * * ? *)',
  timeZone: 'Europe/Berlin',
  freshness: 'PT26H',
};
const service = { baseUrl: 'https://reports.example.com', vendor: 'ACME' };

/** The settings by the name of the template. `full` has every kind of resource: add settings that create one. */
const deployments: Readonly<Record<string, object>> = {
  default: JSON.parse(readFileSync(join(root, 'report-exporter.json'), 'utf8')) as object,
  full: {
    services: {
      acme: {
        ...service,
        filterUntil: 'date.lt',
        maxConcurrentPages: 2,
        send: { 'X-SERVICE-API-KEY': '{secret.key}' },
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
/** A placeholder in the ARN of an integration. */
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
  },
};

/** CDK makes functions, state machines and schedules depend on policies of their role, and so on the role as well. */
const ignoredRules = ['W3005'];

/** Synthesizes the stack, and rejects findings of cdk-nag. */
function writeTemplate(folder: string, name: string, settings: object): string {
  const app = anApp({}, { isValidated: true });
  const stack = new ReportExporterStack(app, 'ReportExporter', { settings });
  acceptFindings(app);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  const { directory } = app.synth();
  const file = join(folder, `${name}.json`);
  writeFileSync(file, readFileSync(join(directory, stack.templateFile)));
  return file;
}

/** The findings, each as a line that begins with the name of the template. */
async function lint(python: string, templates: readonly string[]): Promise<string[]> {
  interface Match {
    readonly Filename: string;
    readonly Rule: { readonly Id: string };
    readonly Location: { readonly Path: readonly (string | number)[] | null };
    readonly Message: string;
  }
  const options = ['--format', 'json', '--regions', 'us-east-1', 'eu-central-1', '--ignore-checks', ...ignoredRules];
  const words = [...options, '--template', ...templates];
  // It exits with a status above 0 if it finds something.
  const { stdout, stderr } = await promisify(execFile)(join(dirname(python), 'cfn-lint'), words, {
    maxBuffer: 64 * 1024 * 1024,
  }).catch((error: { stdout?: string; stderr?: string }) => error);
  if (!stdout?.startsWith('[')) throw new Error(`cfn-lint printed no JSON: ${stderr || stdout || 'nothing'}`);
  return (JSON.parse(stdout) as readonly Match[]).map(
    ({ Filename, Rule, Location, Message }) =>
      `${basename(Filename, '.json')}: ${Rule.Id} ${String(Location.Path?.[1] ?? '')}: ${Message}`,
  );
}

await using temporary = await temporaryDirectory();
const templates = Object.entries(deployments).map(([name, settings]) => writeTemplate(temporary.path, name, settings));
const faulty = join(temporary.path, `${faultyName}.json`);
writeFileSync(faulty, JSON.stringify(faultyTemplate));
const python = await pythonEnvironment({
  name: 'linters',
  tools: 'cfn-lint',
  requirements: join(import.meta.dirname, 'requirements.txt'),
  neededBy: 'npm run check:templates',
});
const findings = await lint(python, [...templates, faulty]);
const problems = findings.filter((finding) => !finding.startsWith(`${faultyName}:`));
if (problems.length === findings.length) problems.push('cfn-lint found nothing in a faulty template');
for (const problem of problems) process.stderr.write(`${problem}\n`);
const result = problems.length === 0 ? 'no findings' : `${problems.length} problems`;
process.stdout.write(`Templates ${Object.keys(deployments).join(', ')}: ${result}\n`);
if (problems.length > 0) process.exitCode = 1;
