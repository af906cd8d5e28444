/**
 * Starts an export by the clock. The scheduler delivers at least once; the scheduled time in the input is the same in
 * every delivery, so begin-run knows a repetition.
 */

import { Duration, TimeZone } from 'aws-cdk-lib';
import {
  ContextAttribute,
  Schedule,
  ScheduleExpression,
  ScheduleTargetInput,
  TimeWindow,
} from 'aws-cdk-lib/aws-scheduler';
import { StepFunctionsStartExecution } from 'aws-cdk-lib/aws-scheduler-targets';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { acknowledge } from './nag-suppressions.ts';
import type { ScheduleSettings } from './settings/schedule-settings.ts';

export interface ExportSchedule {
  readonly schedule: Schedule;
  /** Starts that could not be delivered. */
  readonly deadLetters: Queue;
}

export function exportSchedule(
  scope: Construct,
  exportName: string,
  settings: ScheduleSettings,
  machine: StateMachine,
): ExportSchedule {
  const deadLetters = new Queue(scope, 'MissedStarts', {
    encryption: QueueEncryption.SQS_MANAGED,
    enforceSSL: true,
    retentionPeriod: Duration.days(14),
  });
  acknowledge(deadLetters, 'AwsSolutions-SQS3', 'It is itself the dead-letter queue, of a schedule');
  const schedule = new Schedule(scope, 'Schedule', {
    description: `Starts export ${exportName}`,
    schedule: ScheduleExpression.expression(settings.expression, TimeZone.of(settings.timeZone)),
    timeWindow:
      settings.flexibleWindow === undefined
        ? TimeWindow.off()
        : TimeWindow.flexible(Duration.millis(settings.flexibleWindow)),
    enabled: settings.enabled,
    target: new StepFunctionsStartExecution(machine, {
      input: ScheduleTargetInput.fromObject({ scheduledTime: ContextAttribute.scheduledTime }),
      // A start only fails when Step Functions itself cannot be had. An hour of that is lived through, as the state
      // machine does with an outage of the service; then a person should know. The age decides, never the count.
      maxEventAge: Duration.hours(1),
      retryAttempts: 185,
      deadLetterQueue: deadLetters,
    }),
  });
  // The machine's permissions stand apart from it, and the first start must find them in place.
  schedule.node.addDependency(scope.node.findChild('ContinueItself'), scope.node.findChild('AskAboutExecutions'));
  return { schedule, deadLetters };
}
