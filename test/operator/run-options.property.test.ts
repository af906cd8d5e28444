/** Whatever the words of the command line are: they are taken, or refused with every problem named by its option. */

import { describe, expect, it } from 'vitest';
import { isExportError } from '../../lib/core/errors.ts';
import { exportDefinition } from '../../lib/core/settings/settings.ts';
import { localExportSchema } from '../../lib/local/settings.ts';
import { type LocalOptions, readApiKey, readLocalSettings } from '../../lib/operator/run-options.ts';
import { anyValue } from '../support/mutations.ts';
import { cases, fc, test } from '../support/property.ts';

const words: LocalOptions = {
  baseUrl: 'https://reports.example.com',
  vendor: 'ACME',
  apiKeyEnv: 'THE_KEY',
  export: 'reports',
  since: '2026-11-01T00:00:00Z',
  overlap: 'PT15M',
  size: '10',
  filter: '{"type":"daily"}',
  format: 'XML',
  container: 'NONE',
  cursorIn: 'query',
  out: './exports',
  maxPages: '100',
};
const env = { THE_KEY: 'the-key-of-this-test', ODD_KEY: 'odd key', EMPTY_KEY: '' };

function problemsIn(options: LocalOptions, given: readonly string[] = []): string[] {
  try {
    const settings = readLocalSettings(options, given, env);
    expect(readLocalSettings(options, given, env)).toEqual(settings);
    expect(exportDefinition(localExportSchema.parse(settings.settings).export, 'simulator').name).toBe(options.export);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') || error.message.length > 10_000) throw error;
    return error.message.split('\n');
  }
}

/** As the argument parser leaves them: text, or absent. */
const text = fc.oneof(
  anyValue.filter((value) => typeof value === 'string'),
  anyValue.map((value) => {
    try {
      return JSON.stringify(value) ?? '';
    } catch {
      return '';
    }
  }),
  fc.string(),
  fc.constantFrom(
    'THE_KEY',
    'ODD_KEY',
    'EMPTY_KEY',
    'NO_KEY',
    'PATH=x',
    '0x5',
    '1e1',
    ' 5 ',
    '5.0',
    '٣',
    '/dev/null/x',
    '{',
  ),
);

describe('words of the command line', () => {
  const one = fc.tuple(fc.constantFrom(...(Object.keys(words) as (keyof LocalOptions)[])), text);
  test.prop([fc.array(one, { maxLength: 4 }), fc.array(text, { maxLength: 2 })], { numRuns: cases(200) })(
    'are taken or refused',
    (changes, given) => {
      const lines = problemsIn({ ...words, ...Object.fromEntries(changes) }, given);
      const told = lines.slice(given.length);
      expect(lines.join()).not.toContain(env.THE_KEY);
      for (const line of lines) expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u);
      for (const line of told) expect(line).toMatch(/^--[a-z-]+: ./);
    },
  );

  it('that are a filter nested without end are refused', () => {
    const filter = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect(problemsIn({ ...words, filter })).toEqual([
      expect.stringMatching(/^--filter: a.*is nested deeper than 32$/),
    ]);
  });

  it('that are the key itself, where its variable should be named, are not repeated', () => {
    const apiKeyEnv = 'sk-live/51H8x+Tq==';
    const lines = problemsIn({ ...words, apiKeyEnv });
    expect(lines).toEqual([expect.stringMatching(/^--api-key-env: must be the name of an environment variable/)]);
    expect(lines.join()).not.toContain(apiKeyEnv);
  });

  it('that are a key which could be the name of a variable are not repeated either', () => {
    const apiKeyEnv = 'sk_live_4242';
    expect(problemsIn({ ...words, apiKeyEnv })).toEqual([expect.stringMatching(/^--api-key-env: .* is not set; set/)]);
    const problems: string[] = [];
    readApiKey(apiKeyEnv, {}, problems);
    readApiKey(apiKeyEnv, { [apiKeyEnv]: 'a key with blanks' }, problems);
    expect(problems).toHaveLength(2);
    expect([...problems, ...problemsIn({ ...words, apiKeyEnv })].join()).not.toContain(apiKeyEnv);
  });
});
