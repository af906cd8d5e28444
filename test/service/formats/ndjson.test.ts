/** A page of NDJSON is accepted if each line is a complete object or array, or blank. */

import { describe, expect, it } from 'vitest';
import { createNdjsonCheck } from '../../../lib/service/formats/ndjson.ts';
import { anyCodePoint, cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, cut, damage } from '../../support/service/checked-pages.ts';

const check = (...pieces: readonly (string | Uint8Array)[]) => checkPage(createNdjsonCheck, pieces);

describe('an NDJSON document', () => {
  it.each([
    ['as specified', '{"a":1}\n{"a":2}\n', 2],
    ['without the last line break', '{"a":1}\n{"a":2}', 2],
    ['with CRLF', '{"a":1}\r\n{"a":2}\r\n', 2],
    ['nothing', '', 0],
    ['with blank lines', '\n{"a":1}\n \n{"a":2}\n\n', 2],
    ['after a byte order mark', '\uFEFF{"a":1}\n', 1],
    ['of arrays', '[1]\n[2]\n', 2],
    ['with other line separators of Unicode', '{"a":"\u2028\u0085"}\n', 1],
  ])('is accepted: %s', (_, document, reports) => {
    expect(check(document)).toMatchObject({ problem: undefined, reports });
    expect(check(...bytewise(document))).toMatchObject({ problem: undefined, reports });
  });

  it.each([
    ['cut off in a line', '{"a":1}\n{"a"', 'line 2: the document is not complete'],
    ['a line break in an object', '{"a":1}\n{"a":\n1}\n', 'line 2: a line break inside a document'],
    ['two documents in a line', '{"a":1} {"a":2}\n', 'line 1: more than one document'],
    ['an error message', '{"a":1}\nError: timeout\n', 'line 2: expected a value'],
    ['a number, which may be cut off', '{"a":1}\n12', 'line 2: the document is neither an object nor an array'],
    ['text', '"x"\n', 'line 1: the document is neither an object nor an array'],
    ['invalid UTF-8', Buffer.from('{"a":"ä"}\n', 'latin1'), 'not UTF-8'],
    ['a character that is cut off', Buffer.from('{"a":"ä').subarray(0, -1), 'in the middle of a character'],
    ['too many levels', '['.repeat(100_000), 'line 1: nested deeper than 1000 levels'],
  ])('is rejected: %s', (_, document, problem) => {
    expect(check(document).problem).toContain(problem);
    expect(check(...bytewise(document)).problem).toBeDefined();
  });
});

const page = fc
  .array(
    fc.tuple(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string({ unit: anyCodePoint }), fc.jsonValue())),
      fc.constantFrom('\n', '\r\n', '\n\n', ' \n'),
    ),
    { minLength: 1, maxLength: 5 },
  )
  .map((lines) => lines.map(([value, lineBreak]) => JSON.stringify(value) + lineBreak).join(''));

describe('any NDJSON document', () => {
  it('with errors in it is accepted or rejected, and counted, as line by line with JSON.parse, however it is cut', () => {
    const wrong = fc.constantFrom('', '{', '}', '[]', '"', '\\', '0', ',', '\n', '\r', '\0', 'null');
    fc.assert(
      fc.property(
        page,
        fc.nat(),
        wrong,
        fc.array(fc.nat(), { maxLength: 10 }),
        (document, seed, replacement, seeds) => {
          for (const one of [
            document,
            damage(document, seed, replacement),
            document.slice(0, seed % document.length),
          ]) {
            const expected = documentsIn(one);
            for (const pieces of [[one], cut(Buffer.from(one), seeds)]) {
              const { problem, reports } = check(...pieces);
              expect(problem === undefined ? reports : undefined).toBe(expected);
            }
          }
        },
      ),
      { numRuns: cases(500) },
    );
  });
});

/** How many lines contain a JSON object or array. undefined: another line is not blank. */
function documentsIn(text: string): number | undefined {
  const lines = text.split('\n').filter((line) => /[^ \t\r]/.test(line));
  try {
    const values = lines.map((line) => JSON.parse(line) as unknown);
    const areContainers = values.every((value) => typeof value === 'object' && value !== null);
    return areContainers ? values.length : undefined;
  } catch {
    return undefined;
  }
}
