import {
  GetScheduleCommand,
  type GetScheduleCommandOutput,
  ListSchedulesCommand,
  SchedulerClient,
} from '@aws-sdk/client-scheduler';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { nextCronTime } from '../../../lib/aws/scheduler/cron.ts';
import { listSchedules, nextStartOf } from '../../../lib/aws/scheduler/next-start.ts';
import { scheduleSettingsSchema } from '../../../lib/settings/schedule-settings.ts';
import { aSchedule } from '../../support/aws/cdk-deployment.ts';

/** A Friday. */
const friday = '2026-11-20T12:00:00Z';

/** The next `count` starts, as `Fri 2026-11-20T12:00Z`. */
function starts(expression: string, { from = friday, timeZone = 'UTC', count = 3 } = {}): string[] {
  // The parser must understand what the deployment accepts, and nothing else.
  expect(
    scheduleSettingsSchema.safeParse(aSchedule({ expression, timeZone, freshness: 'none' })).error,
  ).toBeUndefined();
  const found: string[] = [];
  let after: number | undefined = Date.parse(from);
  while (found.length < count) {
    after = nextCronTime(/^cron\((.*)\)$/.exec(expression)?.[1] ?? '', timeZone, after);
    if (after === undefined) break;
    const date = new Date(after);
    expect(date.toISOString()).toMatch(/:00\.000Z$/);
    found.push(`${date.toUTCString().slice(0, 3)} ${date.toISOString().slice(0, 16)}Z`);
  }
  return found;
}

