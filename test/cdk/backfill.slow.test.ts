/** The state machine of backfills in the template: it exists if the service has an upper bound for dates. */

import type { Template } from 'aws-cdk-lib/assertions';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { backfillTemplate } from '../../lib/cdk/state-machine.ts';
import { functionLimits } from '../../lib/cdk/function-limits.ts';
import { functionSettingsSchema } from '../../lib/settings/environment.ts';
import { serviceMetadataKey, serviceMetadataSchema, serviceOutputSchema } from '../../lib/settings/stack-output.ts';
import {
  deploy,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  someServices,
  textOf,
} from '../support/aws/cdk-deployment.ts';

const aService = { baseUrl: 'https://reports.example.com', vendor: 'ACME', filterUntil: 'date.lt' };
const deployment = deploy({ service: aService });
const { template, stack } = deployment;
const exporterId = 'ServicesacmeStateMachineC10C9045';
const bucketId = resource(template, 'AWS::S3::Bucket').id;

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}
const listed = <Value>(value: Value | readonly Value[]): readonly Value[] =>
  Array.isArray(value) ? value : [value as Value];

/** What the role may do: each action, with its condition if it has one, and its resources. */
function permissionsOf(from: Template, rolePrefix: string): Record<string, string[]> {
  const { id } = resource(from, 'AWS::IAM::Role', rolePrefix);
  const statements: Statement[] = Object.values(resourcesOf(from, 'AWS::IAM::Policy'))
    .filter(({ Properties }) => Properties.Roles.some((role: { Ref: string }) => role.Ref === id))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
  const permissions: Record<string, string[]> = {};
  for (const { Effect, Action, Resource, Condition } of statements) {
    expect(Effect).toBe('Allow');
    for (const each of listed(Action)) {
      const action = Condition === undefined ? each : `${each} ${JSON.stringify(Condition)}`;
      permissions[action] = [...(permissions[action] ?? []), ...listed(Resource).map(textOf)].toSorted();
    }
  }
  return permissions;
}

