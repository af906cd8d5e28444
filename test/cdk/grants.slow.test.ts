/** Grants: constructs of the app and other accounts read what was exported, start exports, read metrics. */

import { type Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AccountPrincipal, type IGrantable, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { describe, expect, it } from 'vitest';
import type { ReportExporter, ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { type MetricName, metricUnits } from '../../lib/core/metrics.ts';
import { deployConstruct, resource, resourcesOf, type Statement, textOf } from '../support/aws/cdk-deployment.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

const keyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
const account = '210987654321';

/** The statements in the consumer guide for the keys that begin with `prefix`. */
const documented = (bucketArn: string, prefix: string): Statement[] =>
  JSON.parse(
    exampleIn('docs/consumers.md', 'reader-policy.json')
      .replaceAll('arn:aws:s3:::<bucket>', bucketArn)
      .replaceAll('<prefix><export>/', prefix),
  ).Statement;

const text = (value: unknown) => textOf(value).replace('<AWS::Partition>', 'aws');
const throughS3 = (condition: unknown) =>
  textOf((condition as { StringEquals: Record<string, unknown> }).StringEquals['kms:ViaService']);

describe('what a construct of the app is granted', () => {
  /** A construct whose bucket has a known name, and the statements of a role after `grant`. */
  function statementsAfter(
    grant: (reports: ReportExporter, reader: IGrantable) => unknown,
    props: (stack: Stack) => Partial<ReportExporterProps> = () => ({}),
  ): Statement[] {
    const { stack, reports } = deployConstruct((scope) => ({
      exports: [{ name: 'nightly' }, { name: 'nightly-2' }],
      bucket: Bucket.fromBucketName(scope, 'Bucket', 'our-bucket'),
      prefix: 'team/',
      ...props(scope),
    }));
    grant(reports, new Role(stack, 'Reader', { assumedBy: new ServicePrincipal('glue.amazonaws.com') }));
    const policies = resourcesOf(Template.fromStack(stack), 'AWS::IAM::Policy');
    const [, policy] = Object.entries(policies).find(([id]) => id.startsWith('Reader')) ?? [];
    const statements: Statement[] = policy?.Properties.PolicyDocument.Statement ?? [];
    return statements.map((statement) => ({ ...statement, Resource: text(statement.Resource) }));
  }
  const bucketArn = 'arn:aws:s3:::our-bucket';

  it('to read one export is the reader policy of the consumer guide', () => {
    const statements = statementsAfter((reports, reader) => reports.grantRead(reader, 'nightly'));
    expect(statements).toEqual(documented(bucketArn, 'team/nightly/'));
  });

  it('to read all exports is the same for the prefix of the service, or for the whole bucket without a prefix', () => {
    const readAll = (reports: ReportExporter, reader: IGrantable) => reports.grantRead(reader);
    expect(statementsAfter(readAll)).toEqual(documented(bucketArn, 'team/'));
    expect(statementsAfter(readAll, () => ({ prefix: '' }))).toEqual([
      { Effect: 'Allow', Action: 's3:GetObject', Resource: `${bucketArn}/*` },
      { Effect: 'Allow', Action: 's3:ListBucket', Resource: bucketArn },
    ]);
  });

  it.each<[string, (stack: Stack) => Partial<ReportExporterProps>]>([
    ['the app', (stack) => ({ encryptionKey: Key.fromKeyArn(stack, 'Key', keyArn) })],
    [
      'the bucket',
      (stack) => {
        const encryptionKey = Key.fromKeyArn(stack, 'Key', keyArn);
        return { bucket: Bucket.fromBucketAttributes(stack, 'Own', { bucketName: 'our-bucket', encryptionKey }) };
      },
    ],
  ])('includes the key of %s, through S3 only', (_, props) => {
    const statements = statementsAfter((reports, reader) => reports.grantRead(reader, 'nightly'), props);
    const [decrypt] = statements.splice(-1);
    expect(statements).toEqual(documented(bucketArn, 'team/nightly/'));
    expect(decrypt).toMatchObject({ Effect: 'Allow', Action: 'kms:Decrypt', Resource: keyArn });
    expect(throughS3(decrypt?.Condition)).toBe('s3.<AWS::Region>.<AWS::URLSuffix>');
  });

  it('is nothing of an export that the service does not have', () => {
    expect(() => statementsAfter((reports, reader) => reports.grantRead(reader, 'night'))).toThrow(
      'Another/Reports has no export "night". Its exports: nightly, nightly-2',
    );
  });
});

describe('other accounts', () => {
  /** The actions that a policy allows principals of other accounts. */
  const grantsIn = (statements: readonly Statement[]) =>
    statements
      .filter(({ Principal }) => JSON.stringify(Principal).includes(account))
      .map(({ Principal, Resource, ...statement }) => ({
        ...statement,
        principal: /:iam::(\d{12}):root$/.exec(text((Principal as { AWS: unknown }).AWS))?.[1],
        Resource: text(Resource),
      }));
  const bucketGrants = (template: Template) =>
    grantsIn(resource(template, 'AWS::S3::BucketPolicy').Properties.PolicyDocument.Statement);
  const bucketArn = (template: Template) => `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;
  const documentedFor = (template: Template, prefix: string) =>
    documented(bucketArn(template), prefix).map((statement) => ({ ...statement, principal: account }));
  const inAccount = { account: '123456789012', region: 'eu-central-1' };

  it('may be granted a service or one export, whose bucket this app has created', () => {
    const { reports, stack } = deployConstruct({ prefix: 'team/' }, inAccount);
    reports.grantRead(new AccountPrincipal(account));
    reports.grantRead(new AccountPrincipal(account), 'nightly');
    const template = Template.fromStack(stack);
    expect(bucketGrants(template)).toEqual([
      ...documentedFor(template, 'team/'),
      ...documentedFor(template, 'team/nightly/'),
    ]);
  });

  it('may decrypt with a key of the app, through S3 only', () => {
    const { reports, stack } = deployConstruct((scope) => ({ encryptionKey: new Key(scope, 'Key') }), inAccount);
    reports.grantRead(new AccountPrincipal(account));
    const template = Template.fromStack(stack);
    const [decrypt, ...others] = grantsIn(resource(template, 'AWS::KMS::Key').Properties.KeyPolicy.Statement);
    expect(others).toEqual([]);
    expect(decrypt).toMatchObject({ principal: account, Effect: 'Allow', Action: 'kms:Decrypt', Resource: '*' });
    expect(throughS3(decrypt?.Condition)).toBe('s3.eu-central-1.<AWS::URLSuffix>');
  });
});

describe('metric', () => {
  const { reports: two } = deployConstruct({ exports: [{ name: 'nightly' }, { name: 'weekly' }] });
  const ofService = { deployment: 'Another', service: 'reports' };

  it('is that of an export, or of the service', () => {
    expect(two.metric('RunsFailed', 'weekly')).toMatchObject({
      namespace: 'ReportExporter',
      metricName: 'RunsFailed',
      statistic: 'Sum',
      dimensions: { deployment: 'Another', export: 'weekly' },
    });
    expect(two.metric('WaitSeconds').dimensions).toEqual(ofService);
    expect(two.metric('WaitSeconds', 'nightly').dimensions).toEqual({ deployment: 'Another', export: 'nightly' });
  });

  it('is that of the only export, where none is named', () => {
    const { reports: one } = deployConstruct();
    for (const name of Object.keys(metricUnits) as MetricName[]) {
      const expected = name === 'WaitSeconds' ? ofService : { deployment: 'Another', export: 'nightly' };
      expect(one.metric(name).dimensions).toEqual(expected);
    }
  });

  it('is rejected if it is not published', () => {
    expect(() => two.metric('PagesExported')).toThrow(
      'Another/Reports has no metric PagesExported of all exports: pass the name of an export. Its exports: nightly, weekly',
    );
    expect(() => two.metric('PagesExported', 'monthly')).toThrow('Another/Reports has no export "monthly"');
  });
});
