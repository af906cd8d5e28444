/**
 * Instants and durations in ISO 8601. The service's contract shows instants as `YYYY-MM-DDThh:mm:ssZ`
 * (docs/service-contract.md, section 2.1), so that is the canonical form here.
 */

import * as z from 'zod/mini';
import type { Instant } from './model.ts';

/** The canonical form of a time in milliseconds since the epoch. */
export function instantOf(epochMs: number): Instant {
  return new Date(epochMs).toISOString().replace('.000Z', 'Z') as Instant;
}

export function epochMsOf(instant: Instant): number {
  return Date.parse(instant);
}

/** Clocks differ, and a person may take the time from another machine: AWS accepts requests signed as far ahead. */
const maxClockSkewMs = 300_000;

/** Whether the instant is later than even a skewed clock allows, when the local one says `now`. */
export const isInFuture = (instant: Instant, now: number): boolean => epochMsOf(instant) > now + maxClockSkewMs;

/** Accepts any ISO 8601 instant that ends in Z and returns its canonical form, truncated to milliseconds. */
export const instantSchema = z.pipe(
  z.iso.datetime({ error: 'must be an ISO 8601 UTC instant, such as 2026-11-20T02:00:00Z' }),
  z.transform((text) => instantOf(Date.parse(text))),
);

/** The three forms of an HTTP date (RFC 9110, section 5.6.7). The last one is UTC as well, without saying so. */
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

/** The instant of an HTTP date, or null if `value` is not one. `Date.parse` alone would guess a date for other text. */
export function parseHttpDate(value: string): Instant | null {
  const match = httpDateForms.map((form) => form.exec(value)).find((result) => result !== null);
  if (match === undefined) return null;
  const date = new Date(value.endsWith(' GMT') ? value : `${value} GMT`);
  // Date turns 31 February into a day in March.
  return date.getUTCDate() === Number(match.groups?.day) ? instantOf(date.getTime()) : null;
}

/** Catches typing errors, and keeps results within the calendar. */
const maxDurationMs = 3_650 * 86_400_000;

const unitSeconds = { W: 604_800, D: 86_400, H: 3_600, M: 60, S: 1 } as const;

/** Accepts an ISO 8601 duration of weeks, days, hours, minutes and seconds, and returns milliseconds. */
export const durationSchema = z
  .pipe(
    z.string().check(
      z.regex(/^P(?!$)(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$/, {
        error: 'must be an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as PT15M or P1D',
      }),
    ),
    z.transform((text: string) => {
      const ms = [...text.matchAll(/([\d.]+)([WDHMS])/g)].reduce(
        (sum, [, amount, unit]) => sum + Number(amount) * unitSeconds[unit as keyof typeof unitSeconds] * 1_000,
        0,
      );
      // In floating point, 1.001 × 1000 is slightly less than 1001.
      return Math.round(ms);
    }),
  )
  .check(z.refine((ms) => ms <= maxDurationMs, { error: 'must be at most ten years, P3650D' }));
