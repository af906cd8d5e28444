/** Figures in words that a person reads at a glance. */

/** `1 page`, `1,234 pages`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

const scales = ['kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

/** `58 bytes`, `412.3 kB`. */
export function bytes(count: number): string {
  if (count < 1_000) return `${count} byte${count === 1 ? '' : 's'}`;
  const power = Math.min(scales.length, Math.floor(Math.log10(count) / 3));
  const format = { style: 'unit', unit: scales[power - 1] ?? 'kilobyte', maximumFractionDigits: 1 } as const;
  return new Intl.NumberFormat('en', format).format(count / 1_000 ** power);
}

const spans = [
  ['day', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** `14 h`, `3 days`, `0 s`: in its largest unit, rounded down; of what would be 1 it takes the next smaller unit. */
export function span(ms: number): string {
  const [unit, size] = spans.find(([, size]) => ms >= 2 * size) ?? ['s', 1_000];
  const count = Math.floor(Math.max(0, ms) / size);
  return `${count} ${unit}${unit === 'day' ? 's' : ''}`;
}

/** `3 min ago`, `in 10 h`. */
export function fromNow(atMs: number, nowMs: number): string {
  return atMs <= nowMs ? `${span(nowMs - atMs)} ago` : `in ${span(atMs - nowMs)}`;
}
