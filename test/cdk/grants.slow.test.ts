/** What other constructs of an app may do with a service: read what was exported, start exports, read metrics. */

import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Alarm } from 'aws-cdk-lib/aws-cloudwatch';
import { AccountPrincipal, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { type MetricName, metricUnits } from '../../lib/core/metrics.ts';
import { anApp, resource, someServices, textOf } from '../support/aws/cdk-deployment.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
  readonly Principal?: unknown;
}

const keyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
const aRole = (stack: Stack) => new Role(stack, 'Reader', { assumedBy: new ServicePrincipal('glue.amazonaws.com') });

/** A construct in another stack, with a bucket that has a known name. */
function aService(props: Partial<ReportExporterProps> = {}) {
  const stack = new Stack(anApp(), 'Another');
  const reports = new ReportExporter(stack, 'Reports', {
    service: { baseUrl: 'https://reports.example.com' },
    exports: [{ name: 'nightly' }, { name: 'nightly-2' }],
    bucket: Bucket.fromBucketName(stack, 'Bucket', 'our-bucket'),
    prefix: 'team/',
    ...props,
  });
  return { stack, reports };
}

/** The statements of the role of `aRole`, as in the page: one action is a string, and the partition is `aws`. */
const statementsOf = (stack: Stack) => readerStatements(Template.fromStack(stack));

function readerStatements(template: Template): Statement[] {
  const { PolicyDocument } = resource(template, 'AWS::IAM::Policy', 'Reader').Properties;
  return (PolicyDocument.Statement as Statement[]).map((statement) => ({
    ...statement,
    Resource: textOf(statement.Resource).replace('<AWS::Partition>', 'aws'),
  }));
}

