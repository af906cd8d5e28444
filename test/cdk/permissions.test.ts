import { describe, expect, it } from 'vitest';
import { asRunId } from '../../lib/core/model.ts';
import { latestKey, manifestKey, pageKey, summaryKey } from '../../lib/core/storage/keys.ts';
import {
  type Deployment,
  deploy,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  someServices,
  textOf,
} from '../support/aws/cdk-deployment.ts';
import { at } from '../support/builders.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

/** The statements of all policies of the role. */
function statementsOf({ template }: Deployment, roleIdBegins: string): Statement[] {
  const { id } = resource(template, 'AWS::IAM::Role', roleIdBegins);
  return Object.values(resourcesOf(template, 'AWS::IAM::Policy'))
    .filter(({ Properties }) => Properties.Roles.some((role: { Ref: string }) => role.Ref === id))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

const listed = <Value>(value: Value | readonly Value[]): readonly Value[] =>
  Array.isArray(value) ? value : [value as Value];
/** `s3` of a condition that allows a key through S3 only, in any partition. */
function viaService(condition: unknown): string | undefined {
  const { 'kms:ViaService': via } = (condition as { StringEquals: Record<string, unknown> }).StringEquals;
  return /^(\w+)\.<AWS::Region>\.<AWS::URLSuffix>$/.exec(textOf(via))?.[1];
}
const actionsOf = (statements: readonly Statement[]) => statements.flatMap(({ Action }) => listed(Action)).sort();
const withAction = (statements: readonly Statement[], action: string) =>
  statements.filter(({ Action }) => listed(Action).includes(action));

const logsAndTraces = [
  'logs:CreateLogStream',
  'logs:PutLogEvents',
  'xray:PutTelemetryRecords',
  'xray:PutTraceSegments',
];
const pageLog = ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'];
const pageStore = ['s3:AbortMultipartUpload', 's3:GetObject', 's3:ListBucket', 's3:PutObject'];

const roles = {
  ServicesacmeBeginRunRole: [...pageLog, 'states:DescribeExecution', ...logsAndTraces],
  ServicesacmeExportPageRole: [...pageLog, ...pageStore, 'secretsmanager:GetSecretValue', ...logsAndTraces],
  ServicesacmeFinishRunRole: [...pageLog, ...pageStore, ...logsAndTraces],
  ServicesacmeFailRunRole: [...pageLog, ...logsAndTraces],
  ServicesacmeStateMachineRole: [
    'events:PutEvents',
    'lambda:InvokeFunction',
    'logs:CreateLogDelivery',
    'logs:DeleteLogDelivery',
    'logs:DescribeLogGroups',
    'logs:DescribeResourcePolicies',
    'logs:GetLogDelivery',
    'logs:ListLogDeliveries',
    'logs:PutResourcePolicy',
    'logs:UpdateLogDelivery',
    'states:StartExecution',
    'xray:GetSamplingRules',
    'xray:GetSamplingTargets',
    'xray:PutTelemetryRecords',
    'xray:PutTraceSegments',
  ],
  ServicesacmeSchedulerRole: ['sqs:SendMessage', 'states:StartExecution'],
};

describe('permissions', () => {
  const deployment = deploy({ bucket: { prefix: 'team/' } });
  const { template } = deployment;

  it.each(Object.entries(roles))('%s has exactly these permissions', (role, actions) => {
    expect(actionsOf(statementsOf(deployment, role))).toEqual([...actions].sort());
  });

  it('include no secret, and there is none, if the service needs no authentication', () => {
    const api = {
      request: { path: '/logs' },
      auth: { kind: 'none' },
      next: { from: 'link' },
      page: { format: 'json', reports: '/data/*' },
    };
    const open = deploy({ service: { baseUrl: 'https://reports.example.com', api } });
    expect(actionsOf(statementsOf(open, 'ServicesacmeExportPageRole'))).toEqual(
      [...pageLog, ...pageStore, ...logsAndTraces].sort(),
    );
    expect(resourcesOf(open.template, 'AWS::SecretsManager::Secret')).toEqual({});
    const { Variables } = resource(open.template, 'AWS::Lambda::Function', 'ServicesacmeExportPage').Properties
      .Environment;
    expect(Variables).toMatchObject({ API_KEY_SECRET_ID: '', API_KEY_SECRET_FIELD: '' });
    const outputs = outputsOf(open.template);
    expect(outputs).not.toHaveProperty('AcmeApiKeySecretId');
    expect(outputs.AcmeService).not.toContain('apiKeySecret');
  });

  it('are complete: there is no other role, managed policy or inline policy', () => {
    const all = Object.entries(resourcesOf(template, 'AWS::IAM::Role'));
    const known = all.map(([id]) => Object.keys(roles).find((role) => id.startsWith(role)));
    expect(new Set(known)).toEqual(new Set(Object.keys(roles)));
    expect(known).toHaveLength(Object.keys(roles).length);
    for (const [, { Properties }] of all) {
      expect(Properties.ManagedPolicyArns).toBeUndefined();
      expect(Properties.Policies).toBeUndefined();
    }
  });

  it('contain no wildcard action and no deletion of pages or entries', () => {
    const actions = Object.keys(roles).flatMap((role) => actionsOf(statementsOf(deployment, role)));
    expect(
      actions.filter((action) => action.includes('*') || /:Delete(Object|Item|Table|Bucket)/.test(action)),
    ).toEqual([]);
  });

  it('are limited to the service’s own part of the bucket and of the table', () => {
    const bucket = resource(template, 'AWS::S3::Bucket').id;
    for (const role of ['ServicesacmeExportPageRole', 'ServicesacmeFinishRunRole']) {
      const [objects] = withAction(statementsOf(deployment, role), 's3:PutObject');
      expect(objects?.Resource).toEqual({
        'Fn::Join': ['', [{ 'Fn::GetAtt': [bucket, 'Arn'] }, '/team/acme/*']],
      });
    }
    for (const role of Object.keys(roles).filter((each) => !/Machine|Scheduler/.test(each))) {
      const [items] = withAction(statementsOf(deployment, role), 'dynamodb:PutItem');
      expect(items?.Condition).toEqual({ 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['acme/*'] } });
    }
  });

  it('include ListBucket without a condition, which would turn a 404 into a 403', () => {
    const [list] = withAction(statementsOf(deployment, 'ServicesacmeExportPageRole'), 's3:ListBucket');
    expect(list?.Resource).toEqual({ 'Fn::GetAtt': [resource(template, 'AWS::S3::Bucket').id, 'Arn'] });
    expect(list?.Condition).toBeUndefined();
  });

  it('let the state machine invoke its four functions and start itself', () => {
    const statements = statementsOf(deployment, 'ServicesacmeStateMachineRole');
    const functions = Object.keys(resourcesOf(template, 'AWS::Lambda::Function'));
    expect(functions).toHaveLength(4);
    const [invoke] = withAction(statements, 'lambda:InvokeFunction');
    expect(invoke?.Resource).toEqual(expect.arrayContaining(functions.map((id) => ({ 'Fn::GetAtt': [id, 'Arn'] }))));
    expect(invoke?.Resource).toHaveLength(4);
    const [start] = withAction(statements, 'states:StartExecution');
    expect(start?.Resource).toEqual({ Ref: resource(template, 'AWS::StepFunctions::StateMachine').id });
  });

  it('let BeginRun describe executions of its own state machine only', () => {
    const [statement] = withAction(statementsOf(deployment, 'ServicesacmeBeginRunRole'), 'states:DescribeExecution');
    const machine = resource(template, 'AWS::StepFunctions::StateMachine').id;
    expect(JSON.stringify(statement?.Resource)).toMatch(
      new RegExp(`:execution:",\\{"Fn::GetAtt":\\["${machine}","Name"\\]\\},":\\*"`),
    );
  });

  it('allow a customer managed key only through the service that uses it', () => {
    const key = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
    const encrypted = deploy({ kmsKeyArn: key });
    const keysOf = (role: string) =>
      statementsOf(encrypted, role)
        .filter(({ Resource }) => Resource === key)
        .map(({ Action, Condition }) => [viaService(Condition), listed(Action)]);
    const forTable = [
      'kms:Decrypt',
      'kms:DescribeKey',
      'kms:Encrypt',
      'kms:GenerateDataKey',
      'kms:ReEncryptFrom',
      'kms:ReEncryptTo',
    ];
    expect(keysOf('ServicesacmeExportPageRole')).toEqual([
      ['dynamodb', forTable],
      ['s3', ['kms:Decrypt', 'kms:GenerateDataKey']],
      ['secretsmanager', ['kms:Decrypt']],
    ]);
    expect(keysOf('ServicesacmeFailRunRole')).toEqual([['dynamodb', forTable]]);
    // Otherwise Scheduler drops the starts that it cannot deliver, and no alarm is raised.
    expect(keysOf('ServicesacmeSchedulerRole')).toEqual([['sqs', ['kms:Decrypt', 'kms:GenerateDataKey']]]);
  });

  it('allow each key only for what it encrypts, if there are several', () => {
    const keyArn = (name: string) => `arn:aws:kms:eu-central-1:123456789012:key/${name}`;
    const several = deploy({
      kmsKeyArn: keyArn('common'),
      bucket: { existing: 'our-bucket', kmsKeyArn: keyArn('bucket') },
      apiKeySecret: { existing: 'our/key', kmsKeyArn: keyArn('secret') },
    });
    const keysOf = (role: string) =>
      Object.fromEntries(
        statementsOf(several, role).flatMap(({ Resource, Condition }) =>
          String(Resource).includes(':kms:') ? [[viaService(Condition), Resource]] : [],
        ),
      );
    const ofTable = { dynamodb: keyArn('common') };
    const ofBucket = { s3: keyArn('bucket') };
    expect(keysOf('ServicesacmeExportPageRole')).toEqual({
      ...ofTable,
      ...ofBucket,
      secretsmanager: keyArn('secret'),
    });
    expect(keysOf('ServicesacmeFinishRunRole')).toEqual({ ...ofTable, ...ofBucket });
    expect(keysOf('ServicesacmeBeginRunRole')).toEqual(ofTable);
    expect(keysOf('ServicesacmeFailRunRole')).toEqual(ofTable);
    expect(keysOf('ServicesacmeSchedulerRole')).toEqual({ sqs: keyArn('common') });
  });

  it('refer to an existing secret by its ARN, or by its name and a wildcard for the random suffix', () => {
    const secretOf = (existing: string) =>
      withAction(
        statementsOf(deploy({ apiKeySecret: { existing } }), 'ServicesacmeExportPageRole'),
        'secretsmanager:GetSecretValue',
      )[0]?.Resource;
    const arn = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/key-AbCdEf';
    expect(secretOf(arn)).toBe(arn);
    expect(JSON.stringify(secretOf('reports/key'))).toContain(':secret:reports/key-??????');
  });
});

