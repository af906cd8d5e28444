import { describe, expect, it } from 'vitest';
import { alarmIds } from '../../lib/cdk/alarms.ts';
import { metricNamespace, metricUnits } from '../../lib/core/metrics.ts';
import { aSchedule, deploy, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';

const { template } = deploy({ alarms: { email: 'operator@example.com' } });
const alarm = (idBegins: string, of = template) => resource(of, 'AWS::CloudWatch::Alarm', idBegins).Properties;
const freshnessAlarm = (freshness: string) =>
  alarm('ExportsaNotFresh', deploy({ exports: [{ name: 'a', schedule: aSchedule({ freshness }) }] }).template);

interface AlarmMetric {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Period: number;
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
  const period = stat === undefined ? {} : { Period: stat.Period };
  return { ...stat?.Metric, ...period, missing: expression === 'FILL(metric, 0)' ? ' or 0' : expression };
}

describe('the alarms', () => {
  it('monitor exactly these metrics', () => {
    const metrics = Object.entries(resourcesOf(template, 'AWS::CloudWatch::Alarm')).map(([id, { Properties }]) => {
      const name = id.replace('Exportsnightly', '').replace(/[0-9A-F]{8}$/, '');
      const { Namespace, MetricName, Period, missing } = metricOf(Properties);
      const { Threshold, EvaluationPeriods } = Properties;
      return `${name}: ${Namespace} ${MetricName}${missing} ${Threshold} in ${EvaluationPeriods} × ${Period} s`;
    });
    expect(`\n${metrics.sort().join('\n')}\n`).toMatchInlineSnapshot(`
      "
      FunctionThrottled: AWS/Lambda Throttles 1 in 3 × 300 s
      MissedStart: AWS/SQS ApproximateNumberOfMessagesVisible 1 in 1 × 300 s
      NotFresh: ReportExporter RunsCompleted or 0 1 in 26 × 3600 s
      RunFailed: AWS/States ExecutionsFailed 1 in 1 × 300 s
      RunTimedOut: AWS/States ExecutionsTimedOut 1 in 1 × 300 s
      StateMachineThrottled: AWS/States ExecutionThrottled 1 in 3 × 300 s
      TableReadsThrottled: AWS/DynamoDB ReadThrottleEvents or 0 1 in 3 × 300 s
      TableWritesThrottled: AWS/DynamoDB WriteThrottleEvents or 0 1 in 3 × 300 s
      Waiting: ReportExporter WaitSeconds 10800 in 1 × 21600 s
      "
    `);
  });

  it('describe what happened, and link to their section of the runbook', () => {
    const alarms = Object.entries(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    const ids = alarms.map(([logicalId, { Properties }]) => {
      const id = logicalId.replace('Exportsnightly', '').replace(/[0-9A-F]{8}$/, '');
      expect(Properties.AlarmDescription).toMatch(/^(Export nightly|All exports): .+\. What to do: /);
      expect(Properties.AlarmDescription).toMatch(new RegExp(`: docs/runbook\\.md#${id.toLowerCase()}$`));
      return id;
    });
    expect(ids.sort()).toEqual([...alarmIds].sort());
  });

  it('publish to the topic, which notifies its subscriber', () => {
    const topic = resource(template, 'AWS::SNS::Topic').id;
    for (const { Properties } of Object.values(resourcesOf(template, 'AWS::CloudWatch::Alarm'))) {
      expect(Properties.AlarmActions).toEqual([{ Ref: topic }]);
    }
    expect(resource(template, 'AWS::SNS::Subscription').Properties).toMatchObject({
      Protocol: 'email',
      Endpoint: 'operator@example.com',
      TopicArn: { Ref: topic },
    });
  });

  it('are allowed to publish: CloudWatch has access to the topic and its key', () => {
    const allows = (statements: { Effect: string; Principal: { Service?: string }; Action: string | string[] }[]) =>
      statements
        .filter(({ Effect, Principal }) => Effect === 'Allow' && Principal.Service === 'cloudwatch.amazonaws.com')
        .flatMap(({ Action }) => Action);
    expect(allows(resource(template, 'AWS::SNS::TopicPolicy').Properties.PolicyDocument.Statement)).toEqual([
      'sns:Publish',
    ]);
    expect(allows(resource(template, 'AWS::KMS::Key').Properties.KeyPolicy.Statement)).toEqual([
      'kms:Decrypt',
      'kms:GenerateDataKey*',
    ]);
    expect(resource(template, 'AWS::SNS::Topic').Properties.KmsMasterKeyId).toBeDefined();
    expect(resource(template, 'AWS::KMS::Key').Properties.EnableKeyRotation).toBe(true);
  });

  it.each([
    ['PT10M', 300, 2],
    ['PT45M', 300, 9],
    ['P1D', 300, 288],
    ['PT26H', 3_600, 26],
    ['PT26H30M', 3_600, 27],
    ['P7D', 3_600, 168],
  ])(
    'evaluate a freshness of %s in periods of %i s, %i of them, within the limits of CloudWatch',
    (freshness, period, count) => {
      const { EvaluationPeriods, ...rest } = freshnessAlarm(freshness);
      const { Period, ...metric } = metricOf(rest);
      expect([Period, EvaluationPeriods]).toEqual([period, count]);
      expect(period * EvaluationPeriods).toBeLessThanOrEqual(period < 3_600 ? 86_400 : 604_800);
      expect(metric).toMatchObject({
        Namespace: metricNamespace,
        MetricName: 'RunsCompleted',
        Dimensions: [
          { Name: 'deployment', Value: 'ReportExporter' },
          { Name: 'export', Value: 'a' },
        ],
      });
      expect(rest).toMatchObject({
        ComparisonOperator: 'LessThanThreshold',
        Threshold: 1,
        TreatMissingData: 'breaching',
      });
    },
  );

  it('include no freshness alarm without a schedule, with a disabled one, or with freshness none', () => {
    for (const schedule of [undefined, aSchedule({ enabled: false }), aSchedule({ freshness: 'none' })]) {
      const { template: withoutAlarm } = deploy({ exports: [{ name: 'a', schedule }] });
      const ids = Object.keys(resourcesOf(withoutAlarm, 'AWS::CloudWatch::Alarm'));
      expect(ids.filter((id) => id.includes('NotFresh'))).toEqual([]);
    }
  });
});

describe('the dashboard', () => {
  const { Properties } = resource(
    deploy({ exports: [{ name: 'one' }, { name: 'two' }] }).template,
    'AWS::CloudWatch::Dashboard',
  );
  const text = JSON.stringify(Properties.DashboardBody);

  it('shows every metric of every export', () => {
    for (const name of ['one', 'two']) {
      for (const metric of Object.keys(metricUnits)) {
        expect(text).toContain(`\\"${metric}\\",\\"deployment\\",\\"ReportExporter\\",\\"export\\",\\"${name}\\"`);
      }
    }
  });

  it('shows the median, 90th percentile and maximum of the service latency', () => {
    for (const statistic of ['p50', 'p90', 'Maximum']) expect(text).toContain(`\\"stat\\":\\"${statistic}\\"`);
  });
});
