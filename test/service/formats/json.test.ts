/** A page of JSON is accepted if it is one complete object or array. Its values are those of JSON.parse. */

import { describe, expect, it } from 'vitest';
import { createJsonCheck } from '../../../lib/service/formats/json.ts';
import { anyCodePoint, cases, fc } from '../../support/property.ts';
import { bytewise, check as checkPage, type Checked, cut, damage } from '../../support/service/checked-pages.ts';

const check = (document: string | Uint8Array, paths: readonly string[] = [], reports?: string): Checked =>
  checkPage(createJsonCheck, [document], { paths, reports });
const bytesIn = (...bytes: readonly number[]) =>
  Buffer.concat([Buffer.from('["'), Buffer.from(bytes), Buffer.from('"]')]);

describe('a JSON document', () => {
  it.each([
    ['empty', '{}'],
    ['with blanks around', ' \r\n\t[ 1 , 2 ] \n'],
    ['after a byte order mark', '\uFEFF{"a":1}'],
    ['with all escapes', String.raw`["\"\\\/\b\f\n\r\t\u00e4"]`],
    ['with half a surrogate pair', String.raw`["\ud800"]`],
    ['with numbers of all forms', '[-0,0.1e+5,1E400,12345678901234567890]'],
    ['with duplicate keys', '{"a":1,"a":2}'],
    ['with keys that objects inherit', '{"":1,"__proto__":2,"constructor":3}'],
    ['1,000 levels deep', '['.repeat(1_000) + ']'.repeat(1_000)],
  ])('is accepted: %s', (_, document) => {
    expect(check(document).problem).toBeUndefined();
    expect(checkPage(createJsonCheck, bytewise(document)).problem).toBeUndefined();
  });

  it.each([
    ['nothing', '', 'the body is empty'],
    ['nothing but blanks', ' \n', 'expected a value'],
    ['nothing but a byte order mark', '\uFEFF', 'expected a value'],
    ['cut off in a string', '{"data":"x', 'not complete'],
    ['cut off in a character', Buffer.from('["ä').subarray(0, -1), 'ends in the middle of a character'],
    ['a number, which may be cut off', '12', 'neither an object nor an array'],
    ['a second document', '{}{}', 'text after the end of the document, near byte 0'],
    ['text after it', '{}x', 'text after the end of the document'],
    ['invalid UTF-8', bytesIn(0xff), 'not UTF-8'],
    ['an overlong character', bytesIn(0xc0, 0xaf), 'not UTF-8'],
    ['the bytes of half a surrogate pair', bytesIn(0xed, 0xa0, 0x80), 'not UTF-8'],
    ['UTF-16', Buffer.from('\uFEFF{"a":1}', 'utf16le'), 'not UTF-8'],
    ['Latin-1', Buffer.from('["ä"]', 'latin1'), 'not UTF-8'],
    ['a NUL in a string', '["a\0b"]', 'the control character U+0000 inside a string'],
    ['a tab in a key', '{"\\"a\tb":1}', 'a tab inside a string'],
    ['an unknown escape', '["a",\n"\\x0012"]', 'a backslash without a valid escape inside a string'],
    ['a comment', '[1/*x*/]', "expected ','"],
    ['a byte order mark inside', '[\uFEFF1]', 'expected a value'],
    ['two byte order marks', '\uFEFF\uFEFF[]', 'expected a value'],
    ['100,000 levels', '['.repeat(100_000) + ']'.repeat(100_000), 'nested deeper than 1000 levels'],
    ['HTML', '<html></html>', 'expected a value'],
  ])('is rejected: %s', (_, document, problem) => {
    expect(check(document).problem).toContain(problem);
    expect(checkPage(createJsonCheck, bytewise(document)).problem).toBeDefined();
  });

  it('is rejected with the place of the problem, and remains rejected', () => {
    const jsonCheck = createJsonCheck({ paths: [], present: (name) => name });
    expect(jsonCheck.push(Buffer.from(`[${' '.repeat(20_000)}`))).toBeUndefined();
    const problem = jsonCheck.push(Buffer.from('}'));
    expect(problem).toBe('expected a value, near byte 20,001');
    expect(jsonCheck.push(Buffer.from('1]'))).toBe(problem);
    expect(jsonCheck.end()).toBe(problem);
  });
});

it('names a line break inside a string, and a place near it', () => {
  const items = Array.from({ length: 500 }, (_, id) => ({ id, text: 'a'.repeat(30) }));
  const text = JSON.stringify({ items }).replace('"id":430,"text":"a', '"id":430,"text":"a\n');
  expect(check(text).problem).toBe('a line break inside a string, near byte 16,384');
  expect(checkPage(createJsonCheck, bytewise(text)).problem).toMatch(
    /^a line break inside a string, near byte 2\d,\d{3}$/,
  );
});

