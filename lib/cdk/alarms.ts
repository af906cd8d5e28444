/** The alarms of a service, of its exports and of the table. Each description says what happened and links to the runbook. */

import { Annotations, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmProps,
  type CfnAlarm,
  ComparisonOperator,
  type IMetric,
  MathExpression,
  type Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { findFreshnessProblem, type ScheduleSettings } from '../settings/schedule-settings.ts';
import type { ServiceFunctions } from './functions.ts';
import { exportMetric, serviceMetric } from './metrics.ts';

/** Every alarm has a section in the runbook, under its id. A test compares this list with the runbook and with the stack. */
export const alarmIds = [
  'ExecutionFailed',
  'RunFailed',
  'RunTimedOut',
  'StartRejected',
  'FailureNotRecorded',
  'NotFresh',
  'NoReports',
  'MissedStart',
  'FunctionThrottled',
  'StateMachineThrottled',
  'Waiting',
  'TableReadsThrottled',
  'TableWritesThrottled',
] as const;

type AlarmId = (typeof alarmIds)[number];

/** The runbook's page in the project, and its headings. */
export const runbook = { page: 'docs/runbook.md', alarms: 'Alarms', errors: 'Errors' } as const;

export interface ServiceAlarmsProps {
  readonly serviceName: string;
  readonly exports: readonly AlarmedExport[];
  /** Whether each export has its own alarms for failed and waiting runs, besides those of the service. */
  readonly perExport: boolean;
  readonly functions: ServiceFunctions;
  readonly stateMachine: StateMachine;
  /** Absent: no export has a schedule. */
  readonly deadLetterQueue: Queue | undefined;
  readonly notifications: AlarmNotifications;
}

/** Whom an alarm notifies, and of what. */
export interface AlarmNotifications {
  /** Absent: the alarms have no action. */
  readonly topic: ITopic | undefined;
  /** Where operators read the runbook. Absent: in the package. */
  readonly runbookUrl: string | undefined;
}

interface AlarmedExport {
  readonly name: string;
  /** The scope of its alarms. */
  readonly scope: Construct;
  /** Says how old the newest completed run may be. Absent: any age. */
  readonly schedule: ScheduleSettings | undefined;
  /** How long completed runs may have no reports. Absent: forever. */
  readonly reportsEveryMs: number | undefined;
}

const fiveMinutes = Duration.minutes(5);
const sixHours = Duration.hours(6);

/** Fifteen minutes of throttling: shorter bursts are retried and harmless. */
const throttlingPeriods = 3;

/** Retries of a throttled invocation become rare, so that not every period has one. */
const periodsPerHour = 12;

/** Half of the six hours. */
const maxWaitHours = 3;

/** In common for so many exports: short waits of many exports are normal. */
const exportsPerMaxWait = 10;

/** Creates the alarms of a service and of its exports. Executions stopped by an operator raise no alarm. */
export function createServiceAlarms(scope: Construct, props: ServiceAlarmsProps): void {
  const { serviceName, exports, perExport, notifications } = props;
  const addAlarm: AddAlarm = (id, what, condition) =>
    createAlarm(scope, id, `Service ${serviceName}: ${what}`, condition, notifications);

  addExecutionAlarms(addAlarm, scope, props);
  addFunctionAlarms(addAlarm, props);
  addAlarm(
    'StartRejected',
    'An execution failed because its start input names no export of the service. If it had begun a run before the exports ' +
      'were changed, the run is unfinished, and its failure is not recorded.',
    { metric: serviceMetric(scope, serviceName, 'StartsRejected', { statistic: 'Sum', period: fiveMinutes }) },
  );
  for (const each of exports) createExportAlarms(each, perExport, notifications);
  if (!perExport) addCommonWaitingAlarm(addAlarm, scope, props);
}

type AddAlarm = (id: AlarmId, what: string, condition: AlarmCondition) => Alarm;

/**
 * Step Functions also counts executions whose FailRun never ran. Each alarm watches one metric: a sum may be without data if one
 * of its metrics is. None counts executions that an operator stopped.
 */
function addExecutionAlarms(addAlarm: AddAlarm, scope: Construct, { stateMachine, exports }: ServiceAlarmsProps): void {
  const period = fiveMinutes;
  const command = `report-exporter status --failed --stack ${Stack.of(scope).stackName}`;
  addAlarm('ExecutionFailed', `An execution failed. To see of which export (${listNamesOf(exports)}): ${command}.`, {
    metric: stateMachine.metricFailed({ period }),
  });
  addAlarm('RunTimedOut', 'An execution timed out.', { metric: stateMachine.metricTimedOut({ period }) });
}

/** The alarms of what the exports of a service share. */
function addFunctionAlarms(addAlarm: AddAlarm, props: ServiceAlarmsProps): void {
  const { stateMachine, functions, deadLetterQueue } = props;
  addAlarm('FailureNotRecorded', 'The FailRun function failed, so a failed run may have raised no alarm of its own.', {
    metric: functions.FailRun.metricErrors({ period: fiveMinutes }),
  });
  if (deadLetterQueue !== undefined) {
    addAlarm('MissedStart', 'EventBridge Scheduler could not start a run. It retried for one hour and gave up.', {
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible({ period: fiveMinutes, statistic: 'Maximum' }),
    });
  }
  // ExportPage has the most invocations of the four functions, so it is the first to be throttled.
  addAlarm('FunctionThrottled', 'Lambda throttled the ExportPage function three times within an hour, minutes apart.', {
    metric: functions.ExportPage.metricThrottles({ period: fiveMinutes }),
    evaluationPeriods: periodsPerHour,
    datapointsToAlarm: throttlingPeriods,
  });
  addAlarm('StateMachineThrottled', 'Step Functions throttled the state machine for 15 minutes.', {
    metric: stateMachine.metricThrottled({ period: fiveMinutes }),
    evaluationPeriods: throttlingPeriods,
  });
}

function createExportAlarms(each: AlarmedExport, perExport: boolean, notifications: AlarmNotifications): void {
  const { name, scope, schedule, reportsEveryMs } = each;
  const addAlarm: AddAlarm = (id, what, condition) =>
    createAlarm(scope, id, `Export ${name}: ${what}`, condition, notifications);
  // Only an enabled schedule makes runs overdue.
  if (schedule?.enabled === true && schedule.freshness !== 'none') {
    addFreshnessAlarm(addAlarm, each, schedule, schedule.freshness);
  }
  if (reportsEveryMs !== undefined) {
    // Also one per export. A run publishes the metric when it completes, and until the next one does, the state stays.
    addAlarm('NoReports', `No completed run has had reports for ${formatMinutes(reportsEveryMs / 60_000)} or longer.`, {
      metric: exportMetric(scope, name, 'SecondsWithoutReports', { statistic: 'Minimum', period: fiveMinutes }),
      threshold: reportsEveryMs / 1_000,
      treatMissingData: TreatMissingData.IGNORE,
    });
  }
  if (!perExport) return;
  addAlarm('RunFailed', 'A run failed.', {
    metric: exportMetric(scope, name, 'RunsFailed', { statistic: 'Sum', period: fiveMinutes }),
  });
  addAlarm('Waiting', `Within 6 hours, the service requested ${maxWaitHours} hours or more of waiting (Retry-After).`, {
    metric: exportMetric(scope, name, 'WaitSeconds', { statistic: 'Sum', period: sixHours }),
    threshold: maxWaitHours * 3_600,
  });
}

/**
 * Each export has this one in any case: an alarm detects the absence of data only if it watches a single metric. In a sum over
 * several exports, the runs of the others would hide the missing ones.
 */
function addFreshnessAlarm(
  addAlarm: AddAlarm,
  { name, scope }: AlarmedExport,
  schedule: ScheduleSettings,
  freshnessMs: number,
): void {
  const { period, evaluationPeriods } = freshnessWindow(freshnessMs);
  const isCalendarWeek = period.toMilliseconds() === weekMs;
  const time = isCalendarWeek
    ? `in the last calendar week (${schedule.timeZone})`
    : `within the last ${formatMinutes(period.toMinutes() * evaluationPeriods)}`;
  const completed = exportMetric(scope, name, 'RunsCompleted', { statistic: 'Sum', period });
  const alarm = addAlarm('NotFresh', `No run completed ${time}.`, {
    metric: zeroIfMissing(completed, period),
    comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
    evaluationPeriods,
    treatMissingData: TreatMissingData.BREACHING,
  });
  if (isCalendarWeek) {
    // Older versions of CDK do not have the property.
    const window = { WallClockWindow: { Timezone: schedule.timeZone } };
    (alarm.node.defaultChild as CfnAlarm).addPropertyOverride('EvaluationWindow', window);
  }
  const problem = findFreshnessProblem(schedule);
  if (problem !== undefined) Annotations.of(scope).addWarningV2('report-exporter:freshness', problem);
}

const dayMs = 86_400_000;
const weekMs = 7 * dayMs;

/**
 * CloudWatch evaluates at most one day with periods under an hour, and seven days with longer ones. Seven days that end just
 * before a weekly run completes contain none, but each calendar week contains one.
 * https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation-window.html
 */
function freshnessWindow(freshnessMs: number): { period: Duration; evaluationPeriods: number } {
  if (freshnessMs > weekMs) return { period: Duration.days(7), evaluationPeriods: 1 };
  const period = freshnessMs <= dayMs ? fiveMinutes : Duration.hours(1);
  return { period, evaluationPeriods: Math.ceil(freshnessMs / period.toMilliseconds()) };
}

/** Instead of an alarm per export. */
function addCommonWaitingAlarm(addAlarm: AddAlarm, scope: Construct, { serviceName, exports }: ServiceAlarmsProps) {
  const hours = maxWaitHours * Math.ceil(exports.length / exportsPerMaxWait);
  addAlarm(
    'Waiting',
    `Within 6 hours, its exports (${listNamesOf(exports)}) had to wait for ${hours} hours or more in total (Retry-After): ` +
      `${maxWaitHours} hours for every ${exportsPerMaxWait} exports.`,
    {
      metric: serviceMetric(scope, serviceName, 'WaitSeconds', { statistic: 'Sum', period: sixHours }),
      threshold: hours * 3_600,
    },
  );
}

/** An alarm's description has at most 1,024 characters. This leaves space for everything else that it says. */
const maxNamesLength = 500;

const listNamesOf = (exports: readonly AlarmedExport[]) =>
  namesWithin(
    exports.map(({ name }) => name),
    maxNamesLength,
  );

/** `a, b, c and 37 more`: as many names as fit into `maxLength` characters. */
function namesWithin(names: readonly string[], maxLength: number): string {
  const all = names.join(', ');
  if (all.length <= maxLength) return all;
  let listed = '';
  for (const [index, name] of names.entries()) {
    const text = index === 0 ? name : `${listed}, ${name}`;
    if (`${text} and ${names.length} more`.length > maxLength) return `${listed} and ${names.length - index} more`;
    listed = text;
  }
  return listed;
}

/** Creates the alarms of the table, which all services share. */
export function createTableAlarms(scope: Construct, table: ITable, notifications: AlarmNotifications): void {
  for (const [id, metricName, operation] of [
    ['TableReadsThrottled', 'ReadThrottleEvents', 'reads from'],
    ['TableWritesThrottled', 'WriteThrottleEvents', 'writes to'],
  ] as const) {
    const metric = table.metric(metricName, {
      dimensionsMap: { TableName: table.tableName },
      statistic: 'Sum',
      period: fiveMinutes,
    });
    const what = `All services: DynamoDB throttled ${operation} the page log for 15 minutes.`;
    const condition = { metric: zeroIfMissing(metric, fiveMinutes), evaluationPeriods: throttlingPeriods };
    createAlarm(scope, id, what, condition, notifications);
  }
}

/** By default, an alarm is raised by one data point of at least 1. */
type AlarmCondition = { readonly metric: IMetric } & Partial<AlarmProps>;

function createAlarm(
  scope: Construct,
  id: AlarmId,
  what: string,
  condition: AlarmCondition,
  { topic, runbookUrl }: AlarmNotifications,
): Alarm {
  const anchor = `#${id.toLowerCase()}`;
  const section =
    runbookUrl === undefined ? `${runbook.page}${anchor} in the package report-exporter` : `${runbookUrl}${anchor}`;
  const alarm = new Alarm(scope, id, {
    alarmDescription: `${what} What to do: ${section}`,
    threshold: 1,
    evaluationPeriods: 1,
    comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    treatMissingData: TreatMissingData.NOT_BREACHING,
    ...condition,
  });
  if (topic !== undefined) alarm.addAlarmAction(new SnsAction(topic));
  return alarm;
}

/**
 * The metric, with 0 for periods without data. Otherwise an alarm with missing data points evaluates older ones beyond its
 * window, and an alarm on a DynamoDB metric, for which missing data is ignored, would never return to OK.
 */
function zeroIfMissing(metric: Metric, period: Duration): MathExpression {
  return new MathExpression({ expression: 'FILL(metric, 0)', usingMetrics: { metric }, period });
}

const formatMinutes = (minutes: number): string => (minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`);

export interface AlarmTopicSettings {
  readonly email?: string | undefined;
  readonly existingTopicArn?: string | undefined;
}

/** The topic that alarms publish to: a new one, with a subscription for `email`, or an existing one. */
export function createOrImportAlarmTopic(scope: Construct, { email, existingTopicArn }: AlarmTopicSettings): ITopic {
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
 * A customer managed key: CloudWatch cannot use the AWS managed key of SNS, and its notifications would be lost silently. The
 * statement has no condition, as AWS publishes it: a request that lacks the condition's key would lose every notification.
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
