import { Readable } from 'node:stream';
import { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { type FunctionLimits, functionLimits } from '../../lib/cdk/function-limits.ts';
import { readFunctionEnvironment, stepVariables } from '../../lib/settings/environment.ts';
import {
  readServiceMetadata,
  serviceMetadataKey,
  serviceOutputSchema,
  serviceOutputSuffix,
} from '../../lib/settings/stack-output.ts';
import { zeroTotals } from '../../lib/core/model.ts';
import { stepNames } from '../../lib/core/state-machine/definition.ts';
import { pageKey } from '../../lib/core/storage/keys.ts';
import { manifestChunks } from '../../lib/core/storage/manifest.ts';
import {
  anApp,
  aSchedule,
  deploy,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  type SomeSettings,
  someServices,
  textOf,
} from '../support/aws/cdk-deployment.ts';
import { aPageEntry, aRun, at, collect } from '../support/builders.ts';
import { textOf as textOfPage } from '../support/docs/doc-pages.ts';

const deployment = deploy({
  service: { baseUrl: 'https://reports.example.com', vendor: 'ACME', totalTimeout: 'PT2M' },
  exports: [{ name: 'nightly', filter: { type: 'daily' }, schedule: aSchedule({ flexibleWindow: 'PT15M' }) }],
});
const { template, stack } = deployment;
const functionOf = (step: string) => resource(template, 'AWS::Lambda::Function', `Servicesacme${step}`).Properties;
const machine = resource(template, 'AWS::StepFunctions::StateMachine').Properties;

describe('the functions', () => {
  it.each(['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'])(
    '%s runs on Node 24 on arm64, logs JSON and is traced',
    (step) => {
      expect(functionOf(step)).toMatchObject({
        Runtime: 'nodejs24.x',
        Architectures: ['arm64'],
        Handler: 'index.handler',
        TracingConfig: { Mode: 'Active' },
        LoggingConfig: { LogFormat: 'JSON', LogGroup: { Ref: expect.stringContaining(`${step}Logs`) } },
      });
      expect(functionOf(step).ReservedConcurrentExecutions).toBeUndefined();
    },
  );

  it('have exactly the variables that their step reads, in a form that it accepts', () => {
    for (const step of stepNames) {
      const variables = stepVariables[step];
      const environment = functionOf(step).Environment.Variables;
      expect(Object.keys(environment).sort()).toEqual([...variables].sort());
      const known = Object.fromEntries(
        Object.entries(environment).map(([name, value]) => [name, typeof value === 'string' ? value : 'a-reference']),
      );
      expect(readFunctionEnvironment(known, variables)).toMatchObject({
        DEPLOYMENT_NAME: 'ReportExporter',
        SERVICE_NAME: 'acme',
      });
    }
  });

  it('time out before their state does, and after their requests', () => {
    const definition = JSON.parse(textOf(machine.DefinitionString));
    for (const step of ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun']) {
      expect(definition.States[step].TimeoutSeconds).toBeGreaterThan(functionOf(step).Timeout);
      expect(functionOf(step).Timeout).toBeLessThanOrEqual(900);
    }
    // Two minutes for the request, 20 s for a Retry-After, and at least half a minute to store the page.
    expect(functionOf('ExportPage').Timeout).toBeGreaterThanOrEqual(120 + 20 + 30);
  });

  it('have ephemeral storage for the largest page', () => {
    expect(functionOf('ExportPage').EphemeralStorage.Size).toBe(512);
    const mebibyte = 1024 * 1024;
    const limits = (maxPageBytes: number) =>
      functionLimits({
        service: { totalTimeout: 60_000, maxPageBytes },
        exports: [{ maxInlineWait: 0, maxRetryAfter: 0, pagesPerInvocation: 1 }],
      });
    expect(limits(mebibyte).ephemeralStorageMebibytes).toBe(512);
    expect(limits(2_000 * mebibyte).ephemeralStorageMebibytes).toBeGreaterThan(2_000);
  });

  it('have the time and the storage for as many slices as a bounded run may have', () => {
    const mebibyte = 1024 * 1024;
    const limits = (pageMebibytes: number, pagesPerInvocation: number) =>
      functionLimits({
        service: { totalTimeout: 60_000, maxPageBytes: pageMebibytes * mebibyte, filterUntil: 'date.lt' },
        exports: [{ maxInlineWait: 0, maxRetryAfter: 0, pagesPerInvocation }],
      });
    expect(limits(100, 1).timeoutSeconds.ExportPage).toBe(900);
    expect(limits(100, 1).ephemeralStorageMebibytes).toBe(16 * 100 + 256);
    expect(limits(100, 2).ephemeralStorageMebibytes).toBe(16 * 2 * 100 + 256);
    // The settings of the export have one slice, for which that is enough.
    expect(limits(1_000, 2).ephemeralStorageMebibytes).toBe(10_240);
  });

  it('have ephemeral storage for the manifest of two million pages with cursors of 4 KB', async () => {
    const completion = { at: at('2026-11-20T03:00:00Z'), isPublished: true };
    const run = { ...aRun({ export: 'x'.repeat(40) }), completion };
    const of = { export: run.export, run: run.run };
    const page = aPageEntry({ ...of, page: 1, key: pageKey(run, { page: 1 }), cursor: null, nextCursor: null });
    const content = { totals: zeroTotals, slices: [{ first: page, last: page }] };
    const [, line = ''] = await collect(manifestChunks(run, content, Readable.from([page])));
    const bytes = 2_000_000 * (line.length + 4_096 + 20);
    expect(functionOf('FinishRun').EphemeralStorage.Size * 1024 * 1024).toBeGreaterThan(bytes);
  });

  it('have limits that suffice for each export of the service', () => {
    const service = { totalTimeout: 60_000, maxPageBytes: 1_000 * 1024 * 1024 };
    const patient = { maxInlineWait: 240_000, maxRetryAfter: 0, pagesPerInvocation: 1 };
    const waiting = { maxInlineWait: 0, maxRetryAfter: 30 * 86_400_000, pagesPerInvocation: 1 };
    const several = { maxInlineWait: 0, maxRetryAfter: 0, pagesPerInvocation: 5 };
    const each = [patient, waiting, several].map((settings) => functionLimits({ service, exports: [settings] }));
    const all = functionLimits({ service, exports: [patient, waiting, several] });
    const most = (limit: (limits: FunctionLimits) => number) => Math.max(...each.map(limit));
    expect(new Set(each.map(({ timeoutSeconds }) => timeoutSeconds.ExportPage)).size).toBe(3);
    expect(all).toEqual({
      timeoutSeconds: {
        ...each[0]?.timeoutSeconds,
        ExportPage: most(({ timeoutSeconds }) => timeoutSeconds.ExportPage),
      },
      ephemeralStorageMebibytes: most(({ ephemeralStorageMebibytes }) => ephemeralStorageMebibytes),
      executionTimeoutSeconds: most(({ executionTimeoutSeconds }) => executionTimeoutSeconds),
    });
  });

  it('have ten more seconds for a page if it may have to wait for a slot', () => {
    const timeout = (maxConcurrentPages?: number) =>
      functionLimits({
        service: { totalTimeout: 60_000, maxPageBytes: 1024, maxConcurrentPages },
        exports: [{ maxInlineWait: 0, maxRetryAfter: 0, pagesPerInvocation: 1 }],
      }).timeoutSeconds.ExportPage;
    expect(timeout(2) - timeout()).toBe(10);
  });
});

describe('the state machine', () => {
  it('invokes the functions', () => {
    const definition = textOf(machine.DefinitionString);
    for (const step of ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun']) {
      expect(definition).toContain(`"FunctionName":"\${${step}Arn}"`);
      const { id } = resource(template, 'AWS::Lambda::Function', `Servicesacme${step}`);
      expect(machine.DefinitionSubstitutions[`${step}Arn`]).toEqual({ 'Fn::GetAtt': [id, 'Arn'] });
    }
  });

  it('is of type STANDARD, logs failures and is traced', () => {
    expect(machine).toMatchObject({
      StateMachineType: 'STANDARD',
      TracingConfiguration: { Enabled: true },
      LoggingConfiguration: { Level: 'ERROR', IncludeExecutionData: true },
    });
  });

  it('has a timeout longer than the longest Retry-After', () => {
    const withLongWaits = deploy({ exports: [{ name: 'a', maxRetryAfter: 'P10D' }] }).template;
    const { DefinitionString } = resource(withLongWaits, 'AWS::StepFunctions::StateMachine').Properties;
    expect(JSON.parse(textOf(DefinitionString)).TimeoutSeconds).toBeGreaterThan(10 * 86_400);
  });
});

describe('the metadata of the state machine', () => {
  /** As `cloudformation:DescribeStackResource` returns it. */
  const metadataOf = (template: Template) => {
    const text = JSON.stringify(resource(template, 'AWS::StepFunctions::StateMachine').Metadata);
    return JSON.parse(text)[serviceMetadataKey] as unknown;
  };

  it('are the settings and the schedules of the exports', () => {
    const exports = [
      { name: 'nightly', filter: { type: 'daily' }, schedule: aSchedule({ flexibleWindow: 'PT15M' }) },
      { name: 'monthly', schedule: aSchedule({ freshness: 'none', enabled: false }) },
      { name: 'manual', size: 5 },
    ];
    const metadata = metadataOf(deploy({ exports }).template);
    expect(readServiceMetadata(metadata)).toEqual({
      settings: expect.objectContaining({
        version: 1,
        service: expect.objectContaining({ baseUrl: 'https://reports.example.com', vendor: 'ACME' }),
        exports: [
          expect.objectContaining({ name: 'nightly', filter: { type: 'daily' }, maxInlineWait: 20_000 }),
          expect.objectContaining({ name: 'monthly' }),
          expect.objectContaining({ name: 'manual', size: 5 }),
        ],
      }),
      schedules: {
        nightly: {
          expression: 'cron(0 4 * * ? *)',
          timeZone: 'Europe/Berlin',
          enabled: true,
          freshnessSeconds: 26 * 3_600,
        },
        monthly: {
          expression: 'cron(0 4 * * ? *)',
          timeZone: 'Europe/Berlin',
          enabled: false,
          freshnessSeconds: null,
        },
      },
    });
  });

  it('are text, because CloudFormation rejects a null and follows a reference, which a filter may contain', () => {
    const filter = { Ref: 'AWS::StackName', state: null, 'Fn::GetAtt': ['a', 'b'] };
    const { template } = deploy({ exports: [{ name: 'nightly', filter }] });
    const metadata = metadataOf(template);
    expect(metadata).toBeTypeOf('string');
    expect(readServiceMetadata(metadata)?.settings.exports).toMatchObject([{ filter }]);
    expect(JSON.stringify(template.toJSON())).not.toMatch(/[^\\]":null/);
  });
});

describe('the schedule', () => {
  const schedule = resource(template, 'AWS::Scheduler::Schedule');

  it('starts the state machine at the given time, with the export and the scheduled time as input', () => {
    expect(schedule.Properties).toMatchObject({
      Name: 'nightly',
      ScheduleExpression: 'cron(0 4 * * ? *)',
      ScheduleExpressionTimezone: 'Europe/Berlin',
      State: 'ENABLED',
      FlexibleTimeWindow: { Mode: 'FLEXIBLE', MaximumWindowInMinutes: 15 },
    });
    expect(JSON.parse(schedule.Properties.Target.Input)).toEqual({
      export: 'nightly',
      scheduledTime: '<aws.scheduler.scheduled-time>',
    });
    expect(schedule.Properties.Target.Arn).toEqual({ Ref: resource(template, 'AWS::StepFunctions::StateMachine').id });
  });

  it('retries for an hour, then sends the event to the dead-letter queue', () => {
    expect(schedule.Properties.Target.RetryPolicy).toEqual({
      MaximumEventAgeInSeconds: 3_600,
      MaximumRetryAttempts: 185,
    });
    const queue = resource(template, 'AWS::SQS::Queue');
    expect(schedule.Properties.Target.DeadLetterConfig.Arn).toEqual({ 'Fn::GetAtt': [queue.id, 'Arn'] });
    expect(queue.Properties).toMatchObject({ SqsManagedSseEnabled: true, MessageRetentionPeriod: 1_209_600 });
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

  it('shares its group, role and dead-letter queue with the other schedules of the service', () => {
    const exports = ['daily', 'hourly', 'weekly'].map((name) => ({ name, schedule: aSchedule() }));
    const { template } = deploy({ exports: [...exports, { name: 'manual' }] });
    const schedules = Object.values(resourcesOf(template, 'AWS::Scheduler::Schedule')).map(
      ({ Properties }) => Properties,
    );
    expect(new Set(schedules.map(({ Name }) => Name))).toEqual(new Set(['daily', 'hourly', 'weekly']));
    const group = resource(template, 'AWS::Scheduler::ScheduleGroup');
    expect(group.DeletionPolicy).toBe('Delete');
    expect(new Set(schedules.map(({ GroupName }) => GroupName))).toEqual(new Set([group.Properties.Name]));
    for (const shared of ['RoleArn', 'DeadLetterConfig', 'Arn']) {
      expect(new Set(schedules.map(({ Target }) => JSON.stringify(Target[shared])))).toHaveLength(1);
    }
    template.resourceCountIs('AWS::SQS::Queue', 1);
  });

  it('can be disabled or absent', () => {
    const off = deploy({ exports: [{ name: 'a', schedule: aSchedule({ enabled: false }) }] }).template;
    expect(resource(off, 'AWS::Scheduler::Schedule').Properties.State).toBe('DISABLED');
    const manual = deploy({ exports: [{ name: 'a' }] }).template;
    manual.resourceCountIs('AWS::Scheduler::Schedule', 0);
    manual.resourceCountIs('AWS::Scheduler::ScheduleGroup', 0);
    manual.resourceCountIs('AWS::SQS::Queue', 0);
    expect(Object.keys(resourcesOf(manual, 'AWS::IAM::Role')).filter((id) => id.includes('Scheduler'))).toEqual([]);
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
    // Each would cost as much as ten writes of DynamoDB, and the event of the run says more.
    expect(bucket.Properties.NotificationConfiguration).toBeUndefined();
    const bucketPolicy = resource(template, 'AWS::S3::BucketPolicy');
    // A retained bucket without its policy would accept overwrites, and connections without TLS.
    expect(bucketPolicy).toMatchObject({ DeletionPolicy: 'RetainExceptOnCreate', UpdateReplacePolicy: 'Retain' });
    const policy = JSON.stringify(bucketPolicy.Properties);
    expect(policy).toContain('"aws:SecureTransport":"false"');
    expect(policy).not.toContain('"Effect":"Allow"');
  });

  it('include a table with on-demand capacity, point-in-time recovery, time to live and deletion protection', () => {
    const table = resource(template, 'AWS::DynamoDB::Table');
    expect(table.DeletionPolicy).toBe('Retain');
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

  it('exist once, however many exports there are', () => {
    const two = deploy({ exports: [{ name: 'daily', schedule: aSchedule() }, { name: 'manual' }] });
    for (const type of [
      'AWS::S3::Bucket',
      'AWS::DynamoDB::Table',
      'AWS::SecretsManager::Secret',
      'AWS::SNS::Topic',
      'AWS::CloudWatch::Dashboard',
    ]) {
      two.template.resourceCountIs(type, 1);
    }
    two.template.resourceCountIs('AWS::StepFunctions::StateMachine', 1);
    two.template.resourceCountIs('AWS::Lambda::Function', 4);
    two.template.resourceCountIs('AWS::Scheduler::Schedule', 1);
    expect(Object.keys(outputsOf(two.template)).sort()).toEqual([
      'AcmeApiKeySecretId',
      'AcmeService',
      'AcmeStartCommand',
      'AlarmTopicArn',
      'BucketName',
      'DashboardName',
      'TableName',
    ]);
  });

  it('are in the outputs: where to store the key, and how to start the first export', () => {
    const outputs = outputsOf(template);
    expect(outputs.AcmeApiKeySecretId).toBe(`<${resource(template, 'AWS::SecretsManager::Secret').id}>`);
    expect(outputs.AcmeStartCommand).toBe(
      `aws stepfunctions start-execution --state-machine-arn <${resource(template, 'AWS::StepFunctions::StateMachine').id}> ` +
        `--input '{"export":"nightly"}'`,
    );
  });

  it('are listed in an output for the service', () => {
    const serviceOutput = (settings: SomeSettings) => {
      const { template } = deploy(settings);
      return {
        template,
        output: serviceOutputSchema.parse(JSON.parse(outputsOf(template)[`Acme${serviceOutputSuffix}`] ?? '')),
      };
    };
    const ref = (template: Template, type: string) => `<${resource(template, type).id}>`;
    const scheduled = serviceOutput({
      bucket: { prefix: 'all/' },
      exports: [{ name: 'daily', schedule: aSchedule() }],
    });
    expect(scheduled.output).toEqual({
      service: 'acme',
      stateMachineArn: ref(scheduled.template, 'AWS::StepFunctions::StateMachine'),
      stateMachineId: resource(scheduled.template, 'AWS::StepFunctions::StateMachine').id,
      exportPageFunction: expect.stringContaining('ServicesacmeExportPage'),
      table: ref(scheduled.template, 'AWS::DynamoDB::Table'),
      bucket: ref(scheduled.template, 'AWS::S3::Bucket'),
      prefix: 'all/acme/',
      apiKeySecret: ref(scheduled.template, 'AWS::SecretsManager::Secret'),
      apiKeyField: '',
      scheduleGroup: resource(scheduled.template, 'AWS::Scheduler::ScheduleGroup').Properties.Name,
    });
    const manual = serviceOutput({
      apiKeySecret: { existing: 'our/key', field: 'a"b' },
      exports: [{ name: 'manual' }],
    });
    expect(manual.output).toMatchObject({ prefix: 'acme/', apiKeySecret: 'our/key', apiKeyField: 'a"b' });
    expect(manual.output.scheduleGroup).toBeUndefined();
  });

  it('keep logs for the configured time', () => {
    const groups = Object.values(resourcesOf(deploy({ logRetentionDays: 14 }).template, 'AWS::Logs::LogGroup'));
    expect(groups).toHaveLength(5);
    for (const { Properties } of groups) expect(Properties.RetentionInDays).toBe(14);
  });
});

describe('existing resources', () => {
  const key = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';

  it('replace the bucket, the topic and the secret', () => {
    const imported = deploy({
      bucket: { existing: 'our-bucket', prefix: 'reports/' },
      alarms: { existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:our-alarms' },
      apiKeySecret: { existing: 'our/key', field: 'apiKey' },
    }).template;
    for (const type of ['AWS::S3::Bucket', 'AWS::SNS::Topic', 'AWS::KMS::Key', 'AWS::SecretsManager::Secret']) {
      imported.resourceCountIs(type, 0);
    }
    expect(
      resource(imported, 'AWS::Lambda::Function', 'ServicesacmeExportPage').Properties.Environment.Variables,
    ).toMatchObject({
      BUCKET_NAME: 'our-bucket',
      KEY_PREFIX: 'reports/acme/',
      BUCKET_KMS_KEY_ARN: '',
      API_KEY_SECRET_ID: 'our/key',
      API_KEY_SECRET_FIELD: 'apiKey',
    });
  });

  it('include a KMS key for everything that is stored', () => {
    const encrypted = deploy({ kmsKeyArn: key }).template;
    expect(JSON.stringify(resource(encrypted, 'AWS::S3::Bucket').Properties.BucketEncryption)).toContain(key);
    expect(resource(encrypted, 'AWS::DynamoDB::Table').Properties.SSESpecification.KMSMasterKeyId).toBe(key);
    expect(resource(encrypted, 'AWS::SecretsManager::Secret').Properties.KmsKeyId).toBe(key);
    expect(bucketKeyOf(encrypted)).toEqual({ ExportPage: key, FinishRun: key });
  });

  const bucketKeyOf = (of: Template) =>
    Object.fromEntries(
      ['ExportPage', 'FinishRun'].map((step) => {
        const { Environment } = resource(of, 'AWS::Lambda::Function', `Servicesacme${step}`).Properties;
        return [step, Environment.Variables.BUCKET_KMS_KEY_ARN as unknown];
      }),
    );

  it('include a KMS key for an existing bucket, which the functions name in every write', () => {
    const imported = deploy({ bucket: { existing: 'our-bucket' }, kmsKeyArn: key }).template;
    expect(bucketKeyOf(imported)).toEqual({ ExportPage: key, FinishRun: key });
  });

  it('include a KMS key each for the bucket and for the secret', () => {
    const [bucketKey, secretKey] = ['6', '7'].map((digit) => key.replace('111', digit.repeat(3)));
    const separate = deploy({
      bucket: { kmsKeyArn: bucketKey },
      apiKeySecret: { kmsKeyArn: secretKey },
    }).template;
    expect(JSON.stringify(resource(separate, 'AWS::S3::Bucket').Properties.BucketEncryption)).toContain(bucketKey);
    expect(bucketKeyOf(separate)).toEqual({ ExportPage: bucketKey, FinishRun: bucketKey });
    expect(resource(separate, 'AWS::SecretsManager::Secret').Properties.KmsKeyId).toBe(secretKey);
    expect(resource(separate, 'AWS::DynamoDB::Table').Properties.SSESpecification).toBeUndefined();
  });
});

describe('cdk-nag', () => {
  // check:templates runs it with other settings, too.
  it('has no finding that is not acknowledged', () => {
    const { app } = deploy();
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
  });

  it('reports findings that are not acknowledged', () => {
    const app = anApp();
    new Bucket(new Stack(app, 'Insecure'), 'Bucket');
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).not.toEqual([]);
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

it('has the resources and outputs that the checks of a first deployment name', () => {
  const page = textOfPage('docs/first-deployment.md');
  const named = [...page.matchAll(/\bresource (AWS::[\w:]+) (\w+)/g)];
  expect(named.length).toBeGreaterThan(2);
  for (const [, type = '', id = ''] of named) expect(resource(template, type, id).id).toContain(id);
  const outputs = [...page.matchAll(/\$\(output (\w+)\)/g), ...page.matchAll(/\$\(output (\w+) \|/g)];
  expect(new Set(outputs.map(([, name]) => name))).toEqual(new Set(['BucketName', 'AcmeService']));
  expect(Object.keys(outputsOf(template))).toEqual(expect.arrayContaining(outputs.map(([, name]) => name)));
});

it('has no circular dependency between resources, which only a deployment would report', () => {
  const dependencies = new Map(Object.keys(resourcesOf(template)).map((id) => [id, dependenciesOf(template, id)]));
  const creatable = new Set<string>();
  for (let before = -1; before < creatable.size;) {
    before = creatable.size;
    for (const [id, others] of dependencies)
      if (others.every((other) => creatable.has(other) || !dependencies.has(other))) creatable.add(id);
  }
  expect([...dependencies.keys()].filter((id) => !creatable.has(id))).toEqual([]);
  expect(stack.services).toHaveLength(1);
});

it('holds 227 scheduled exports, and CDK refuses more', () => {
  const scheduled = (count: number) =>
    deploy({ exports: Array.from({ length: count }, (_, n) => ({ name: `export-${n}`, schedule: aSchedule() })) });
  expect(Object.keys(resourcesOf(scheduled(227).template))).toHaveLength(499);
  expect(() => scheduled(228)).toThrow('501 is greater than allowed maximum of 500');
});
