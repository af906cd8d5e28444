import {
  GetScheduleCommand,
  type GetScheduleCommandOutput,
  ListSchedulesCommand,
  SchedulerClient,
} from '@aws-sdk/client-scheduler';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { listSchedules, readSchedule } from '../../../lib/aws/scheduler/schedules.ts';

const gone = Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' });
const denied = Object.assign(new Error('denied'), { name: 'AccessDeniedException' });

function aClient() {
  const client = new SchedulerClient({ region: 'us-east-1' });
  return { client, scheduler: mockClient(client) };
}

describe('the schedule of an export', () => {
  function read(schedule: Partial<GetScheduleCommandOutput> | Error) {
    const { client, scheduler } = aClient();
    const command = scheduler.on(GetScheduleCommand, { Name: 'nightly', GroupName: 'reports' });
    if (schedule instanceof Error) command.rejects(schedule);
    else command.resolves({ Name: 'nightly', ...schedule });
    return readSchedule(client, { name: 'nightly', group: 'reports' });
  }

  it('does not exist if the export has none, or if it was deleted; any other error is thrown', async () => {
    expect(await readSchedule(aClient().client, undefined)).toEqual({ kind: 'manual' });
    expect(await read(gone)).toEqual({ kind: 'manual' });
    await expect(read(denied)).rejects.toBe(denied);
  });

  it('has its expression and its time zone, and may be disabled', async () => {
    const cron = { ScheduleExpression: 'cron(0 2 * * ? *)', ScheduleExpressionTimezone: 'Europe/Berlin' };
    const expected = { expression: 'cron(0 2 * * ? *)', timeZone: 'Europe/Berlin' };
    expect(await read({ ...cron, State: 'ENABLED' })).toEqual({ kind: 'scheduled', ...expected });
    expect(await read({ ...cron, State: 'DISABLED' })).toEqual({ kind: 'disabled', ...expected });
    const rate = { kind: 'scheduled', expression: 'rate(6 hours)', timeZone: 'UTC' };
    expect(await read({ ScheduleExpression: 'rate(6 hours)' })).toEqual(rate);
  });
});

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
