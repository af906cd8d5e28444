/** Determines when EventBridge Scheduler starts an export next. */

import {
  GetScheduleCommand,
  type GetScheduleCommandOutput,
  paginateListSchedules,
  type SchedulerClient,
} from '@aws-sdk/client-scheduler';
import { ExportError } from '../../core/errors.ts';
import type { NextStart } from '../../target/target.ts';
import { instantOf } from '../../core/timestamps.ts';
import { nextCronTime } from './cron.ts';

export interface NextStartDependencies {
  readonly client: SchedulerClient;
  readonly now: () => number;
  /** The scheduled time of the newest run that had one: a rate counts from there. */
  readonly lastScheduledTime: () => Promise<string | undefined>;
}

/** A schedule, and the schedule group that it is in. */
export interface ScheduleName {
  readonly name: string;
  readonly group: string;
}

/**
 * Needs scheduler:GetSchedule. A schedule without a future time counts as disabled, a deleted one as none.
 * @throws ConfigurationError if the schedule is neither cron nor rate
 */
export async function nextStartOf(
  scheduleName: ScheduleName | undefined,
  { client, now, lastScheduledTime }: NextStartDependencies,
): Promise<NextStart> {
  const found = scheduleName === undefined ? undefined : await findSchedule(client, scheduleName);
  if (scheduleName === undefined || found === undefined) return { kind: 'manual' };
  const { ScheduleExpression: expression = '', ScheduleExpressionTimezone: timeZone = 'UTC' } = found;
  const schedule: Schedule = {
    name: scheduleName.name,
    expression,
    timeZone,
    enabled: found.State !== 'DISABLED',
    flexible: found.FlexibleTimeWindow?.Mode === 'FLEXIBLE',
    changedAt: latest(found.CreationDate, found.LastModificationDate, found.StartDate),
    startsAt: found.StartDate?.getTime(),
    endsAt: found.EndDate?.getTime(),
  };
  return nextStart(schedule, now(), isRate(schedule) ? await lastScheduledTime() : undefined);
}

async function findSchedule(
  client: SchedulerClient,
  { name: Name, group: GroupName }: ScheduleName,
): Promise<GetScheduleCommandOutput | undefined> {
  try {
    return await client.send(new GetScheduleCommand({ Name, GroupName }));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** What determines when a schedule starts an export. Times are in milliseconds since the epoch. */
export interface Schedule {
  readonly name: string;
  readonly expression: string;
  readonly timeZone: string;
  readonly enabled: boolean;
  /** Whether a start may be delayed within a flexible time window. */
  readonly flexible: boolean;
  /** When it was created, changed or first valid: the last of these. */
  readonly changedAt: number;
  readonly startsAt?: number | undefined;
  readonly endsAt?: number | undefined;
}

/** @throws ConfigurationError if the schedule is neither cron nor rate */
export function nextStart(schedule: Schedule, now: number, lastScheduledTime: string | undefined): NextStart {
  const { expression, enabled, endsAt, flexible } = schedule;
  const at = enabled ? nextTime(schedule, now, lastScheduledTime) : undefined;
  if (at === undefined || (endsAt !== undefined && at > endsAt)) return { kind: 'disabled', expression };
  return { kind: 'scheduled', at: instantOf(at), approximate: isRate(schedule) || flexible, expression };
}

const isRate = ({ expression }: Schedule): boolean => expression.startsWith('rate');

function nextTime(schedule: Schedule, now: number, lastScheduledTime: string | undefined): number | undefined {
  const { name, expression, timeZone, startsAt = 0, changedAt } = schedule;
  const cronFields = /^cron\((.*)\)$/.exec(expression)?.[1];
  if (cronFields !== undefined) return nextCronTime(cronFields, timeZone, Math.max(now, startsAt - 1));
  const interval = parseRate(expression);
  if (interval === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Schedule ${name} has the expression ${expression}, which is neither cron nor rate. ` +
        'Deploy the stack again to restore it',
    );
  }
  if (startsAt > now) return startsAt;
  // The time from which the scheduler counts, as well as it is known: the last start, or a later change of the schedule.
  const lastStart = Date.parse(lastScheduledTime ?? '');
  const base = Math.max(changedAt, Number.isNaN(lastStart) ? 0 : lastStart);
  return base + (Math.floor((now - base) / interval) + 1) * interval;
}

const latest = (...dates: readonly (Date | undefined)[]): number =>
  Math.max(...dates.map((date) => date?.getTime() ?? 0));

const unitMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** The interval of a rate in milliseconds; undefined if `expression` is not a rate. */
function parseRate(expression: string): number | undefined {
  const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  return unit === undefined ? undefined : Number(count) * unitMs[unit as keyof typeof unitMs];
}

/** A schedule in a listing, which has no expression. */
export type ListedSchedule = Pick<Schedule, 'enabled' | 'changedAt'>;

/** The schedules of a group by name; none if the group was deleted. Needs scheduler:ListSchedules. */
export async function listSchedules(
  client: SchedulerClient,
  GroupName: string,
): Promise<ReadonlyMap<string, ListedSchedule>> {
  const schedules = new Map<string, ListedSchedule>();
  try {
    for await (const { Schedules = [] } of paginateListSchedules({ client }, { GroupName, MaxResults: 100 })) {
      for (const { Name = '', State, CreationDate, LastModificationDate } of Schedules) {
        schedules.set(Name, { enabled: State !== 'DISABLED', changedAt: latest(CreationDate, LastModificationDate) });
      }
    }
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  return schedules;
}

const isNotFound = (error: unknown): boolean => error instanceof Error && error.name === 'ResourceNotFoundException';
