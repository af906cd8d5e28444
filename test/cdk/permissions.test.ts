import { describe, expect, it } from 'vitest';
import { type Deployment, deploy, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';

interface Statement {
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
  ExportsnightlyBeginRunRole: [...pageLog, 'states:DescribeExecution', ...logsAndTraces],
  ExportsnightlyExportPageRole: [...pageLog, ...pageStore, 'secretsmanager:GetSecretValue', ...logsAndTraces],
  ExportsnightlyFinishRunRole: [...pageLog, ...pageStore, ...logsAndTraces],
  ExportsnightlyFailRunRole: [...pageLog, ...logsAndTraces],
  ExportsnightlyStateMachineRole: [
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
  SchedulerRoleForTarget: ['sqs:SendMessage', 'states:StartExecution'],
};

describe('permissions', () => {
  const deployment = deploy({ bucket: { prefix: 'team/' } });
  const { template } = deployment;

  it.each(Object.entries(roles))('%s has exactly these permissions', (role, actions) => {
    expect(actionsOf(statementsOf(deployment, role))).toEqual([...actions].sort());
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

  it('are limited to the export’s own part of the bucket and of the table', () => {
    const bucket = resource(template, 'AWS::S3::Bucket').id;
    for (const role of ['ExportsnightlyExportPageRole', 'ExportsnightlyFinishRunRole']) {
      const [objects] = withAction(statementsOf(deployment, role), 's3:PutObject');
      expect(objects?.Resource).toEqual({
        'Fn::Join': ['', [{ 'Fn::GetAtt': [bucket, 'Arn'] }, '/team/nightly/*']],
      });
    }
    for (const role of Object.keys(roles).filter(
      (each) => each.startsWith('Exportsnightly') && !/Machine/.test(each),
    )) {
      const [items] = withAction(statementsOf(deployment, role), 'dynamodb:PutItem');
      expect(items?.Condition).toEqual({ 'ForAllValues:StringEquals': { 'dynamodb:LeadingKeys': ['nightly'] } });
    }
  });

  it('include ListBucket without a condition, which would turn a 404 into a 403', () => {
    const [list] = withAction(statementsOf(deployment, 'ExportsnightlyExportPageRole'), 's3:ListBucket');
    expect(list?.Resource).toEqual({ 'Fn::GetAtt': [resource(template, 'AWS::S3::Bucket').id, 'Arn'] });
    expect(list?.Condition).toBeUndefined();
  });

  it('let the state machine invoke its four functions and start itself', () => {
    const statements = statementsOf(deployment, 'ExportsnightlyStateMachineRole');
    const functions = Object.keys(resourcesOf(template, 'AWS::Lambda::Function'));
    expect(functions).toHaveLength(4);
    const [invoke] = withAction(statements, 'lambda:InvokeFunction');
    expect(invoke?.Resource).toEqual(expect.arrayContaining(functions.map((id) => ({ 'Fn::GetAtt': [id, 'Arn'] }))));
    expect(invoke?.Resource).toHaveLength(4);
    const [start] = withAction(statements, 'states:StartExecution');
    expect(start?.Resource).toEqual({ Ref: resource(template, 'AWS::StepFunctions::StateMachine').id });
  });

  it('let BeginRun describe executions of its own state machine only', () => {
    const [statement] = withAction(statementsOf(deployment, 'ExportsnightlyBeginRunRole'), 'states:DescribeExecution');
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
        .map(({ Action, Condition }) => [JSON.stringify(Condition).match(/"(\w+)\./)?.[1], listed(Action)]);
    const forTable = [
      'kms:Decrypt',
      'kms:DescribeKey',
      'kms:Encrypt',
      'kms:GenerateDataKey',
      'kms:ReEncryptFrom',
      'kms:ReEncryptTo',
    ];
    expect(keysOf('ExportsnightlyExportPageRole')).toEqual([
      ['dynamodb', forTable],
      ['s3', ['kms:Decrypt', 'kms:GenerateDataKey']],
      ['secretsmanager', ['kms:Decrypt']],
    ]);
    expect(keysOf('ExportsnightlyFailRunRole')).toEqual([['dynamodb', forTable]]);
  });

  it('refer to an existing secret by its ARN, or by its name and a wildcard for the random suffix', () => {
    const secretOf = (existing: string) =>
      withAction(
        statementsOf(deploy({ apiKeySecret: { existing } }), 'ExportsnightlyExportPageRole'),
        'secretsmanager:GetSecretValue',
      )[0]?.Resource;
    const arn = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/key-AbCdEf';
    expect(secretOf(arn)).toBe(arn);
    expect(JSON.stringify(secretOf('reports/key'))).toContain(':secret:reports/key-??????');
  });
});
