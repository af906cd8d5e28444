/** Reads the schedules of exports from EventBridge Scheduler. Someone may have disabled, changed or deleted one since the deployment. */

import { GetScheduleCommand, paginateListSchedules, type SchedulerClient } from '@aws-sdk/client-scheduler';
import type { ScheduleState } from '../../target/target.ts';

/** A schedule, and the schedule group that it is in. */
interface ScheduleName {
  readonly name: string;
  readonly group: string;
}

/** Needs scheduler:GetSchedule. A deleted schedule counts as none. */
export async function readSchedule(
  client: SchedulerClient,
  scheduleName: ScheduleName | undefined,
): Promise<ScheduleState> {
  if (scheduleName === undefined) return { kind: 'manual' };
  const { name: Name, group: GroupName } = scheduleName;
  try {
    const found = await client.send(new GetScheduleCommand({ Name, GroupName }));
    const { ScheduleExpression: expression = '', ScheduleExpressionTimezone: timeZone = 'UTC', State } = found;
    return { kind: kindOf(State), expression, timeZone };
  } catch (error) {
    if (isNotFound(error)) return { kind: 'manual' };
    throw error;
  }
}

/** By name, whether each schedule of a group is enabled; none if the group was deleted. Needs scheduler:ListSchedules. */
export async function listSchedules(
  client: SchedulerClient,
  GroupName: string,
): Promise<ReadonlyMap<string, 'scheduled' | 'disabled'>> {
  const schedules = new Map<string, 'scheduled' | 'disabled'>();
  try {
    for await (const { Schedules = [] } of paginateListSchedules({ client }, { GroupName, MaxResults: 100 })) {
      for (const { Name = '', State } of Schedules) schedules.set(Name, kindOf(State));
    }
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  return schedules;
}

const kindOf = (state: string | undefined) => (state === 'DISABLED' ? 'disabled' : 'scheduled');

const isNotFound = (error: unknown): boolean => error instanceof Error && error.name === 'ResourceNotFoundException';
