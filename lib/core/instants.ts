/**
 * Moments and spans in the forms people write them: ISO 8601 UTC instants and ISO 8601 durations.
 * The service's contract shows `YYYY-MM-DDThh:mm:ssZ` (section 2.1), so that is the canonical form here.
 */

import * as z from 'zod';
import type { Instant } from './model.ts';

/** The canonical form of a moment given in milliseconds since the epoch. */
export function instantOf(epochMs: number): Instant {
  return new Date(epochMs).toISOString().replace('.000Z', 'Z') as Instant;
}

export function epochMsOf(instant: Instant): number {
  return Date.parse(instant);
}

/** The moment of an HTTP date header, or null where it is absent or no date. */
export function instantOfHttpDate(value: string | undefined): Instant | null {
  const epochMs = value === undefined ? Number.NaN : Date.parse(value);
  return Number.isNaN(epochMs) ? null : instantOf(epochMs);
}

/** Accepts any ISO 8601 instant that ends in Z, and yields it in canonical form; finer than milliseconds is cut off. */
export const instantSchema = z.iso
  .datetime({ error: 'must be an ISO 8601 UTC instant, such as 2026-11-20T02:00:00Z' })
  .transform((text) => instantOf(Date.parse(text)));

/** Longer ones are slips of the pen, and reach back before any calendar. */
const longestSpanMs = 3_650 * 86_400_000;

const units = { W: 604_800, D: 86_400, H: 3_600, M: 60, S: 1 } as const;

/** Accepts an ISO 8601 duration of weeks, days, hours, minutes and seconds, and yields milliseconds. */
export const durationSchema = z
  .string()
  .regex(/^P(?!$)(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$/, {
    error: 'must be an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as PT15M or P1D',
  })
  .transform((text) =>
    [...text.matchAll(/([\d.]+)([WDHMS])/g)].reduce(
      (ms, [, amount, unit]) => ms + Number(amount) * units[unit as keyof typeof units] * 1_000,
      0,
    ),
  )
  .refine((ms) => ms <= longestSpanMs, { error: 'must be at most ten years, P3650D' });
