import { describe, expect, it } from 'vitest';
import { anyValue, jsonText, mutationsOf } from '../support/mutations.ts';
import { cases, fc, test } from '../support/property.ts';
import { problemsOfFile } from '../support/settings-file.ts';

const valid = {
  services: { acme: { baseUrl: 'https://reports.example.com' } },
  exports: [
    { name: 'nightly', filter: { types: ['a', 'b'] } },
    { name: 'hourly', service: 'acme' },
  ],
};

describe('a settings file', () => {
  it('may begin with a byte order mark', () => {
    expect(problemsOfFile(`\uFEFF${JSON.stringify(valid)}`)).toEqual([]);
  });

  it('has the line of the field, of the unknown field, and of the object that lacks a field', () => {
    const text = `{
  "services": {
    "acme": {
      "vendor": "ACME",
      "pageSize": 4
    }
  },
  "exports": [
    { "name": "a", "filter": { "date": { "gte": "x" } } },
    {
      "name": "b",
      "schedule": { "expression": "rate(1 hour)",
        "freshness": 1 }
    }
  ]
}`;
    expect(problemsOfFile(text)).toEqual([
      expect.stringMatching(/^some\.json:3 services\.acme\.baseUrl: /),
      expect.stringMatching(/^some\.json:5 services\.acme: unknown field: "pageSize"\. There are baseUrl, vendor/),
      expect.stringMatching(/^some\.json:9 exports\[0\]\.filter\.date\.gte: is set by each run/),
      expect.stringMatching(/^some\.json:13 exports\[1\]\.schedule\.freshness: must be the maximum age/),
    ]);
  });

  it('refuses __proto__, which the schemas would drop', () => {
    const api = '"request": {"path": "/logs",\n"query": {\n"__proto__": "x"}}';
    const text = `{"services": {"acme": {"baseUrl": "https://a.example", "api": {${api}}}}, "exports": [{"name": "a"}]}`;
    expect(problemsOfFile(text)).toEqual([
      'some.json:3 services.acme.api.request.query.__proto__: cannot be the name of a field. Remove it, or use another name',
    ]);
  });

  it('reports fields that it has twice, which JSON.parse would ignore', () => {
    const text = '{\n"services": {\n"acme": {},\n"acme": {}\n},\n"exports": [{"name": "a",\n"name": "b"}]\n}';
    expect(problemsOfFile(text)).toEqual([
      'some.json:4 services.acme: is already set on line 3',
      'some.json:7 exports[0].name: is already set on line 6',
    ]);
  });

  it.each([
    ['', 'some.json:1:1 is not valid JSON: '],
    [
      '{\n  "a": 1,\n}',
      'some.json:3:1 is not valid JSON: Expected double-quoted property name. Correct it there or just before',
    ],
    ['{"a" 1}', "some.json:1:6 is not valid JSON: Expected ':' after property name. "],
    ['{"a": 1} x', 'some.json:1:10 is not valid JSON: '],
    ['{"a": "x\ny"}', 'some.json is not valid JSON: '],
    ["{'a': 1}", 'some.json:1:2 is not valid JSON: '],
  ])('that is not JSON is rejected with line and column: %j', (text, message) => {
    const lines = problemsOfFile(text);
    expect(lines).toEqual([expect.stringContaining(message)]);
    expect(lines[0]).toMatch(/^[^\p{C}]+$/u);
  });

  it('with extreme nesting is rejected, without lines', () => {
    const exports = [{ name: 'a', filter: { deep: 'here' } }];
    const text = JSON.stringify({ ...valid, exports }).replace(
      '"here"',
      `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
    );
    expect(problemsOfFile(text)).toEqual([
      expect.stringMatching(/^some\.json exports\[0\]\.filter\.deep.*: is nested deeper/),
    ]);
    expect(problemsOfFile('['.repeat(100_000))).toEqual([expect.stringContaining('some.json is not valid JSON: ')]);
  });

  test.prop([fc.oneof(mutationsOf(valid), anyValue, fc.string()), fc.constantFrom(0, 2)], { numRuns: cases(150) })(
    'of any content is accepted, or rejected with a line for each problem',
    (value, indentation) => {
      const text = typeof value === 'string' ? value : jsonText(value, indentation);
      for (const line of problemsOfFile(text)) {
        expect(line).toMatch(
          /^some\.json(:\d+)?(:\d+ is not valid JSON)?[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*: [^\p{C}]+$/u,
        );
      }
    },
  );
});
