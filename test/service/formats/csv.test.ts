/** A page of CSV is accepted if it is a table whose rows are complete. */

import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { createCsvCheck } from '../../../lib/service/formats/csv.ts';
import { cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, cut, damage } from '../../support/service/checked-pages.ts';

const check = (...pieces: readonly (string | Uint8Array)[]) => checkPage(createCsvCheck, pieces);

describe('a CSV document', () => {
  it.each([
    ['with a header only', 'a,b\n', 0],
    ['with LF', 'a,b\n1,2\n', 1],
    ['with CRLF', 'a,b\r\n1,2\r\n', 1],
    ['after a byte order mark', '\uFEFF"a",b\n1,2\n', 1],
    ['with line breaks in quotes', 'a,b\n1,"x\ny\r\nz\r"\n', 1],
    ['with doubled quotes', 'a,b\n1,"x"",""y"\n""""," "\n', 2],
    ['with empty fields', 'a,b\n,\n"",\n', 2],
    ['with quotes in the header', '"a","b\n"\n1,2\n', 1],
    ['with tabs and blanks', 'a,b\n x\ty , z\n', 1],
    ['with one column', 'a\n1\n""\n', 2],
    ['with the names of the columns alone', 'a,b', 0],
    ['without a line break at the end', 'a,b\n1,2', 1],
    ['with a quote at the end', 'a,b\n1,"x"', 1],
    ['with a blank last line', 'a,b\n1,2\n\n', 1],
    ['with a blank last line of CRLF', 'a\r\n1\r\n\r\n', 1],
    ['with other control characters', 'a,b\n\v,\x1f\u2028\n', 1],
  ])('is accepted: %s', (_, document, reports) => {
    expect(check(document)).toMatchObject({ problem: undefined, reports });
    expect(check(...bytewise(document))).toMatchObject({ problem: undefined, reports });
  });

  it.each([
    ['id,text\n1,2\n', 'id,text'],
    ['\uFEFFid,Order ID\r\n', 'id,Order ID'],
    ['"id","a\r\n""b""",größe\n1,2,3\n', '"id","a\r\n""b""",größe'],
  ])('has its first row as the name of its root: %j', (document, rootName) => {
    expect(check(document).rootName).toBe(rootName);
    expect(check(...bytewise(document)).rootName).toBe(rootName);
  });

  it.each([
    ['1,2\n3,4\n', 2],
    ['', 0],
  ])('has no such row if all rows are reports: %j', (document, reports) => {
    const expected = { problem: undefined, reports, rootName: null };
    expect(checkPage(createCsvCheck, [document], { reports: '/*' })).toMatchObject(expected);
  });

  it.each([
    ['nothing', '', 'the body is empty'],
    ['nothing but a byte order mark', '\uFEFF', 'no row'],
    ['nothing but a blank line', '\n', 'row 1 is blank'],
    ['cut off before its last field', 'a,b\n1', 'row 2 has 1 fields'],
    ['cut off in a line break', 'a,b\r\n1,2\r', 'row 2 contains a carriage return'],
    ['cut off in quotes', 'a,b\n1,"x', 'row 2 has no closing quote'],
    ['cut off in a character', Buffer.from('a,b\n1,ä').subarray(0, -1), 'in the middle of a character'],
    ['a row with fewer fields', 'a,b\n1,2\n3\n4,5\n', 'row 3 has 1 fields, the first row 2'],
    ['a row with more fields', 'a,b\n1,2,3\n', 'row 2 has 3 fields, the first row 2'],
    ['a quote in a field without quotes', 'a,b\n1,x"y\n', 'row 2 contains a quote'],
    ['text after quotes', 'a,b\n1,"x"y\n', 'row 2 contains text after the closing quote'],
    ['quotes that are not closed', 'a,b\n1,"x\n2,y\n3,z\n', 'row 2 has no closing quote'],
    ['a blank line', 'a,b\n\n1,2\n', 'row 2 is blank'],
    ['a blank last line with another line break', 'a\n1\n\r\n', 'row 3 is blank'],
    ['two blank lines at the end', 'a,b\n1,2\n\n\n', 'row 3 is blank'],
    ['a blank line of one column', 'a\r\n1\r\n\r\n2\r\n', 'row 3 is blank'],
    ['a line of blanks', 'a,b\n1,2\n  \n', 'row 3 has 1 fields'],
    ['CRLF after LF', 'a,b\n1,2\r\n', 'row 2 ends with CRLF, other rows with LF'],
    ['LF after CRLF', 'a,b\r\n1,2\n', 'row 2 ends with LF, other rows with CRLF'],
    ['CR as line break', 'a,b\r1,2\r', 'row 1 contains a carriage return'],
    ['CR in a field', 'a,b\n1,x\ry\n', 'row 2 contains a carriage return'],
    ['NUL', 'a,b\n1,x\0y\n', 'NUL'],
    ['invalid UTF-8', Buffer.from('a,b\n1,ä\n', 'latin1'), 'not UTF-8'],
    ['UTF-16', Buffer.from('\uFEFFa,b\n1,2\n', 'utf16le'), 'not UTF-8'],
    ['HTML', '<!DOCTYPE html>\n<html lang="en">\n</html>\n', 'quote in a field without quotes'],
    ['a first row without an end', `"${'x'.repeat(70_000)}`, 'the first row is longer than 65536 characters'],
    ['an error message after the rows', 'a,b\n1,2\nERROR: timeout\n', 'row 3 has 1 fields'],
  ])('is rejected: %s', (_, document, problem) => {
    expect(check(document).problem).toContain(problem);
    expect(check(...bytewise(document)).problem).toBeDefined();
  });
});

