/** Formats figures with three digits and their spread, and tables as Markdown. */

import type { Table } from './benchmark.ts';
import type { Spread } from './rounds.ts';

/** `12.3`, `0.412`, `1,234`. */
export function formatNumber(value: number): string {
  return Number.isFinite(value) ? new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(value) : '-';
}

/** `12.3 (11.9 to 14)`. */
export function formatSpread({ median, min, max }: Spread): string {
  return `${formatNumber(median)} (${formatNumber(min)} to ${formatNumber(max)})`;
}

/** `1.08× (1.02 to 1.15)`. */
export function formatRatio({ median, min, max }: Spread): string {
  return `${median.toFixed(2)}× (${min.toFixed(2)} to ${max.toFixed(2)})`;
}

/** A Markdown table with aligned columns. */
export function formatTable({ title, columns, rows }: Table): string {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  const separator = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [`### ${title}`, '', line(columns), separator, ...rows.map(line), ''].join('\n');
}