describe('the bucket policy', () => {
  interface Write {
    readonly key: string;
    /** The header If-None-Match. */
    readonly ifNoneMatch: boolean;
    /** What S3 sets for the operation. */
    readonly createsObject: boolean;
  }
  const { template } = deploy({ bucket: { prefix: 'team/' } });
  const { PolicyDocument } = resource(template, 'AWS::S3::BucketPolicy').Properties;
  const denials = (PolicyDocument.Statement as readonly (Statement & { readonly Sid?: string })[]).filter(
    ({ Sid }) => Sid === 'DenyOverwrites',
  );
  const isDenied = ({ key, ifNoneMatch, createsObject }: Write) =>
    denials.some(({ Effect, Action, Resource, Condition }) => {
      expect([Effect, Action]).toEqual(['Deny', 's3:PutObject']);
      expect(Condition).toEqual({
        Null: { 's3:if-none-match': 'true' },
        Bool: { 's3:ObjectCreationOperation': 'true' },
      });
      const object = `<${resource(template, 'AWS::S3::Bucket').id}.Arn>/${key}`;
      return isLike(textOf(Resource), object) && !ifNoneMatch && createsObject;
    });
  const run = { export: 'nightly', run: asRunId('20261120T020000Z-1f3a5c'), startedAt: at('2026-11-20T02:00:00Z') };
  const request = { format: 'XML', container: 'NONE' };
  const pages = [{ page: 1 }, { page: 1_000_000 }, { page: 1, slice: 3, attempt: 2 }];
  const writtenOnce = [
    manifestKey(run),
    summaryKey({ ...run, bounded: true }),
    ...pages.map((page) => pageKey({ ...run, request }, page)),
  ];

  it.each(writtenOnce.flatMap((key) => [key, `team/acme/${key}`]))('denies to overwrite %s', (key) => {
    expect(isDenied({ key, ifNoneMatch: false, createsObject: true })).toBe(true);
    expect(isDenied({ key, ifNoneMatch: true, createsObject: true })).toBe(false);
    // The creation of a multipart upload, and its parts.
    expect(isDenied({ key, ifNoneMatch: false, createsObject: false })).toBe(false);
  });

  it('is documented for an existing bucket, limited to the keys of a service', () => {
    const documented = JSON.parse(exampleIn('docs/bucket.md', 'deny-overwrites.json')) as Statement;
    const [own] = denials;
    expect(documented).toMatchObject({ Effect: own?.Effect, Action: own?.Action, Condition: own?.Condition });
    const [pattern = '', ...others] = listed(documented.Resource).map((each) =>
      String(each).replace('<bucket>', 'our-bucket').replace('<bucket.prefix>', 'team/').replace('<service>', 'acme'),
    );
    expect(others).toEqual([]);
    const applies = (key: string) => isLike(pattern, `arn:aws:s3:::our-bucket/${key}`);
    for (const key of writtenOnce) expect(applies(`team/acme/${key}`)).toBe(true);
    expect(applies(`team/acme/${latestKey('nightly')}`)).toBe(false);
    for (const prefix of ['', 'acme/', 'team/', 'team/other/', 'other/team/acme/']) {
      for (const key of writtenOnce) expect(applies(`${prefix}${key}`)).toBe(false);
    }
  });

  it('lets the pointer to the newest run be replaced', () => {
    for (const key of [latestKey('nightly'), `team/acme/${latestKey('nightly')}`]) {
      expect(isDenied({ key, ifNoneMatch: false, createsObject: true })).toBe(false);
    }
  });

  it('applies to everyone', () => {
    expect(denials).toHaveLength(1);
    expect(denials).toMatchObject([{ Principal: { AWS: '*' } }]);
  });
});