describe('the next times of a cron expression', () => {
  it.each([
    ['cron(0 2 * * ? *)', 'Sat 2026-11-21T02:00Z', 'Sun 2026-11-22T02:00Z', 'Mon 2026-11-23T02:00Z'],
    ['cron(5,35 11-13 * * ? *)', 'Fri 2026-11-20T12:05Z', 'Fri 2026-11-20T12:35Z', 'Fri 2026-11-20T13:05Z'],
    ['cron(20/15 * * * ? *)', 'Fri 2026-11-20T12:20Z', 'Fri 2026-11-20T12:35Z', 'Fri 2026-11-20T12:50Z'],
    ['cron(*/25 * * * ? *)', 'Fri 2026-11-20T12:25Z', 'Fri 2026-11-20T12:50Z', 'Fri 2026-11-20T13:00Z'],
    ['cron(0 13-23/4 * * ? *)', 'Fri 2026-11-20T13:00Z', 'Fri 2026-11-20T17:00Z', 'Fri 2026-11-20T21:00Z'],
    ['cron(0 22-1 * * ? *)', 'Fri 2026-11-20T22:00Z', 'Fri 2026-11-20T23:00Z', 'Sat 2026-11-21T00:00Z'],
    // Weekdays count from Sunday, which is 1.
    ['cron(0 2 ? * 1 *)', 'Sun 2026-11-22T02:00Z', 'Sun 2026-11-29T02:00Z', 'Sun 2026-12-06T02:00Z'],
    ['cron(0 2 ? * 7 *)', 'Sat 2026-11-21T02:00Z', 'Sat 2026-11-28T02:00Z', 'Sat 2026-12-05T02:00Z'],
    ['cron(0 2 ? * MON-FRI *)', 'Mon 2026-11-23T02:00Z', 'Tue 2026-11-24T02:00Z', 'Wed 2026-11-25T02:00Z'],
    ['cron(0 2 ? * 2-6 *)', 'Mon 2026-11-23T02:00Z', 'Tue 2026-11-24T02:00Z', 'Wed 2026-11-25T02:00Z'],
    ['cron(0 2 ? * fri-sun *)', 'Sat 2026-11-21T02:00Z', 'Sun 2026-11-22T02:00Z', 'Fri 2026-11-27T02:00Z'],
    ['cron(0 2 ? * sun,WED *)', 'Sun 2026-11-22T02:00Z', 'Wed 2026-11-25T02:00Z', 'Sun 2026-11-29T02:00Z'],
    // L is the last day of the week, and after a weekday the last such day of the month.
    ['cron(0 2 ? * L *)', 'Sat 2026-11-21T02:00Z', 'Sat 2026-11-28T02:00Z', 'Sat 2026-12-05T02:00Z'],
    ['cron(0 2 ? * 6L *)', 'Fri 2026-11-27T02:00Z', 'Fri 2026-12-25T02:00Z', 'Fri 2027-01-29T02:00Z'],
    ['cron(0 2 ? * 1L *)', 'Sun 2026-11-29T02:00Z', 'Sun 2026-12-27T02:00Z', 'Sun 2027-01-31T02:00Z'],
    ['cron(0 2 ? * sunL *)', 'Sun 2026-11-29T02:00Z', 'Sun 2026-12-27T02:00Z', 'Sun 2027-01-31T02:00Z'],
    ['cron(0 2 ? * FRI#2 *)', 'Fri 2026-12-11T02:00Z', 'Fri 2027-01-08T02:00Z', 'Fri 2027-02-12T02:00Z'],
    ['cron(0 2 ? * 2#5 *)', 'Mon 2026-11-30T02:00Z', 'Mon 2027-03-29T02:00Z', 'Mon 2027-05-31T02:00Z'],
    ['cron(0 2 ? * 2#1,6L *)', 'Fri 2026-11-27T02:00Z', 'Mon 2026-12-07T02:00Z', 'Fri 2026-12-25T02:00Z'],
    ['cron(0 2 L * ? *)', 'Mon 2026-11-30T02:00Z', 'Thu 2026-12-31T02:00Z', 'Sun 2027-01-31T02:00Z'],
    ['cron(0 2 1,L * ? *)', 'Mon 2026-11-30T02:00Z', 'Tue 2026-12-01T02:00Z', 'Thu 2026-12-31T02:00Z'],
    ['cron(0 2 LW * ? *)', 'Mon 2026-11-30T02:00Z', 'Thu 2026-12-31T02:00Z', 'Fri 2027-01-29T02:00Z'],
    ['cron(0 2 21W * ? *)', 'Mon 2026-12-21T02:00Z', 'Thu 2027-01-21T02:00Z', 'Mon 2027-02-22T02:00Z'],
    ['cron(0 2 1W MAY,jan ? *)', 'Fri 2027-01-01T02:00Z', 'Mon 2027-05-03T02:00Z', 'Mon 2028-01-03T02:00Z'],
    ['cron(0 2 1 1/5 ? *)', 'Fri 2027-01-01T02:00Z', 'Tue 2027-06-01T02:00Z', 'Mon 2027-11-01T02:00Z'],
    ['cron(0 2 29 2 ? *)', 'Tue 2028-02-29T02:00Z', 'Sun 2032-02-29T02:00Z', 'Fri 2036-02-29T02:00Z'],
    ['cron(0 2 1 JAN ? 2027-2030/2)', 'Fri 2027-01-01T02:00Z', 'Mon 2029-01-01T02:00Z'],
    ['cron(0 2 1 1 ? 2025,2028)', 'Sat 2028-01-01T02:00Z'],
    ['cron(0 2 * * ? 2020)'],
    ['cron(0 2 31 2 ? *)'],
  ])('%s', (expression, ...expected) => expect(starts(expression)).toEqual(expected));

  it('are strictly after the given instant, to the millisecond', () => {
    const daily = 'cron(0 12 * * ? *)';
    expect(starts(daily, { from: '2026-11-20T11:59:59.999Z', count: 1 })).toEqual(['Fri 2026-11-20T12:00Z']);
    expect(starts(daily, { from: '2026-11-20T12:00:00.001Z', count: 1 })).toEqual(['Sat 2026-11-21T12:00Z']);
  });

  it('follow the local time of the zone, in summer and winter', () => {
    const nightly = 'cron(0 4 25 * ? *)';
    const timeZone = 'Europe/Berlin';
    expect(starts(nightly, { from: '2026-09-30T00:00:00Z', timeZone })).toEqual([
      'Sun 2026-10-25T03:00Z',
      'Wed 2026-11-25T03:00Z',
      'Fri 2026-12-25T03:00Z',
    ]);
    expect(starts(nightly, { from: '2027-03-01T00:00:00Z', timeZone, count: 2 })).toEqual([
      'Thu 2027-03-25T03:00Z',
      'Sun 2027-04-25T02:00Z',
    ]);
    expect(starts('cron(30 5 * * ? *)', { timeZone: 'Asia/Kolkata', count: 1 })).toEqual(['Sat 2026-11-21T00:00Z']);
  });

  it('skip a day on which the local time does not exist', () => {
    // In Berlin the clocks change from 02:00 to 03:00 on 28 March 2027.
    const options = { from: '2027-03-26T12:00:00Z', timeZone: 'Europe/Berlin' };
    expect(starts('cron(30 2 * * ? *)', options)).toEqual([
      'Sat 2027-03-27T01:30Z',
      'Mon 2027-03-29T00:30Z',
      'Tue 2027-03-30T00:30Z',
    ]);
    expect(starts('cron(0/30 1-3 28 3 ? *)', { ...options, count: 4 })).toEqual([
      'Sun 2027-03-28T00:00Z',
      'Sun 2027-03-28T00:30Z',
      'Sun 2027-03-28T01:00Z',
      'Sun 2027-03-28T01:30Z',
    ]);
  });

  it('are the first one if a local time exists twice', () => {
    // In New York the clocks change from 02:00 back to 01:00 on 1 November 2026.
    const timeZone = 'America/New_York';
    expect(starts('cron(30 1 * * ? *)', { from: '2026-10-31T12:00:00Z', timeZone })).toEqual([
      'Sun 2026-11-01T05:30Z',
      'Mon 2026-11-02T06:30Z',
      'Tue 2026-11-03T06:30Z',
    ]);
    expect(starts('cron(*/30 * * * ? *)', { from: '2026-11-01T05:10:00Z', timeZone })).toEqual([
      'Sun 2026-11-01T05:30Z',
      'Sun 2026-11-01T07:00Z',
      'Sun 2026-11-01T07:30Z',
    ]);
    expect(starts('cron(* * * * ? *)', { from: '2026-11-01T06:10:00Z', timeZone, count: 1 })).toEqual([
      'Sun 2026-11-01T07:00Z',
    ]);
  });
});

