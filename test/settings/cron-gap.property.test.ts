/** The longest gap of a cron expression, compared with the times that croner computes one after the other. */

import { describe, expect } from 'vitest';
import { nextCronTime } from '../../lib/aws/scheduler/cron.ts';
import { longestGapMs } from '../../lib/settings/cron-gap.ts';
import { cases, fc, test } from '../support/property.ts';

const list = (min: number, max: number) =>
  fc.uniqueArray(fc.integer({ min, max }), { minLength: 1, maxLength: 3 }).map((values) => values.join(','));
const anyDay = fc.oneof(
  fc.constantFrom(
    '* * ?',
    '1 * ?',
    'L * ?',
    'LW * ?',
    '? * L',
    '? * MON-FRI',
    '? * FRI-MON',
    '? JAN-JUN *',
    '*/10 * ?',
  ),
  fc.integer({ min: 1, max: 31 }).map((day) => `${day}W * ?`),
  fc.integer({ min: 1, max: 7 }).map((day) => `? * ${day}L`),
  fc.tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 5 })).map(([day, nth]) => `? * ${day}#${nth}`),
  fc.tuple(list(1, 31), list(1, 12)).map(([days, inMonths]) => `${days} ${inMonths} ?`),
  list(1, 7).map((days) => `? 3/2 ${days}`),
);
const anyTime = fc.tuple(list(0, 59), fc.oneof(list(0, 23), fc.constantFrom('*', '22-2', '8-18/5')));
const anyFields = fc
  .tuple(anyTime, anyDay, fc.constantFrom('*', '2026-2029'))
  .map(([[minutes, hours], day, years]) => `${minutes} ${hours} ${day} ${years}`);

/** The longest gap between up to 2,000 starts, which begin with the year 2026. */
function simulatedGap(fields: string): number {
  let longest = 0;
  let previous = nextCronTime(fields, 'UTC', Date.UTC(2026, 0) - 1);
  for (let count = 0; count < 2_000 && previous !== undefined; count += 1) {
    const next = nextCronTime(fields, 'UTC', previous);
    if (next === undefined || next >= Date.UTC(2054, 0)) break;
    longest = Math.max(longest, next - previous);
    previous = next;
  }
  return longest;
}

describe('the longest gap', () => {
  test.prop([anyFields], { numRuns: cases(150) })(
    'is at least each that croner finds, and found by it if all starts are compared',
    (fields) => {
      const simulated = simulatedGap(fields);
      const longest = longestGapMs(fields) ?? 0;
      expect(longest).toBeGreaterThanOrEqual(simulated);
      // Fewer than 2,000 starts in 28 years: all were compared.
      if (/^\d+ \d+ \S+ \S+ \d+(L|#)/.test(fields) || / LW /.test(fields)) expect(longest).toBe(simulated);
    },
  );
});
