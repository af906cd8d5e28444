/** A page of NDJSON is accepted if each line is a complete object or array, or blank. */

import { describe, expect, it } from 'vitest';
import { createNdjsonCheck } from '../../../lib/service/formats/ndjson.ts';
import { anyCodePoint, cases, fc } from '../../support/property.ts';
import { check as checkPage, cut, damage } from '../../support/service/checked-pages.ts';

const check = (...pieces: readonly (string | Uint8Array)[]) => checkPage(createNdjsonCheck, pieces);

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