describe('the next start', () => {
  const at = (text: string) => new Date(text);
  function nextStart(schedule: Partial<GetScheduleCommandOutput> | Error, lastScheduledTime?: string) {
    const client = new SchedulerClient({ region: 'us-east-1' });
    const scheduler = mockClient(client);
    if (schedule instanceof Error) scheduler.on(GetScheduleCommand).rejects(schedule);
    else scheduler.on(GetScheduleCommand, name).resolves({ Name: 'nightly', ...schedule });
    return nextStartOf(
      { name: 'nightly', group: 'reports' },
      {
        client,
        now: () => Date.parse(friday),
        lastScheduledTime: async () => lastScheduledTime,
      },
    );
  }
  const name = { Name: 'nightly', GroupName: 'reports' };

  it('is manual without a schedule, or if the schedule was deleted', async () => {
    const client = new SchedulerClient({ region: 'us-east-1' });
    const deps = { client, now: () => 0, lastScheduledTime: async () => undefined };
    expect(await nextStartOf(undefined, deps)).toEqual({ kind: 'manual' });
    const gone = Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' });
    expect(await nextStart(gone)).toEqual({ kind: 'manual' });
  });

  it('is the next time of the cron expression, in its time zone', async () => {
    const schedule = { ScheduleExpression: 'cron(0 2 * * ? *)', ScheduleExpressionTimezone: 'Europe/Berlin' };
    const expected = {
      kind: 'scheduled',
      at: '2026-11-21T01:00:00Z',
      approximate: false,
      expression: 'cron(0 2 * * ? *)',
    };
    expect(await nextStart({ ...schedule, State: 'ENABLED' })).toEqual(expected);
    expect(await nextStart({ ...schedule, FlexibleTimeWindow: { Mode: 'FLEXIBLE' } })).toEqual({
      ...expected,
      approximate: true,
    });
    expect(await nextStart({ ...schedule, StartDate: at('2027-01-01T01:00:00Z') })).toMatchObject({
      at: '2027-01-01T01:00:00Z',
    });
  });

  it('does not exist if the schedule is disabled or has ended', async () => {
    const expression = 'cron(0 2 * * ? *)';
    const disabled = { kind: 'disabled', expression };
    expect(await nextStart({ ScheduleExpression: expression, State: 'DISABLED' })).toEqual(disabled);
    const EndDate = at('2026-11-20T13:00:00Z');
    expect(await nextStart({ ScheduleExpression: expression, EndDate })).toEqual(disabled);
    expect(await nextStart({ ScheduleExpression: 'cron(0 2 * * ? 2020)' })).toMatchObject({ kind: 'disabled' });
  });

  it.each([
    ['the last start', '2026-11-20T10:17:00Z', '2026-11-20T16:17:00Z'],
    ['its creation if it has not started a run yet', undefined, '2026-11-20T15:05:00Z'],
    ['its last change if that is later', '2026-11-19T10:00:00Z', '2026-11-20T15:05:00Z'],
    [
      'its creation if an emulator does not set the scheduled time',
      '<aws.scheduler.scheduled-time>',
      '2026-11-20T15:05:00Z',
    ],
  ])('of a rate counts from %s, and is approximate', async (_, last, expected) => {
    const schedule = {
      ScheduleExpression: 'rate(6 hours)',
      CreationDate: at('2026-11-01T00:00:00Z'),
      LastModificationDate: at('2026-11-20T09:05:00Z'),
    };
    expect(await nextStart(schedule, last)).toEqual({
      kind: 'scheduled',
      at: expected,
      approximate: true,
      expression: 'rate(6 hours)',
    });
  });

  it.each([
    ['rate(1 minute)', '2026-11-20T12:00:30Z'],
    ['rate(45 minutes)', '2026-11-20T12:42:30Z'],
    ['rate(1 day)', '2026-11-20T23:57:30Z'],
    ['rate(3 days)', '2026-11-22T23:57:30Z'],
  ])('of %s is a multiple of the interval after its creation', async (ScheduleExpression, expected) => {
    const CreationDate = at('2026-11-19T23:57:30Z');
    expect(await nextStart({ ScheduleExpression, CreationDate })).toMatchObject({ at: expected });
  });

  it('is an error for an expression that is neither cron nor rate', async () => {
    await expect(nextStart({ ScheduleExpression: 'at(2026-11-20T02:00:00)' })).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('Deploy the stack again to restore it'),
    });
  });
});

