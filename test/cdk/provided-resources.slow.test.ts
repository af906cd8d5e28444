/** The bucket, the key and the event bus that an app provides. */

import { Duration, Stack, TimeZone } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { EventBus, Schedule } from 'aws-cdk-lib/aws-events';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { ScheduleExpression } from 'aws-cdk-lib/aws-scheduler';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { overwritesStatement } from '../../lib/cdk/stores.ts';
import { ConfigurationError } from '../../lib/api/index.ts';
import { anApp, textOf } from '../support/aws/cdk-deployment.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';

function aService(propsIn: (stack: Stack) => Partial<ReportExporterProps> = () => ({})) {
  const stack = new Stack(anApp(), 'Own', { env: { account: '123456789012', region: 'eu-central-1' } });
  const reports = new ReportExporter(stack, 'Reports', {
    service: { baseUrl: 'https://reports.example.com' },
    exports: [{ name: 'nightly', schedule: { expression: 'rate(1 day)' } }],
    ...propsIn(stack),
  });
  return { stack, reports };
}

const warningsOf = (stack: Stack) => Annotations.fromStack(stack).findWarning('*', Match.anyValue());
const textOfWarnings = (stack: Stack) =>
  warningsOf(stack)
    .map(({ entry }) => entry.data as string)
    .join('\n');
const logGroupsOf = (stack: Stack) =>
  Object.values(Template.fromStack(stack).findResources('AWS::Logs::LogGroup')).map(({ Properties }) => Properties);

describe('a bucket of the app', () => {
  it('that nothing protects is reported with the statement in the docs', () => {
    const { stack } = aService((scope) => ({
      bucket: Bucket.fromBucketName(scope, 'Bucket', 'ours'),
      prefix: 'acme/',
    }));
    const [, json = ''] = /to its policy: (\{.*\})\. Also/.exec(textOfWarnings(stack)) ?? [];
    const documented = exampleIn('docs/bucket.md', 'deny-overwrites.json');
    const { Resource, ...statement } = JSON.parse(json);
    expect({ ...statement, Resource: [Resource] }).toEqual(
      JSON.parse(documented.replace('<bucket>/<bucket.prefix><service>/', 'ours/acme/')),
    );
  });

  it('that denies overwriting is not reported, nor is one that is created here', () => {
    const { stack } = aService((scope) => {
      const bucket = new Bucket(scope, 'Bucket');
      bucket.addToResourcePolicy(overwritesStatement(bucket.arnForObjects('*')));
      return { bucket: bucket };
    });
    expect(warningsOf(stack)).toEqual([]);
    expect(warningsOf(aService().stack)).toEqual([]);
  });
});

