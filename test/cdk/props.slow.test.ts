/** What each setting of a stack, and the same prop of a construct, changes in the template. */

import { isDeepStrictEqual } from 'node:util';
import type { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import type { ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { retentionDays } from '../../lib/settings/deployment-settings.ts';
import { environmentVariable } from '../../lib/settings/deployed-settings.ts';
import { deploy, deployConstruct, resource, resourcesOf, textOf } from '../support/aws/cdk-deployment.ts';
import { aSchedule, type SomeSettings } from '../support/settings.ts';
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

/** The names of the stores in a function's environment. */
const functionWith = (names: object) => ({
  Environment: {
    Variables: {
      [environmentVariable]: expect.toSatisfy((text) => isMatch(JSON.parse(textOf(text)), names)) as unknown,
    },
  },
});
const isMatch = (value: object, part: object) => isDeepStrictEqual({ ...value, ...part }, value);
const encryptedBucket = (key: string) => ({
  'Lambda::Function': functionWith({ bucketKeyArn: key }),
  'S3::Bucket': {
    BucketEncryption: {
      ServerSideEncryptionConfiguration: [
        { ServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: key }, BucketKeyEnabled: true },
      ],
    },
  },
});

const runbookUrl = 'https://wiki.example.com/runbook';
const exports = [{ name: 'nightly', schedule: aSchedule({ enabled: false }) }];

/** Settings that do not exclude each other are together, because each template takes a second. */
const effects: Readonly<Record<string, Effect>> = {
  'memory, logs, alarms and a schedule': {
    settings: {
      stackName: 'Prod',
      service: { ...service, memoryMebibytes: 1_024 },
      logRetentionDays: 14,
      alarms: { existingTopicArn: topicArn, runbookUrl },
      exports,
    },
    props: (stack) => ({
      service: { ...service, memoryMebibytes: 1_024 },
      logRetention: 14,
      alarmTopic: Topic.fromTopicArn(stack, 'Topic', topicArn),
      runbookUrl,
      exports,
    }),
    has: {
      'Lambda::Function ExportPage': { MemorySize: 1_024 },
      'Logs::LogGroup': { RetentionInDays: 14 },
      'CloudWatch::Alarm': {
        AlarmActions: [topicArn],
        AlarmDescription: expect.stringMatching(/https:\/\/wiki\.example\.com\/runbook#\w+$/),
      },
      'Scheduler::Schedule': { State: 'DISABLED' },
    },
  },
  'a key for everything that is stored': {
    settings: { kmsKeyArn: keyArn },
    props: (stack) => ({ encryptionKey: aKey(stack, keyArn) }),
    has: {
      ...encryptedBucket(keyArn),
      'DynamoDB::Table': { SSESpecification: { SSEEnabled: true, SSEType: 'KMS', KMSMasterKeyId: keyArn } },
      'SecretsManager::Secret': { KmsKeyId: keyArn },
      'SQS::Queue': { KmsMasterKeyId: keyArn },
    },
  },
  'a bucket with its key, its prefix, and a secret': {
    settings: {
      bucket: { existing: 'our-bucket', kmsKeyArn: keyArn, prefix: 'team/' },
      apiKeySecret: { existing: 'our/key' },
    },
    props: (stack) => ({
      bucket: aBucket(stack, aKey(stack, keyArn)),
      prefix: 'team/acme/',
      // Not for a bucket that knows its key.
      encryptionKey: aKey(stack, otherKeyArn, 'OtherKey'),
      service: { ...service, apiKeySecret: { existing: 'our/key' } },
    }),
    has: {
      'Lambda::Function': functionWith({
        bucket: 'our-bucket',
        prefix: 'team/acme/',
        bucketKeyArn: keyArn,
        apiKeySecret: 'our/key',
      }),
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

it('logs may be kept as long as CDK accepts', () => {
  const ofCdk = Object.values(RetentionDays).filter((value) => typeof value === 'number');
  expect(new Set<number>(retentionDays)).toEqual(new Set(ofCdk));
});

describe('a stack and a construct', () => {
  it('create nothing that is given', () => {
    const existing = { bucket: { existing: 'our-bucket' }, alarms: { existingTopicArn: topicArn } };
    const { template } = deploy({ ...existing, apiKeySecret: { existing: 'our/key' } });
    for (const type of ['S3::Bucket', 'SNS::Topic', 'KMS::Key', 'SecretsManager::Secret']) {
      expect(resourcesOf(template, `AWS::${type}`)).toEqual({});
    }
  });
});

describe('a key of the app', () => {
  const areLogsEncrypted = (template: Template) =>
    Object.values(resourcesOf(template, 'AWS::Logs::LogGroup')).map(({ Properties }) => 'KmsKeyId' in Properties);

  it('encrypts the log groups, which CloudWatch Logs may use it for', () => {
    const { template } = deployConstruct((scope) => ({ encryptionKey: new Key(scope, 'Key') }));
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
  });

  it('that is imported does not: its policy cannot be changed', () => {
    const { template } = deployConstruct((scope) => ({ encryptionKey: aKey(scope, keyArn) }));
    expect(new Set(areLogsEncrypted(template))).toEqual(new Set([false]));
  });
});
