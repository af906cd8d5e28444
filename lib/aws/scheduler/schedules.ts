/** Reads schedules from EventBridge Scheduler: one may have been changed or deleted since the deployment. */

import { paginateListSchedules, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { hasName } from '../errors.ts';

/** The states of the schedules of a group; none if it was deleted. Needs scheduler:ListSchedules. */
export async function listSchedules(
  client: SchedulerClient,
  GroupName: string,
): Promise<ReadonlyMap<string, 'scheduled' | 'disabled'>> {
  const schedules = new Map<string, 'scheduled' | 'disabled'>();
  try {
    for await (const { Schedules = [] } of paginateListSchedules({ client }, { GroupName, MaxResults: 100 })) {
      for (const { Name = '', State } of Schedules)
        schedules.set(Name, State === 'DISABLED' ? 'disabled' : 'scheduled');
    }
  } catch (error) {
    if (!hasName(error, 'ResourceNotFoundException')) throw error;
  }
  return schedules;
}