describe('grantRead', () => {
  const documented = (prefix: string) =>
    JSON.parse(
      exampleIn('docs/consumers.md', 'reader-policy.json')
        .replaceAll('<bucket>', 'our-bucket')
        .replaceAll('<prefix><export>/', prefix),
    ).Statement;

  it('grants the reader policy of the consumer guide for one export', () => {
    const { stack, reports } = aService();
    expect(reports.grantRead(aRole(stack), 'nightly').success).toBe(true);
    expect(statementsOf(stack)).toEqual(documented('team/nightly/'));
  });

  it('grants the same for all exports of the service', () => {
    const { stack, reports } = aService();
    reports.grantRead(aRole(stack));
    expect(statementsOf(stack)).toEqual(documented('team/'));
  });

  it('grants the whole bucket if the service has no prefix', () => {
    const { stack, reports } = aService({ prefix: '' });
    reports.grantRead(aRole(stack));
    expect(statementsOf(stack)).toEqual([
      { Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::our-bucket/*' },
      { Effect: 'Allow', Action: 's3:ListBucket', Resource: 'arn:aws:s3:::our-bucket' },
    ]);
  });

  it('includes the key, if there is one, through S3 only', () => {
    const encrypted = aService();
    const key = Key.fromKeyArn(encrypted.stack, 'Key', keyArn);
    const given = new ReportExporter(encrypted.stack, 'Encrypted', {
      service: { baseUrl: 'https://reports.example.com' },
      exports: [{ name: 'daily' }],
      bucket: Bucket.fromBucketName(encrypted.stack, 'Other', 'other-bucket'),
      encryptionKey: key,
    });
    given.grantRead(aRole(encrypted.stack));
    const decrypt = { Effect: 'Allow', Action: 'kms:Decrypt', Resource: keyArn };
    const throughS3 = { StringEquals: { 'kms:ViaService': expect.anything() } };
    expect(statementsOf(encrypted.stack)).toContainEqual({ ...decrypt, Condition: throughS3 });

    // The bucket's own key, if it knows it.
    const bucket = Bucket.fromBucketAttributes(new Stack(), 'Bucket', { bucketName: 'our-bucket', encryptionKey: key });
    const withKey = aService({ bucket });
    withKey.reports.grantRead(aRole(withKey.stack), 'nightly');
    expect(statementsOf(withKey.stack)).toEqual([...documented('team/nightly/'), { ...decrypt, Condition: throughS3 }]);
  });

  it('adds the statements to the bucket policy for another account', () => {
    const stack = new Stack(anApp(), 'Another', { env: { account: '123456789012', region: 'eu-central-1' } });
    const reports = new ReportExporter(stack, 'Reports', {
      service: { baseUrl: 'https://reports.example.com' },
      exports: [{ name: 'nightly' }],
    });
    reports.grantRead(new AccountPrincipal('210987654321'), 'nightly');
    const template = Template.fromStack(stack);
    const bucket = `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;
    const { Statement } = resource(template, 'AWS::S3::BucketPolicy').Properties.PolicyDocument;
    const allowed = (Statement as Statement[]).filter(({ Effect }) => Effect === 'Allow');
    expect(allowed.map(({ Action, Resource, Condition }) => [Action, textOf(Resource), Condition])).toEqual([
      ['s3:GetObject', `${bucket}/nightly/*`, undefined],
      ['s3:ListBucket', bucket, { StringLike: { 's3:prefix': 'nightly/*' } }],
    ]);
    for (const { Principal } of allowed) expect(JSON.stringify(Principal)).toContain(':iam::210987654321:root');
  });

  it('rejects an export that the service does not have', () => {
    const { stack, reports } = aService();
    expect(() => reports.grantRead(aRole(stack), 'night')).toThrow(
      'Another/Reports has no export "night". Its exports: nightly, nightly-2',
    );
  });

  it('is limited to one service of a stack', () => {
    const settings = someServices({ bucket: { prefix: 'team/' } });
    const stack = new ReportExporterStack(anApp(), 'ReportExporter', { settings });
    stack.services[0]?.grantRead(aRole(stack), 'eu-nightly');
    const template = Template.fromStack(stack);
    const bucket = `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;
    expect(readerStatements(template).map(({ Resource }) => Resource)).toEqual([
      `${bucket}/team/eu/eu-nightly/*`,
      bucket,
    ]);
  });
});

describe('grantStart', () => {
  it('grants to start executions of the state machine, and nothing else', () => {
    const { stack, reports } = aService();
    expect(reports.grantStart(aRole(stack)).success).toBe(true);
    const template = Template.fromStack(stack);
    const machine = resource(template, 'AWS::StepFunctions::StateMachine').id;
    expect(readerStatements(template)).toEqual([
      { Effect: 'Allow', Action: 'states:StartExecution', Resource: `<${machine}>` },
    ]);
  });
});

describe('metric', () => {
  const aServiceWith = (...names: readonly string[]) => aService({ exports: names.map((name) => ({ name })) }).reports;
  const two = aServiceWith('nightly', 'weekly');
  const ofService = { deployment: 'Another', service: 'reports' };

  it('is that of an export, or of the service', () => {
    expect(two.metric('RunsFailed', 'weekly')).toMatchObject({
      namespace: 'ReportExporter',
      metricName: 'RunsFailed',
      statistic: 'Sum',
      dimensions: { deployment: 'Another', export: 'weekly' },
    });
    expect(two.metric('StartsRejected').dimensions).toEqual(ofService);
    expect(two.metric('WaitSeconds').dimensions).toEqual(ofService);
    expect(two.metric('WaitSeconds', 'nightly').dimensions).toEqual({ deployment: 'Another', export: 'nightly' });
  });

  it('is that of the only export, where none is named', () => {
    const one = aServiceWith('nightly');
    for (const name of Object.keys(metricUnits) as MetricName[]) {
      const isOfService = name === 'StartsRejected' || name === 'WaitSeconds';
      const expected = isOfService ? ofService : { deployment: 'Another', export: 'nightly' };
      expect(one.metric(name).dimensions).toEqual(expected);
    }
  });

  it('is rejected if it is not published', () => {
    expect(() => two.metric('PagesExported')).toThrow(
      'Another/Reports has no metric PagesExported of all exports: pass the name of an export. Its exports: nightly, weekly',
    );
    expect(() => two.metric('PagesExported', 'monthly')).toThrow('Another/Reports has no export "monthly"');
    expect(() => two.metric('StartsRejected', 'nightly')).toThrow(
      'Another/Reports has no metric StartsRejected of an export: leave out the name of the export',
    );
  });

  it('makes an alarm, with other properties', () => {
    const { stack, reports } = aService();
    expect(reports.metric('ServiceLatency', 'nightly').statistic).toBe('Average');
    const metric = reports.metric('ServiceLatency', 'nightly', { statistic: 'p90', period: Duration.hours(1) });
    new Alarm(stack, 'Slow', { metric, threshold: 5_000, evaluationPeriods: 2 });
    expect(resource(Template.fromStack(stack), 'AWS::CloudWatch::Alarm', 'Slow').Properties).toMatchObject({
      MetricName: 'ServiceLatency',
      ExtendedStatistic: 'p90',
      Period: 3_600,
    });
  });
});
