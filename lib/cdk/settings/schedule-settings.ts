/**
 * When an export starts by itself, checked as far as it can be before anything is deployed.
 */

import { z } from 'zod';
import { durationSchema } from '../../core/timestamps.ts';

const minute = 60_000;
const day = 1_440 * minute;

const freshnessForm =
  'must be how old the newest completed run may get before the alarm, from PT10M to P7D ' +
  '(such as PT26H for a nightly export), or none';

/**
 * An EventBridge Scheduler schedule, and how long an export may go without a completed run before somebody is told.
 * Durations come out in milliseconds.
 */
export const scheduleSettingsSchema = z
  .strictObject({
    expression: z.string().superRefine((text, context) => {
      const problem = problemOfExpression(text);
      if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
    }),
    /** Where the hours of a cron expression are read, daylight saving included. */
    timeZone: z.string().refine(isTimeZone, 'must be an IANA time zone, such as Europe/Berlin or UTC').default('UTC'),
    /** The scheduler may start a run up to this much later, to spread load; left out: on time. */
    flexibleWindow: z.optional(
      durationSchema.check(
        z.refine((ms) => ms >= minute && ms <= day && ms % minute === 0, 'must be whole minutes, from PT1M to P1D'),
      ),
    ),
    enabled: z.boolean('must be true or false').default(true),
    /** The alarm's patience: longer than one interval and one run. `none`: no such alarm, for what runs less than weekly. */
    freshness: z.union(
      [z.literal('none'), durationSchema.check(z.refine((ms) => ms >= 10 * minute && ms <= 7 * day, freshnessForm))],
      freshnessForm,
    ),
  })
  .refine(({ expression, freshness }) => freshness === 'none' || freshness > (intervalOfRate(expression) ?? 0), {
    path: ['freshness'],
    error: 'must be longer than the interval of the schedule, or the alarm never rests',
  });
export type ScheduleSettings = z.infer<typeof scheduleSettingsSchema>;

const units = { minute, hour: 60 * minute, day } as const;
const rateForm = /^rate\(([1-9]\d*) (minute|hour|day)(s?)\)$/;

function intervalOfRate(expression: string): number | undefined {
  const [, value, unit] = rateForm.exec(expression) ?? [];
  return value === undefined ? undefined : Number(value) * units[unit as keyof typeof units];
}

function problemOfExpression(text: string): string | undefined {
  const rate = rateForm.exec(text);
  if (rate !== null) {
    if ((rate[1] === '1') === (rate[3] === '')) return undefined;
    return rate[1] === '1' ? `must say rate(1 ${rate[2]})` : `must say rate(${rate[1]} ${rate[2]}s)`;
  }
  const fields = /^cron\((.*)\)$/.exec(text)?.[1]?.split(/\s+/);
  if (fields?.length !== cronFields.length) {
    return 'must be rate(value unit), such as rate(6 hours), or cron(minutes hours day-of-month month day-of-week year), such as cron(0 2 * * ? *)';
  }
  const wrong = cronFields.filter(({ accepts }, place) => !accepts(fields[place] ?? ''));
  if (wrong.length > 0)
    return `has a cron expression whose ${wrong.map(({ name }) => name).join(' and ')} cannot be read`;
  return (fields[2] === '?') === (fields[4] === '?')
    ? 'has a cron expression that must have a ? for either day-of-month or day-of-week'
    : undefined;
}

/** `*`, values, ranges, steps and lists of them; `extra` are the forms that only this field has. */
function cronField(name: string, least: number, most: number, names: readonly string[] = [], extra = /^$/) {
  const isValue = (text: string) =>
    names.includes(text.toUpperCase()) || (/^\d+$/.test(text) && Number(text) >= least && Number(text) <= most);
  const accepts = (field: string) =>
    field.split(',').every((part) => {
      const [range = '', step, ...rest] = part.split('/');
      if (rest.length > 0 || (step !== undefined && !/^[1-9]\d*$/.test(step))) return false;
      const ends = range.split('-');
      return range === '*' || (ends.length <= 2 && ends.every(isValue)) || (step === undefined && extra.test(part));
    });
  return { name, accepts };
}

const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const weekdays = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

const cronFields = [
  cronField('minutes', 0, 59),
  cronField('hours', 0, 23),
  cronField('day-of-month', 1, 31, [], /^(\?|L|LW|([1-9]|[12]\d|3[01])W)$/),
  cronField('month', 1, 12, months),
  cronField('day-of-week', 1, 7, weekdays, /^(\?|L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5]))$/i),
  cronField('year', 1970, 2199),
];

/** Known to Intl, and spelled as the scheduler wants it: a name, not an offset, and not all in lower case. */
function isTimeZone(text: string): boolean {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions();
    // Another name for the same zone is as good, but one that differs in its case alone is not.
    return /^[A-Z]/.test(text) && (timeZone === text || timeZone.toLowerCase() !== text.toLowerCase());
  } catch {
    return false;
  }
}
