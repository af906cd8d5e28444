/** The alarms of services and exports. Each description says what happened and links to the runbook. */

import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmProps,
  type CfnAlarm,
  ComparisonOperator,
  type IMetric,
  MathExpression,
  type Metric,
  type MetricOptions,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { MetricName } from '../core/metrics.ts';
import type { DeploymentSettings } from '../settings/deployment-settings.ts';
import type { ExportSettings } from '../settings/settings.ts';
import type { ServiceFunctions } from './functions.ts';

/** A `ReportExporter`, for its alarms. */
export interface MonitoredService extends Construct {
  readonly serviceName: string;
  readonly exportNames: readonly string[];
  readonly functions: ServiceFunctions;
  readonly stateMachine: StateMachine;
  readonly deadLetterQueue: Queue | undefined;
  metric(name: MetricName, exportName?: string, props?: MetricOptions): Metric;
}

interface AlarmOptions {
  /** Absent: the alarms have no action. */
  readonly topic?: ITopic;
  /** Where operators read the runbook. Absent: in the package. */
  readonly runbookUrl?: string;
}

/** An export and the scope of its alarms. */
interface MonitoredExport extends ExportSettings {
  readonly scope: Construct;
}

/** An alarm. By default, one data point of at least 1 within five minutes raises it, and missing data does not. */
interface AlarmRow extends Partial<AlarmProps> {
  /** The beginning of the description: what happened. */
  readonly what: string;
  readonly metric: IMetric;
  /** Periods of a week are calendar weeks of this time zone. */
  readonly weeksOf?: string;
}

/** The alarms by id, which is the heading of their section in the runbook. Undefined: none with these settings. */
type AlarmTable<Subject> = Readonly<
  Record<string, (subject: Subject, service: MonitoredService) => AlarmRow | undefined>
>;

/** In six hours, for so many exports: short waits of many exports are normal. */
const maxWaitHours = 3;
const exportsPerMaxWait = 10;

/**
 * Each watches one metric, because a sum may be without data if one of its metrics is. Step Functions also counts
 * executions whose FailRun never ran, and none that an operator stopped.
 */
const serviceAlarms = {
  ExecutionFailed: (service) => ({
    what:
      'An execution failed. To see of which export: ' +
      `report-exporter status --failed --stack ${Stack.of(service).stackName}.`,
    metric: service.stateMachine.metricFailed(),
  }),
  RunTimedOut: (service) => ({
    what: 'An execution timed out.',
    metric: service.stateMachine.metricTimedOut(),
  }),
  MissedStart: ({ deadLetterQueue }) =>
    deadLetterQueue && {
      what: 'EventBridge Scheduler could not start a run. It retried for one hour and gave up.',
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible(),
    },
  Waiting(service) {
    const hours = maxWaitHours * Math.ceil(service.exportNames.length / exportsPerMaxWait);
    return {
      what:
        `Within 6 hours, its exports had to wait for ${hours} hours or more in total ` +
        `(Retry-After): ${maxWaitHours} hours for every ${exportsPerMaxWait} exports.`,
      metric: service.metric('WaitSeconds', undefined, { period: Duration.hours(6) }),
      threshold: hours * 3_600,
    };
  },
} satisfies AlarmTable<MonitoredService>;

/** Each export has its own: in a sum over several, runs of others would hide missing ones. */
const exportAlarms = {
  // Only an enabled schedule makes runs overdue.
  NotFresh({ name, schedule }, service) {
    if (schedule?.enabled !== true || schedule.freshness === 'none') return undefined;
    const { period, evaluationPeriods } = freshnessWindow(schedule.freshness);
    const weeksOf = period.toMilliseconds() === weekMs ? schedule.timeZone : undefined;
    const time =
      weeksOf === undefined
        ? `within the last ${formatMinutes(period.toMinutes() * evaluationPeriods)}`
        : `in the last calendar week (${weeksOf})`;
    return {
      what: `No run completed ${time}.`,
      metric: zeroIfMissing(service.metric('RunsCompleted', name, { period })),
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods,
      treatMissingData: TreatMissingData.BREACHING,
      weeksOf,
    };
  },
  // A run publishes the metric when it completes, and until the next one does, the state stays.
  NoReports: ({ name, expect: { reportsEvery } = {} }, service) =>
    reportsEvery === undefined
      ? undefined
      : {
          what: `No completed run has had reports for ${formatMinutes(reportsEvery / 60_000)} or longer.`,
          metric: service.metric('SecondsWithoutReports', name, { statistic: 'Minimum' }),
          threshold: reportsEvery / 1_000,
          treatMissingData: TreatMissingData.IGNORE,
        },
} satisfies AlarmTable<MonitoredExport>;

