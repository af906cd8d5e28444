/** Reads the schedules of exports from EventBridge Scheduler. Someone may have disabled, changed or deleted one since the deployment. */

import { paginateListSchedules, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { hasName } from '../errors.ts';

/** By name, whether each schedule of a group is enabled; none if the group was deleted. Needs scheduler:ListSchedules. */
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
