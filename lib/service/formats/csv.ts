/**
 * Checks that a page is a CSV table (RFC 4180), in which all rows have as many fields as the first. Commas separate them, or the
 * `delimiter`. For example
 *
 *     id,text
 *     1,"two
 *     lines, and a ""quote"""
 *
 * has one report: the first row contains the names of the columns, by which another table is recognized, of an error for
 * example. With `"reports": "/*"` it is a report too, and a page without rows is empty. There are no paths.
 *
 * Line breaks outside quotes are all CRLF or all LF. The last row may have none, and a blank line may follow it. So a page that is cut
 * off looks complete: only its length or its transfer encoding shows that, and one of them is required.
 *
 * Written here because csv-parse and papaparse accept NUL characters and other encodings, and hold whole fields in memory.
 */

import { checkText, type CreateCheck, maxValueLength } from './format-check.ts';

const quote = 0x22;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** What has just been read. */
type State =
  | 'row'
  | 'delimiter'
  | 'text'
  | 'quoted text'
  | 'quote in quoted text'
  | 'carriage return'
  | 'carriage return of a blank line'
  | 'blank line';

export const createCsvCheck: CreateCheck = ({ reports, delimiter = ',' }) => {
  const separator = delimiter.charCodeAt(0);
  const hasNames = reports === undefined;
  /** The first row, and where in the text that is being read it ends. */
  let firstRow = '';
  let firstRowEnd: number | undefined;
  let position = 0;
  let state: State = 'row';
  let rows = 0;
  let fields = 1;
  let columns: number | undefined;
  let lineBreak: 'CRLF' | 'LF' | undefined;

  const endRow = (): string | undefined => {
    if (columns === undefined) firstRowEnd = position;
    columns ??= fields;
    if (fields !== columns) return `has ${fields} fields, the first row ${columns}`;
    rows += 1;
    fields = 1;
    state = 'row';
    return undefined;
  };
  const endLine = (): string | undefined => {
    const found = state === 'carriage return' ? 'CRLF' : 'LF';
    lineBreak ??= found;
    return found === lineBreak ? endRow() : `ends with ${found}, other rows with ${lineBreak}`;
  };
  /** Some readers skip blank rows, others do not. So only the last line may be blank. */
  const readBlankLine = (character: number): string | undefined => {
    const isNext = character === (lineBreak === 'CRLF' && state === 'row' ? carriageReturn : lineFeed);
    if (rows === 0 || state === 'blank line' || !isNext) return 'is blank';
    state = character === lineFeed ? 'blank line' : 'carriage return of a blank line';
    return undefined;
  };
  /** Reads a character outside quoted text. */
  const readCharacter = (character: number): string | undefined => {
    const isLineBreak = character === lineFeed || character === carriageReturn;
    const isBlank = state === 'blank line' || state === 'carriage return of a blank line';
    if (isBlank || (isLineBreak && state === 'row')) return readBlankLine(character);
    if (character === lineFeed) return endLine();
    if (state === 'carriage return') return 'contains a carriage return without a line feed';
    if (character === separator) {
      fields += 1;
      state = 'delimiter';
    } else if (character === carriageReturn) {
      state = 'carriage return';
    } else if (character === quote) {
      if (state === 'text') return 'contains a quote in a field without quotes';
      state = 'quoted text';
    } else if (state === 'quote in quoted text') {
      return 'contains text after the closing quote of a field';
    } else {
      state = 'text';
    }
    return undefined;
  };
  const readText = (text: string): string | undefined => {
    for (position = 0; position < text.length; position += 1) {
      if (state === 'quoted text') {
        position = text.indexOf('"', position);
        if (position < 0) return undefined;
        state = 'quote in quoted text';
        continue;
      }
      const problem = readCharacter(text.charCodeAt(position));
      if (problem !== undefined) return `row ${rows + 1} ${problem}`;
    }
    return undefined;
  };

  return checkText({
    mayBeEmpty: !hasNames,
    read(text) {
      if (text.includes('\0')) return `row ${rows + 1} or one shortly after it contains a NUL character`;
      const isInFirstRow = hasNames && columns === undefined;
      const problem = readText(text);
      if (isInFirstRow) firstRow += text.slice(0, firstRowEnd);
      if (firstRow.length <= maxValueLength) return problem;
      return problem ?? `the first row is longer than ${maxValueLength} characters`;
    },
    end() {
      if (state === 'quoted text') return `row ${rows + 1} has no closing quote`;
      if (state.startsWith('carriage return')) return `row ${rows + 1} contains a carriage return without a line feed`;
      const problem = state === 'row' || state === 'blank line' ? undefined : endRow();
      if (problem !== undefined) return `row ${rows + 1} ${problem}`;
      if (!hasNames) return { reports: rows };
      if (rows === 0) return 'there is no row with the names of the columns';
      return { reports: rows - 1, rootName: firstRow.replace(/\r$/, '') };
    },
  });
};
