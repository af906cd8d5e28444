/** The report's way of writing amounts, moments and spans. */

import type { Instant } from '../../core/model.ts';
import { bytes, plural } from '../output/format.ts';
import type { RunTotals } from './data.ts';

/** `1,234`; with a digit behind the point where the number is small and has one. */
export const number = (value: number): string =>
  value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });

/** `58 bytes`, `412.3 kB`. */
export const size = (count: number): string => bytes(Math.round(count));

/** `480 ms`, `3.2 s`, `12 min 3 s`, `1 h 4 min`, `2 d 3 h`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${number(Math.round(ms / 100) / 10)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return two(seconds, 60, 'min', 's');
  const minutes = Math.round(seconds / 60);
  return minutes < 1_440 ? two(minutes, 60, 'h', 'min') : two(Math.round(minutes / 60), 24, 'd', 'h');
}

function two(amount: number, per: number, unit: string, smaller: string): string {
  const rest = amount % per;
  return `${number(Math.floor(amount / per))} ${unit}${rest === 0 ? '' : ` ${rest} ${smaller}`}`;
}

/** `2026-11-20 02:00:01 UTC`. */
export const moment = (instant: Instant): string => `${instant.slice(0, 10)} ${clockTime(instant)} UTC`;

/** `02:00:01`. */
export const clockTime = (instant: Instant): string => instant.slice(11, 19);

/** `120 pages, 11,942 reports, 8.4 MB`. */
export const amounts = ({ pages, reports, bytes: sum }: RunTotals): string =>
  [plural(pages, 'page'), ...(reports === null ? [] : [plural(reports, 'report')]), bytes(sum)].join(', ');

/** `60%`; near the ends, `under 1%` and `over 99%`. */
export const percent = (part: number, whole: number): string => {
  const share = whole === 0 ? 0 : (100 * part) / whole;
  if (share > 0 && share < 1) return 'under 1%';
  return share > 99 && share < 100 ? 'over 99%' : `${Math.round(share)}%`;
};
