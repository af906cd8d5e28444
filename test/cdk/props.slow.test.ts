/** What each setting of a stack, and the same prop of a construct, changes in the template. */

import { type Stack, TimeZone, Duration } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { EventBus, Schedule } from 'aws-cdk-lib/aws-events';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { ScheduleExpression } from 'aws-cdk-lib/aws-scheduler';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import type { ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { overwritesStatement } from '../../lib/cdk/stores.ts';
import { latestKey, runFolder } from '../../lib/core/storage/keys.ts';
import {
  aSchedule,
  deploy,
  deployConstruct,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  type SomeSettings,
  someServices,
  statementsOf,
  textOf,
} from '../support/aws/cdk-deployment.ts';
import { aRun } from '../support/builders.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

type Props = Partial<ReportExporterProps>;

interface Effect {
  readonly settings: SomeSettings;
  readonly props: Props | ((stack: Stack) => Props);
  /** Properties of each resource of a type whose logical ID contains a text: `Lambda::Function ExportPage`. */
  readonly has: Readonly<Record<string, object>>;
}

const service = { baseUrl: 'https://reports.example.com' };
const keyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
const otherKeyArn = keyArn.replace('1111', '9999');
const topicArn = 'arn:aws:sns:eu-central-1:123456789012:our-alarms';
const aKey = (stack: Stack, arn: string, id = 'Key'): IKey => Key.fromKeyArn(stack, id, arn);
const aBucket = (stack: Stack, encryptionKey?: IKey) =>
  Bucket.fromBucketAttributes(stack, 'Bucket', { bucketName: 'our-bucket', encryptionKey });

const functionWith = (Variables: object) => ({ Environment: { Variables } });
const encryptedBucket = (key: string) => ({
  'Lambda::Function ExportPage': functionWith({ BUCKET_KMS_KEY_ARN: key }),
  'Lambda::Function FinishRun': functionWith({ BUCKET_KMS_KEY_ARN: key }),
  'S3::Bucket': {
    BucketEncryption: {
      ServerSideEncryptionConfiguration: [
        { ServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: key }, BucketKeyEnabled: true },
      ],
    },
  },
});
const lifecycle = {
  expireAfterDays: 365,
  deleteNoncurrentAfterDays: 7,
  transitions: [
    { storageClass: 'STANDARD_IA', afterDays: 30 },
    { storageClass: 'DEEP_ARCHIVE', afterDays: 90 },
  ],
} as const;

const exportPage = { memoryMebibytes: 1_024, reservedConcurrency: 5 };
const runbookUrl = 'https://wiki.example.com/runbook';
const exports = [{ name: 'nightly', schedule: aSchedule({ flexibleWindow: 'PT15M', enabled: false }) }];

