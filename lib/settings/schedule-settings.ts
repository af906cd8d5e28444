/** The schedule of an export, validated as far as possible before deployment. */

import * as z from 'zod/mini';
import { durationSchema } from '../core/timestamps.ts';
import { checkedText, field, flag, optionalField } from './fields.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const weekMs = 7 * dayMs;

/** A CloudWatch alarm evaluates at most seven days, or calendar weeks: the newest run is then at most 14 days old. */
const isFreshness = (ms: number) => (ms >= 10 * minuteMs && ms <= weekMs) || ms === 2 * weekMs;
const freshnessError =
  'must be the maximum age of the newest completed run before an alarm: from PT10M to P7D ' +
  '(such as PT26H for a nightly export), P14D for a weekly one, or none';

/** A schedule of EventBridge Scheduler, and the freshness alarm. Parsed durations are in milliseconds. */
export const scheduleSettingsSchema = z.strictObject({
  expression: field(
    'When runs start, as an expression of EventBridge Scheduler: `cron(0 4 * * ? *)` or `rate(6 hours)`.',
    checkedText(findExpressionProblem),
    { example: 'cron(0 4 * * ? *)' },
  ),
  timeZone: field(
    'The IANA time zone of a cron expression.',
    z._default(
      z.string().check(z.refine(isTimeZone, 'must be an IANA time zone, such as Europe/Berlin or UTC')),
      'UTC',
    ),
    { example: 'Europe/Berlin' },
  ),
  flexibleWindow: optionalField(
    'How much later a run may start, in whole minutes from PT1M to P1D. Without it, runs start on time.',
    durationSchema.check(
      z.refine((ms) => ms >= minuteMs && ms <= dayMs && ms % minuteMs === 0, 'must be whole minutes, from PT1M to P1D'),
    ),
    { example: 'PT15M' },
  ),
  enabled: field('Whether the schedule starts runs.', z._default(flag(), true)),
  // `none` by default: an alarm that is on for no reason is soon ignored, and no right age is known.
  freshness: field(
    'The maximum age of the newest completed run before the alarm NotFresh: from PT10M to P7D, P14D for a weekly export, or `none` for no alarm.',
    z.prefault(
      z.union([z.literal('none'), durationSchema.check(z.refine(isFreshness, freshnessError))], freshnessError),
      'none',
    ),
    { example: 'PT26H', page: 'alarms.md#runs-that-are-missing' },
  ),
});
export type ScheduleSettings = z.infer<typeof scheduleSettingsSchema>;

const rateUnits = { minute: minuteMs, hour: hourMs, day: dayMs } as const;
const ratePattern = /^rate\(([1-9]\d*) (minute|hour|day)(s?)\)$/;

/** What is wrong with a `freshness` that raises an alarm although no run is late. Only regular schedules are checked. */
export function findFreshnessProblem(schedule: ScheduleSettings): string | undefined {
  const { expression, flexibleWindow = 0, freshness } = schedule;
  const intervalMs = regularIntervalMs(expression);
  if (freshness === 'none' || intervalMs === undefined) return undefined;
  const isLongEnough = freshness > weekMs ? intervalMs <= weekMs : freshness > intervalMs + flexibleWindow;
  if (isLongEnough) return undefined;
  const window = flexibleWindow === 0 ? '' : `, and up to ${formatHours(flexibleWindow)} later (flexibleWindow)`;
  return (
    `freshness raises an alarm although no run is late: ${expression} starts a run every ${formatHours(intervalMs)}${window}. ` +
    'Set a longer one, P14D for a weekly export, or none'
  );
}

const formatHours = (ms: number): string =>
  ms % hourMs === 0 ? `${ms / hourMs} h` : `${Math.round(ms / minuteMs)} min`;

const dailyPattern = /^cron\(\d+ \d+ (\* \* \?|\? \* \*) \*\)$/;
const weeklyPattern = /^cron\(\d+ \d+ \? \* ([1-7]|[A-Za-z]{3}) \*\)$/;

/** The time between two starts if it is always the same, clock changes aside. */
function regularIntervalMs(expression: string): number | undefined {
  if (dailyPattern.test(expression)) return dayMs;
  if (weeklyPattern.test(expression)) return weekMs;
  const [, value, unit] = ratePattern.exec(expression) ?? [];
  return value === undefined ? undefined : Number(value) * rateUnits[unit as keyof typeof rateUnits];
}

function findExpressionProblem(text: string): string | undefined {
  const rate = ratePattern.exec(text);
  if (rate !== null) {
    const [, value, unit, plural] = rate;
    if ((value === '1') === (plural === '')) return undefined;
    return value === '1' ? `must be rate(1 ${unit})` : `must be rate(${value} ${unit}s)`;
  }
  const fields = /^cron\((.*)\)$/.exec(text)?.[1]?.split(/\s+/);
  if (fields?.length !== 6 || !fields.every((each) => /^[\dA-Za-z*?,/#-]+$/.test(each))) {
    return 'must be rate(value unit), such as rate(6 hours), or cron(minutes hours day-of-month month day-of-week year), such as cron(0 4 * * ? *)';
  }
  return (fields[2] === '?') === (fields[4] === '?')
    ? 'must have a ? for either day-of-month or day-of-week'
    : undefined;
}

/** Whether Intl knows the zone, and it is spelled as Scheduler requires: a name, not an offset, in the right case. */
function isTimeZone(text: string): boolean {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions();
    // Intl may return another name of the zone. A result that differs only in case means that the case was wrong.
    return /^[A-Z]/.test(text) && (timeZone === text || timeZone.toLowerCase() !== text.toLowerCase());
  } catch {
    return false;
  }
}
