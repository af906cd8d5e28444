/**
 * Moments and spans in the forms people write them: ISO 8601 UTC instants and ISO 8601 durations.
 * The service's contract shows `YYYY-MM-DDThh:mm:ssZ` (section 2.1), so that is the canonical form here.
 */

import * as z from 'zod/mini';
import type { Instant } from './model.ts';

/** The canonical form of a moment given in milliseconds since the epoch. */
export function instantOf(epochMs: number): Instant {
  return new Date(epochMs).toISOString().replace('.000Z', 'Z') as Instant;
}

export function epochMsOf(instant: Instant): number {
  return Date.parse(instant);
}

/** The three forms an HTTP date may have (RFC 9110, section 5.6.7). The last is in UTC too, though it does not say so. */
const httpDateForms = (() => {
  const day = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
  const weekday = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day';
  const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)';
  const time = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d`;
  return [
    new RegExp(String.raw`^${day}, (?<day>\d\d?) ${month} \d{4} ${time} GMT$`),
    new RegExp(String.raw`^${weekday}, (?<day>\d\d)-${month}-\d\d ${time} GMT$`),
    new RegExp(String.raw`^${day} ${month} (?<day>[ \d]\d) ${time} \d{4}$`),
  ];
})();

/** The moment of an HTTP date, or null where it is none: what Date.parse would make of anything else is a guess. */
export function parseHttpDate(value: string): Instant | null {
  const form = httpDateForms.map((one) => one.exec(value)).find((match) => match !== null);
  if (form === undefined) return null;
  const moment = new Date(value.endsWith(' GMT') ? value : `${value} GMT`);
  // 31 February would be taken for a day in March.
  return moment.getUTCDate() === Number(form.groups?.day) ? instantOf(moment.getTime()) : null;
}

/** Accepts any ISO 8601 instant that ends in Z, and yields it in canonical form; finer than milliseconds is cut off. */
export const instantSchema = z.pipe(
  z.iso.datetime({ error: 'must be an ISO 8601 UTC instant, such as 2026-11-20T02:00:00Z' }),
  z.transform((text) => instantOf(Date.parse(text))),
);

/** Longer ones are slips of the pen, and reach back before any calendar. */
const maxDurationMs = 3_650 * 86_400_000;

const units = { W: 604_800, D: 86_400, H: 3_600, M: 60, S: 1 } as const;

/** Accepts an ISO 8601 duration of weeks, days, hours, minutes and seconds, and yields milliseconds. */
export const durationSchema = z
  .pipe(
    z.string().check(
      z.regex(/^P(?!$)(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$/, {
        error: 'must be an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as PT15M or P1D',
      }),
    ),
    z.transform((text: string) => {
      const ms = [...text.matchAll(/([\d.]+)([WDHMS])/g)].reduce(
        (ms, [, amount, unit]) => ms + Number(amount) * units[unit as keyof typeof units] * 1_000,
        0,
      );
      // Timers and instants are in whole milliseconds; and 1.001 s times a thousand is a little less than 1,001.
      return Math.round(ms);
    }),
  )
  .check(z.refine((ms) => ms <= maxDurationMs, { error: 'must be at most ten years, P3650D' }));
