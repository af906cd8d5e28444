/** Asks EventBridge Scheduler when an export starts by itself next. */

import { GetScheduleCommand, type GetScheduleCommandOutput, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { ExportError } from '../../core/errors.ts';
import type { NextStart } from '../../core/operations/deployment.ts';
import { instantOf } from '../../core/timestamps.ts';
import { nextCronTime } from './cron.ts';

export interface NextStartDependencies {
  readonly client: SchedulerClient;
  readonly now: () => number;
  /** When the newest run that the scheduler started was due; a rate goes on from there. */
  readonly lastScheduledTime: () => Promise<string | undefined>;
}

/**
 * Needs GetSchedule. A schedule that will never come true again counts as switched off, one that is gone as none.
 * @throws ConfigurationError where its expression is none that a deployment makes
 */
export async function nextStartOf(scheduleName: string | undefined, deps: NextStartDependencies): Promise<NextStart> {
  const schedule = scheduleName === undefined ? undefined : await find(deps.client, scheduleName);
  if (schedule === undefined) return { kind: 'by-hand' };
  const { ScheduleExpression: expression = '', State, EndDate, FlexibleTimeWindow } = schedule;
  const at = State === 'DISABLED' ? undefined : await nextTime(schedule, deps);
  if (at === undefined || (EndDate !== undefined && at > EndDate.getTime())) return { kind: 'disabled', expression };
  const about = expression.startsWith('rate') || FlexibleTimeWindow?.Mode === 'FLEXIBLE';
  return { kind: 'scheduled', at: instantOf(at), about, expression };
}

async function find(client: SchedulerClient, Name: string): Promise<GetScheduleCommandOutput | undefined> {
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
  const begins = StartDate?.getTime() ?? 0;
  const fields = /^cron\((.*)\)$/.exec(expression)?.[1];
  if (fields !== undefined) return nextCronTime(fields, timeZone, Math.max(now, begins - 1));
  const interval = intervalOf(expression);
  if (interval === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Schedule ${schedule.Name} says ${expression}, which is neither cron nor rate. Put back what was deployed: npx cdk deploy`,
    );
  }
  if (begins > now) return begins;
  const base = await lastBeat(schedule, deps);
  return base + (Math.floor((now - base) / interval) + 1) * interval;
}

/** The newest moment from which the scheduler may count: it counts anew from each change of the schedule. */
async function lastBeat(
  schedule: GetScheduleCommandOutput,
  { lastScheduledTime }: NextStartDependencies,
): Promise<number> {
  const { CreationDate, LastModificationDate, StartDate } = schedule;
  const scheduled = Date.parse((await lastScheduledTime()) ?? '');
  const changes = [CreationDate, LastModificationDate, StartDate].map((date) => date?.getTime() ?? 0);
  return Math.max(...changes, Number.isNaN(scheduled) ? 0 : scheduled);
}

const units = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

function intervalOf(expression: string): number | undefined {
  const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  return unit === undefined ? undefined : Number(count) * units[unit as keyof typeof units];
}