describe('reports', () => {
  it.each([
    ['in an array of the root', '{"x":[1,2],"data":[{"data":[1]},[2],3,null]}', '/data/*', 4],
    ['in the root', '[{},{}]', '/*', 2],
    ['none', '{"data":[]}', '/data/*', 0],
    ['deeper', '{"data":{"logs":{"nodes":[1,2,3]}}}', '/data/logs/nodes/*', 3],
    ['in an array of an array', '[[1],[2,3]]', '/1/*', 2],
    ['not asked for', '[1]', undefined, null],
    ['without their array', '{"error":"no"}', '/data/*', null],
    ['in an object, which is no array', '{"data":{"error":1}}', '/data/*', null],
    ['in null, which is no array', '{"data":null}', '/data/*', null],
  ])('are counted: %s', (_, document, path, reports) => {
    expect(check(document, [], path)).toMatchObject({ problem: undefined, reports });
  });

  it('are not counted in two arrays of the same name', () => {
    expect(check('{"data":[1],"data":[2]}', [], '/data/*').problem).toContain('two values at /data');
  });
});

describe('the value at a path', () => {
  it.each([
    ['a string', '{"meta":{"next":"a"}}', { type: 'string', text: 'a' }],
    [
      'a string with escapes, decoded once',
      String.raw`{"m\u0065ta":{"next":"\\u0061\u00e9ä\ud83d\ude00"}}`,
      { type: 'string', text: String.raw`\u0061éä😀` },
    ],
    ['an empty string', '{"meta":{"next":""}}', { type: 'string', text: '' }],
    [
      'a number with all its digits',
      '{"meta":{"next":12345678901234567890}}',
      { type: 'number', text: '12345678901234567890' },
    ],
    ['a number as written', '{"meta":{"next":-1.50E+03}}', { type: 'number', text: '-1.50E+03' }],
    ['true', '{"meta":{"next":true}}', { type: 'boolean', text: 'true' }],
    ['null', '{"meta":{"next":null}}', { type: 'null' }],
    ['an object', '{"meta":{"next":{"next":1}}}', { type: 'object', isEmpty: false }],
    ['an empty object', '{"meta":{"next":{}}}', { type: 'object', isEmpty: true }],
    ['an array', '{"meta":{"next":[1]}}', { type: 'array', isEmpty: false }],
  ])('is %s', (_, document, value) => {
    const expected = { parent: true, ...value };
    expect(check(document, ['/meta/next'])).toMatchObject({ problem: undefined, values: [expected] });
    expect(checkPage(createJsonCheck, bytewise(document), { paths: ['/meta/next'] }).values).toEqual([expected]);
  });

  it.each([
    ['is missing', '{"meta":{"other":1}}', true],
    ['stands elsewhere', '{"x":{"meta":{"next":1}},"meta":{},"next":2}', true],
    ['has a longer key', '{"meta":{"nextPage":1,"next ":2}}', true],
    ['has no parent', '{"error":"no"}', false],
    ['has null as parent', '{"meta":null}', false],
    ['has text as parent', '{"meta":"next"}', false],
  ])('is not found if it %s', (_, document, parent) => {
    expect(check(document, ['/meta/next']).values).toEqual([{ parent }]);
  });

  it('is found beside the reports, behind escapes of the path, and in arrays', () => {
    const document = '{"a/b":{"~":1},"":[0,{"x":2}],"next":3,"data":[{"next":4}]}';
    const { values, reports } = check(document, ['/a~1b/~0', '//1/x', '/next', '/data/0/next'], '/data/*');
    expect(values.map(({ text }) => text)).toEqual(['1', '2', '3', '4']);
    expect(reports).toBe(1);
  });

  it.each([
    ['there are two', '{"next":1,"next":2}', 'two values at /next'],
    ['the second key has escapes', String.raw`{"next":1,"n\u0065xt":2}`, 'two values at /next'],
    ['it contains half a surrogate pair', String.raw`{"next":"\ud800"}`, 'half a surrogate pair'],
    ['it is longer than 64 KiB', `{"next":"${'x'.repeat(70_000)}"}`, 'the value at /next is too long'],
    ['it is a number longer than 64 KiB', `{"next":${'1'.repeat(70_000)}}`, 'the value at /next is too long'],
  ])('is rejected if %s', (_, document, problem) => {
    expect(check(document, ['/next']).problem).toContain(problem);
  });
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
