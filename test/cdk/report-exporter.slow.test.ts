/** The construct in the stack of another app. */

import { Aws, Duration, Fn, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AttributeType, type ITable, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { LambdaFunction, SfnStateMachine, SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Code, Function as LambdaFunctionResource, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { ConfigurationError } from '../../lib/api/index.ts';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { isExportError } from '../../lib/core/errors.ts';
import { readVersioned, serviceMetadataKey, type ServiceOutput } from '../../lib/settings/deployed-settings.ts';
import { anApp, deployConstruct, outputsOf, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';
import { aSchedule, someServices, someSettings } from '../support/settings.ts';
import { executionArn } from '../support/export/function-machine.ts';

const service = { baseUrl: 'https://reports.example.com' };

/** The problems in the ConfigurationError that creating the construct throws. */
function problemsOf(create: () => unknown): string[] {
  try {
    create();
    return [];
  } catch (error) {
    if (isExportError(error, 'ConfigurationError')) return error.message.split('\n');
    throw error;
  }
}

describe('a ReportExporter in another stack', () => {
  it('has the name that is given or that of its path, and is found by report-exporter --stack', () => {
    const stack = new Stack(anApp(), 'Another');
    const exports = [{ name: 'nightly', schedule: aSchedule() }, { name: 'manual' }];
    const reports = new ReportExporter(new Construct(stack, 'Team'), 'EuReports', {
      service,
      exports,
    });
    expect(reports).toMatchObject({ serviceName: 'team-eureports', prefix: '', exportNames: ['nightly', 'manual'] });
    const template = Template.fromStack(stack);
    const machine = resource(template, 'AWS::StepFunctions::StateMachine');
    const output = readVersioned<ServiceOutput>(outputsOf(template)['TeamEureportsService']);
    expect(output).toMatchObject({ service: 'team-eureports', stateMachineId: machine.id });
    expect(readVersioned(machine.Metadata?.[serviceMetadataKey])).toMatchObject({
      exports: [{ name: 'nightly', schedule: { enabled: true } }, { name: 'manual' }],
    });
    // What schedules need is there for an app to use.
    expect([...reports.schedules.keys()]).toEqual(['nightly']);
    expect(reports.scheduleGroup?.scheduleGroupName).toBe(output?.scheduleGroup);
    expect(stack.resolve(reports.deadLetterQueue?.queueArn)).toEqual({
      'Fn::GetAtt': [resource(template, 'AWS::SQS::Queue').id, 'Arn'],
    });
    const { reports: manual } = deployConstruct({ exports: [{ name: 'a' }], name: 'eu-reports' });
    expect(manual).toMatchObject({ serviceName: 'eu-reports', scheduleGroup: undefined, deadLetterQueue: undefined });
  });

  it('rejects invalid settings, and those that are known only at deployment, wherever they are', () => {
    const bucketOf = (scope: Stack) => new Bucket(scope, 'Bucket');
    expect(() => deployConstruct({ exports: [] })).toThrow(ConfigurationError);
    const tokens = (stack: Stack) => ({
      service: { baseUrl: `https://${bucketOf(stack).bucketName}.example.com` },
      prefix: `${Aws.REGION}/`,
      exports: [
        { name: 'first', maxPages: Duration.days(1).toSeconds() },
        { name: 'nightly', filter: { accounts: ['1', Aws.ACCOUNT_ID], ids: Fn.split(',', Aws.ACCOUNT_ID) } },
        { name: 'daily', schedule: aSchedule({ timeZone: Fn.importValue('TimeZone') }) },
      ],
    });
    const isToken = ': is a CDK token, whose value is known only at deployment.';
    const ofTokens =
      'prefix service.baseUrl exports[1].filter.ids exports[2].schedule.timeZone exports[1].filter.accounts[1]'.split(
        ' ',
      );
    expect(new Set(problemsOf(() => deployConstruct(tokens)).map((line) => line.split(isToken)[0]))).toEqual(
      new Set(ofTokens.map((path) => `Another/Reports ${path}`)),
    );
  });
});

describe('two ReportExporters', () => {
  const create = (stack: Stack, id: string, props: Partial<ReportExporterProps> = {}) =>
    new ReportExporter(stack, id, { service, exports: [{ name: id.toLowerCase() }], ...props });

  it('may share what the first has created, and a table of another kind', () => {
    const stack = new Stack(anApp(), 'Another');
    const key = (name: string) => ({ name, type: AttributeType.STRING });
    const table = new TableV2(stack, 'Table', { partitionKey: key('pk'), sortKey: key('sk') }) as ITable;
    const { bucket, secret } = create(stack, 'Eu', { prefix: 'eu/', table });
    create(stack, 'Us', { prefix: 'us/', bucket, table, secret });
    const template = Template.fromStack(stack);
    const counts = {
      'S3::Bucket': 1,
      'SecretsManager::Secret': 1,
      'DynamoDB::Table': 0,
      'StepFunctions::StateMachine': 2,
    };
    for (const [type, count] of Object.entries(counts)) {
      expect(Object.keys(resourcesOf(template, `AWS::${type}`))).toHaveLength(count);
    }
  });

  it('have distinct names in a stack, by which commands find them, and need none in another stack', () => {
    const app = anApp();
    const [stack, other] = [new Stack(app, 'Another'), new Stack(app, 'Other')];
    create(stack, 'First');
    const second = (scope: Stack, id: string, props?: Partial<ReportExporterProps>) =>
      problemsOf(() => create(scope, id, props));
    expect(second(stack, 'Second', { name: 'first', exports: [{ name: 'ok' }, { name: 'FIRST' }] })).toEqual([
      'Another/Second name: Another/First in the same stack has the same name; set another name',
      'Another/Second exports: Another/First in the same stack has an export with a similar name, first; use another name',
    ]);
    // A construct that was rejected does not count.
    expect(second(stack, 'Third', { exports: [{ name: 'ok' }] })).toEqual([]);
    expect(second(other, 'First')).toEqual([]);
  });
});

describe('event rules of a service', () => {
  /** Two services. The first has two exports, of which one name is a prefix of the other. */
  const settings = someServices({
    exports: [
      { name: 'nightly', service: 'eu' },
      { name: 'nightly-2', service: 'eu' },
      { name: 'us-nightly', service: 'us' },
    ],
  });
  const stack = new ReportExporterStack(anApp(), 'ReportExporter', { settings });
  const [exporter, other] = stack.services as [ReportExporter, ReportExporter];
  exporter.onCompleted('Load', { export: 'nightly', target: new SfnStateMachine(other.stateMachine) });
  exporter.onFailed('RunFailed', { export: 'nightly-2' });
  exporter.onCompleted('AnyCompleted');
  exporter.onFailed('AnyFailed');
  const template = Template.fromStack(stack);
  const rule = (id: string) => resource(template, 'AWS::Events::Rule', `ServiceseuRules${id}`).Properties;
  const machineOf = (name: string) =>
    resource(template, 'AWS::StepFunctions::StateMachine', `Services${name}StateMachine`).id;

  /** Resolves `prefix` as CloudFormation would for a state machine with the name `machineName`. */
  function resolve(prefix: { 'Fn::Join': [string, (string | { Ref?: string })[]] }, machineName: string): string {
    const values: Readonly<Record<string, string>> = {
      'AWS::Partition': 'aws',
      'AWS::Region': 'us-east-1',
      'AWS::AccountId': '123456789012',
    };
    const [separator, parts] = prefix['Fn::Join'];
    return parts
      .map((part) => (typeof part === 'string' ? part : (values[part.Ref ?? ''] ?? machineName)))
      .join(separator);
  }

  it.each([
    ['Load', 'Report Export Completed', { export: ['nightly'] }],
    ['RunFailed', 'Report Export Failed', { export: ['nightly-2'] }],
    ['AnyCompleted', 'Report Export Completed', {}],
    ['AnyFailed', 'Report Export Failed', {}],
  ])('match the events of its own state machine, of one export or of all: %s', (id, detailType, ofExport) => {
    const { EventPattern } = rule(id);
    const [{ prefix }] = EventPattern.detail.execution;
    expect(EventPattern).toEqual({
      source: ['report-exporter'],
      'detail-type': [detailType],
      detail: { execution: [{ prefix }], ...ofExport },
    });
    expect(JSON.stringify(prefix)).toContain(`{"Fn::GetAtt":["${machineOf('eu')}","Name"]}`);
    expect(executionArn('first').startsWith(resolve(prefix, 'reports'))).toBe(true);
    // The name of this state machine may be a prefix of another's.
    expect(executionArn('first').startsWith(resolve(prefix, 'repo'))).toBe(false);
  });

  it('reject an export that the service does not have, and list those that it has', () => {
    for (const unknown of ['us-nightly', 'Nightly', 'night']) {
      expect(problemsOf(() => exporter.onFailed('Unknown', { export: unknown }))).toEqual([
        `ReportExporter/Services/eu has no export "${unknown}". Its exports: nightly, nightly-2`,
      ]);
    }
  });

  it('can be created in a consumer’s stack that depends on the deployment', () => {
    const app = anApp();
    const consumer = new Stack(app, 'Consumer');
    const deployment = new ReportExporterStack(app, 'ReportExporter', { settings: someSettings() });
    const [reports] = deployment.services;
    const load = new LambdaFunctionResource(consumer, 'Load', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('exports.handler = async () => {}'),
      environment: { BUCKET: deployment.bucket.bucketName },
    });
    reports?.onCompleted('LoadRun', { export: 'nightly', target: new LambdaFunction(load), scope: consumer });
    reports?.onFailed('NotifyFailure', { target: new SqsQueue(new Queue(consumer, 'Failures')), scope: consumer });
    expect(Object.keys(resourcesOf(Template.fromStack(consumer), 'AWS::Events::Rule'))).toHaveLength(2);
    expect(resourcesOf(Template.fromStack(deployment), 'AWS::Events::Rule')).toEqual({});
  });
});
