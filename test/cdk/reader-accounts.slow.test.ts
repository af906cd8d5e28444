/** The accounts that may read what a service exported: the policies of the bucket and of the key. */

import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { anApp, deploy, deployWith, outputsOf, resource, someServices, textOf } from '../support/aws/cdk-deployment.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

interface Statement {
  readonly Effect: string;
  readonly Principal: { readonly AWS: unknown };
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

const accounts = ['210987654321', '321098765432'];
const service = { baseUrl: 'https://reports.example.com' };
const keyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';

/** What the policies allow principals of other accounts, in a readable form. */
const grantsOf = (statements: readonly Statement[]) =>
  statements
    .filter(({ Effect, Principal }) => Effect === 'Allow' && JSON.stringify(Principal).match(/:iam::\d{12}:root/))
    .map(({ Principal, Action, Resource, Condition }) => ({
      accounts: [Principal.AWS].flat().map((arn) => /:iam::(\d{12}):root$/.exec(textOf(arn))?.[1]),
      Action,
      Resource: textOf(Resource),
      ...(Condition === undefined ? {} : { Condition }),
    }));
const bucketGrants = (template: Template) =>
  grantsOf(resource(template, 'AWS::S3::BucketPolicy').Properties.PolicyDocument.Statement);
const bucketArn = (template: Template) => `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;

function aService(props: (stack: Stack) => Partial<ReportExporterProps>) {
  const stack = new Stack(anApp(), 'Another', { env: { account: '123456789012', region: 'eu-central-1' } });
  const exports = [{ name: 'nightly' }];
  const reports = new ReportExporter(stack, 'Reports', { service, exports, readerAccounts: accounts, ...props(stack) });
  return { reports, template: Template.fromStack(stack) };
}

describe('the accounts that may read', () => {
  it('may read the objects of the service and list its folders, and nothing else', () => {
    const { template } = deploy({ bucket: { prefix: 'team/' }, service: { ...service, readerAccounts: accounts } });
    expect(bucketGrants(template)).toEqual([
      { accounts, Action: 's3:GetObject', Resource: `${bucketArn(template)}/team/acme/*` },
      {
        accounts,
        Action: 's3:ListBucket',
        Resource: bucketArn(template),
        Condition: { StringLike: { 's3:prefix': 'team/acme/*' } },
      },
    ]);
    // They get nothing anywhere else.
    const { Resources } = template.toJSON() as { Resources: Record<string, { readonly Type: string }> };
    const others = Object.values(Resources).filter(({ Type }) => Type !== 'AWS::S3::BucketPolicy');
    expect(JSON.stringify(others)).not.toMatch(/210987654321|321098765432/);
    expect(Object.keys(outputsOf(template))).not.toContain('ReaderKeyPolicyStatement');
  });

  it('are those of one service: accounts of another read nothing of it', () => {
    const [one = '', other = ''] = accounts;
    const settings = someServices();
    const services = Object.fromEntries(
      Object.entries(settings.services).map(([name, each]) => [
        name,
        { ...each, readerAccounts: [name === 'eu' ? one : other] },
      ]),
    );
    const { template } = deployWith({ ...settings, services });
    const resources = bucketGrants(template).map((grant) => [grant.accounts, grant.Resource, grant.Condition]);
    const bucket = bucketArn(template);
    expect(resources).toEqual([
      [[one], `${bucket}/eu/*`, undefined],
      [[one], bucket, { StringLike: { 's3:prefix': 'eu/*' } }],
      [[other], `${bucket}/us/*`, undefined],
      [[other], bucket, { StringLike: { 's3:prefix': 'us/*' } }],
    ]);
  });

  it('are the principals of the documented statements', () => {
    const { template } = deploy({ service: { ...service, readerAccounts: ['210987654321'] } });
    const { Statement: documented } = JSON.parse(
      exampleIn('docs/consumers.md', 'reader-policy.json')
        .replaceAll('arn:aws:s3:::<bucket>', bucketArn(template))
        .replaceAll('<prefix><export>/', 'acme/'),
    ) as { Statement: readonly Statement[] };
    expect(bucketGrants(template).map(({ accounts: _accounts, ...grant }) => grant)).toEqual(
      documented.map(({ Effect: _effect, ...statement }) => statement),
    );
  });

  it('may decrypt with a key of the app, through S3 only', () => {
    const { template } = aService((stack) => ({ encryptionKey: new Key(stack, 'Key') as IKey }));
    const { Statement } = resource(template, 'AWS::KMS::Key').Properties.KeyPolicy;
    expect(grantsOf(Statement).filter((grant) => accounts.includes(grant.accounts[0] ?? ''))).toEqual(
      [
        {
          accounts,
          Action: 'kms:Decrypt',
          Resource: '*',
          Condition: { StringEquals: { 'kms:ViaService': 's3.eu-central-1.<AWS::URLSuffix>' } },
        },
      ].map((grant) => ({ ...grant, Condition: expect.anything() })),
    );
    const [condition] = (Statement as Statement[]).flatMap(({ Principal, Condition }) =>
      JSON.stringify(Principal).includes('210987654321') ? [Condition] : [],
    );
    const { StringEquals } = condition as { StringEquals: Record<string, unknown> };
    expect(Object.keys(condition as object)).toEqual(['StringEquals']);
    expect(textOf(StringEquals['kms:ViaService'])).toBe('s3.eu-central-1.<AWS::URLSuffix>');
  });

  it('need a statement in the policy of a key that the stack does not own, which an output has', () => {
    const { template } = deploy({ kmsKeyArn: keyArn, service: { ...service, readerAccounts: accounts } });
    const statement = JSON.parse(outputsOf(template).ReaderKeyPolicyStatement ?? '') as Statement;
    expect(statement).toEqual({
      Effect: 'Allow',
      Principal: { AWS: accounts.map((account) => `arn:<AWS::Partition>:iam::${account}:root`) },
      Action: 'kms:Decrypt',
      Resource: '*',
      Condition: { StringEquals: { 'kms:ViaService': 's3.<AWS::Region>.<AWS::URLSuffix>' } },
    });
    expect(Object.keys(outputsOf(deploy({ kmsKeyArn: keyArn }).template))).not.toContain('ReaderKeyPolicyStatement');
  });

  it('may read all of a bucket in which the service has no prefix', () => {
    const { template } = aService(() => ({}));
    expect(bucketGrants(template)).toEqual([
      { accounts, Action: 's3:GetObject', Resource: `${bucketArn(template)}/*` },
      { accounts, Action: 's3:ListBucket', Resource: bucketArn(template) },
    ]);
  });

  it('are rejected for a bucket that the app has not created', () => {
    expect(() => aService((stack) => ({ bucket: Bucket.fromBucketName(stack, 'Bucket', 'our-bucket') }))).toThrow(
      'Another/Reports readerAccounts: this app cannot change the policy of the bucket, because it has not created it. Add the ' +
        'statements to it yourself (docs/consumers.md, "Other accounts")',
    );
  });
});
