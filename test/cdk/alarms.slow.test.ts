import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { alarmIds } from '../../lib/cdk/alarms.ts';
import { type MetricName, metricNamespace, metricUnits } from '../../lib/core/metrics.ts';
import {
  aSchedule,
  deploy,
  deployWith,
  resource,
  resourcesOf,
  someServices,
  someSettings,
  textOf,
} from '../support/aws/cdk-deployment.ts';

const { template } = deploy({
  service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
  exports: [{ name: 'nightly', schedule: aSchedule(), expect: { reportsEvery: 'P8D' } }],
  alarms: { email: 'operator@example.com' },
});
const alarm = (idBegins: string, of = template) => resource(of, 'AWS::CloudWatch::Alarm', idBegins).Properties;
const freshnessAlarm = (freshness: string) =>
  alarm(
    'ServicesacmeExportsaNotFresh',
    deploy({ exports: [{ name: 'a', schedule: aSchedule({ expression: 'rate(1 minute)', freshness }) }] }).template,
  );

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
  const period = stat === undefined ? {} : { Period: stat.Period };
  return { ...stat?.Metric, ...period, missing: expression === 'FILL(metric, 0)' ? ' or 0' : expression };
}

/** The alarm's own part of its logical ID. */
const alarmOf = (logicalId: string) =>
  logicalId.replace(/^Servicesacme(Exportsnightly)?/, '').replace(/[0-9A-F]{8}$/, '');

/** A line for each alarm: its id, metric and threshold. */
function linesOf(of: typeof template): string {
  const lines = Object.entries(resourcesOf(of, 'AWS::CloudWatch::Alarm')).map(([id, { Properties }]) => {
    const { Namespace, MetricName, Period, Dimensions = [], missing } = metricOf(Properties);
    const { Threshold, EvaluationPeriods, DatapointsToAlarm } = Properties;
    const dimensions = Dimensions.map(({ Name }) => Name).join(', ');
    const periods = `${DatapointsToAlarm === undefined ? '' : `${DatapointsToAlarm} of `}${EvaluationPeriods} × ${Period} s`;
    return `${alarmOf(id)}: ${Namespace} ${MetricName}${missing} by ${dimensions}: ${Threshold} in ${periods}`;
  });
  return `\n${lines.sort().join('\n')}\n`;
}

