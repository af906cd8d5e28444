/** The stack with default settings: its resources, its outputs, and its props. */

import { Stack, Stage } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { acceptFindings } from '../../bin/accepted-findings.ts';
import { contextKey, deploymentSettings } from '../../lib/cdk/settings/read-settings.ts';
import { ReportExporterStack, type ReportExporterStackProps } from '../../lib/cdk/stack.ts';
import { stepNames } from '../../lib/core/state-machine/definition.ts';
import {
  environmentVariable,
  readFunctionEnvironment,
  readVersioned,
  serviceMetadataKey,
} from '../../lib/settings/deployed-settings.ts';
import { anApp, deploy, deployWith, outputsOf, resource, resourcesOf, textOf } from '../support/aws/cdk-deployment.ts';
import { aSchedule, someServices, someSettings } from '../support/settings.ts';
import { textOf as textOfPage } from '../support/docs/doc-pages.ts';

const { app, template } = deploy();
const functionOf = (step: string) => resource(template, 'AWS::Lambda::Function', `Servicesacme${step}`).Properties;
const machine = resource(template, 'AWS::StepFunctions::StateMachine');
const idOf = (type: string) => resource(template, `AWS::${type}`).id;

describe('the functions', () => {
  it.each(stepNames)('%s runs on Node 24 on arm64, and logs JSON', (step) => {
    expect(functionOf(step)).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      LoggingConfig: { LogFormat: 'JSON', LogGroup: { Ref: expect.stringContaining(`${step}Logs`) } },
    });
  });

  it.each(stepNames)('%s has the names of what the service uses, in a form that it reads', (step) => {
    const variables = functionOf(step).Environment.Variables;
    expect(readFunctionEnvironment({ [environmentVariable]: textOf(variables[environmentVariable]) })).toEqual({
      version: 1,
      deployment: 'ReportExporter',
      service: 'acme',
      table: `<${idOf('DynamoDB::Table')}>`,
      bucket: `<${idOf('S3::Bucket')}>`,
      prefix: 'acme/',
      apiKeySecret: `<${idOf('SecretsManager::Secret')}>`,
    });
  });

  it.each(stepNames)('%s is invoked by the state machine, and times out before its state does', (step) => {
    const { DefinitionString, DefinitionSubstitutions } = machine.Properties;
    const { States } = JSON.parse(textOf(DefinitionString));
    expect(States[step].TimeoutSeconds).toBeGreaterThan(functionOf(step).Timeout);
    expect(JSON.stringify(States[step])).toContain(`"FunctionName":"\${${step}Arn}"`);
    const { id } = resource(template, 'AWS::Lambda::Function', `Servicesacme${step}`);
    expect(DefinitionSubstitutions[`${step}Arn`]).toEqual({ 'Fn::GetAtt': [id, 'Arn'] });
  });
});