const field = fc.tuple(
  fc.string({ unit: fc.constantFrom('"', ',', '\n', '\r', ' ', '\t', 'a', 'ä', '😀', "'", '\\'), maxLength: 6 }),
  fc.boolean(),
);
const table = fc
  .record({
    columns: fc.integer({ min: 1, max: 4 }),
    cells: fc.array(field, { minLength: 1, maxLength: 20 }),
    lineBreak: fc.constantFrom('\n', '\r\n'),
    mark: fc.constantFrom('', '\uFEFF'),
  })
  .map(({ columns, cells, lineBreak, mark }) => {
    const quoted = cells.map(([text, isQuoted]) =>
      isQuoted || /[",\r\n]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text,
    );
    const rows = Array.from({ length: Math.ceil(quoted.length / columns) }, (_, row) =>
      Array.from({ length: columns }, (__, column) => quoted[row * columns + column] ?? '""').join(','),
    );
    return mark + rows.map((row) => row + lineBreak).join('');
  });

describe('any CSV document', () => {
  it('is accepted and its rows are counted as by csv-parse, however it is cut', () => {
    fc.assert(
      fc.property(table, fc.array(fc.nat(), { maxLength: 10 }), (text, seeds) => {
        const reports = rowsOf(text).length - 1;
        for (const pieces of [[text], bytewise(text), cut(Buffer.from(text), seeds)]) {
          expect(check(...pieces)).toMatchObject({ problem: undefined, reports });
        }
      }),
    );
  });

  it('is rejected when it is truncated, or has the same number of rows as by csv-parse', () => {
    fc.assert(
      fc.property(table, fc.nat(), (text, seed) => {
        const truncated = text.slice(0, seed % text.length);
        const { problem, reports } = check(truncated);
        expect(problem ?? reports).toBe(problem ?? rowsOf(truncated).length - 1);
      }),
    );
  });

  it('with errors in it is rejected at any cut, or csv-parse finds the same number of rows', () => {
    const wrong = fc.constantFrom('', '"', ',', '\n', '\r', '\r\n', '\0', ' ', '""', 'x');
    fc.assert(
      fc.property(table, fc.nat(), wrong, fc.array(fc.nat(), { maxLength: 10 }), (text, seed, replacement, seeds) => {
        const damaged = damage(text, seed, replacement);
        const { problem, reports } = check(...cut(Buffer.from(damaged), seeds));
        expect(check(damaged).problem === undefined).toBe(problem === undefined);
        expect(problem ?? reports).toBe(problem ?? rowsOf(damaged).length - 1);
      }),
      { numRuns: cases(1_000) },
    );
  });
});

/** A blank last line is no row. @throws Error if csv-parse finds a problem */
function rowsOf(text: string): readonly (readonly string[])[] {
  return parse(text.replace(/(\r\n|\n)\1$/, '$1'), { bom: true }) as string[][];
}
