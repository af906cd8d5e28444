/** How dates are written in requests. */

import * as z from 'zod/mini';
import type { Instant } from '../../core/model.ts';
import { field } from '../../core/schema/fields.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';

const unitsMs = { iso: 1_000, 'iso-ms': 1, epoch: 1_000, 'epoch-ms': 1, date: 86_400_000 } as const;
const forms = Object.keys(unitsMs) as (keyof typeof unitsMs)[];

export const datesSchema = field(
  'How `{since}` and `{until}` are written: `2026-11-20T02:00:00Z`, always in whole seconds; with milliseconds; as seconds or milliseconds since 1970; or as `2026-11-20`, in UTC. `{since}` is rounded down, and `{until}` up.',
  z.enum(forms, `must be one of ${forms.join(', ')}`),
);
export type Dates = z.infer<typeof datesSchema>;

/** The milliseconds between two dates that a request can have. */
export const unitOfDates = (dates: Dates): number => unitsMs[dates];

/** `since` is rounded down and `until` up, so that a request for whole seconds or days includes no less than they say. */
export function writeDate(dates: Dates, instant: Instant, round: (value: number) => number): string | number {
  const unitMs = unitOfDates(dates);
  const units = round(epochMsOf(instant) / unitMs);
  switch (dates) {
    case 'iso':
      return instantOf(units * unitMs);
    case 'iso-ms':
      return new Date(units).toISOString();
    case 'epoch':
    case 'epoch-ms':
      return units;
    case 'date':
      return instantOf(units * unitMs).slice(0, 'yyyy-mm-dd'.length);
  }
}
