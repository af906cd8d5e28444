/** Figures as a person reads them: three digits, and how far apart the repetitions were. */

import type { Table } from './benchmark.ts';
import type { Spread } from './rounds.ts';

/** `12.3`, `0.412`, `1,234`. */
export function digits(value: number): string {
  return Number.isFinite(value) ? new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(value) : '-';
}

/** `12.3 (11.9 to 14)`. */
export function withSpread({ median, least, most }: Spread): string {
  return `${digits(median)} (${digits(least)} to ${digits(most)})`;
}

/** `1.08× (1.02 to 1.15)`. */
export function asRatio({ median, least, most }: Spread): string {
  return `${median.toFixed(2)}× (${least.toFixed(2)} to ${most.toFixed(2)})`;
}

/** As it stands in a page of documentation: a Markdown table, its columns as wide as what is in them. */
export function tableText({ title, columns, rows }: Table): string {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [`### ${title}`, '', line(columns), rule, ...rows.map(line), ''].join('\n');
}