describe('a key of the app', () => {
  it('encrypts the dead-letter queue and the log groups, which CloudWatch Logs may use it for', () => {
    const { stack } = aService((scope) => ({ encryptionKey: new Key(scope, 'Key') }));
    const template = Template.fromStack(stack);
    template.hasResourceProperties('AWS::SQS::Queue', { KmsMasterKeyId: Match.anyValue() });
    const scheduler = Object.entries(template.findResources('AWS::IAM::Policy')).find(([id]) =>
      id.includes('Scheduler'),
    );
    expect(JSON.stringify(scheduler)).toContain('"kms:GenerateDataKey"');
    for (const group of logGroupsOf(stack)) expect(group).toHaveProperty('KmsKeyId');
    const [key] = Object.values(template.findResources('AWS::KMS::Key'));
    const statement = key?.Properties.KeyPolicy.Statement.find(({ Sid }: { Sid: string }) => Sid === 'EncryptLogs');
    const documented = exampleIn('docs/security.md', 'encrypt-logs.json');
    expect(JSON.parse(textOf(JSON.stringify(statement)))).toMatchObject({
      Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': expect.anything() } },
      Action: JSON.parse(documented).Action,
    });
    expect(warningsOf(stack)).toEqual([]);
  });

  const imported = (scope: Stack) =>
    Key.fromKeyArn(scope, 'Key', 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555');

  it('that is imported encrypts logs only where encryptLogs says that its policy allows it, and a warning asks', () => {
    const asked = aService((scope) => ({ encryptionKey: imported(scope) }));
    for (const group of logGroupsOf(asked.stack)) expect(group).not.toHaveProperty('KmsKeyId');
    expect(textOfWarnings(asked.stack)).toContain('[ack: report-exporter:log-encryption]');

    const allowed = aService((scope) => ({ encryptionKey: imported(scope), encryptLogs: true }));
    for (const group of logGroupsOf(allowed.stack)) expect(group).toHaveProperty('KmsKeyId');
    const refused = aService((scope) => ({ encryptionKey: imported(scope), encryptLogs: false }));
    expect([...warningsOf(allowed.stack), ...warningsOf(refused.stack)]).toEqual([]);
  });
});

describe('an event bus of the app', () => {
  it('receives the events, and has the rules', () => {
    const { stack, reports } = aService((scope) => ({ eventBus: new EventBus(scope, 'Bus') }));
    reports.onCompleted('Next', { target: new SfnStateMachine(reports.stateMachine) });
    const template = Template.fromStack(stack);
    const [busId = ''] = Object.keys(template.findResources('AWS::Events::EventBus'));
    const rules = template.findResources('AWS::Events::Rule', { Properties: { EventBusName: { Ref: busId } } });
    expect(Object.keys(rules)).toHaveLength(1);
    template.hasResourceProperties('AWS::StepFunctions::StateMachine', {
      DefinitionSubstitutions: { EventBusArn: { 'Fn::GetAtt': [busId, 'Arn'] } },
      DefinitionString: Match.anyValue(),
    });
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({ Action: 'events:PutEvents', Resource: { 'Fn::GetAtt': [busId, 'Arn'] } }),
        ]),
      },
    });
  });
});

describe('what an app can use', () => {
  it('are all alarms of the service, and the class of the errors in its settings', () => {
    const { stack, reports } = aService();
    const alarms = Object.keys(Template.fromStack(stack).findResources('AWS::CloudWatch::Alarm'));
    expect(reports.alarms).toHaveLength(alarms.length);
    const invalid = () => aService(() => ({ exports: [] }));
    expect(invalid).toThrow(ConfigurationError);
    expect(new Error('another') instanceof ConfigurationError).toBe(false);
  });
});

describe("values of CDK's own types", () => {
  const plain = {
    service: { baseUrl: 'https://reports.example.com', totalTimeout: 'PT2M' },
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
    service: { ...plain.service, totalTimeout: Duration.minutes(2) },
    exports: [
      { name: 'nightly', since: { overlap: Duration.minutes(15) }, schedule },
      { name: 'hourly', schedule: { expression: Schedule.rate(Duration.hours(1)) } },
    ],
  };

  it('are what the same text is, for the construct and for the stack', () => {
    const [expected, actual] = [plain, own].map((props) => Template.fromStack(aService(() => props).stack).toJSON());
    expect(actual).toEqual(expected);
    const [file, withValues] = [plain, own].map(({ service, exports }) =>
      deploymentSettings({ services: { acme: service }, exports }),
    );
    expect(withValues).toEqual(file);
  });

  it('leave a time zone that is set beside them', () => {
    const exports = [{ name: 'nightly', schedule: { ...schedule, timeZone: 'Asia/Tokyo' } }];
    const schedules = Template.fromStack(aService(() => ({ exports })).stack).findResources('AWS::Scheduler::Schedule');
    expect(Object.values(schedules).map(({ Properties }) => Properties)).toMatchObject([
      { ScheduleExpression: 'cron(0 2 * * ? *)', ScheduleExpressionTimezone: 'Asia/Tokyo' },
    ]);
  });
});