/** The ids of all alarms. A test compares them with the runbook and with the stack. */
export const alarmIds = Object.keys({ ...serviceAlarms, ...exportAlarms });

/** The runbook's page in the project, and its headings. */
export const runbook = { page: 'docs/runbook.md', alarms: 'Alarms', errors: 'Errors' } as const;

/** Creates the alarms of a service and of its exports. Executions stopped by an operator raise no alarm. */
export function createServiceAlarms(
  service: MonitoredService,
  exports: readonly MonitoredExport[],
  options: AlarmOptions,
): void {
  const rowsOf = <Subject>(table: AlarmTable<Subject>, subject: Subject) =>
    Object.fromEntries(Object.entries(table).map(([id, rowOf]) => [id, rowOf(subject, service)]));
  createAlarms(service, `Service ${service.serviceName}`, rowsOf(serviceAlarms, service), options);
  for (const each of exports) createAlarms(each.scope, `Export ${each.name}`, rowsOf(exportAlarms, each), options);
}

function createAlarms(
  scope: Construct,
  of: string,
  rows: Readonly<Record<string, AlarmRow | undefined>>,
  { topic, runbookUrl }: AlarmOptions,
): void {
  for (const [id, row] of Object.entries(rows)) {
    if (row === undefined) continue;
    const { what, weeksOf, ...props } = row;
    const anchor = `#${id.toLowerCase()}`;
    const section =
      runbookUrl === undefined ? `${runbook.page}${anchor} in the package report-exporter` : `${runbookUrl}${anchor}`;
    const alarm = new Alarm(scope, id, {
      alarmDescription: `${of}: ${what} What to do: ${section}`,
      threshold: 1,
      evaluationPeriods: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      treatMissingData: TreatMissingData.NOT_BREACHING,
      ...props,
    });
    if (topic !== undefined) alarm.addAlarmAction(new SnsAction(topic));
    if (weeksOf !== undefined) {
      // Older versions of CDK do not have the property.
      const window = { WallClockWindow: { Timezone: weeksOf } };
      (alarm.node.defaultChild as CfnAlarm).addPropertyOverride('EvaluationWindow', window);
    }
  }
}

const dayMs = 86_400_000;
const weekMs = 7 * dayMs;

/**
 * CloudWatch evaluates at most one day with periods under an hour, and seven days with longer ones. Seven days that end
 * just before a weekly run completes contain none, but each calendar week contains one.
 * https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation-window.html
 */
function freshnessWindow(freshnessMs: number): { period: Duration; evaluationPeriods: number } {
  if (freshnessMs > weekMs) return { period: Duration.days(7), evaluationPeriods: 1 };
  const period = freshnessMs <= dayMs ? Duration.minutes(5) : Duration.hours(1);
  return { period, evaluationPeriods: Math.ceil(freshnessMs / period.toMilliseconds()) };
}

/**
 * The metric, with 0 for periods without data. Otherwise an alarm with missing data points evaluates older ones beyond
 * its window.
 */
const zeroIfMissing = (metric: Metric): MathExpression =>
  new MathExpression({ expression: 'FILL(metric, 0)', usingMetrics: { metric }, period: metric.period });

const formatMinutes = (minutes: number): string => (minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`);

/** The topic that alarms publish to: a new one, with a subscription for `email`, or an existing one. */
export function createOrImportAlarmTopic(
  scope: Construct,
  { email, existingTopicArn }: DeploymentSettings['alarms'],
): ITopic {
  if (existingTopicArn !== undefined) return Topic.fromTopicArn(scope, 'AlarmTopic', existingTopicArn);
  const topic = new Topic(scope, 'AlarmTopic', {
    displayName: 'Report Exporter alarms',
    enforceSSL: true,
    masterKey: createTopicKey(scope),
  });
  // A topic policy replaces SNS's default policy, which would allow the alarms of this account to publish.
  topic.addToResourcePolicy(
    new PolicyStatement({
      actions: ['sns:Publish'],
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      resources: [topic.topicArn],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
  if (email !== undefined) topic.addSubscription(new EmailSubscription(email));
  return topic;
}

/**
 * A customer managed key: CloudWatch cannot use the AWS managed key of SNS, and its notifications would be lost
 * silently. The statement has no condition, as AWS publishes it: a request that lacks the condition's key would lose
 * every notification.
 * https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html
 * https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#compatibility-with-aws-services
 */
function createTopicKey(scope: Construct): Key {
  const key = new Key(scope, 'AlarmTopicKey', {
    description: 'Encrypts the alarm notifications of Report Exporter',
    enableKeyRotation: true,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  key.addToResourcePolicy(
    new PolicyStatement({
      actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      resources: ['*'],
    }),
  );
  return key;
}
