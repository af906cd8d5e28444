/**
 * The schedule that starts an export. EventBridge Scheduler delivers at least once. Repeated deliveries have the same scheduled
 * time in their input, so BeginRun recognizes them.
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
import type { Construct } from 'constructs';
import { acknowledge } from './nag-suppressions.ts';
import type { ScheduleSettings } from './settings/schedule-settings.ts';
import type { ExportStateMachine } from './state-machine.ts';

export interface ExportScheduleProps {
  readonly exportName: string;
  readonly settings: ScheduleSettings;
  readonly target: ExportStateMachine;
}

export interface ExportSchedule {
  readonly schedule: Schedule;
  /** Receives the starts that could not be delivered. */
  readonly deadLetterQueue: Queue;
}

export function createSchedule(
  scope: Construct,
  { exportName, settings, target }: ExportScheduleProps,
): ExportSchedule {
  const deadLetterQueue = new Queue(scope, 'DeadLetterQueue', {
    encryption: QueueEncryption.SQS_MANAGED,
    enforceSSL: true,
    retentionPeriod: Duration.days(14),
  });
  acknowledge(deadLetterQueue, 'AwsSolutions-SQS3', 'The queue is the dead-letter queue of a schedule');
  const schedule = new Schedule(scope, 'Schedule', {
    description: `Starts export ${exportName}`,
    schedule: ScheduleExpression.expression(settings.expression, TimeZone.of(settings.timeZone)),
    timeWindow:
      settings.flexibleWindow === undefined
        ? TimeWindow.off()
        : TimeWindow.flexible(Duration.millis(settings.flexibleWindow)),
    enabled: settings.enabled,
    target: new StepFunctionsStartExecution(target.stateMachine, {
      input: ScheduleTargetInput.fromObject({ scheduledTime: ContextAttribute.scheduledTime }),
      // A start fails only if Step Functions is unavailable. Retry for an hour, then raise an alarm. The maximum number of
      // attempts is Scheduler's highest, so that the maximum event age is the effective limit.
      maxEventAge: Duration.hours(1),
      retryAttempts: 185,
      deadLetterQueue,
    }),
  });
  // Some permissions are in separate policies, and must exist before the first start.
  schedule.node.addDependency(...target.separatePolicies);
  return { schedule, deadLetterQueue };
}
