/** Formats numbers, durations and instants for the run report. */

import type { Instant } from '../../core/model.ts';
import { bytes } from '../output/format.ts';

/** `1,234`; below 100 with one fraction digit if there is one: `99.5`. */
export const formatNumber = (value: number): string =>
  value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });

/** `58 bytes`, `412.3 kB`. */
export const formatBytes = (count: number): string => bytes(Math.round(count));

/** `480 ms`, `3.2 s`, `12 min 3 s`, `1 h 4 min`, `2 d 3 h`. */
export function formatDuration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${formatNumber(Math.round(ms / 100) / 10)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return inTwoUnits(seconds, 60, 'min', 's');
  const minutes = Math.round(seconds / 60);
  return minutes < 1_440 ? inTwoUnits(minutes, 60, 'h', 'min') : inTwoUnits(Math.round(minutes / 60), 24, 'd', 'h');
}

function inTwoUnits(amount: number, perUnit: number, unit: string, smallerUnit: string): string {
  const rest = amount % perUnit;
  return `${formatNumber(Math.floor(amount / perUnit))} ${unit}${rest === 0 ? '' : ` ${rest} ${smallerUnit}`}`;
}

/** `2026-11-20 02:00:01 UTC`. */
export const formatInstant = (instant: Instant): string => `${formatInstantWithoutZone(instant)} UTC`;

/** `2026-11-20 02:00:01`, for where the time zone is stated elsewhere. */
export const formatInstantWithoutZone = (instant: Instant): string =>
  `${instant.slice(0, 10)} ${formatTimeOfDay(instant)}`;

/** `02:00:01`. */
export const formatTimeOfDay = (instant: Instant): string => instant.slice(11, 19);

/** `60%`; near the ends `under 1%` and `over 99%`. */
export function formatPercent(part: number, whole: number): string {
  const percent = whole === 0 ? 0 : (100 * part) / whole;
  if (percent > 0 && percent < 1) return 'under 1%';
  return percent > 99 && percent < 100 ? 'over 99%' : `${Math.round(percent)}%`;
}
