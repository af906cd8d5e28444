import type { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { alarmIds } from '../../lib/cdk/alarms.ts';
import { metricNamespace } from '../../lib/core/metrics.ts';
import { deploy, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';
import { aSchedule } from '../support/settings.ts';

const { template } = deploy({
  service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
  exports: [{ name: 'nightly', schedule: aSchedule(), expect: { reportsEvery: 'P8D' } }],
  alarms: { email: 'operator@example.com' },
});
const alarmsOf = (of: Template) => resourcesOf(of, 'AWS::CloudWatch::Alarm');
const alarm = (idBegins: string, of = template) => resource(of, 'AWS::CloudWatch::Alarm', idBegins).Properties;

interface AlarmMetric {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Period: number;
  readonly Dimensions?: readonly { readonly Name: string }[];
}
type AlarmProperties = Partial<AlarmMetric> & {
  readonly Metrics?: readonly {
    readonly Expression?: string;
    readonly MetricStat?: { readonly Metric: Omit<AlarmMetric, 'Period'>; readonly Period: number };
  }[];
};

/** The metric of an alarm, and whether missing data counts as 0. */
function metricOf(properties: AlarmProperties): Partial<AlarmMetric> & { missing: string | undefined } {
  const { Metrics: metrics } = properties;
  if (metrics === undefined) return { ...properties, missing: '' };
  const stat = metrics.find(({ MetricStat }) => MetricStat !== undefined)?.MetricStat;
  const expression = metrics.find(({ Expression }) => Expression !== undefined)?.Expression;
  return { ...stat?.Metric, Period: stat?.Period, missing: expression === 'FILL(metric, 0)' ? ' or 0' : expression };
}

/** The alarm's own part of its logical ID. */
const alarmOf = (logicalId: string) =>
  logicalId.replace(/^Servicesacme(Exportsnightly)?/, '').replace(/[0-9A-F]{8}$/, '');

/** A line for each alarm: its id, metric and threshold. */
function linesOf(of: Template): string[] {
  const lines = Object.entries(alarmsOf(of)).map(([id, { Properties }]) => {
    const { Namespace, MetricName, Period, Dimensions = [], missing } = metricOf(Properties);
    const { Threshold, EvaluationPeriods, DatapointsToAlarm } = Properties;
    const dimensions = Dimensions.map(({ Name }) => Name).join(', ');
    const periods = `${DatapointsToAlarm === undefined ? '' : `${DatapointsToAlarm} of `}${EvaluationPeriods} × ${Period} s`;
    return `${alarmOf(id)}: ${Namespace} ${MetricName}${missing} by ${dimensions}: ${Threshold} in ${periods}`;
  });
  return lines.sort();
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `export-${index}` }));

describe('the alarms', () => {
  it('monitor exactly these metrics', () => {
    expect(`\n${linesOf(template).join('\n')}\n`).toMatchInlineSnapshot(`
      "
      ExecutionFailed: AWS/States ExecutionsFailed by StateMachineArn: 1 in 1 × 300 s
      MissedStart: AWS/SQS ApproximateNumberOfMessagesVisible by QueueName: 1 in 1 × 300 s
      NoReports: ReportExporter SecondsWithoutReports by deployment, export: 691200 in 1 × 300 s
      NotFresh: ReportExporter RunsCompleted or 0 by deployment, export: 1 in 26 × 3600 s
      RunTimedOut: AWS/States ExecutionsTimedOut by StateMachineArn: 1 in 1 × 300 s
      Waiting: ReportExporter WaitSeconds by deployment, service: 10800 in 1 × 21600 s
      "
    `);
  });

  it('describe what happened, and link to their section of the runbook', () => {
    const ids = Object.entries(alarmsOf(template)).map(([logicalId, { Properties }]) => {
      const id = alarmOf(logicalId);
      const where = `docs/runbook\\.md#${id.toLowerCase()} in the package report-exporter`;
      expect(Properties.AlarmDescription).toMatch(
        new RegExp(`^(Export nightly|Service acme): .+\\. What to do: ${where}$`),
      );
      return id;
    });
    expect(ids.sort()).toEqual([...alarmIds].sort());
  });

  it('publish to the topic, which notifies its subscriber', () => {
    const topic = resource(template, 'AWS::SNS::Topic').id;
    for (const { Properties } of Object.values(alarmsOf(template))) {
      expect(Properties.AlarmActions).toEqual([{ Ref: topic }]);
    }
    expect(resource(template, 'AWS::SNS::Subscription').Properties).toMatchObject({
      Protocol: 'email',
      Endpoint: 'operator@example.com',
      TopicArn: { Ref: topic },
    });
  });

  it('are allowed to publish: CloudWatch has access to the topic and its key', () => {
    const ofTopic = resource(template, 'AWS::SNS::TopicPolicy').Properties.PolicyDocument.Statement;
    const ofKey = resource(template, 'AWS::KMS::Key').Properties.KeyPolicy.Statement;
    const allowed = { Effect: 'Allow', Principal: { Service: 'cloudwatch.amazonaws.com' } };
    expect(ofTopic).toContainEqual(expect.objectContaining({ ...allowed, Action: 'sns:Publish' }));
    expect(ofKey).toContainEqual(
      expect.objectContaining({ ...allowed, Action: ['kms:Decrypt', 'kms:GenerateDataKey*'] }),
    );
    // CloudWatch's requests to KMS may lack any key that a condition could name.
    expect(JSON.stringify(ofKey)).not.toContain('"Condition"');
    expect(resource(template, 'AWS::SNS::Topic').Properties.KmsMasterKeyId).toBeDefined();
    expect(resource(template, 'AWS::KMS::Key').Properties.EnableKeyRotation).toBe(true);
  });
});