describe('the state machine', () => {
  it('is of type STANDARD, and logs failures', () => {
    expect(machine.Properties).toMatchObject({
      StateMachineType: 'STANDARD',
      LoggingConfiguration: { Level: 'ERROR', IncludeExecutionData: true },
    });
  });

  it('has the settings and the schedules of the exports as metadata', () => {
    const filter = { type: 'daily', Ref: 'AWS::StackName', state: null, 'Fn::GetAtt': ['a', 'b'] };
    const { template } = deploy({
      exports: [
        { name: 'nightly', filter, schedule: aSchedule() },
        { name: 'monthly', schedule: aSchedule({ freshness: 'none', enabled: false }) },
        { name: 'manual', size: 5 },
      ],
    });
    const metadata = resource(template, 'AWS::StepFunctions::StateMachine').Metadata?.[serviceMetadataKey];
    const schedule = { expression: 'cron(0 4 * * ? *)', timeZone: 'Europe/Berlin' };
    expect(readVersioned(metadata)).toMatchObject({
      service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
      exports: [
        { name: 'nightly', filter, maxEmptyPages: 1_000, schedule: { ...schedule, freshness: 26 * 3_600_000 } },
        { name: 'monthly', schedule: { ...schedule, enabled: false, freshness: 'none' } },
        { name: 'manual', size: 5 },
      ],
    });
    // Text, because CloudFormation rejects a null and follows a reference, which a filter may contain.
    expect(metadata).toBeTypeOf('string');
    expect(JSON.stringify(template.toJSON())).not.toMatch(/[^\\]":null/);
  });
});

describe('the schedule', () => {
  const { Properties } = resource(template, 'AWS::Scheduler::Schedule');

  it('starts the state machine at the given time, and sends what it cannot start to the dead-letter queue', () => {
    expect(Properties).toMatchObject({
      Name: 'nightly',
      ScheduleExpression: 'cron(0 4 * * ? *)',
      ScheduleExpressionTimezone: 'Europe/Berlin',
      State: 'ENABLED',
      Target: {
        Arn: { Ref: machine.id },
        RetryPolicy: { MaximumEventAgeInSeconds: 3_600, MaximumRetryAttempts: 185 },
        DeadLetterConfig: { Arn: { 'Fn::GetAtt': [idOf('SQS::Queue'), 'Arn'] } },
      },
    });
    expect(JSON.parse(Properties.Target.Input)).toEqual({
      export: 'nightly',
      scheduledTime: '<aws.scheduler.scheduled-time>',
    });
    const queue = resource(template, 'AWS::SQS::Queue').Properties;
    expect(queue).toMatchObject({ SqsManagedSseEnabled: true, MessageRetentionPeriod: 14 * 86_400 });
  });

  it('is created after all other resources, because a first start would fill the bucket of a deployment that is rolled back', () => {
    const { template } = deployWith(someServices());
    const schedules = Object.keys(resourcesOf(template, 'AWS::Scheduler::Schedule'));
    const others = Object.keys(resourcesOf(template)).filter((id) => !schedules.includes(id));
    for (const id of schedules) {
      const before = new Set<string>();
      for (const pending = [id]; pending.length > 0;) {
        const next = dependenciesOf(template, pending.pop() ?? '').filter((each) => !before.has(each));
        for (const each of next) before.add(each);
        pending.push(...next);
      }
      // What only the schedules of the other service use may be created later.
      const [service = ''] = /^Services(eu|us)/.exec(id) ?? [];
      const isNeeded = (each: string) => each.startsWith(service) || !/Schedules|SchedulerRole/.test(each);
      expect(others.filter((each) => isNeeded(each) && !before.has(each))).toEqual([]);
    }
  });
});

describe('the shared resources', () => {
  it('include a bucket that is encrypted, versioned, private and retained', () => {
    const bucket = resource(template, 'AWS::S3::Bucket');
    // Not kept if its creation is rolled back.
    expect(bucket).toMatchObject({ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    expect(bucket.Properties).toMatchObject({
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
      },
      VersioningConfiguration: { Status: 'Enabled' },
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
      LifecycleConfiguration: {
        Rules: [{ AbortIncompleteMultipartUpload: { DaysAfterInitiation: 2 }, Status: 'Enabled' }],
      },
    });
    // A retained bucket without its policy would accept overwrites, and connections without TLS.
    const policy = resource(template, 'AWS::S3::BucketPolicy');
    expect(policy).toMatchObject({ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    expect(policy.Properties.PolicyDocument.Statement).toContainEqual(
      expect.objectContaining({ Effect: 'Deny', Condition: { NumericLessThan: { 's3:TlsVersion': 1.2 } } }),
    );
  });

  it('include a table with on-demand capacity, point-in-time recovery, time to live and deletion protection', () => {
    const table = resource(template, 'AWS::DynamoDB::Table');
    expect(table).toMatchObject({ DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    expect(table.Properties).toMatchObject({
      BillingMode: 'PAY_PER_REQUEST',
      KeySchema: [
        { AttributeName: 'pk', KeyType: 'HASH' },
        { AttributeName: 'sk', KeyType: 'RANGE' },
      ],
      TimeToLiveSpecification: { AttributeName: 'expiresAt', Enabled: true },
      DeletionProtectionEnabled: true,
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
    });
  });

  it('include a secret without a value', () => {
    const secret = resource(template, 'AWS::SecretsManager::Secret');
    expect(secret).toMatchObject({ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    expect(Object.keys(secret.Properties)).toEqual(['Description']);
  });

  it('have no finding of cdk-nag that the app does not accept', () => {
    // check:templates runs it with other settings, too.
    acceptFindings(app);
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
    const insecure = anApp();
    new Bucket(new Stack(insecure, 'Insecure'), 'Bucket');
    acceptFindings(insecure);
    expect(new AwsSolutionsChecks(insecure).validateScope(insecure).violations).not.toEqual([]);
  });
});

describe('the outputs', () => {
  it('say where to store the key, how to start the first export, and what each service has', () => {
    const services = someServices({ bucket: { prefix: 'team/' } });
    const { template } = deployWith({
      ...services,
      exports: [...services.exports, { name: 'us-manual', service: 'us' }],
    });
    const idIn = (type: string, service = '') => resource(template, `AWS::${type}`, service && `Services${service}`).id;
    const outputs = outputsOf(template);
    for (const name of ['eu', 'us']) {
      const Name = name === 'eu' ? 'Eu' : 'Us';
      const stateMachine = idIn('StepFunctions::StateMachine', name);
      const secret = `<${idIn('SecretsManager::Secret', name)}>`;
      expect(outputs[`${Name}ApiKeySecretId`]).toBe(secret);
      expect(outputs[`${Name}StartCommand`]).toBe(
        `aws stepfunctions start-execution --state-machine-arn <${stateMachine}> --input '{"export":"${name}-nightly"}'`,
      );
      expect(readVersioned(outputs[`${Name}Service`])).toEqual({
        version: 1,
        service: name,
        stateMachineArn: `<${stateMachine}>`,
        stateMachineId: stateMachine,
        exportPageFunction: expect.stringContaining(`Services${name}ExportPage`),
        table: `<${idIn('DynamoDB::Table')}>`,
        bucket: `<${idIn('S3::Bucket')}>`,
        prefix: `team/${name}/`,
        apiKeySecret: secret,
        scheduleGroup: resource(template, 'AWS::Scheduler::ScheduleGroup', `Services${name}`).Properties.Name,
      });
    }
    expect(outputs).toMatchObject({
      BucketName: `<${idIn('S3::Bucket')}>`,
      TableName: `<${idIn('DynamoDB::Table')}>`,
      AlarmTopicArn: `<${idIn('SNS::Topic')}>`,
    });
  });

  it('name a secret that is given', () => {
    const given = outputsOf(deploy({ apiKeySecret: { existing: 'our/key' } }).template);
    expect(given.AcmeApiKeySecretId).toBe('our/key');
    expect(JSON.parse(given.AcmeService ?? '')).toMatchObject({ apiKeySecret: 'our/key' });
  });

  it('and resources are those that the checks of a first deployment name', () => {
    const page = textOfPage('docs/first-deployment.md');
    const named = [...page.matchAll(/\bresource (AWS::[\w:]+) (\w+)/g)];
    expect(named.length).toBeGreaterThan(1);
    for (const [, type = '', id = ''] of named) expect(resource(template, type, id).id).toContain(id);
    const names = [...page.matchAll(/\$\(output (\w+)( \||\))/g)].map(([, name = '']) => name);
    expect(names.length).toBeGreaterThan(1);
    for (const name of names) expect(outputsOf(template)).toHaveProperty(name);
  });
});

describe('the template', () => {
  it('holds 231 scheduled exports: CloudFormation accepts 500 resources', () => {
    const scheduled = (length: number) => Array.from({ length }, (_, n) => ({ name: `n-${n}`, schedule: aSchedule() }));
    const count = (exports: number) =>
      Object.keys(resourcesOf(deploy({ exports: scheduled(exports) }).template)).length;
    const [some, more] = [count(30), count(31)];
    expect(30 + Math.floor((500 - some) / (more - some))).toBe(231);
  });

  it('has no name of an account in common with that of another stack', () => {
    const named = [
      'Name',
      'LogGroupName',
      'RoleName',
      'TableName',
      'BucketName',
      'FunctionName',
      'AlarmName',
      'QueueName',
    ];
    const namesIn = (stackName: string) =>
      Object.values(resourcesOf(deploy({ stackName }).template)).flatMap(({ Type, Properties = {} }) =>
        // Schedules have a group of their own.
        Type === 'AWS::Scheduler::Schedule' ? [] : named.flatMap((key) => Properties[key] ?? []),
      );
    const [one, other] = [namesIn('one'), namesIn('other')];
    expect(one.length).toBeGreaterThan(0);
    expect(one.filter((name) => other.includes(name))).toEqual([]);
  });
});

describe('the props of the stack', () => {
  const aStack = (props: Partial<ReportExporterStackProps> = {}, scope = anApp()) =>
    new ReportExporterStack(scope, 'Reports', { settings: someSettings(), ...props });

  it('are those of every stack, and its name takes precedence over the settings', () => {
    const settings = someSettings({ stackName: 'setting' });
    expect(aStack({ settings, stackName: undefined }).stackName).toBe('setting');
    const stack = aStack({ settings, env: { region: 'us-east-1' }, stackName: 'prop', description: 'Our reports' });
    expect(stack).toMatchObject({ region: 'us-east-1', stackName: 'prop' });
    expect(stack.templateOptions.description).toBe('Our reports');
  });

  it('leave the ID as the name of the stack, after that of its stage', () => {
    expect(aStack().stackName).toBe('Reports');
    const stage = new Stage(anApp(), 'Production');
    expect(new ReportExporterStack(stage, 'Reports', { settings: someSettings() }).stackName).toBe(
      'Production-Reports',
    );
  });

  it('are rejected with every problem in the settings', () => {
    const settings = someSettings({ exports: [{ name: 'a b' }, { name: 'c', size: 0 }], unknown: 1 });
    const lines = (place: string) =>
      new RegExp(`^${place}exports\\[0\\]\\.name: .*\n${place}exports\\[1\\]\\.size: .*\n.*unknown`);
    expect(() => aStack({ settings })).toThrow(lines('Reports settings\\.'));
    const app = anApp({ [contextKey]: settings });
    const fromContext = () => aStack({ settings: app.node.tryGetContext(contextKey) }, app);
    expect(fromContext).toThrow(lines('cdk\\.json reportExporter\\.'));
    // Parsed settings that were changed since are settings like any others.
    expect(() => aStack({ settings: { ...deploymentSettings(someSettings()), exports: [] } })).toThrow(
      expect.objectContaining({ name: 'ConfigurationError' }),
    );
  });
});

/** The resources that the resource `id` of the template refers to or depends on. */
function dependenciesOf(of: Template, id: string): string[] {
  const { DependsOn = [], Properties } = resourcesOf(of)[id] ?? { Properties: {} };
  const references = [...JSON.stringify(Properties).matchAll(/"Ref":"(\w+)"|"Fn::GetAtt":\["(\w+)"/g)].map(
    ([, ref, attributeOf]) => ref ?? attributeOf ?? '',
  );
  return [...references, ...[DependsOn].flat()];
}
