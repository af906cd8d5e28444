/** Settings files and options of any content are accepted, or rejected with all problems, without the key. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect } from 'vitest';
import { isExportError } from '../../lib/core/errors.ts';
import type { LocalExport } from '../../lib/local/settings.ts';
import { readFileExports } from '../../lib/operator/settings-file.ts';
import { jsonText, mutationsOf } from '../support/mutations.ts';
import { cases, fc, test } from '../support/property.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const directory = await temporaryDirectory();
afterAll(() => directory[Symbol.asyncDispose]());
const file = join(directory.path, 'settings.json');

const env = { THE_KEY: 'the-key-of-this-test', REPORT_EXPORT_API_KEY: 'another-key-of-this-test' };
const valid = {
  services: {
    acme: {
      baseUrl: 'https://a.example',
      vendor: 'ACME',
      apiKeyEnv: 'THE_KEY',
      maxPageBytes: 10,
      totalTimeout: 'PT1M',
    },
    other: { baseUrl: 'https://b.example' },
  },
  exports: [
    { name: 'one', service: 'acme', size: 3, since: { overlap: 'PT1H' }, schedule: { expression: 'rate(1 hour)' } },
    { name: 'two', service: 'other', filter: { type: 'daily' }, maxInlineWait: 'PT1S' },
  ],
};

function read(names: readonly string[], options: object): readonly LocalExport[] | string[] {
  try {
    return readFileExports(file, names, options, []);
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') || error.message.length > 40_000) throw error;
    return error.message.split('\n');
  }
}

const areProblems = (result: readonly unknown[]): result is string[] => typeof result[0] === 'string';

const someText = fc.constantFrom(
  '',
  '3',
  '11',
  'x',
  '{',
  '{"type":"x"}',
  'PT1H',
  'body',
  'https://c.example',
  'THE_KEY',
);
const someOptions = fc.record(
  {
    baseUrl: someText,
    vendor: someText,
    apiKeyEnv: someText,
    overlap: someText,
    size: someText,
    filter: someText,
    cursorIn: someText,
    maxPages: someText,
    simulate: fc.boolean(),
    all: fc.boolean(),
  },
  { requiredKeys: [] },
);
const someNames = fc.subarray(['one', 'two', 'three']);

describe('the exports of a settings file', () => {
  test.prop([fc.oneof(fc.constant(valid), mutationsOf(valid)), someNames, someOptions], { numRuns: cases(200) })(
    'are accepted in a form that can be stored, or rejected',
    (settings, names, options) => {
      writeFileSync(file, jsonText(settings));
      const result = read(names, options);
      if (areProblems(result)) {
        const [first] = result;
        expect(first).toBeDefined();
        for (const line of result) {
          expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+$/u);
          for (const key of Object.values(env)) expect(line).not.toContain(key);
        }
        return;
      }
      for (const each of result) {
        expect(JSON.parse(JSON.stringify(each))).toEqual(each);
      }
    },
  );

  test.prop([someNames.filter((names) => names.length > 0 && !names.includes('three'))], { numRuns: 10 })(
    'have the settings of the file, without secrets',
    (names) => {
      writeFileSync(file, JSON.stringify(valid));
      const stored = {
        one: {
          service: { baseUrl: 'https://a.example', vendor: 'ACME', maxPageBytes: 10, totalTimeout: 60_000 },
          export: { name: 'one', size: 3, since: { overlap: 3_600_000 } },
          apiKeyEnv: 'THE_KEY',
          schedule: 'rate(1 hour)',
        },
        two: {
          service: { baseUrl: 'https://b.example' },
          export: { name: 'two', filter: { type: 'daily' }, maxInlineWait: 1_000 },
          apiKeyEnv: 'REPORT_EXPORT_API_KEY',
        },
      };
      const exports = names.map((name) => stored[name as keyof typeof stored]);
      expect(read(names, {})).toMatchObject(exports);
    },
  );
});
