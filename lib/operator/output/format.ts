/** Formats amounts and times for a person who reads them at a glance. */

import type { SliceCounts } from '../../core/ports.ts';

/** `1 page`, `1,234 pages`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

const byteUnits = ['kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

/** `58 bytes`, `412.3 kB`. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} byte${count === 1 ? '' : 's'}`;
  const power = Math.min(byteUnits.length, Math.floor(Math.log10(count) / 3));
  const format = { style: 'unit', unit: byteUnits[power - 1] ?? 'kilobyte', maximumFractionDigits: 1 } as const;
  return new Intl.NumberFormat('en', format).format(count / 1_000 ** power);
}

/** `3 pages, 250 reports, 194.1 kB`. The number of reports is null if the pages were not parsed. */
export function totals(sum: { readonly pages: number; readonly reports: number | null; readonly bytes: number }) {
  const reports = sum.reports === null ? [] : [plural(sum.reports, 'report')];
  return [plural(sum.pages, 'page'), ...reports, bytes(sum.bytes)].join(', ');
}

/** `64 slices`, `12 parents`. */
export const sliceNoun = ({ count, parents }: Pick<SliceCounts, 'count' | 'parents'>): string =>
  plural(count, parents ? 'parent' : 'slice');

/** `12 of 64 slices`. */
export const sliceCounts = (counts: SliceCounts): string =>
  `${counts.done.toLocaleString('en')} of ${sliceNoun(counts)}`;

/** `slice 12`, `parent 12`. */
export const sliceName = (slice: number, counts: Pick<SliceCounts, 'parents'> | null | undefined): string =>
  `${counts?.parents ? 'parent' : 'slice'} ${slice}`;

/** `52 gone`, `1 skipped`: the parents without pages. */
export const missingCounts = ({ parents }: Pick<SliceCounts, 'parents'>): readonly string[] =>
  (['gone', 'skipped'] as const)
    .filter((reason) => (parents?.[reason] ?? 0) > 0)
    .map((reason) => `${parents?.[reason].toLocaleString('en')} ${reason}`);

const durationUnits = [
  ['day', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** `14 h`, `3 days`, `0 s`: rounded down, in the largest unit of which there are at least two. */
export function coarseDuration(ms: number): string {
  const [unit, unitMs] = durationUnits.find(([, unitMs]) => ms >= 2 * unitMs) ?? ['s', 1_000];
  const count = Math.floor(Math.max(0, ms) / unitMs);
  return `${count} ${unit}${unit === 'day' ? 's' : ''}`;
}

/** `0.4 s`, `8 s`: a delay that lies ahead. */
export function delay(seconds: number): string {
  return `${seconds < 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
}