describe('two services in one stack', () => {
  const deployment = deployWith(someServices({ bucket: { prefix: 'team/' } }));
  const { template } = deployment;
  const idOf = (type: string, service: string, name = '') => resource(template, type, `Services${service}${name}`).id;
  const arnOf = (type: string, service: string, name = '') => `<${idOf(type, service, name)}.Arn>`;
  const bucket = `<${resource(template, 'AWS::S3::Bucket').id}.Arn>`;
  const table = `<${resource(template, 'AWS::DynamoDB::Table').id}.Arn>`;

  /** What only the roles of `service` may do. */
  const ownAccess = (service: string, exportName: string): readonly Access[] => [
    ...['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'].flatMap((action) =>
      [`${service}/${exportName}`, `${service}/#slots`].map((leadingKey) => ({ action, resource: table, leadingKey })),
    ),
    ...['s3:GetObject', 's3:PutObject', 's3:AbortMultipartUpload'].map((action) => ({
      action,
      resource: `${bucket}/team/${service}/${exportName}/date=2026-11-20/page-1.xml`,
    })),
    {
      action: 'secretsmanager:GetSecretValue',
      resource: `<${resource(template, 'AWS::SecretsManager::Secret', `Services${service}ApiKey`).id}>`,
    },
    { action: 'states:StartExecution', resource: `<${idOf('AWS::StepFunctions::StateMachine', service)}>` },
    {
      action: 'states:DescribeExecution',
      resource: `arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:<${idOf('AWS::StepFunctions::StateMachine', service)}.Name>:run`,
    },
    ...['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'].map((step) => ({
      action: 'lambda:InvokeFunction',
      resource: arnOf('AWS::Lambda::Function', service, step),
    })),
    { action: 'sqs:SendMessage', resource: arnOf('AWS::SQS::Queue', service) },
    ...['logs:CreateLogStream', 'logs:PutLogEvents'].map((action) => ({
      action,
      resource: arnOf('AWS::Logs::LogGroup', service, 'ExportPageLogs'),
    })),
  ];
  const access = { eu: ownAccess('eu', 'eu-nightly'), us: ownAccess('us', 'us-nightly') };
  const rolesOf = (service: string) =>
    Object.keys(resourcesOf(template, 'AWS::IAM::Role')).filter((id) => id.startsWith(`Services${service}`));

  it('have six roles each, and there is no other role', () => {
    expect(rolesOf('eu')).toHaveLength(6);
    expect(rolesOf('us')).toHaveLength(6);
    template.resourceCountIs('AWS::IAM::Role', 12);
  });

  it.each([
    ['eu', 'us'],
    ['us', 'eu'],
  ] as const)('are separate: some role of %s has each access to its own part, and none to that of %s', (own, other) => {
    const statements = rolesOf(own).flatMap((role) => statementsOf(deployment, role));
    expect(access[own].filter((each) => !isAllowed(statements, each))).toEqual([]);
    expect(access[other].filter((each) => isAllowed(statements, each))).toEqual([]);
  });

  it('have no access to a part of the table or of the bucket that only begins like their own', () => {
    const statements = rolesOf('eu').flatMap((role) => statementsOf(deployment, role));
    const similar = [
      { action: 'dynamodb:GetItem', resource: table, leadingKey: 'eu-2/nightly' },
      { action: 'dynamodb:GetItem', resource: table, leadingKey: 'eu' },
      { action: 's3:GetObject', resource: `${bucket}/team/eu-2/nightly/manifest.json` },
      { action: 's3:GetObject', resource: `${bucket}/eu/nightly/manifest.json` },
    ];
    expect(similar.filter((each) => isAllowed(statements, each))).toEqual([]);
  });

  it('delete nothing, and share only what has no part of a service: the bucket’s list, the event bus, log delivery, traces', () => {
    const statements = [...rolesOf('eu'), ...rolesOf('us')].flatMap((role) => statementsOf(deployment, role));
    // A state machine manages the delivery of its own log.
    expect([...new Set(actionsOf(statements))].filter((action) => /\*|Delete|Purge|Put\w*Policy/.test(action))).toEqual(
      ['logs:DeleteLogDelivery', 'logs:PutResourcePolicy'],
    );
    const shared = [...rolesOf('eu')]
      .flatMap((role) => statementsOf(deployment, role))
      .filter(({ Resource }) => listed(Resource).some((each) => !/Serviceseu|\/team\/eu\//.test(textOf(each))))
      .filter(({ Condition }) => Condition === undefined);
    expect([...new Set(actionsOf(shared))]).toEqual([
      'events:PutEvents',
      'logs:CreateLogDelivery',
      'logs:DeleteLogDelivery',
      'logs:DescribeLogGroups',
      'logs:DescribeResourcePolicies',
      'logs:GetLogDelivery',
      'logs:ListLogDeliveries',
      'logs:PutResourcePolicy',
      'logs:UpdateLogDelivery',
      's3:ListBucket',
      'xray:GetSamplingRules',
      'xray:GetSamplingTargets',
      'xray:PutTelemetryRecords',
      'xray:PutTraceSegments',
    ]);
  });

  it('let Scheduler assume a role only for the schedules of its service', () => {
    for (const service of ['eu', 'us']) {
      const role = resource(template, 'AWS::IAM::Role', `Services${service}SchedulerRole`).Properties;
      const [trust] = role.AssumeRolePolicyDocument.Statement;
      expect(trust.Principal).toEqual({ Service: 'scheduler.amazonaws.com' });
      expect(textOf(trust.Condition.StringEquals['aws:SourceArn'])).toBe(
        arnOf('AWS::Scheduler::ScheduleGroup', service),
      );
      expect(textOf(trust.Condition.StringEquals['aws:SourceAccount'])).toBe('<AWS::AccountId>');
    }
  });
});

interface Access {
  readonly action: string;
  /** An ARN with references as `textOf` writes them. */
  readonly resource: string;
  /** The partition key of a DynamoDB item. */
  readonly leadingKey?: string;
}

/** Whether IAM would allow the access. Knows the statements that these roles have, and rejects others. */
function isAllowed(statements: readonly Statement[], { action, resource: arn, leadingKey }: Access): boolean {
  return statements.some(({ Effect, Action, Resource, Condition }) => {
    expect(Effect).toBe('Allow');
    const covers =
      listed(Action).some((each) => isLike(each, action)) && listed(Resource).some((each) => isLike(textOf(each), arn));
    if (!covers || Condition === undefined) return covers;
    const keys = (Condition as { 'ForAllValues:StringLike'?: { 'dynamodb:LeadingKeys'?: readonly string[] } })[
      'ForAllValues:StringLike'
    ]?.['dynamodb:LeadingKeys'];
    if (keys === undefined || leadingKey === undefined) throw new Error(`Unknown condition of ${String(Action)}`);
    return keys.some((key) => isLike(key, leadingKey));
  });
}

/** As IAM compares: `*` is any text, `?` any character. */
function isLike(pattern: string, text: string): boolean {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 's').test(text);
}
