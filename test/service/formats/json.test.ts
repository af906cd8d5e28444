/** A page of JSON is accepted if it is one complete object or array. Its values are those of JSON.parse. */

import { describe, expect, it } from 'vitest';
import { createJsonCheck } from '../../../lib/service/formats/json.ts';
import { anyCodePoint, cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, type Checked, cut, damage } from '../../support/service/checked-pages.ts';

const check = (document: string | Uint8Array, paths: readonly string[] = [], reports?: string): Checked =>
  checkPage(createJsonCheck, [document], { paths, reports });

it('a document is refused with the place of the problem, and remains refused', () => {
  const jsonCheck = createJsonCheck({ paths: [], present: (name) => name });
  expect(jsonCheck.push(Buffer.from(`[${' '.repeat(20_000)}`))).toBeUndefined();
  const problem = jsonCheck.push(Buffer.from('}'));
  expect(problem).toBe('expected a value, near byte 20,001');
  expect(jsonCheck.push(Buffer.from('1]'))).toBe(problem);
  expect(jsonCheck.end()).toBe(problem);
});

it('names a line break inside a string, and a place near it', () => {
  const items = Array.from({ length: 500 }, (_, id) => ({ id, text: 'a'.repeat(30) }));
  const text = JSON.stringify({ items }).replace('"id":430,"text":"a', '"id":430,"text":"a\n');
  expect(check(text).problem).toBe('a line break inside a string, near byte 16,384');
  expect(checkPage(createJsonCheck, bytewise(text)).problem).toMatch(
    /^a line break inside a string, near byte 2\d,\d{3}$/,
  );
});

it('a value is found beside the reports, at a path with escapes, and in arrays', () => {
  const document = '{"a/b":{"~":1},"":[0,{"x":2}],"next":3,"data":[{"next":4}]}';
  const { values, reports } = check(document, ['/a~1b/~0', '//1/x', '/next', '/data/0/next'], '/data/*');
  expect(values.map(({ text }) => text)).toEqual(['1', '2', '3', '4']);
  expect(reports).toBe(1);
});

const { value: json } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, 0, -1.5e300, 12, ''),
    fc.string({ unit: anyCodePoint, maxLength: 8 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(
      fc.oneof(fc.constantFrom('a', 'data', '~', '/', ''), fc.string({ unit: anyCodePoint })),
      tie('value'),
      {
        maxKeys: 4,
      },
    ),
  ),
}));
const page = fc
  .tuple(
    fc.oneof(fc.array(json), fc.dictionary(fc.string({ unit: anyCodePoint }), json)),
    fc.constantFrom('', ' ', '\n\t'),
  )
  .map(([root, indent]) => JSON.stringify(root, null, indent));

/** All pointers into a value, with the values there. */
function pointersInto(value: unknown, pointer = ''): readonly (readonly [string, unknown])[] {
  if (typeof value !== 'object' || value === null) return [[pointer, value]];
  const inside = Object.entries(value).flatMap(([key, child]) =>
    pointersInto(child, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
  return [[pointer, value], ...inside];
}

function contentsOf(value: unknown): object {
  if (value === null) return { type: 'null' };
  if (typeof value === 'object')
    return { type: Array.isArray(value) ? 'array' : 'object', isEmpty: Object.keys(value).length === 0 };
  return { type: typeof value, text: typeof value === 'string' ? value : JSON.stringify(value) };
}

describe('any JSON document', () => {
  it('has the values and the reports of JSON.parse, however it is cut', () => {
    fc.assert(
      fc.property(page, fc.array(fc.nat(), { maxLength: 10 }), (document, seeds) => {
        const pointers = pointersInto(JSON.parse(document));
        const lists = pointers.filter(([, value]) => Array.isArray(value));
        const paths = pointers.map(([pointer]) => pointer);
        for (const pieces of [[document], bytewise(document), cut(Buffer.from(document), seeds)]) {
          const { problem, values } = checkPage(createJsonCheck, pieces, { paths });
          expect(problem).toBeUndefined();
          expect(values).toEqual(pointers.map(([, value]) => ({ parent: true, ...contentsOf(value) })));
          for (const [pointer, value] of lists) {
            const { reports } = checkPage(createJsonCheck, pieces, { reports: `${pointer}/*` });
            expect(reports).toBe((value as unknown[]).length);
          }
        }
      }),
    );
  });

  it('is rejected when it is truncated', () => {
    fc.assert(
      fc.property(page, fc.nat(), (document, seed) => {
        const bytes = Buffer.from(document);
        expect(check(bytes.subarray(0, seed % bytes.length)).problem).toBeDefined();
      }),
    );
  });

  it('with errors in it is accepted or rejected as by JSON.parse, however it is cut', () => {
    const replacement = fc.constantFrom(...'{}[],:"\\0-.e \n\0'.split(''), 'null', '\\u12');
    fc.assert(
      fc.property(
        page,
        fc.nat(),
        replacement,
        fc.array(fc.nat(), { maxLength: 10 }),
        (document, seed, wrong, seeds) => {
          const damaged = damage(document, seed, wrong);
          const isAccepted = checkPage(createJsonCheck, cut(Buffer.from(damaged), seeds)).problem === undefined;
          expect(isAccepted).toBe(isContainer(damaged));
          expect(check(damaged).problem === undefined).toBe(isAccepted);
        },
      ),
      { numRuns: cases(1_000) },
    );
  });
});

function isContainer(document: string): boolean {
  try {
    const value = JSON.parse(document) as unknown;
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}