/** Settings that do not exclude each other are together, because each template takes a second. */
const effects: Readonly<Record<string, Effect>> = {
  'limits, logs, alarms, the age of pages and a schedule': {
    settings: {
      stackName: 'Prod',
      service: { ...service, exportPage },
      logLevel: 'ERROR',
      logRetentionDays: 14,
      alarms: { existingTopicArn: topicArn, runbookUrl },
      bucket: { lifecycle },
      exports,
    },
    props: (stack) => ({
      exportPage,
      logLevel: 'ERROR',
      logRetention: 14,
      alarmTopic: Topic.fromTopicArn(stack, 'Topic', topicArn),
      runbookUrl,
      lifecycle,
      prefix: 'acme/',
      exports,
    }),
    has: {
      'Lambda::Function ExportPage': { MemorySize: 1_024, ReservedConcurrentExecutions: 5 },
      // Lambda filters no application log, of which metrics are lines.
      'Lambda::Function': { LoggingConfig: { LogFormat: 'JSON', SystemLogLevel: 'WARN' } },
      'Logs::LogGroup': { RetentionInDays: 14 },
      'CloudWatch::Alarm': {
        AlarmActions: [topicArn],
        AlarmDescription: expect.stringMatching(/https:\/\/wiki\.example\.com\/runbook#\w+$/),
      },
      'S3::Bucket': {
        LifecycleConfiguration: {
          Rules: [
            { Id: 'unfinished-uploads', AbortIncompleteMultipartUpload: { DaysAfterInitiation: 2 } },
            {
              Prefix: 'acme/nightly/date=',
              Status: 'Enabled',
              Transitions: [
                { StorageClass: 'STANDARD_IA', TransitionInDays: 30 },
                { StorageClass: 'DEEP_ARCHIVE', TransitionInDays: 90 },
              ],
              ExpirationInDays: 365,
              NoncurrentVersionExpiration: { NoncurrentDays: 7 },
            },
          ],
        },
      },
      'Scheduler::Schedule': {
        State: 'DISABLED',
        FlexibleTimeWindow: { Mode: 'FLEXIBLE', MaximumWindowInMinutes: 15 },
      },
    },
  },
  'a key for everything that is stored': {
    settings: { kmsKeyArn: keyArn, encryptLogs: true },
    props: (stack) => ({ encryptionKey: aKey(stack, keyArn), encryptLogs: true }),
    has: {
      ...encryptedBucket(keyArn),
      'DynamoDB::Table': { SSESpecification: { SSEEnabled: true, SSEType: 'KMS', KMSMasterKeyId: keyArn } },
      'SecretsManager::Secret': { KmsKeyId: keyArn },
      'SQS::Queue': { KmsMasterKeyId: keyArn },
      'Logs::LogGroup': { KmsKeyId: keyArn },
    },
  },
  'a key each for the bucket and for the secret': {
    settings: { bucket: { kmsKeyArn: keyArn }, apiKeySecret: { kmsKeyArn: otherKeyArn } },
    props: (stack) => ({
      bucketEncryptionKey: aKey(stack, keyArn),
      secretEncryptionKey: aKey(stack, otherKeyArn, 'OtherKey'),
    }),
    has: { ...encryptedBucket(keyArn), 'SecretsManager::Secret': { KmsKeyId: otherKeyArn } },
  },
  'a bucket with its key, its prefix, and a secret with its field': {
    settings: {
      bucket: { existing: 'our-bucket', kmsKeyArn: keyArn, prefix: 'team/' },
      apiKeySecret: { existing: 'our/key', field: 'apiKey' },
    },
    props: (stack) => ({
      bucket: aBucket(stack, aKey(stack, keyArn)),
      prefix: 'team/acme/',
      // Not for a bucket that knows its key.
      encryptionKey: aKey(stack, otherKeyArn, 'OtherKey'),
      encryptLogs: false,
      secret: Secret.fromSecretNameV2(stack, 'Secret', 'our/key'),
      secretField: 'apiKey',
    }),
    has: {
      'Lambda::Function ExportPage': functionWith({
        BUCKET_NAME: 'our-bucket',
        KEY_PREFIX: 'team/acme/',
        BUCKET_KMS_KEY_ARN: keyArn,
        API_KEY_SECRET_ID: 'our/key',
        API_KEY_SECRET_FIELD: 'apiKey',
      }),
      'Lambda::Function FinishRun': functionWith({ KEY_PREFIX: 'team/acme/', BUCKET_KMS_KEY_ARN: keyArn }),
    },
  },
};
const [defaultStack, defaultConstruct] = [deploy().template, deployConstruct().template];

describe.each(Object.entries(effects))('%s', (_, { settings, props, has }) => {
  const propertiesIn = (template: Template, selector: string) => {
    const [type = '', part = ''] = selector.split(' ');
    const found = Object.entries(resourcesOf(template, `AWS::${type}`)).filter(([id]) => id.includes(part));
    return found.map(([, { Properties }]) => Properties as object);
  };
  it.each([
    ['settings', () => deploy(settings).template, defaultStack],
    ['props', () => deployConstruct(props).template, defaultConstruct],
  ])('are %s', (_form, changed, unchanged) => {
    const template = changed();
    for (const [selector, expected] of Object.entries(has)) {
      const properties = propertiesIn(template, selector);
      expect(properties.length).toBeGreaterThan(0);
      for (const each of properties) expect(each).toMatchObject(expected);
      for (const each of propertiesIn(unchanged, selector)) expect(each).not.toMatchObject(expected);
    }
  });
});

describe('a stack and a construct', () => {
  it('have the defaults of the settings', () => {
    const explicit = deploy({
      tracing: true,
      service: { ...service, vendor: 'ACME', exportPage: { memoryMebibytes: 512 } },
      terminationProtection: false,
      env: {},
      bucket: { objectTags: {} },
    });
    expect(explicit.template.toJSON()).toEqual(defaultStack.toJSON());
  });

  it('reserve concurrency for ExportPage alone, and the command doctor reads it', () => {
    const reserved = deploy({ service: { ...service, exportPage: { reservedConcurrency: 5 } } }).template;
    const functions = Object.entries(resourcesOf(reserved, 'AWS::Lambda::Function'));
    expect(functions.filter(([, { Properties }]) => 'ReservedConcurrentExecutions' in Properties)).toHaveLength(1);
    expect(outputsOf(reserved).AcmeService).toContain('"reservedConcurrency":5');
  });

  it('send no traces without tracing, and need no permission for them', () => {
    for (const { app, template } of [deploy({ tracing: false }), deployConstruct({ tracing: false })]) {
      expect(JSON.stringify(template.toJSON())).not.toMatch(/xray:|"Mode":"Active"/);
      const { TracingConfiguration } = resource(template, 'AWS::StepFunctions::StateMachine').Properties;
      expect(TracingConfiguration ?? { Enabled: false }).toEqual({ Enabled: false });
      expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
    }
  });

  it('create nothing that is given', () => {
    const existing = { bucket: { existing: 'our-bucket' }, alarms: { existingTopicArn: topicArn } };
    const { template } = deploy({ ...existing, apiKeySecret: { existing: 'our/key' } });
    for (const type of ['S3::Bucket', 'SNS::Topic', 'KMS::Key', 'SecretsManager::Secret']) {
      expect(resourcesOf(template, `AWS::${type}`)).toEqual({});
    }
  });

  it('have no finding of cdk-nag that is not acknowledged, with all settings together', () => {
    const { app } = deploy({
      bucket: { lifecycle: { expireAfterDays: 30 }, storageClass: 'GLACIER_IR', objectTags: { team: 'a' } },
      service: { ...service, exportPage: { reservedConcurrency: 2 }, readerAccounts: ['210987654321'] },
      tracing: false,
      logLevel: 'ERROR',
      env: { account: '123456789012', region: 'eu-central-1' },
    });
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
  });
});

describe('the lifecycle', () => {
  const rulesOf = (template: Template): { Prefix: string }[] =>
    resource(template, 'AWS::S3::Bucket').Properties.LifecycleConfiguration.Rules.slice(1);

  it('applies to pages and manifests of each export, and never to latest.json', () => {
    const { template } = deployWith(someServices({ bucket: { prefix: 'team/', lifecycle } }));
    const prefixes = rulesOf(template).map(({ Prefix }) => Prefix);
    expect(prefixes).toEqual(['team/eu/eu-nightly/date=', 'team/us/us-nightly/date=']);
    const [prefix = ''] = prefixes;
    expect(`team/eu/${runFolder(aRun({ export: 'eu-nightly' }))}/manifest.json`.startsWith(prefix)).toBe(true);
    expect(`team/eu/${latestKey('eu-nightly')}`.startsWith(prefix)).toBe(false);
  });

  it('may only move objects, and by default keeps what has expired for 30 days', () => {
    const moving = { transitions: [{ storageClass: 'GLACIER_IR', afterDays: 1 }] };
    const [moved] = rulesOf(deploy({ bucket: { lifecycle: moving } }).template);
    expect(Object.keys(moved ?? {}).sort()).toEqual(['Prefix', 'Status', 'Transitions']);
    const [kept] = rulesOf(deploy({ bucket: { lifecycle: { expireAfterDays: 7 } } }).template);
    expect(kept).toMatchObject({ NoncurrentVersionExpiration: { NoncurrentDays: 30 } });
  });
});

const warningsOf = (stack: Stack): string[] =>
  Annotations.fromStack(stack)
    .findWarning('*', Match.anyValue())
    .map(({ entry }) => entry.data as string);

describe('a bucket of the app', () => {
  it('that nothing protects is reported with the statement in the docs', () => {
    const { stack } = deployConstruct((scope) => ({ bucket: aBucket(scope), prefix: 'acme/' }));
    const [, json = ''] = /to its policy: (\{.*\})\. Also/.exec(warningsOf(stack).join()) ?? [];
    const documented = exampleIn('docs/bucket.md', 'deny-overwrites.json');
    const { Resource, ...statement } = JSON.parse(json);
    expect({ ...statement, Resource: [Resource] }).toEqual(
      JSON.parse(documented.replace('<bucket>/<bucket.prefix><service>/', 'our-bucket/acme/')),
    );
  });

  it('that denies overwriting is not reported, nor is one that is created here', () => {
    const { stack } = deployConstruct((scope) => {
      const bucket = new Bucket(scope, 'Bucket');
      bucket.addToResourcePolicy(overwritesStatement(bucket.arnForObjects('*')));
      return { bucket };
    });
    expect([...warningsOf(stack), ...warningsOf(deployConstruct().stack)]).toEqual([]);
  });
});

describe('a key of the app', () => {
  const areLogsEncrypted = (template: Template) =>
    Object.values(resourcesOf(template, 'AWS::Logs::LogGroup')).map(({ Properties }) => 'KmsKeyId' in Properties);

  it('encrypts the log groups, which CloudWatch Logs may use it for', () => {
    const { stack, template } = deployConstruct((scope) => ({ encryptionKey: new Key(scope, 'Key') }));
    expect(new Set(areLogsEncrypted(template))).toEqual(new Set([true]));
    const { Statement } = resource(template, 'AWS::KMS::Key').Properties.KeyPolicy;
    const documented = exampleIn('docs/security.md', 'encrypt-logs.json');
    expect(Statement).toContainEqual(
      expect.objectContaining({
        Sid: 'EncryptLogs',
        Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': expect.anything() } },
        Action: JSON.parse(documented).Action,
      }),
    );
    expect(warningsOf(stack)).toEqual([]);
  });

  it.each([
    [undefined, false, [expect.stringContaining('[ack: report-exporter:log-encryption]')]],
    [true, true, []],
    [false, false, []],
  ])('that is imported encrypts logs with encryptLogs %s: %s', (encryptLogs, isEncrypted, warnings) => {
    const { stack, template } = deployConstruct((scope) => ({ encryptionKey: aKey(scope, keyArn), encryptLogs }));
    expect(new Set(areLogsEncrypted(template))).toEqual(new Set([isEncrypted]));
    expect(warningsOf(stack)).toEqual(warnings);
  });
});

it('an event bus of the app receives the events, and has the rules', () => {
  const { stack, reports } = deployConstruct((scope) => ({ eventBus: new EventBus(scope, 'Bus') }));
  reports.onCompleted('Next', { target: new SfnStateMachine(reports.stateMachine) });
  const template = Template.fromStack(stack);
  const { id } = resource(template, 'AWS::Events::EventBus');
  const arn = { 'Fn::GetAtt': [id, 'Arn'] };
  expect(resource(template, 'AWS::Events::Rule').Properties.EventBusName).toEqual({ Ref: id });
  const { Properties } = resource(template, 'AWS::StepFunctions::StateMachine');
  expect(Properties.DefinitionSubstitutions).toMatchObject({ EventBusArn: arn });
  expect(textOf(Properties.DefinitionString)).toMatch(/"EventBusName":"\$\{EventBusArn\}"/);
  expect(statementsOf(template, 'ReportsStateMachineRole')).toContainEqual(
    expect.objectContaining({ Action: 'events:PutEvents', Resource: arn }),
  );
});

describe("values of CDK's own types", () => {
  const plain = {
    service: { ...service, totalTimeout: 'PT2M' },
    exports: [
      {
        name: 'nightly',
        since: { overlap: 'PT15M' },
        schedule: { expression: 'cron(0 2 * * ? *)', timeZone: 'Europe/Berlin', freshness: 'P1DT2H' },
      },
      { name: 'hourly', schedule: { expression: 'rate(1 hour)' } },
    ],
  };
  const schedule = {
    expression: ScheduleExpression.cron({ hour: '2', minute: '0', timeZone: TimeZone.EUROPE_BERLIN }),
    freshness: Duration.hours(26),
  };
  const own = {
    service: { ...service, totalTimeout: Duration.minutes(2) },
    exports: [
      { name: 'nightly', since: { overlap: Duration.minutes(15) }, schedule },
      { name: 'hourly', schedule: { expression: Schedule.rate(Duration.hours(1)) } },
    ],
  };

  it('are what the same text is, for the construct and for the stack', () => {
    const [expected, actual] = [plain, own].map((props) => deployConstruct(props).template.toJSON());
    expect(actual).toEqual(expected);
    const [file, withValues] = [plain, own].map((each) =>
      deploymentSettings({ services: { acme: each.service }, exports: each.exports }),
    );
    expect(withValues).toEqual(file);
  });

  it('leave a time zone that is set beside them', () => {
    const exports = [{ name: 'nightly', schedule: { ...schedule, timeZone: 'Asia/Tokyo' } }];
    expect(resource(deployConstruct({ exports }).template, 'AWS::Scheduler::Schedule').Properties).toMatchObject({
      ScheduleExpression: 'cron(0 2 * * ? *)',
      ScheduleExpressionTimezone: 'Asia/Tokyo',
    });
  });
});