describe('the state machine of backfills', () => {
  const backfill = resource(template, 'AWS::StepFunctions::StateMachine', 'ServicesacmeBackfill');
  const arn = (suffix: string, id = backfill.id) =>
    `arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:<${id}.Name>${suffix}`;

  it('exists only for services with filterUntil', () => {
    expect(Object.keys(resourcesOf(deploy().template, 'AWS::StepFunctions::StateMachine'))).toEqual([exporterId]);
    const { services, exports } = someServices();
    const two = deployWith({ services: { ...services, us: { ...services.us, filterUntil: 'date.lt' } }, exports });
    expect(Object.keys(resourcesOf(two.template, 'AWS::StepFunctions::StateMachine')).toSorted()).toEqual([
      expect.stringMatching(/^ServiceseuStateMachine/),
      expect.stringMatching(/^ServicesusBackfill/),
      expect.stringMatching(/^ServicesusStateMachine/),
    ]);
  });

  it('leaves the logical ID of the state machine of exports as it is', () => {
    expect(resourcesOf(template, 'AWS::StepFunctions::StateMachine')).toHaveProperty(exporterId);
  });

  it('is the definition of lib/core, with the bucket and the ARN of the other state machine', () => {
    const limits = functionLimits({
      service: { totalTimeout: 240_000, maxPageBytes: 256 * 1024 * 1024 },
      exports: [{ maxInlineWait: 20_000, maxRetryAfter: 21_600_000, pagesPerInvocation: 1 }],
    });
    const expected = stack.resolve(JSON.stringify(backfillTemplate(limits))) as unknown;
    const { DefinitionString, DefinitionSubstitutions, StateMachineType } = backfill.Properties;
    expect(JSON.parse(textOf(DefinitionString))).toEqual(JSON.parse(textOf(expected)));
    expect(DefinitionSubstitutions).toEqual({ BucketName: { Ref: bucketId }, StateMachineArn: { Ref: exporterId } });
    expect(StateMachineType).toBe('STANDARD');
  });

  it('waits longer for an execution than that may run', () => {
    const exporter = JSON.parse(
      textOf(
        resource(template, 'AWS::StepFunctions::StateMachine', 'ServicesacmeStateMachine').Properties.DefinitionString,
      ),
    ) as { TimeoutSeconds: number };
    const { States } = JSON.parse(textOf(backfill.Properties.DefinitionString)) as {
      States: { ExportWindows: { ItemProcessor: { States: { ExportWindow: { TimeoutSeconds: number } } } } };
    };
    expect(States.ExportWindows.ItemProcessor.States.ExportWindow.TimeoutSeconds).toBeGreaterThan(
      exporter.TimeoutSeconds,
    );
  });

  it('logs and is traced as the other one, in a log group of its own', () => {
    const other = resource(template, 'AWS::StepFunctions::StateMachine', 'ServicesacmeStateMachine');
    const { LoggingConfiguration, TracingConfiguration } = backfill.Properties;
    expect(LoggingConfiguration).toMatchObject({ Level: 'ERROR', IncludeExecutionData: true });
    expect(TracingConfiguration).toEqual(other.Properties.TracingConfiguration);
    const groups = ['StateMachineLogs', 'BackfillLogs'].map(
      (id) => resource(template, 'AWS::Logs::LogGroup', `Servicesacme${id}`).Properties,
    );
    for (const group of groups) {
      expect(group.LogGroupName).toMatch(/^\/aws\/vendedlogs\/states\//);
      expect(group.RetentionInDays).toBe(90);
    }
    expect(new Set(groups.map(({ LogGroupName }) => LogGroupName)).size).toBe(2);
    const untraced = deploy({ service: aService, tracing: false }).template;
    expect(
      resource(untraced, 'AWS::StepFunctions::StateMachine', 'ServicesacmeBackfill').Properties.TracingConfiguration
        ?.Enabled ?? false,
    ).toBe(false);
  });

  it('has exactly these permissions: it reads lists of windows, and may stop its own children, but no execution of the service', () => {
    const own = [arn('/Windows:*'), arn(':*')];
    expect(permissionsOf(template, 'ServicesacmeBackfillRole')).toEqual({
      's3:GetObject': [`<${bucketId}.Arn>/acme/_backfills/*`],
      'states:StartExecution': [`<${exporterId}>`, `<${backfill.id}>`].toSorted(),
      'states:DescribeExecution': [...own, arn(':*', exporterId)].toSorted(),
      'states:StopExecution': own,
      ...Object.fromEntries(
        ['events:DescribeRule', 'events:PutRule', 'events:PutTargets'].map((action) => [
          action,
          [
            'arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule',
          ],
        ]),
      ),
      ...Object.fromEntries(
        [
          'logs:CreateLogDelivery',
          'logs:DeleteLogDelivery',
          'logs:DescribeLogGroups',
          'logs:DescribeResourcePolicies',
          'logs:GetLogDelivery',
          'logs:ListLogDeliveries',
          'logs:PutResourcePolicy',
          'logs:UpdateLogDelivery',
          'xray:GetSamplingRules',
          'xray:GetSamplingTargets',
          'xray:PutTelemetryRecords',
          'xray:PutTraceSegments',
        ].map((action) => [action, ['*']]),
      ),
    });
  });

  it('decrypts lists of windows with the key of the bucket, through S3 only', () => {
    const kmsKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
    const encrypted = deploy({ service: aService, bucket: { kmsKeyArn } }).template;
    const viaS3 = {
      StringEquals: {
        'kms:ViaService': { 'Fn::Join': ['', ['s3.', { Ref: 'AWS::Region' }, '.', { Ref: 'AWS::URLSuffix' }]] },
      },
    };
    expect(permissionsOf(encrypted, 'ServicesacmeBackfillRole')).toMatchObject({
      [`kms:Decrypt ${JSON.stringify(viaS3)}`]: [kmsKeyArn],
    });
    expect(serviceOutputSchema.parse(JSON.parse(outputsOf(encrypted).AcmeService ?? 'null')).bucketKeyArn).toBe(
      kmsKeyArn,
    );
  });

  it('has lists of windows that S3 removes, once no execution can need them, without another lifecycle', () => {
    const rules = resource(template, 'AWS::S3::Bucket').Properties.LifecycleConfiguration.Rules as object[];
    expect(rules.slice(1)).toEqual([
      {
        Prefix: 'acme/_backfills/',
        Status: 'Enabled',
        ExpirationInDays: 91,
        NoncurrentVersionExpiration: { NoncurrentDays: 1 },
      },
    ]);
    const { TimeoutSeconds } = JSON.parse(textOf(backfill.Properties.DefinitionString)) as { TimeoutSeconds: number };
    expect(TimeoutSeconds).toBeLessThan(91 * 86_400);
  });

  it('does not change what the roles of the service may do', () => {
    const without = deploy().template;
    const roles = Object.keys(resourcesOf(without, 'AWS::IAM::Role'));
    expect(roles).toHaveLength(6);
    for (const role of roles) expect(permissionsOf(template, role)).toEqual(permissionsOf(without, role));
    expect(Object.keys(resourcesOf(template, 'AWS::IAM::Role'))).toHaveLength(7);
  });

  it('has a role with the permissions boundary', () => {
    const bounded = deploy({ service: aService, permissionsBoundary: 'Boundary' }).template;
    const { PermissionsBoundary } = resource(bounded, 'AWS::IAM::Role', 'ServicesacmeBackfillRole').Properties;
    expect(textOf(PermissionsBoundary)).toContain(':policy/Boundary');
  });

  it('is in the output of the service, which is readable without it', () => {
    const outputOf = (from: Template) => serviceOutputSchema.parse(JSON.parse(outputsOf(from).AcmeService ?? 'null'));
    expect(outputOf(template).backfillStateMachineArn).toBe(`<${backfill.id}>`);
    expect(outputOf(deploy().template)).not.toHaveProperty('backfillStateMachineArn');
  });

  it('passes the setting to the functions and to the operator’s commands', () => {
    const { Metadata = {} } = resource(template, 'AWS::StepFunctions::StateMachine', 'ServicesacmeStateMachine');
    const { settings } = serviceMetadataSchema.parse(Metadata[serviceMetadataKey]);
    expect(settings.service.filterUntil).toBe('date.lt');
    expect(functionSettingsSchema.shape.service.shape).toHaveProperty('filterUntil');
  });

  it('passes filters to the commands in ASCII, as CloudFormation may return no other characters', () => {
    const filter = { name: 'Größe 測試 😀 \\u00e9' };
    const exports = [{ name: 'nightly', filter }];
    const from = deploy({ service: aService, exports }).template;
    const { Metadata = {} } = resource(from, 'AWS::StepFunctions::StateMachine', 'ServicesacmeStateMachine');
    const text = Metadata[serviceMetadataKey] as string;
    expect(text).toMatch(/^[\x20-\x7e]+$/);
    expect(serviceMetadataSchema.parse(text).settings.exports[0]?.filter).toEqual(filter);
  });

  it('has no findings of cdk-nag', () => {
    for (const overrides of [{}, { tracing: false }]) {
      const { app } = deploy({ service: aService, ...overrides });
      expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
    }
  });
});
