/** The schedule of an export, validated as far as possible before deployment. */

import * as z from 'zod/mini';
import { isTimeZoneName } from '../core/time/time-zones.ts';
import { durationSchema } from '../core/timestamps.ts';
import { field, flag, object, text } from '../core/schema/fields.ts';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

/** A CloudWatch alarm evaluates at most seven days, or calendar weeks: the newest run is then at most 14 days old. */
const isFreshness = (ms: number) => (ms >= 10 * minuteMs && ms <= 7 * dayMs) || ms === 14 * dayMs;
const freshnessError =
  'must be the maximum age of the newest completed run before an alarm: from PT10M to P7D ' +
  '(such as PT26H for a nightly export), P14D for a weekly one, or none';

/** EventBridge Scheduler requires the singular for 1, and a ? in exactly one of day-of-month and day-of-week. */
const part = String.raw`[\dA-Za-z*,/#-]+`;
const expression = new RegExp(
  String.raw`^rate\((1 (minute|hour|day)|(?!1 )[1-9]\d* (minute|hour|day)s)\)$|` +
    String.raw`^cron\(${part} ${part} (\? ${part} ${part}|${part} ${part} \?) ${part}\)$`,
);

export const scheduleSettingsSchema = object({
  expression: field(
    'When runs start, as an expression of EventBridge Scheduler: `cron(0 4 * * ? *)` or `rate(6 hours)`.',
    text(
      expression,
      'must be rate(value unit), such as rate(6 hours), or cron(minutes hours day-of-month month day-of-week year) with a ? for ' +
        'either of both days, such as cron(0 4 * * ? *)',
    ),
    { example: 'cron(0 4 * * ? *)' },
  ),
  timeZone: field(
    'The IANA time zone of a cron expression.',
    z._default(
      z.string().check(z.refine(isTimeZoneName, 'must be an IANA time zone, such as Europe/Berlin or UTC')),
      'UTC',
    ),
    { example: 'Europe/Berlin' },
  ),
  enabled: field('Whether the schedule starts runs.', z._default(flag(), true)),
  // `none` by default: an alarm that is on for no reason is soon ignored, and no right age is known.
  freshness: field(
    'The maximum age of the newest completed run before the alarm NotFresh: PT10M to P7D, or P14D for a weekly export.',
    z.prefault(
      z.union([z.literal('none'), durationSchema.check(z.refine(isFreshness, freshnessError))], freshnessError),
      'none',
    ),
    { example: 'PT26H', page: 'aws.md#runs-that-are-missing' },
  ),
});
export type ScheduleSettings = z.infer<typeof scheduleSettingsSchema>;

/** In seconds, as it is shown; undefined: there is no limit. */
export const freshnessSeconds = (schedule: ScheduleSettings | undefined): number | undefined =>
  typeof schedule?.freshness === 'number' ? schedule.freshness / 1_000 : undefined;
