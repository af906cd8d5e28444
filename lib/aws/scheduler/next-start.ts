/** Determines when EventBridge Scheduler starts an export next. */

import { GetScheduleCommand, type GetScheduleCommandOutput, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { ExportError } from '../../core/errors.ts';
import type { NextStart } from '../../core/operations/deployment.ts';
import { instantOf } from '../../core/timestamps.ts';
import { nextCronTime } from './cron.ts';

export interface NextStartDependencies {
  readonly client: SchedulerClient;
  readonly now: () => number;
  /** The scheduled time of the newest run that had one: a rate counts from there. */
  readonly lastScheduledTime: () => Promise<string | undefined>;
}

/**
 * Needs scheduler:GetSchedule. A schedule without a future time counts as disabled, a deleted one as none.
 * @throws ConfigurationError if the schedule is neither cron nor rate
 */
export async function nextStartOf(scheduleName: string | undefined, deps: NextStartDependencies): Promise<NextStart> {
  const schedule = scheduleName === undefined ? undefined : await findSchedule(deps.client, scheduleName);
  if (schedule === undefined) return { kind: 'manual' };
  const { ScheduleExpression: expression = '', State, EndDate, FlexibleTimeWindow } = schedule;
  const at = State === 'DISABLED' ? undefined : await nextTime(schedule, deps);
  if (at === undefined || (EndDate !== undefined && at > EndDate.getTime())) return { kind: 'disabled', expression };
  const approximate = expression.startsWith('rate') || FlexibleTimeWindow?.Mode === 'FLEXIBLE';
  return { kind: 'scheduled', at: instantOf(at), approximate, expression };
}

async function findSchedule(client: SchedulerClient, Name: string): Promise<GetScheduleCommandOutput | undefined> {
  try {
    return await client.send(new GetScheduleCommand({ Name }));
  } catch (error) {
    if (error instanceof Error && error.name === 'ResourceNotFoundException') return undefined;
    throw error;
  }
}

async function nextTime(schedule: GetScheduleCommandOutput, deps: NextStartDependencies): Promise<number | undefined> {
  const { ScheduleExpression: expression = '', ScheduleExpressionTimezone: timeZone = 'UTC', StartDate } = schedule;
  const now = deps.now();
  const startDate = StartDate?.getTime() ?? 0;
  const cronFields = /^cron\((.*)\)$/.exec(expression)?.[1];
  if (cronFields !== undefined) return nextCronTime(cronFields, timeZone, Math.max(now, startDate - 1));
  const interval = parseRate(expression);
  if (interval === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Schedule ${schedule.Name} has the expression ${expression}, which is neither cron nor rate. ` +
        'Restore the deployed one: npx cdk deploy',
    );
  }
  if (startDate > now) return startDate;
  const base = await rateBase(schedule, deps);
  return base + (Math.floor((now - base) / interval) + 1) * interval;
}

/** The time from which the scheduler counts, as well as it is known: the last start, or a later change of the schedule. */
async function rateBase(
  schedule: GetScheduleCommandOutput,
  { lastScheduledTime }: NextStartDependencies,
): Promise<number> {
  const { CreationDate, LastModificationDate, StartDate } = schedule;
  const lastStart = Date.parse((await lastScheduledTime()) ?? '');
  const changes = [CreationDate, LastModificationDate, StartDate].map((date) => date?.getTime() ?? 0);
  return Math.max(...changes, Number.isNaN(lastStart) ? 0 : lastStart);
}

const unitMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** The interval of a rate in milliseconds; undefined if `expression` is not a rate. */
function parseRate(expression: string): number | undefined {
  const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  return unit === undefined ? undefined : Number(count) * unitMs[unit as keyof typeof unitMs];
}
