/** Tables with a line per export. */

import { plural } from './format.ts';
import { type Cell, columnGap, columnWidths, type TextStyle, tableLines } from './terminal.ts';

export interface Column<Row> {
  readonly heading: string;
  readonly alignRight?: boolean;
  readonly cell: (row: Row, now: number) => Omit<Cell, 'alignRight'>;
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

/** The width that is kept for notes, unless they are shorter. */
const usualNoteWidth = 40;

/** A heading and a line per row, none of which is longer than the terminal is wide. */
export function exportTable<Row>(
  rows: readonly Row[],
  { required, optional, noteOf }: ExportColumns<Row>,
  { now, style, columns: width }: TableOptions,
): string[] {
  const note: Column<Row> = { heading: 'NOTE', cell: (row) => ({ text: noteOf(row, now) }) };
  const widthOf = (column: Column<Row>) => columnWidths(rowsOf(rows, [column], now))[0] ?? 0;
  const hasNotes = rows.some((row) => noteOf(row, now) !== '');
  const noteWidth = hasNotes ? Math.min(widthOf(note), usualNoteWidth) + columnGap : 0;
  let free = width - noteWidth - required.reduce((sum, column) => sum + widthOf(column) + columnGap, -columnGap);
  const extra: Column<Row>[] = [];
  for (const column of optional) {
    free -= widthOf(column) + columnGap;
    if (free < 0) break;
    extra.push(column);
  }
  return tableLines(rowsOf(rows, [...required, ...extra, ...(hasNotes ? [note] : [])], now), style, width);
}

/** A heading, and the rows. */
function rowsOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[], now: number): Cell[][] {
  return [
    columns.map(({ heading, alignRight }) => ({ text: heading, style: 'dim', alignRight })),
    ...rows.map((row) => columns.map(({ cell, alignRight }) => ({ ...cell(row, now), alignRight }))),
  ];
}

/** `3 exports: 1 failed, 2 ok`: how many there are of each kind, in the order of `kinds`. */
export function countKinds<Kind extends string>(found: readonly Kind[], kinds: readonly Kind[]): string {
  const counts = kinds.flatMap((kind) => {
    const count = found.filter((each) => each === kind).length;
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${kind}`];
  });
  return `${plural(found.length, 'export')}${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`;
}