describe('the alarms', () => {
  it('monitor exactly these metrics', () => {
    expect(linesOf(template)).toMatchInlineSnapshot(`
      "
      ExecutionFailed: AWS/States ExecutionsFailed by StateMachineArn: 1 in 1 × 300 s
      FailureNotRecorded: AWS/Lambda Errors by FunctionName: 1 in 1 × 300 s
      FunctionThrottled: AWS/Lambda Throttles by FunctionName: 1 in 3 of 12 × 300 s
      MissedStart: AWS/SQS ApproximateNumberOfMessagesVisible by QueueName: 1 in 1 × 300 s
      NoReports: ReportExporter SecondsWithoutReports by deployment, export: 691200 in 1 × 300 s
      NotFresh: ReportExporter RunsCompleted or 0 by deployment, export: 1 in 26 × 3600 s
      RunFailed: ReportExporter RunsFailed by deployment, export: 1 in 1 × 300 s
      RunTimedOut: AWS/States ExecutionsTimedOut by StateMachineArn: 1 in 1 × 300 s
      StartRejected: ReportExporter StartsRejected by deployment, service: 1 in 1 × 300 s
      StateMachineThrottled: AWS/States ExecutionThrottled by StateMachineArn: 1 in 3 × 300 s
      TableReadsThrottled: AWS/DynamoDB ReadThrottleEvents or 0 by TableName: 1 in 3 × 300 s
      TableWritesThrottled: AWS/DynamoDB WriteThrottleEvents or 0 by TableName: 1 in 3 × 300 s
      Waiting: ReportExporter WaitSeconds by deployment, export: 10800 in 1 × 21600 s
      "
    `);
  });

  it('describe what happened, and link to their section of the runbook', () => {
    const alarms = Object.entries(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    const ids = alarms.map(([logicalId, { Properties }]) => {
      const id = alarmOf(logicalId);
      expect(Properties.AlarmDescription).toMatch(/^(Export nightly|Service acme|All services): .+\. What to do: /);
      expect(Properties.AlarmDescription).toMatch(
        new RegExp(`: docs/runbook\\.md#${id.toLowerCase()} in the package report-exporter$`),
      );
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
    // CloudWatch's requests to KMS may lack any key that a condition could name.
    const ofKey = resource(template, 'AWS::KMS::Key').Properties.KeyPolicy.Statement as { Condition?: unknown }[];
    expect(ofKey.filter(({ Condition }) => Condition !== undefined)).toEqual([]);
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

  it('evaluate a freshness of P14D in calendar weeks of the time zone of the schedule', () => {
    const weekly = aSchedule({ expression: 'cron(0 4 ? * SUN *)', timeZone: 'Europe/Berlin', freshness: 'P14D' });
    const { template: of } = deploy({ exports: [{ name: 'a', schedule: weekly }] });
    const { EvaluationPeriods, ...rest } = alarm('ServicesacmeExportsaNotFresh', of);
    expect([metricOf(rest).Period, EvaluationPeriods]).toEqual([604_800, 1]);
    expect(rest).toMatchObject({
      AlarmDescription: expect.stringContaining('No run completed in the last calendar week (Europe/Berlin).'),
      EvaluationWindow: { WallClockWindow: { Timezone: 'Europe/Berlin' } },
    });
    expect(freshnessAlarm('P7D').EvaluationWindow).toBeUndefined();
  });

  it.each([
    ['PT25H', []],
    ['PT24H', [expect.stringContaining('freshness raises an alarm although no run is late: cron(0 4 * * ? *)')]],
  ])('warn of a freshness that is not longer than the time between two starts: %s', (freshness, warnings) => {
    const schedule = aSchedule({ freshness });
    const { stack } = deploy({ exports: [{ name: 'a', schedule }] });
    const found = Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('freshness'));
    expect(found.map(({ entry }) => entry.data)).toEqual(warnings);
  });

  it('include no freshness alarm without a schedule, with a disabled one, or with freshness none', () => {
    for (const schedule of [undefined, aSchedule({ enabled: false }), aSchedule({ freshness: 'none' })]) {
      const { template: withoutAlarm } = deploy({ exports: [{ name: 'a', schedule }] });
      const ids = Object.keys(resourcesOf(withoutAlarm, 'AWS::CloudWatch::Alarm'));
      expect(ids.filter((id) => id.includes('NotFresh'))).toEqual([]);
    }
  });
});

describe('the alarm for an export without reports', () => {
  it('stays on until a run with reports has completed, also if runs complete seldom', () => {
    expect(alarm('ServicesacmeExportsnightlyNoReports')).toMatchObject({
      AlarmDescription: expect.stringContaining('No completed run has had reports for 192 h or longer.'),
      ComparisonOperator: 'GreaterThanOrEqualToThreshold',
      Statistic: 'Minimum',
      TreatMissingData: 'ignore',
    });
  });

  it('exists only with expect.reportsEvery, and also if the other alarms are in common', () => {
    const idsOf = (settings: Parameters<typeof deploy>[0]) =>
      Object.keys(resourcesOf(deploy(settings).template, 'AWS::CloudWatch::Alarm')).filter((id) =>
        id.includes('NoReports'),
      );
    expect(idsOf({ exports: [{ name: 'a', expect: { minReports: 1 } }] })).toEqual([]);
    const exports = [{ name: 'a', expect: { reportsEvery: 'PT1H' } }];
    expect(idsOf({ exports, alarms: { perExport: false } })).toEqual([expect.stringContaining('Exportsa')]);
  });
});

const numbered = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `export-${index}` }));

describe('alarms that the exports of a service have in common', () => {
  const common = deploy({
    alarms: { perExport: false },
    exports: [{ name: 'nightly', schedule: aSchedule() }],
  }).template;

  it('monitor the service instead of each export, except for freshness', () => {
    expect(linesOf(common)).toMatchInlineSnapshot(`
      "
      ExecutionFailed: AWS/States ExecutionsFailed by StateMachineArn: 1 in 1 × 300 s
      FailureNotRecorded: AWS/Lambda Errors by FunctionName: 1 in 1 × 300 s
      FunctionThrottled: AWS/Lambda Throttles by FunctionName: 1 in 3 of 12 × 300 s
      MissedStart: AWS/SQS ApproximateNumberOfMessagesVisible by QueueName: 1 in 1 × 300 s
      NotFresh: ReportExporter RunsCompleted or 0 by deployment, export: 1 in 26 × 3600 s
      RunTimedOut: AWS/States ExecutionsTimedOut by StateMachineArn: 1 in 1 × 300 s
      StartRejected: ReportExporter StartsRejected by deployment, service: 1 in 1 × 300 s
      StateMachineThrottled: AWS/States ExecutionThrottled by StateMachineArn: 1 in 3 × 300 s
      TableReadsThrottled: AWS/DynamoDB ReadThrottleEvents or 0 by TableName: 1 in 3 × 300 s
      TableWritesThrottled: AWS/DynamoDB WriteThrottleEvents or 0 by TableName: 1 in 3 × 300 s
      Waiting: ReportExporter WaitSeconds by deployment, service: 10800 in 1 × 21600 s
      "
    `);
  });

  it.each([
    [1, 3],
    [10, 3],
    [11, 6],
    [100, 30],
  ])('tolerate waits of 3 hours for every 10 exports: %i exports, %i hours', (count, hours) => {
    const { Threshold, AlarmDescription, Period } = alarm(
      'ServicesacmeWaiting',
      deploy({ exports: numbered(count), alarms: { perExport: false } }).template,
    );
    expect([Threshold, Period]).toEqual([hours * 3_600, 6 * 3_600]);
    expect(AlarmDescription).toContain(`had to wait for ${hours} hours or more in total`);
  });

  it('name as many exports as a description holds, and the number of the others', () => {
    const longest = (index: number) => `${index}-`.padEnd(40, 'x');
    const { template: many } = deploy({
      stackName: 'S'.repeat(128),
      alarms: { runbookUrl: `https://wiki.example.com/${'r'.repeat(171)}` },
      exports: Array.from({ length: 30 }, (_, index) => ({ name: longest(index) })),
    });
    for (const id of ['ExecutionFailed', 'Waiting']) {
      const description: string = alarm(`Servicesacme${id}`, many).AlarmDescription;
      expect(description).toContain(`(${longest(0)}, ${longest(1)}, `);
      const [, names = '', more] = /\(([^)]+) and (\d+) more\)/.exec(description) ?? [];
      expect(names.split(', ').length + Number(more)).toBe(30);
      expect(names.length).toBeGreaterThan(400);
      expect(description.length).toBeLessThanOrEqual(1_024);
      expect(description).toMatch(new RegExp(`: https://\\S+#${id.toLowerCase()}$`));
    }
  });

  it.each([
    [20, undefined, 40, 0],
    [21, undefined, 0, 1],
    [21, true, 42, 0],
  ])('are the default for more than 20 exports: %i exports, perExport %s', (count, perExport, own, inCommon) => {
    const { template: of } = deploy({ exports: numbered(count), alarms: { perExport } });
    const ids = Object.keys(resourcesOf(of, 'AWS::CloudWatch::Alarm')).map((id) => id.slice(0, -8));
    expect(ids.filter((id) => /Exports.*(RunFailed|Waiting)$/.test(id))).toHaveLength(own);
    expect(ids.filter((id) => /^Servicesacme(RunFailed|Waiting)$/.test(id))).toHaveLength(inCommon);
  });
});

