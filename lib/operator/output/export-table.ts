/** Tables with a line per export or run. */

import { plural } from './format.ts';
import { type Cell, ellipsize, type TextStyle } from './terminal.ts';

export interface Column<Row> {
  readonly heading: string;
  readonly alignRight?: boolean;
  readonly cell: (row: Row, now: number) => Cell;
}

export interface ExportColumns<Row> {
  readonly required: readonly Column<Row>[];
  /** Shown if there is space for them, the first ones first. */
  readonly optional: readonly Column<Row>[];
  /** In the last column, which exists if one of the exports has a note. */
  readonly noteOf: (row: Row, now: number) => string;
}

export interface TableOptions {
  readonly now: number;
  readonly style: TextStyle;
  /** The width of the terminal. */
  readonly columns: number;
}

const columnGap = 2;
/** The width that is kept for notes, unless they are shorter. */
const usualNoteWidth = 40;

/** A heading and a line per row, none of which is longer than the terminal is wide: the cells that do not fit are truncated. */
export function exportTable<Row>(
  rows: readonly Row[],
  { required, optional, noteOf }: ExportColumns<Row>,
  { now, style, columns: width }: TableOptions,
): string[] {
  const measured = ({ heading, alignRight = false, cell }: Column<Row>) => {
    const cells: readonly Cell[] = [{ text: heading, style: 'dim' }, ...rows.map((row) => cell(row, now))];
    return { alignRight, cells, width: Math.max(...cells.map(({ text }) => text.length)) };
  };
  const shown = required.map(measured);
  const hasNotes = rows.some((row) => noteOf(row, now) !== '');
  const notes = measured({ heading: 'NOTE', cell: (row) => ({ text: noteOf(row, now) }) });
  const noteWidth = hasNotes ? Math.min(notes.width, usualNoteWidth) + columnGap : 0;
  let free = width - noteWidth - shown.reduce((sum, column) => sum + column.width + columnGap, -columnGap);
  for (const column of optional.map(measured)) {
    free -= column.width + columnGap;
    if (free < 0) break;
    shown.push(column);
  }
  if (hasNotes) shown.push(notes);
  return [-1, ...rows.keys()].map((row) => {
    let start = 0;
    const cells = shown.map(({ cells, alignRight, width: cellWidth }) => {
      const { text = '', style: cellStyle } = cells[row + 1] ?? {};
      const aligned = alignRight ? text.padStart(cellWidth) : text;
      const fitting = ellipsize(aligned, Math.max(0, width - start));
      start += cellWidth + columnGap;
      const styled = cellStyle === undefined || fitting === '' ? fitting : style(cellStyle, fitting);
      return styled + ' '.repeat(cellWidth - aligned.length);
    });
    return cells.join(' '.repeat(columnGap)).trimEnd();
  });
}

/** `3 exports: 1 failed, 2 ok`: how many there are of each kind, in the order of `kinds`. */
export function countKinds<Kind extends string>(found: readonly Kind[], kinds: readonly Kind[]): string {
  const counts = kinds.flatMap((kind) => {
    const count = found.filter((each) => each === kind).length;
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${kind}`];
  });
  return `${plural(found.length, 'export')}${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`;
}
