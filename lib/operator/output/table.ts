/** Tables with a line per export or run. */

import { plural } from './format.ts';
import { ellipsize, type Style, type TextStyle } from './terminal.ts';

/** A column is left out if all of its cells are empty. */
export interface Column<Row> {
  readonly heading: string;
  readonly text: (row: Row) => string;
  readonly color?: (row: Row) => Style | undefined;
  readonly alignRight?: boolean;
  /** Shown if there is space for it, the first ones first. */
  readonly optional?: boolean;
}

export interface TableOptions {
  readonly style: TextStyle;
  readonly columns: number;
}

const columnGap = 2;
/** Optional columns leave at most so much space to each of the others. */
const maxRequiredWidth = 40;

/** A heading and a line per row, none longer than the terminal is wide: cells that do not fit are truncated. */
export function tableLines<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { style, columns: width }: TableOptions,
): string[] {
  const filled = columns
    .map((column) => ({ ...column, texts: [column.heading, ...rows.map(column.text)] }))
    .filter(({ texts }) => texts.slice(1).some((text) => text !== ''))
    .map((column) => ({ ...column, width: Math.max(...column.texts.map((text) => text.length)) }));
  let free = width + columnGap;
  for (const column of filled) {
    if (column.optional !== true) free -= Math.min(column.width, maxRequiredWidth) + columnGap;
  }
  const shown = filled.filter((column) => column.optional !== true || (free -= column.width + columnGap) >= 0);
  return [undefined, ...rows].map((row, line) => {
    let start = 0;
    const cells = shown.map(({ texts, alignRight, width: cellWidth, color }) => {
      const text = texts[line] ?? '';
      const aligned = alignRight ? text.padStart(cellWidth) : text;
      const fitting = ellipsize(aligned, Math.max(0, width - start));
      start += cellWidth + columnGap;
      const cellStyle = row === undefined ? 'dim' : color?.(row);
      const styled = cellStyle === undefined || fitting === '' ? fitting : style(cellStyle, fitting);
      return styled + ' '.repeat(cellWidth - aligned.length);
    });
    return cells.join(' '.repeat(columnGap)).trimEnd();
  });
}

/** `3 exports: 1 failed, 2 ok`: how many there are of each kind, in the order of `kinds`. */
export function countKinds<Kind extends string>(
  found: readonly Kind[],
  kinds: readonly Kind[],
  noun: 'export' | 'run' = 'export',
): string {
  const counts = kinds.flatMap((kind) => {
    const count = found.filter((each) => each === kind).length;
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${kind}`];
  });
  return `${plural(found.length, noun)}${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`;
}
