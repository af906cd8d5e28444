/**
 * Checks that a page is a CSV table (RFC 4180), in which all rows have as many fields as the first. Commas separate
 * them, or the
 * `delimiter`. For example
 *
 *     id,text
 *     1,"two
 *     lines, and a ""quote"""
 *
 * has one report: the first row contains the names of the columns, by which another table is recognized, of an error
 * for example. With `"reports": "/*"` it is a report too, and a page without rows is empty. There are no paths.
 *
 * Line breaks outside quotes are all CRLF or all LF. The last row may have none, and a blank line may follow it. So a
 * page that is cut off looks complete: only its length or its transfer encoding shows that, and one of them is
 * required.
 *
 * Written here because csv-parse and papaparse accept NUL characters and other encodings, and hold whole fields in
 * memory.
 */

import { checkText, type CreateCheck, maxValueLength, type OnReport, type TextReader } from './format-check.ts';

const quote = 0x22;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** The character that has just been read, and where it stands. */
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
  const hasNames = reports === undefined;
  const table = createTable(delimiter.charCodeAt(0));
  let firstRow = '';

  return checkText({
    mayBeEmpty: !hasNames,
    read(text) {
      if (text.includes('\0')) return `row ${table.rows() + 1} or one shortly after it contains a NUL character`;
      const isInFirstRow = hasNames && table.rows() === 0;
      const problem = table.read(text);
      if (isInFirstRow) firstRow += text.slice(0, table.firstRowEnd());
      if (firstRow.length <= maxValueLength) return problem;
      return problem ?? `the first row is longer than ${maxValueLength} characters`;
    },
    end() {
      const problem = table.end();
      if (problem !== undefined) return problem;
      if (!hasNames) return { reports: table.rows() };
      if (table.rows() === 0) return 'there is no row with the names of the columns';
      return { reports: table.rows() - 1, rootName: firstRow.replace(/\r$/, '') };
    },
  });
};

/** Reads the values in columns, whose names are in the first row. */
export function csvReports(delimiter = ',', columns: readonly string[], onReport: OnReport): TextReader {
  let places: readonly number[] | undefined;
  let repeated: string | undefined;
  const onRow = (row: readonly string[]): void => {
    if (places !== undefined) return onReport(places.map((place) => textAt(row, place)));
    repeated = columns.find((name) => row.indexOf(name) !== row.lastIndexOf(name));
    places = columns.map((name) => row.indexOf(name));
  };
  const table = createTable(delimiter.charCodeAt(0), createTexts(onRow));
  const orRepeated = (problem: string | undefined) =>
    problem ?? (repeated === undefined ? undefined : `there are two columns ${repeated}`);
  return { read: (text) => orRepeated(table.read(text)), end: () => orRepeated(table.end()) ?? {} };
}

const textAt = (row: readonly string[], place: number) => {
  const text = row[place];
  return text === undefined ? undefined : ({ type: 'string', text } as const);
};

/** The state after a character outside quoted text, in a row. */
function stateAfter(character: number, separator: number): State {
  if (character === separator) return 'delimiter';
  if (character === carriageReturn) return 'carriage return';
  return character === quote ? 'quoted text' : 'text';
}

function problemBetween(state: State, next: State): string | undefined {
  if (state === 'carriage return') return 'contains a carriage return without a line feed';
  if (state === 'text' && next === 'quoted text') return 'contains a quote in a field without quotes';
  if (state === 'quote in quoted text' && next === 'text') return 'contains text after the closing quote of a field';
  return undefined;
}

/** Holds the texts of a row. */
function createTexts(onRow: (row: readonly string[]) => void) {
  let row: string[] = [];
  let field = '';
  const endField = (): void => {
    row.push(field);
    field = '';
  };
  return {
    add(text: string): void {
      field += text;
    },
    /** A character outside quoted text. Two quotes in quoted text are one. */
    addCharacter(character: number, before: State, next: State): void {
      if (next === 'delimiter') endField();
      else if (next === 'text' || (next === 'quoted text' && before === 'quote in quoted text'))
        field += String.fromCharCode(character);
    },
    endRow(): void {
      endField();
      onRow(row);
      row = [];
    },
  };
}

/** Reads rows character by character. Returned texts are problems. Without `texts`, no field is held. */
function createTable(separator: number, texts?: ReturnType<typeof createTexts>) {
  /** Where in the text that is being read the first row ends. */
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
    texts?.endRow();
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
    const next = stateAfter(character, separator);
    const problem = problemBetween(state, next);
    if (problem !== undefined) return problem;
    texts?.addCharacter(character, state, next);
    if (next === 'delimiter') fields += 1;
    state = next;
    return undefined;
  };
  const read = (text: string): string | undefined => {
    for (position = 0; position < text.length; position += 1) {
      if (state === 'quoted text') {
        const end = text.indexOf('"', position);
        texts?.add(text.slice(position, end < 0 ? undefined : end));
        if (end < 0) return undefined;
        position = end;
        state = 'quote in quoted text';
        continue;
      }
      const problem = readCharacter(text.charCodeAt(position));
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
  const end = (): string | undefined => {
    if (state === 'quoted text') return 'has no closing quote';
    if (state.startsWith('carriage return')) return 'contains a carriage return without a line feed';
    return state === 'row' || state === 'blank line' ? undefined : endRow();
  };
  const inRow = (problem: string | undefined) => problem && `row ${rows + 1} ${problem}`;
  return {
    read: (text: string) => inRow(read(text)),
    end: () => inRow(end()),
    rows: () => rows,
    firstRowEnd: () => firstRowEnd,
  };
}
