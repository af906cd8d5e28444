import { describe, expect, it } from 'vitest';
import { alarmIds } from '../../lib/cdk/runbook.ts';
import { metricNamespace, metricUnits } from '../../lib/core/metrics.ts';
import { aSchedule, deploy, resource, resourcesOf } from '../support/deployment.ts';

const { template } = deploy({ alarms: { email: 'operator@example.com' } });
const alarm = (idBegins: string, of = template) => resource(of, 'AWS::CloudWatch::Alarm', idBegins).Properties;
const freshnessAlarm = (freshness: string) =>
  alarm('ExportsaNotFresh', deploy({ exports: [{ name: 'a', schedule: aSchedule({ freshness }) }] }).template);

interface Watched {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Period: number;
}
type Watching = Partial<Watched> & {
  readonly Metrics?: readonly {
    readonly Expression?: string;
    readonly MetricStat?: { readonly Metric: Omit<Watched, 'Period'>; readonly Period: number };
  }[];
};

/** What an alarm watches, by itself or with noughts where there is nothing. */
function watchedBy(on: Watching): Partial<Watched> & { filled: string | undefined } {
  const { Metrics: metrics } = on;
  if (metrics === undefined) return { ...on, filled: '' };
  const stat = metrics.find(({ MetricStat }) => MetricStat !== undefined)?.MetricStat;
  const expression = metrics.find(({ Expression }) => Expression !== undefined)?.Expression;
  const period = stat === undefined ? {} : { Period: stat.Period };
  return { ...stat?.Metric, ...period, filled: expression === 'FILL(metric, 0)' ? ' or 0' : expression };
}

describe('the alarms', () => {
  it('watch these metrics, and no other', () => {
    const watched = Object.entries(resourcesOf(template, 'AWS::CloudWatch::Alarm')).map(([id, { Properties: on }]) => {
      const name = id.replace('Exportsnightly', '').replace(/[0-9A-F]{8}$/, '');
      const { Namespace, MetricName, Period, filled } = watchedBy(on);
      return `${name}: ${Namespace} ${MetricName}${filled} ${on.Threshold} in ${on.EvaluationPeriods} × ${Period} s`;
    });
    expect(`\n${watched.sort().join('\n')}\n`).toMatchInlineSnapshot(`
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

  it('each say what has happened, and where the runbook says what to do', () => {
    const alarms = Object.entries(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    const named = alarms.map(([logicalId, { Properties }]) => {
      const id = logicalId.replace('Exportsnightly', '').replace(/[0-9A-F]{8}$/, '');
      expect(Properties.AlarmDescription).toMatch(/^(Export nightly|All exports): .+\. What to do: /);
      expect(Properties.AlarmDescription).toMatch(new RegExp(`: docs/runbook\\.md#${id.toLowerCase()}$`));
      return id;
    });
    expect(named.sort()).toEqual([...alarmIds].sort());
  });

  it('tell the topic, and the topic its subscriber', () => {
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

  it('get through: CloudWatch may publish to the topic and use its key', () => {
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
    'watch a freshness of %s in periods of %i s, %i of them, as far back as CloudWatch can look',
    (freshness, period, count) => {
      const { EvaluationPeriods, ...rest } = freshnessAlarm(freshness);
      const { Period, ...metric } = watchedBy(rest);
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

  it('expect no run of an export that is off, by hand, or said to need none', () => {
    for (const schedule of [undefined, aSchedule({ enabled: false }), aSchedule({ freshness: 'none' })]) {
      const { template: quiet } = deploy({ exports: [{ name: 'a', schedule }] });
      const ids = Object.keys(resourcesOf(quiet, 'AWS::CloudWatch::Alarm'));
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

  it('shows every metric that the functions write, of every export', () => {
    for (const name of ['one', 'two']) {
      for (const metric of Object.keys(metricUnits)) {
        expect(text).toContain(`\\"${metric}\\",\\"deployment\\",\\"ReportExporter\\",\\"export\\",\\"${name}\\"`);
      }
    }
  });

  it('shows how long the service takes: usually, often, and at worst', () => {
    for (const statistic of ['p50', 'p90', 'Maximum']) expect(text).toContain(`\\"stat\\":\\"${statistic}\\"`);
  });
});