describe('the alarm for missing runs', () => {
  const freshness = {
    PT10M: [300, 2],
    PT45M: [300, 9],
    P1D: [300, 288],
    PT26H: [3_600, 26],
    PT26H30M: [3_600, 27],
    P7D: [3_600, 168],
    P14D: [604_800, 1],
  } as const;
  const expression = 'rate(1 minute)';
  const { template: of } = deploy({
    exports: [
      ...Object.keys(freshness).map((name) => ({ name, schedule: aSchedule({ expression, freshness: name }) })),
      { name: 'manual' },
      { name: 'disabled', schedule: aSchedule({ enabled: false }) },
      { name: 'none', schedule: aSchedule({ freshness: 'none' }) },
    ],
  });
  const notFresh = (name: string) => alarm(`ServicesacmeExports${name}NotFresh`, of);

  it.each(Object.entries(freshness))('evaluates a freshness of %s within the limits of CloudWatch', (name, periods) => {
    const { EvaluationPeriods, ...rest } = notFresh(name);
    const { Period, ...metric } = metricOf(rest);
    expect([Period, EvaluationPeriods]).toEqual(periods);
    const [period, count] = periods;
    expect(period * count).toBeLessThanOrEqual(period < 3_600 ? 86_400 : 604_800);
    const dimensions = { deployment: 'ReportExporter', export: name };
    expect(metric).toMatchObject({
      Namespace: metricNamespace,
      MetricName: 'RunsCompleted',
      Dimensions: Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value })),
    });
    expect(rest).toMatchObject({
      ComparisonOperator: 'LessThanThreshold',
      Threshold: 1,
      TreatMissingData: 'breaching',
    });
  });

  it('evaluates calendar weeks in the time zone of the schedule', () => {
    expect(notFresh('P14D')).toMatchObject({
      AlarmDescription: expect.stringContaining('No run completed in the last calendar week (Europe/Berlin).'),
      EvaluationWindow: { WallClockWindow: { Timezone: 'Europe/Berlin' } },
    });
    expect(notFresh('P7D').EvaluationWindow).toBeUndefined();
  });

  it('does not exist without a schedule, with a disabled one, or with freshness none', () => {
    const ids = Object.keys(alarmsOf(of)).filter((id) => id.includes('NotFresh'));
    expect(ids.map((id) => id.slice('ServicesacmeExports'.length, -'NotFresh01234567'.length))).toEqual(
      Object.keys(freshness),
    );
    const { State } = resource(of, 'AWS::Scheduler::Schedule', 'ServicesacmeExportsdisabled').Properties;
    expect(State).toBe('DISABLED');
  });
});

it('the alarm for an export without reports stays on until a run with reports has completed, also if runs complete seldom', () => {
  expect(alarm('ServicesacmeExportsnightlyNoReports')).toMatchObject({
    AlarmDescription: expect.stringContaining('No completed run has had reports for 192 h or longer.'),
    ComparisonOperator: 'GreaterThanOrEqualToThreshold',
    Statistic: 'Minimum',
    TreatMissingData: 'ignore',
  });
});

describe('alarms that the exports of a service have in common', () => {
  it.each([
    [1, 3],
    [21, 9],
    [40, 12],
  ])('tolerate waits of 3 hours for every 10 exports: %i exports, %i hours', (count, hours) => {
    const { Threshold, AlarmDescription } = alarm('ServicesacmeWaiting', deploy({ exports: numbered(count) }).template);
    expect(Threshold).toBe(hours * 3_600);
    expect(AlarmDescription).toContain(`had to wait for ${hours} hours or more in total`);
  });
});
