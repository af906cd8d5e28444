/** What each role may do, statement by statement, and what the policy of the bucket denies. */

import type { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { asRunId } from '../../lib/core/model.ts';
import { latestKey, manifestKey, pageKey, summaryKey } from '../../lib/core/storage/keys.ts';
import {
  deploy,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  type Statement,
  statementsOf,
  textOf,
} from '../support/aws/cdk-deployment.ts';
import { someServices } from '../support/settings.ts';
import { at } from '../support/builders.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

const keyOf = (what: string) => `arn:aws:kms:eu-central-1:123456789012:key/${what}`;
const proxySecret = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:proxy-AbCdEf';

/** Everything that needs a permission, with a key of its own for each store. */
const everything = {
  service: {
    baseUrl: 'https://reports.example.com',
    proxyUrl: 'http://proxy.example:3128',
    proxyCredentialsSecret: proxySecret,
    tls: { clientCertificateSecret: 'reports/client' },
  },
  bucket: { prefix: 'team/', kmsKeyArn: keyOf('bucket') },
  kmsKeyArn: keyOf('common'),
};

const grant = (resources: string, actions: string, condition = '') =>
  resources
    .split(' ')
    .flatMap((each) => actions.split(' ').map((action) => `Allow ${action} on ${each}${condition && ` ${condition}`}`));
const grantKey = (what: string, service: string, actions: string) =>
  grant(keyOf(what), actions, `if {"StringEquals":{"kms:ViaService":"${service}.<AWS::Region>.<AWS::URLSuffix>"}}`);

const logs = (step: string) => grant(`<${step}Logs.Arn>`, 'logs:CreateLogStream logs:PutLogEvents');
const pageLog = [
  ...grant(
    '<PageLog.Arn>',
    'dynamodb:GetItem dynamodb:PutItem dynamodb:Query',
    'if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["acme/*"]}}',
  ),
  ...grantKey(
    'common',
    'dynamodb',
    'kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey kms:ReEncryptFrom kms:ReEncryptTo',
  ),
];
const pageStore = [
  ...grant('<Reports.Arn>/team/acme/*', 's3:AbortMultipartUpload s3:GetObject s3:PutObject'),
  // Without a condition, which would turn the 404 of a missing object into a 403.
  ...grant('<Reports.Arn>', 's3:ListBucket'),
  ...grantKey('bucket', 's3', 'kms:Decrypt kms:GenerateDataKey'),
];
const executions = 'arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:<StateMachine.Name>:*';
const secretNamed = (name: string) =>
  `arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:${name}-??????`;

const roles: Readonly<Record<string, readonly string[]>> = {
  BeginRunRole: [...pageLog, ...grant(executions, 'states:DescribeExecution'), ...logs('BeginRun')],
  ExportPageRole: [
    ...pageLog,
    ...pageStore,
    ...grant(`<ApiKey> ${secretNamed('reports/client')} ${proxySecret}`, 'secretsmanager:GetSecretValue'),
    ...grantKey('common', 'secretsmanager', 'kms:Decrypt'),
    ...logs('ExportPage'),
  ],
  FinishRunRole: [...pageLog, ...pageStore, ...logs('FinishRun')],
  FailRunRole: [...pageLog, ...logs('FailRun')],
  StateMachineRole: [
    ...grant('<BeginRun.Arn> <ExportPage.Arn> <FinishRun.Arn> <FailRun.Arn>', 'lambda:InvokeFunction'),
    ...grant('<StateMachine>', 'states:StartExecution'),
    ...grant('arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:event-bus/default', 'events:PutEvents'),
    // The delivery of its own log.
    ...grant(
      '*',
      'logs:CreateLogDelivery logs:DeleteLogDelivery logs:DescribeLogGroups logs:DescribeResourcePolicies ' +
        'logs:GetLogDelivery logs:ListLogDeliveries logs:PutResourcePolicy logs:UpdateLogDelivery',
    ),
  ],
  SchedulerRole: [
    ...grant('<StateMachine>', 'states:StartExecution'),
    ...grant('<DeadLetterQueue.Arn>', 'sqs:SendMessage'),
    // Otherwise Scheduler drops the starts that it cannot deliver, and no alarm is raised.
    ...grantKey('common', 'sqs', 'kms:Decrypt kms:GenerateDataKey'),
  ],
};

const listed = <Value>(value: Value | readonly Value[]): readonly Value[] =>
  Array.isArray(value) ? value : [value as Value];

/** The permissions of a role: a line for each action and resource, without the name of the service. */
function grantsOf(template: Template, role: string, service = 'acme'): string[] {
  const readable = (value: unknown) => textOf(value).replaceAll(/<(\w+?)[0-9A-F]{8}(\.\w+)?>/g, '<$1$2>');
  const lines = statementsOf(template, `Services${service}${role}`).flatMap(
    ({ Effect, Action, Resource, Condition }) => {
      const condition = Condition === undefined ? '' : ` if ${conditionText(Condition)}`;
      return listed(Resource).flatMap((each) =>
        listed(Action).map((action) => `${Effect} ${action} on ${readable(each)}${condition}`),
      );
    },
  );
  return lines.map((line) => line.replaceAll(`<Services${service}`, '<').replaceAll(`${service}/*`, 'acme/*')).sort();
}

/** As JSON, with references as `textOf` writes them. */
const conditionText = (condition: unknown): string =>
  JSON.stringify(condition, (_, value: unknown) =>
    typeof value === 'object' && value !== null && 'Fn::Join' in value ? textOf(value) : value,
  );

const { template } = deploy({ bucket: { prefix: 'team/' } });

const isOfKey = (line: string) => line.includes(':kms:') || line.includes('kms:');
const isOptional = (line: string) => isOfKey(line) || /reports\/client|:secret:proxy/.test(line);

describe('permissions', () => {
  const all = deploy(everything).template;

  it.each(Object.entries(roles))('%s has exactly these permissions', (role, grants) => {
    expect(grantsOf(all, role)).toEqual([...grants].sort());
    expect(grantsOf(template, role)).toEqual(grants.filter((line) => !isOptional(line)).sort());
  });

  it('are complete: there is no other role, managed policy or inline policy', () => {
    const inTemplate = Object.entries(resourcesOf(template, 'AWS::IAM::Role'));
    const known = inTemplate.map(([id]) => Object.keys(roles).find((role) => id.startsWith(`Servicesacme${role}`)));
    expect(new Set(known)).toEqual(new Set(Object.keys(roles)));
    expect(known).toHaveLength(6);
    for (const [, { Properties }] of inTemplate) {
      expect(Properties.ManagedPolicyArns).toBeUndefined();
      expect(Properties.Policies).toBeUndefined();
    }
  });

  it('of two services are the same, each for its own part of what they share', () => {
    const { template: both } = deployWith(someServices({ bucket: { prefix: 'team/' } }));
    for (const service of ['eu', 'us']) {
      for (const role of Object.keys(roles)) {
        expect(grantsOf(both, role, service)).toEqual(grantsOf(template, role));
      }
    }
    both.resourceCountIs('AWS::IAM::Role', 12);
  });

  it('let Scheduler assume a role only for the schedules of its service', () => {
    const role = resource(template, 'AWS::IAM::Role', 'ServicesacmeSchedulerRole').Properties;
    const [trust] = role.AssumeRolePolicyDocument.Statement;
    expect(trust.Principal).toEqual({ Service: 'scheduler.amazonaws.com' });
    const group = resource(template, 'AWS::Scheduler::ScheduleGroup', 'Servicesacme').id;
    expect(textOf(trust.Condition.StringEquals['aws:SourceArn'])).toBe(`<${group}.Arn>`);
    expect(textOf(trust.Condition.StringEquals['aws:SourceAccount'])).toBe('<AWS::AccountId>');
  });

  it('include no secret, and there is none, if the service needs no authentication', () => {
    const api = {
      request: { path: '/logs' },
      auth: { kind: 'none' },
      next: { from: 'link' },
      page: { format: 'json', reports: '/data/*' },
    };
    const open = deploy({ service: { baseUrl: 'https://reports.example.com', api } }).template;
    expect(JSON.stringify(open.toJSON())).not.toMatch(/secretsmanager|AWS::SecretsManager/);
    expect(outputsOf(open)).not.toHaveProperty('AcmeApiKeySecretId');
    expect(outputsOf(open).AcmeService).not.toContain('apiKeySecret');
  });

  it.each([
    ['by its complete ARN', proxySecret, proxySecret],
    ['by its name and a wildcard for the random suffix', 'reports/key', secretNamed('reports/key')],
  ])('refer to an existing secret %s', (_, existing, expected) => {
    const grants = grantsOf(deploy({ apiKeySecret: { existing } }).template, 'ExportPageRole');
    expect(grants).toContain(`Allow secretsmanager:GetSecretValue on ${expected}`);
  });
});

describe('the permission to replace a refresh token', () => {
  const api = {
    request: { path: '/logs' },
    auth: { kind: 'oauth2', tokenUrl: 'https://login.example/token', clientId: 'exporter', grant: 'refresh_token' },
    next: { from: 'link' },
    page: { format: 'json', reports: '/data/*' },
  };
  const isOfSecret = (line: string) => line.includes('secretsmanager');
  const use = 'secretsmanager:GetSecretValue secretsmanager:PutSecretValue';
  const withKey = grantKey('common', 'secretsmanager', 'kms:Decrypt kms:GenerateDataKey');

  it.each<[string, object, string[]]>([
    ['that is created', {}, grant('<ApiKey>', use)],
    ['with a complete ARN', { apiKeySecret: { existing: proxySecret } }, grant(proxySecret, use)],
    ['with a name', { apiKeySecret: { existing: 'reports/key' } }, grant(secretNamed('reports/key'), use)],
    ['with a key', { kmsKeyArn: keyOf('common') }, [...grant('<ApiKey>', use), ...withKey]],
  ])('is that of ExportPage, for the secret of the service only: %s', (_, settings, expected) => {
    const { template } = deploy({ ...settings, service: { ...everything.service, api } });
    const readOnly = grant(`${secretNamed('reports/client')} ${proxySecret}`, 'secretsmanager:GetSecretValue');
    expect(new Set(grantsOf(template, 'ExportPageRole').filter(isOfSecret))).toEqual(
      new Set([...expected, ...readOnly]),
    );
    for (const role of Object.keys(roles).filter((each) => each !== 'ExportPageRole')) {
      expect(grantsOf(template, role).filter(isOfSecret)).toEqual([]);
    }
  });
});

describe('public access', () => {
  it('is none for the functions: no URL, no resource policy, and roles for one AWS service each', () => {
    for (const type of ['Lambda::Url', 'Lambda::Permission', 'ApiGateway::RestApi', 'ApiGatewayV2::Api']) {
      template.resourceCountIs(`AWS::${type}`, 0);
    }
    for (const { Properties } of Object.values(resourcesOf(template, 'AWS::IAM::Role'))) {
      const trust: readonly { Principal: object }[] = Properties.AssumeRolePolicyDocument.Statement;
      expect(trust.map(({ Principal }) => Principal)).toEqual([
        { Service: expect.stringMatching(/^(lambda|states|scheduler)\.amazonaws\.com$/) },
      ]);
    }
  });

  it('is none for the bucket and the topic: their policies allow only AWS services', () => {
    const policies = ['S3::BucketPolicy', 'SNS::TopicPolicy', 'SQS::QueuePolicy'].flatMap((type) =>
      Object.values(resourcesOf(template, `AWS::${type}`)),
    );
    const statements: Statement[] = policies.flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
    const allowed = statements.filter(({ Effect }) => Effect === 'Allow');
    expect(allowed.filter(({ Principal }) => Object.keys(Principal as object).join() !== 'Service')).toEqual([]);
    // Connections without TLS are denied by bucket and queue.
    const insecure = { Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } };
    for (const type of ['S3::BucketPolicy', 'SQS::QueuePolicy']) {
      const { Statement } = resource(template, `AWS::${type}`).Properties.PolicyDocument;
      expect(Statement).toContainEqual(expect.objectContaining(insecure));
    }
  });
});

