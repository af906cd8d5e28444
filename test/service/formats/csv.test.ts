/** A page of CSV is accepted if it is a table whose rows are complete. */

import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { createCsvCheck } from '../../../lib/service/formats/csv.ts';
import { cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, cut, damage } from '../../support/service/checked-pages.ts';

const check = (...pieces: readonly (string | Uint8Array)[]) => checkPage(createCsvCheck, pieces);

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
