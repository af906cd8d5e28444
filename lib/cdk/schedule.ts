/**
 * The schedules that start the exports of a service. EventBridge Scheduler delivers at least once. Repeated deliveries
 * have the same scheduled time in their input, so BeginRun recognizes them.
 */

import { CfnResource, Duration, RemovalPolicy, Stack, TimeZone } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  ContextAttribute,
  Schedule,
  ScheduleExpression,
  ScheduleGroup,
  ScheduleTargetInput,
  TimeWindow,
} from 'aws-cdk-lib/aws-scheduler';
import { StepFunctionsStartExecution } from 'aws-cdk-lib/aws-scheduler-targets';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { grantKey } from './permissions.ts';
import type { ScheduleSettings } from '../settings/schedule-settings.ts';

export interface ScheduledExport {
  readonly name: string;
  readonly scope: Construct;
  /** Absent: it is started manually. */
  readonly schedule?: ScheduleSettings;
}

interface SharedBySchedules {
  readonly group: ScheduleGroup;
  readonly deadLetterQueue: Queue;
  readonly role: Role;
  readonly target: StateMachine;
}

/** Creates the schedules and what they share; nothing if there are none. */
export function createSchedules(
  scope: Construct,
  target: StateMachine,
  exports: readonly ScheduledExport[],
  key: IKey | undefined,
) {
  if (exports.every(({ schedule }) => schedule === undefined)) return undefined;
  const group = new ScheduleGroup(scope, 'Schedules', { removalPolicy: RemovalPolicy.DESTROY });
  const deadLetterQueue = createDeadLetterQueue(scope, key);
  const role = createRole(scope, group);
  // Scheduler sends to the queue with this role. Without the key it cannot, and the start is lost without an alarm.
  grantKey(role, key, 'sqs', ['kms:Decrypt', 'kms:GenerateDataKey']);
  const byExport = new Map<string, Schedule>();
  for (const { name, scope: ofExport, schedule } of exports) {
    if (schedule === undefined) continue;
    byExport.set(name, createSchedule(ofExport, name, schedule, { group, deadLetterQueue, role, target }));
  }
  return { group, deadLetterQueue, byExport };
}

/**
 * Creates `group`, and so its schedules, after all other resources in `scope`. A rate starts a run at once. If the
 * deployment then fails, its rollback cannot delete a bucket that has pages.
 */
export function createSchedulesLast(group: ScheduleGroup, scope: Construct): void {
  const isOfSchedules = ({ node }: CfnResource): boolean =>
    node.scopes.some((each) => each instanceof Schedule || each instanceof ScheduleGroup || each.node.id === roleId);
  const all = scope.node.findAll().filter((each) => CfnResource.isCfnResource(each));
  group.node.addDependency(...all.filter((each) => !isOfSchedules(each)));
}

function createSchedule(
  scope: Construct,
  name: string,
  settings: ScheduleSettings,
  { group, deadLetterQueue, role, target }: SharedBySchedules,
): Schedule {
  const schedule = new Schedule(scope, 'Schedule', {
    scheduleName: name,
    scheduleGroup: group,
    description: `Starts export ${name}`,
    schedule: ScheduleExpression.expression(settings.expression, TimeZone.of(settings.timeZone)),
    timeWindow: TimeWindow.off(),
    enabled: settings.enabled,
    target: new StepFunctionsStartExecution(target, {
      // Otherwise each target would create its own.
      role,
      input: ScheduleTargetInput.fromObject({ export: name, scheduledTime: ContextAttribute.scheduledTime }),
      // A start fails only if Step Functions is unavailable. Retry for an hour, then raise an alarm. The maximum number
      // of attempts is Scheduler's highest, so that the maximum event age is the effective limit.
      maxEventAge: Duration.hours(1),
      retryAttempts: 185,
      deadLetterQueue,
    }),
  });
  // A schedule does not refer to the role's policy, nor to the group, except by its name. The role refers to the group,
  // which is created last.
  schedule.node.addDependency(role);
  return schedule;
}

function createDeadLetterQueue(scope: Construct, key: IKey | undefined): Queue {
  return new Queue(scope, 'DeadLetterQueue', {
    encryption: key === undefined ? QueueEncryption.SQS_MANAGED : QueueEncryption.KMS,
    encryptionMasterKey: key,
    enforceSSL: true,
    retentionPeriod: Duration.days(14),
  });
}

const roleId = 'SchedulerRole';

/** Scheduler assumes the role for schedules of this group only. */
function createRole(scope: Construct, group: ScheduleGroup): Role {
  return new Role(scope, roleId, {
    assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
      conditions: {
        StringEquals: { 'aws:SourceAccount': Stack.of(scope).account, 'aws:SourceArn': group.scheduleGroupArn },
      },
    }),
  });
}
