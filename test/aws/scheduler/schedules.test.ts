import { ListSchedulesCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { listSchedules } from '../../../lib/aws/scheduler/schedules.ts';

const gone = Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' });
const denied = Object.assign(new Error('denied'), { name: 'AccessDeniedException' });

function aClient() {
  const client = new SchedulerClient({ region: 'us-east-1' });
  return { client, scheduler: mockClient(client) };
}

describe('the schedules of a group', () => {
  it('are listed with their state, page by page', async () => {
    const { client, scheduler } = aClient();
    const page = (NextToken?: string) => ({ GroupName: 'reports', MaxResults: 100, NextToken });
    scheduler
      .on(ListSchedulesCommand, page())
      .resolves({ Schedules: [{ Name: 'nightly', State: 'ENABLED' }], NextToken: 'more' });
    scheduler.on(ListSchedulesCommand, page('more')).resolves({ Schedules: [{ Name: 'weekly', State: 'DISABLED' }] });
    expect([...(await listSchedules(client, 'reports'))]).toEqual([
      ['nightly', 'scheduled'],
      ['weekly', 'disabled'],
    ]);
  });

  it('are none if the group was deleted; any other error is thrown', async () => {
    const { client, scheduler } = aClient();
    scheduler.on(ListSchedulesCommand).rejects(gone);
    expect(await listSchedules(client, 'reports')).toEqual(new Map());
    scheduler.on(ListSchedulesCommand).rejects(denied);
    await expect(listSchedules(client, 'reports')).rejects.toBe(denied);
  });
});