describe('the schedules of a group', () => {
  function aGroup() {
    const client = new SchedulerClient({ region: 'us-east-1' });
    return { client, scheduler: mockClient(client) };
  }

  it('are listed with their state and their last change, page by page', async () => {
    const { client, scheduler } = aGroup();
    const page = (NextToken?: string) => ({ GroupName: 'reports', MaxResults: 100, NextToken });
    scheduler.on(ListSchedulesCommand, page()).resolves({
      Schedules: [{ Name: 'nightly', State: 'ENABLED', CreationDate: new Date(1), LastModificationDate: new Date(2) }],
      NextToken: 'more',
    });
    scheduler
      .on(ListSchedulesCommand, page('more'))
      .resolves({ Schedules: [{ Name: 'weekly', State: 'DISABLED', CreationDate: new Date(3) }] });
    expect([...(await listSchedules(client, 'reports'))]).toEqual([
      ['nightly', { enabled: true, changedAt: 2 }],
      ['weekly', { enabled: false, changedAt: 3 }],
    ]);
  });

  it('are none if the group was deleted; any other error is thrown', async () => {
    const { client, scheduler } = aGroup();
    scheduler.on(ListSchedulesCommand).rejects(Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' }));
    expect(await listSchedules(client, 'reports')).toEqual(new Map());
    const denied = Object.assign(new Error('denied'), { name: 'AccessDeniedException' });
    scheduler.on(ListSchedulesCommand).rejects(denied);
    await expect(listSchedules(client, 'reports')).rejects.toBe(denied);
  });
});