describe('the bucket policy', () => {
  const { PolicyDocument } = resource(template, 'AWS::S3::BucketPolicy').Properties;
  const denials = (PolicyDocument.Statement as readonly Statement[]).filter(({ Sid }) => Sid === 'DenyOverwrites');
  const bucket = `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;
  const pattern = textOf(denials[0]?.Resource);
  const run = {
    export: 'nightly',
    run: asRunId('20261120T020000Z-1f3a5cb2d407'),
    startedAt: at('2026-11-20T02:00:00Z'),
  };
  const request = { format: 'XML', container: 'NONE' };
  const pages = [{ page: 1 }, { page: 1_000_000 }, { page: 1, slice: 3, attempt: 2 }];
  const writtenOnce = [
    manifestKey(run),
    summaryKey({ ...run, bounded: true }),
    ...pages.map((page) => pageKey({ ...run, request }, page)),
  ];

  it('denies everyone to write without If-None-Match, except the creation and the parts of a multipart upload', () => {
    expect(denials).toMatchObject([{ Effect: 'Deny', Principal: { AWS: '*' }, Action: 's3:PutObject' }]);
    expect(denials[0]?.Condition).toEqual({
      Null: { 's3:if-none-match': 'true' },
      Bool: { 's3:ObjectCreationOperation': 'true' },
    });
  });

  it.each(writtenOnce)('denies to overwrite %s', (key) => {
    for (const prefix of ['', 'team/acme/']) expect(isLike(pattern, `${bucket}/${prefix}${key}`)).toBe(true);
  });

  it('lets the pointer to the newest run be replaced', () => {
    for (const prefix of ['', 'team/acme/']) {
      expect(isLike(pattern, `${bucket}/${prefix}${latestKey('nightly')}`)).toBe(false);
    }
  });

  it('is documented for an existing bucket, limited to the keys of a service', () => {
    const documented = JSON.parse(exampleIn('docs/aws.md', 'deny-overwrites.json')) as Statement;
    const [own] = denials;
    expect(documented).toMatchObject({ Effect: own?.Effect, Action: own?.Action, Condition: own?.Condition });
    const [ofService = '', ...others] = listed(documented.Resource).map((each) =>
      String(each).replace('<bucket>', 'our-bucket').replace('<bucket.prefix>', 'team/').replace('<service>', 'acme'),
    );
    expect(others).toEqual([]);
    const applies = (key: string) => isLike(ofService, `arn:aws:s3:::our-bucket/${key}`);
    for (const key of writtenOnce) expect(applies(`team/acme/${key}`)).toBe(true);
    expect(applies(`team/acme/${latestKey('nightly')}`)).toBe(false);
    for (const prefix of ['', 'acme/', 'team/', 'team/other/', 'other/team/acme/']) {
      for (const key of writtenOnce) expect(applies(`${prefix}${key}`)).toBe(false);
    }
  });

  /** As IAM compares: `*` is any text. */
  function isLike(wildcards: string, text: string): boolean {
    return new RegExp(
      `^${wildcards
        .split('*')
        .map((part) => RegExp.escape(part))
        .join('.*')}$`,
      's',
    ).test(text);
  }
});