describe('the dashboard', () => {
  interface Widget {
    readonly type: string;
    readonly properties: {
      readonly title?: string;
      readonly markdown?: string;
      readonly metrics?: readonly (readonly (string | { readonly label?: string; readonly expression?: string })[])[];
    };
  }
  const widgetsOf = (settings: object): readonly Widget[] => {
    const { Properties } = resource(deployWith(settings).template, 'AWS::CloudWatch::Dashboard');
    return JSON.parse(textOf(Properties.DashboardBody)).widgets;
  };
  const expressionsOf = (widgets: readonly Widget[]) =>
    widgets.flatMap(({ properties }) =>
      (properties.metrics ?? [])
        .flat()
        .flatMap((each) =>
          typeof each === 'object' && each.expression !== undefined ? [{ ...each, text: each.expression }] : [],
        ),
    );
  const widgets = widgetsOf(someServices());

  it('has graphs of the exports that stand out, and of each service', () => {
    const lines = widgets.map(({ type, properties: { title, markdown, metrics = [] } }) => {
      const shown = metrics.map((metric) =>
        metric
          .filter((part) => typeof part === 'string')
          .slice(0, 2)
          .join(' '),
      );
      return type === 'text' ? `\n${markdown}` : `${title}${shown.some(Boolean) ? `: ${shown.join(', ')}` : ''}`;
    });
    expect(`${lines.join('\n')}\n`).toMatchInlineSnapshot(`
      "
      ## The 10 exports with the most …
      Failed runs (count)
      Failed attempts (count)
      Completed runs (count)
      Pages (count)
      Reports (count)
      Bytes (bytes)
      Service latency, p90 (milliseconds)
      Waits requested by the service (seconds)
      Waits for other exports (seconds)

      ## Service eu
      Executions: AWS/States ExecutionsStarted, AWS/States ExecutionsSucceeded, AWS/States ExecutionsFailed, AWS/States ExecutionsTimedOut, ReportExporter StartsRejected
      Concurrent ExportPage invocations: AWS/Lambda ConcurrentExecutions
      Waits requested by the service (seconds): ReportExporter WaitSeconds

      ## Service us
      Executions: AWS/States ExecutionsStarted, AWS/States ExecutionsSucceeded, AWS/States ExecutionsFailed, AWS/States ExecutionsTimedOut, ReportExporter StartsRejected
      Concurrent ExportPage invocations: AWS/Lambda ConcurrentExecutions
      Waits requested by the service (seconds): ReportExporter WaitSeconds
      "
    `);
  });

  it('finds the exports when it is opened: the ten with the highest sum, or the highest peak of a percentile', () => {
    const texts = expressionsOf(widgets).map(({ text }) => text);
    const search = (metric: MetricName, statistic: string) =>
      `SEARCH('{ReportExporter,deployment,export} MetricName="${metric}" deployment="ReportExporter"', '${statistic}', 3600)`;
    expect(texts).toContain(`SORT(${search('RunsFailed', 'Sum')}, SUM, DESC, 10)`);
    expect(texts).toContain(`SORT(${search('ServiceLatency', 'p90')}, MAX, DESC, 10)`);
    for (const text of texts) {
      const [, metric = ''] = /MetricName="(\w+)"/.exec(text) ?? [];
      expect(Object.keys(metricUnits)).toContain(metric);
    }
    // oxlint-disable-next-line no-template-curly-in-string -- CloudWatch's placeholder
    for (const { label } of expressionsOf(widgets)) expect(label).toBe("${PROP('Dim.export')}");
  });

  it('is the same for one export and for a hundred', () => {
    expect(widgetsOf(someSettings({ exports: numbered(100) }))).toEqual(
      widgetsOf(someSettings({ exports: numbered(1) })),
    );
  });

  it('stays within the limits of CloudWatch, also with the most exports that a stack holds', () => {
    const searches = expressionsOf(widgets);
    // Metrics that an expression reads count, although ten are shown.
    const maxExports = 227;
    const others = widgets.flatMap(({ properties }) => properties.metrics ?? []).length - searches.length;
    expect(searches.length * maxExports + others).toBeLessThanOrEqual(2_500);
    for (const { properties } of widgets) {
      const own = expressionsOf([{ type: 'metric', properties }]).length;
      expect(own).toBeLessThanOrEqual(1);
    }
    const longest = widgetsOf(someSettings({ stackName: 'S'.repeat(128) }));
    for (const { text } of expressionsOf(longest)) expect(text.length).toBeLessThanOrEqual(1_024);
  });
});
