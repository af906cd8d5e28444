import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AttributeType, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { functionLimits } from '../../lib/cdk/function-limits.ts';
import { ReportExport } from '../../lib/cdk/report-export.ts';
import { stateMachineTemplate } from '../../lib/cdk/state-machine.ts';
import { readFunctionEnvironment, stepVariables } from '../../lib/core/settings/environment.ts';
import { exportOutputSchema, exportOutputSuffix } from '../../lib/core/settings/stack-output.ts';
import { stepNames } from '../../lib/core/state-machine/definition.ts';
import { anApp, aSchedule, deploy, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';

/** Text with references in it, in a template. */
interface JoinOfReferences {
  readonly 'Fn::Join': readonly ['', readonly (string | { readonly Ref: string })[]];
}

const deployment = deploy({
  service: { baseUrl: 'https://reports.example.com', vendor: 'ACME', totalTimeout: 'PT2M' },
  exports: [{ name: 'nightly', filter: { type: 'daily' }, schedule: aSchedule({ flexibleWindow: 'PT15M' }) }],
});
const { template, stack } = deployment;
const functionOf = (step: string) => resource(template, 'AWS::Lambda::Function', `Exportsnightly${step}`).Properties;
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
      const read = readFunctionEnvironment(known, variables);
      expect(read.EXPORT_SETTINGS).toMatchObject({ name: 'nightly', filter: { type: 'daily' } });
      expect(read.SERVICE_SETTINGS).toMatchObject({ vendor: 'ACME', totalTimeout: 120_000 });
    }
  });

  it('time out before their state does, and after their requests', () => {
    const definition = JSON.parse(machine.DefinitionString);
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
        settings: { maxInlineWait: 0, maxRetryAfter: 0, pagesPerInvocation: 1 },
      });
    expect(limits(mebibyte).ephemeralStorageMebibytes).toBe(512);
    expect(limits(2_000 * mebibyte).ephemeralStorageMebibytes).toBeGreaterThan(2_000);
  });
});

describe('the state machine', () => {
  it('is the definition of lib/core with a placeholder for each function', () => {
    const limits = functionLimits({
      service: { totalTimeout: 120_000, maxPageBytes: 256 * 1024 * 1024 },
      settings: { maxInlineWait: 20_000, maxRetryAfter: 21_600_000, pagesPerInvocation: 1 },
    });
    const expected = stateMachineTemplate({ exportName: 'nightly', limits });
    expect(JSON.parse(machine.DefinitionString)).toEqual(JSON.parse(JSON.stringify(expected)));
    for (const step of ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun']) {
      expect(machine.DefinitionString).toContain(`"FunctionName":"\${${step}Arn}"`);
      const { id } = resource(template, 'AWS::Lambda::Function', `Exportsnightly${step}`);
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
    expect(JSON.parse(DefinitionString).TimeoutSeconds).toBeGreaterThan(10 * 86_400);
  });
});

describe('the schedule', () => {
  const schedule = resource(template, 'AWS::Scheduler::Schedule');

  it('starts the state machine at the given time, with the scheduled time as input', () => {
    expect(schedule.Properties).toMatchObject({
      ScheduleExpression: 'cron(0 2 * * ? *)',
      ScheduleExpressionTimezone: 'Europe/Berlin',
      State: 'ENABLED',
      FlexibleTimeWindow: { Mode: 'FLEXIBLE', MaximumWindowInMinutes: 15 },
    });
    expect(JSON.parse(schedule.Properties.Target.Input)).toEqual({ scheduledTime: '<aws.scheduler.scheduled-time>' });
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

  it('depends on the separate policies of the state machine and of BeginRun', () => {
    expect(schedule.DependsOn).toEqual([
      expect.stringContaining('DescribeExecutionPolicy'),
      expect.stringContaining('StartExecutionPolicy'),
    ]);
  });

  it('can be disabled or absent', () => {
    const off = deploy({ exports: [{ name: 'a', schedule: aSchedule({ enabled: false }) }] }).template;
    expect(resource(off, 'AWS::Scheduler::Schedule').Properties.State).toBe('DISABLED');
    const manual = deploy({ exports: [{ name: 'a' }] }).template;
    manual.resourceCountIs('AWS::Scheduler::Schedule', 0);
    manual.resourceCountIs('AWS::SQS::Queue', 0);
  });
});

describe('the shared resources', () => {
  it('include a bucket that is encrypted, versioned, private and retained, and sends object events to EventBridge', () => {
    const bucket = resource(template, 'AWS::S3::Bucket');
    expect(bucket.DeletionPolicy).toBe('Retain');
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
      NotificationConfiguration: { EventBridgeConfiguration: { EventBridgeEnabled: true } },
    });
    const policy = JSON.stringify(resource(template, 'AWS::S3::BucketPolicy').Properties);
    expect(policy).toContain('"aws:SecureTransport":"false"');
    expect(policy).not.toContain('"Effect":"Allow"');
    // CDK adds no custom-resource function.
    expect(Object.keys(resourcesOf(template, 'AWS::Lambda::Function'))).toHaveLength(4);
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
    const { Properties, DeletionPolicy } = resource(template, 'AWS::SecretsManager::Secret');
    expect(DeletionPolicy).toBe('Retain');
    expect(Object.keys(Properties)).toEqual(['Description']);
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
    two.template.resourceCountIs('AWS::StepFunctions::StateMachine', 2);
    two.template.resourceCountIs('AWS::Scheduler::Schedule', 1);
    expect(Object.keys((two.template.toJSON() as { Outputs: object }).Outputs)).toEqual(
      expect.arrayContaining([
        'DailyStateMachineArn',
        'ManualStateMachineArn',
        'ManualStartCommand',
        'BucketName',
        'ApiKeySecretId',
      ]),
    );
  });

  it('are listed in an output for each export', () => {
    const { template } = deploy({ exports: [{ name: 'daily', schedule: aSchedule() }, { name: 'manual' }] });
    const exportOutput = (name: string) => {
      const outputs = (template.toJSON() as { Outputs: Record<string, { Value: JoinOfReferences }> }).Outputs;
      const parts = outputs[`${name}${exportOutputSuffix}`]?.Value['Fn::Join'][1] ?? [];
      return exportOutputSchema.parse(
        JSON.parse(parts.map((part) => (typeof part === 'string' ? part : part.Ref)).join('')),
      );
    };
    expect(exportOutput('Daily')).toEqual({
      export: 'daily',
      stateMachineArn: resource(template, 'AWS::StepFunctions::StateMachine', 'Exportsdaily').id,
      exportPageFunction: resource(template, 'AWS::Lambda::Function', 'ExportsdailyExportPage').id,
      schedule: resource(template, 'AWS::Scheduler::Schedule', 'Exportsdaily').id,
    });
    expect(exportOutput('Manual')).toEqual({
      export: 'manual',
      stateMachineArn: resource(template, 'AWS::StepFunctions::StateMachine', 'Exportsmanual').id,
      exportPageFunction: resource(template, 'AWS::Lambda::Function', 'ExportsmanualExportPage').id,
    });
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
      resource(imported, 'AWS::Lambda::Function', 'ExportsnightlyExportPage').Properties.Environment.Variables,
    ).toMatchObject({
      BUCKET_NAME: 'our-bucket',
      KEY_PREFIX: 'reports/',
      API_KEY_SECRET_ID: 'our/key',
      API_KEY_SECRET_FIELD: 'apiKey',
    });
  });

  it('include a KMS key for everything that is stored', () => {
    const encrypted = deploy({ kmsKeyArn: key }).template;
    expect(JSON.stringify(resource(encrypted, 'AWS::S3::Bucket').Properties.BucketEncryption)).toContain(key);
    expect(resource(encrypted, 'AWS::DynamoDB::Table').Properties.SSESpecification.KMSMasterKeyId).toBe(key);
    expect(resource(encrypted, 'AWS::SecretsManager::Secret').Properties.KmsKeyId).toBe(key);
  });
});

