/**
 * The alarms that matter: each says what has happened, and where the runbook says what to do about it.
 */

import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmProps,
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
import type { ExportFunctions } from './functions.ts';
import { metricsOf } from './metrics.ts';
import { type AlarmId, whatToDo } from './runbook.ts';

export interface ExportAlarmsProps {
  readonly exportName: string;
  readonly functions: ExportFunctions;
  readonly stateMachine: StateMachine;
  readonly deadLetters: Queue | undefined;
  /** How old the newest completed run may get, in milliseconds; absent: as old as it likes. */
  readonly freshnessMs: number | undefined;
  readonly topic: ITopic | undefined;
}

const fiveMinutes = Duration.minutes(5);
const sixHours = Duration.hours(6);
const forAQuarterOfAnHour = 'in each of three spans of five minutes';

/** Asked for within six hours, in seconds: from here on an export waits more than it works. */
const muchWaiting = 3 * 3_600;

export function exportAlarms(scope: Construct, props: ExportAlarmsProps): void {
  const { exportName, stateMachine, functions, deadLetters, freshnessMs, topic } = props;
  const metric = metricsOf(scope, exportName);
  const raise = (id: AlarmId, what: string, alarm: AlarmCondition) =>
    raiseAlarm(scope, id, `Export ${exportName}: ${what}`, alarm, topic);

  // An execution that a person stopped is no failure, and has no alarm.
  raise('RunFailed', 'a run failed.', { metric: stateMachine.metricFailed({ period: fiveMinutes }) });
  raise('RunTimedOut', 'an execution took more time than any run should.', {
    metric: stateMachine.metricTimedOut({ period: fiveMinutes }),
  });
  if (freshnessMs !== undefined) {
    const { period, evaluationPeriods } = freshnessWindow(freshnessMs);
    raise('NotFresh', `no run has completed for ${inWords(period, evaluationPeriods)}.`, {
      metric: filled(metric('RunsCompleted', { statistic: 'Sum', period }), period),
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods,
      treatMissingData: TreatMissingData.BREACHING,
    });
  }
  if (deadLetters !== undefined) {
    raise('MissedStart', 'the scheduler could not start a run for an hour and gave up.', {
      metric: deadLetters.metricApproximateNumberOfMessagesVisible({ period: fiveMinutes, statistic: 'Maximum' }),
    });
  }
  // The busiest of the four functions; where one is throttled for want of concurrency, it is.
  raise('FunctionThrottled', `Lambda turned it away ${forAQuarterOfAnHour}.`, {
    metric: functions.ExportPage.metricThrottles({ period: fiveMinutes }),
    evaluationPeriods: 3,
  });
  raise('StateMachineThrottled', `Step Functions held it up ${forAQuarterOfAnHour}.`, {
    metric: stateMachine.metricThrottled({ period: fiveMinutes }),
    evaluationPeriods: 3,
  });
  raise('Waiting', 'in six hours the service asked for three hours or more of waiting.', {
    metric: metric('WaitSeconds', { statistic: 'Sum', period: sixHours }),
    threshold: muchWaiting,
  });
}

/** The table is shared by all exports, so its alarms are too. */
export function tableAlarms(scope: Construct, table: ITable, topic: ITopic | undefined): void {
  for (const [id, metricName, what] of [
    ['TableReadsThrottled', 'ReadThrottleEvents', 'reads of'],
    ['TableWritesThrottled', 'WriteThrottleEvents', 'writes to'],
  ] as const) {
    const metric = table.metric(metricName, {
      dimensionsMap: { TableName: table.tableName },
      statistic: 'Sum',
      period: fiveMinutes,
    });
    const said = `All exports: DynamoDB turned ${what} the page log away ${forAQuarterOfAnHour}.`;
    raiseAlarm(scope, id, said, { metric: filled(metric, fiveMinutes), evaluationPeriods: 3 }, topic);
  }
}

/** Goes off at the first sign, unless it says otherwise. */
type AlarmCondition = { readonly metric: IMetric } & Partial<AlarmProps>;

function raiseAlarm(
  scope: Construct,
  id: AlarmId,
  what: string,
  condition: AlarmCondition,
  topic: ITopic | undefined,
): void {
  const alarm = new Alarm(scope, id, {
    alarmDescription: `${what} ${whatToDo(id)}`,
    threshold: 1,
    evaluationPeriods: 1,
    comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    treatMissingData: TreatMissingData.NOT_BREACHING,
    ...condition,
  });
  if (topic !== undefined) alarm.addAlarmAction(new SnsAction(topic));
}

/**
 * The metric with nought where there is nothing. Without it an alarm looks further back than it was told for points that
 * are missing, and one on DynamoDB's metrics, which ignores what is missing, would never rest again.
 */
function filled(metric: Metric, period: Duration): MathExpression {
  return new MathExpression({ expression: 'FILL(metric, 0)', usingMetrics: { metric }, period });
}

const day = 86_400_000;

/** An alarm looks back a day at most in periods under an hour, and seven days in hours. */
function freshnessWindow(freshnessMs: number): { period: Duration; evaluationPeriods: number } {
  const period = freshnessMs <= day ? fiveMinutes : Duration.hours(1);
  return { period, evaluationPeriods: Math.ceil(freshnessMs / period.toMilliseconds()) };
}

function inWords(period: Duration, periods: number): string {
  const minutes = period.toMinutes() * periods;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${minutes} min`;
}

// MERGED alarm-topic.ts: Where alarms go: a topic of the stack's own, or one that exists.

export interface AlarmTopicSettings {
  readonly email?: string | undefined;
  readonly existingTopicArn?: string | undefined;
}

export function alarmTopic(scope: Construct, { email, existingTopicArn }: AlarmTopicSettings): ITopic {
  if (existingTopicArn !== undefined) return Topic.fromTopicArn(scope, 'Alarms', existingTopicArn);
  const topic = new Topic(scope, 'Alarms', {
    displayName: 'Report Exporter alarms',
    enforceSSL: true,
    masterKey: alarmKey(scope),
  });
  // A topic's policy, once it has one, replaces what SNS allows by default: the account's own alarms included.
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

/** A key of its own: CloudWatch may not use the one that AWS keeps for SNS, and alarms would vanish without a word. */
function alarmKey(scope: Construct): Key {
  const key = new Key(scope, 'AlarmsKey', {
    description: 'Encrypts the alarms of Report Exporter on their way',
    enableKeyRotation: true,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  key.addToResourcePolicy(
    new PolicyStatement({
      actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      resources: ['*'],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
  return key;
}