describe('cdk-nag', () => {
  it.each([
    ['with defaults', {}],
    [
      'with existing resources',
      {
        bucket: { existing: 'our-bucket' },
        kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555',
        alarms: { existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:our-alarms' },
        apiKeySecret: { existing: 'our/key' },
        exports: [{ name: 'one', schedule: aSchedule() }, { name: 'two' }],
      },
    ],
  ])('has no finding that is not acknowledged, %s', (_, overrides) => {
    const { app } = deploy(overrides);
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
  });

  it('reports findings that are not acknowledged', () => {
    const app = anApp();
    new Bucket(new Stack(app, 'Insecure'), 'Bucket');
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).not.toEqual([]);
  });
});

describe('a ReportExport in another stack', () => {
  const anotherStack = () => {
    const another = new Stack(anApp(), 'Another');
    return {
      another,
      stores: {
        bucket: new Bucket(another, 'Bucket'),
        // TableV2 works as well.
        table: new TableV2(another, 'Table', {
          partitionKey: { name: 'pk', type: AttributeType.STRING },
          sortKey: { name: 'sk', type: AttributeType.STRING },
        }),
        secret: new Secret(another, 'Secret'),
      } as Pick<ConstructorParameters<typeof ReportExport>[2], 'bucket' | 'table' | 'secret'>,
    };
  };
  const service = { baseUrl: 'https://reports.example.com' };

  it('needs the settings, the bucket, the table and the secret', () => {
    const { another, stores } = anotherStack();
    const nightly = new ReportExport(another, 'Nightly', { service, settings: { name: 'nightly' }, ...stores });
    expect(nightly.schedule).toBeUndefined();
    expect(nightly.stateMachine.metricFailed({ period: Duration.hours(1) }).metricName).toBe('ExecutionsFailed');
    Template.fromStack(another).resourceCountIs('AWS::StepFunctions::StateMachine', 1);
  });

  it('rejects invalid settings, with all problems', () => {
    const { another, stores } = anotherStack();
    const invalid = { name: 'a b', size: 11 };
    expect(() => new ReportExport(another, 'Invalid', { service, settings: invalid, ...stores })).toThrow(
      /settings name: .*settings size: /,
    );
    const settings = { name: 'slow' };
    expect(
      () => new ReportExport(another, 'Slow', { service: { ...service, totalTimeout: 'PT15M' }, settings, ...stores }),
    ).toThrow(/Export slow: one page may take/);
  });
});

it('has no circular dependency between resources, which only a deployment would report', () => {
  const dependencies = new Map<string, Set<string>>();
  for (const [id, { DependsOn = [], Properties }] of Object.entries(resourcesOf(template))) {
    const text = JSON.stringify(Properties);
    const references = [...text.matchAll(/"Ref":"(\w+)"|"Fn::GetAtt":\["(\w+)"/g)].map(
      ([, ref, attributeOf]) => ref ?? attributeOf ?? '',
    );
    dependencies.set(id, new Set([...references, ...[DependsOn].flat()]));
  }
  const creatable = new Set<string>();
  for (let before = -1; before < creatable.size;) {
    before = creatable.size;
    for (const [id, others] of dependencies)
      if ([...others].every((other) => creatable.has(other) || !dependencies.has(other))) creatable.add(id);
  }
  expect([...dependencies.keys()].filter((id) => !creatable.has(id))).toEqual([]);
  expect(stack.exports).toHaveLength(1);
});
