/** Options of any content are accepted, or rejected with all problems, each by its option. */

import { describe, expect, it } from 'vitest';
import { isExportError } from '../../lib/core/errors.ts';
import { exportDefinition } from '../../lib/settings/settings.ts';
import { findSecretProblem } from '../../lib/local/service.ts';
import {
  type LocalOptions,
  readApiKey,
  readBounds,
  readLocalSettings,
  readMaxAttempts,
  readStartRequest,
  type RunOptions,
} from '../../lib/operator/run-options.ts';
import { anyValue } from '../support/mutations.ts';
import { cases, fc, test } from '../support/property.ts';

const validOptions: LocalOptions = {
  baseUrl: 'https://reports.example.com',
  vendor: 'ACME',
  apiKeyEnv: 'THE_KEY',
  export: 'reports',
  since: '2026-11-01T00:00:00Z',
  until: '2026-11-02T00:00:00Z',
  each: 'PT1H',
  parallel: '8',
  slice: 'PT15M',
  overlap: 'PT15M',
  size: '10',
  filter: '{"type":"daily"}',
  format: 'XML',
  container: 'NONE',
  cursorIn: 'query',
  out: './exports',
  maxPages: '100',
  maxEmptyPages: '100',
};
const env = { THE_KEY: 'the-key-of-this-test', ODD_KEY: 'odd key', EMPTY_KEY: '' };

function problemsIn(options: LocalOptions, usageErrors: readonly string[] = []): string[] {
  try {
    const problems = [...usageErrors];
    readStartRequest(options, problems);
    const settings = readLocalSettings(options, problems);
    expect(readLocalSettings(options, problems)).toEqual(settings);
    expect(exportDefinition(settings.export, 'simulator').name).toBe(options.export);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError') || error.message.length > 10_000) throw error;
    return error.message.split('\n');
  }
}

/** Text, as the argument parser returns it. */
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

describe('the options of the command line', () => {
  const change = fc.tuple(fc.constantFrom(...(Object.keys(validOptions) as (keyof LocalOptions)[])), text);
  test.prop([fc.array(change, { maxLength: 4 }), fc.boolean()], { numRuns: cases(200) })(
    'are accepted or rejected',
    (changes, hasUsageErrors) => {
      const usageErrors = hasUsageErrors ? ['x: unexpected argument', '--size: is given more than once'] : [];
      const lines = problemsIn({ ...validOptions, ...Object.fromEntries(changes) }, usageErrors);
      const ownLines = lines.slice(usageErrors.length);
      expect(lines.slice(0, usageErrors.length)).toEqual(usageErrors);
      expect(lines.join()).not.toContain(env.THE_KEY);
      for (const line of lines) expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u);
      for (const line of ownLines) expect(line).toMatch(/^--[a-z-]+: ./);
    },
  );

  it('of a bounded run become fields of its start input; a date is its first moment', () => {
    const problems: string[] = [];
    const given = {
      since: '2020-01-01',
      until: '2021-01-01',
      each: 'month',
      parallel: '16',
      slice: 'PT1H',
      again: true,
    };
    expect(readStartRequest(given, problems)).toEqual({
      ...given,
      since: '2020-01-01T00:00:00Z',
      until: '2021-01-01T00:00:00Z',
      parallel: 16,
    });
    expect(problems).toEqual([]);
  });

  it('of a bounded run are rejected with all problems', () => {
    const problemsOf = (options: RunOptions) => {
      const problems: string[] = [];
      readStartRequest(options, problems);
      return problems;
    };
    expect(problemsOf({ since: 'x', until: '2020', each: 'P0D', parallel: '17', slice: 'PT90S' })).toEqual([
      '--since: must be an ISO 8601 UTC instant, such as 2026-11-20T02:00:00Z',
      '--until: must be an ISO 8601 UTC instant, such as 2026-11-20T02:00:00Z',
      '--each: must be a duration, such as P7D, or month',
      '--parallel: must be at most 16',
      '--slice: must be whole minutes, such as PT1H',
    ]);
    expect(problemsOf({ until: '2020-01-01' })).toEqual(['--until: needs since: a run with an upper bound has both']);
    expect(problemsOf({ since: '2020-01-01', each: 'P7D', again: true })).toEqual([
      '--each: needs since and until',
      '--again: needs since and until',
    ]);
    expect(problemsOf({ parallel: '0' })).toEqual(['--parallel: must be at least 1']);
    expect(problemsOf({ parallel: 'all' })).toEqual(['--parallel: must be a whole number']);
  });

  it('with one bound name no bounded run to abandon', () => {
    const problems: string[] = [];
    expect(readBounds({ since: '2020-01-01' }, problems)).toBeUndefined();
    expect(problems).toEqual(['--since: needs --until: together they name a bounded run']);
    expect(readBounds({ since: '2020-01-01', until: '2021-01-01' }, problems)).toEqual({
      since: '2020-01-01T00:00:00Z',
      until: '2021-01-01T00:00:00Z',
    });
    expect(readBounds({}, problems)).toBeUndefined();
    expect(problems).toHaveLength(1);
  });

  it('with a filter that is nested too deeply are rejected', () => {
    const filter = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect(problemsIn({ ...validOptions, filter })).toEqual([
      expect.stringMatching(/^--filter: a.*is nested deeper than 32$/),
    ]);
  });

  it.each(['0x5', '5e0', ' 5', '5 ', '+5', '05', '5.0', '0b101', '٥', ''])(
    'with the number %j are rejected',
    (number) => {
      expect(problemsIn({ ...validOptions, size: number, maxPages: number })).toEqual([
        '--size: must be a whole number',
        '--max-pages: must be a whole number',
      ]);
      const problems: string[] = [];
      readMaxAttempts(number, problems);
      expect(problems).toEqual(['--max-attempts: must be a whole number of at least 1, which means no retry']);
    },
  );

  it.each([
    ['{"type":"daily","type":"weekly"}', 'type'],
    ['{"a":{"b":[{"c":1,"d":{"c":2},"\\u0063" : 3}]}}', 'c'],
    ['{"{\\"a\\":1}":1,"b":"{\\"b\\":1}","b":2}', 'b'],
  ])('with the filter %s are rejected', (filter, field) => {
    expect(problemsIn({ ...validOptions, filter })).toEqual([`--filter: has the field ${field} twice in one object`]);
  });

  it('with fields of the same name in different objects of the filter are accepted', () => {
    const filter = '{"a":{"a":[{"a":1},{"a":"a"}],"b":{}},"b":"a:","c":"\\"a\\":"}';
    expect(problemsIn({ ...validOptions, filter })).toEqual([]);
  });

  it('with the key in place of the name of its variable do not show it', () => {
    const apiKeyEnv = 'sk-live/51H8x+Tq==';
    const lines = problemsIn({ ...validOptions, apiKeyEnv });
    expect(lines).toEqual([expect.stringMatching(/^--api-key-env: must be the name of an environment variable/)]);
    expect(lines.join()).not.toContain(apiKeyEnv);
  });

  it('with a key that could be the name of a variable do not show it either', () => {
    const apiKeyEnv = 'sk_live_4242';
    const problems: string[] = [];
    for (const variables of [{}, { [apiKeyEnv]: 'a key with blanks' }]) {
      readApiKey(apiKeyEnv, variables, problems);
      problems.push(findSecretProblem({ service: { baseUrl: 'https://a.example' }, apiKeyEnv }, variables) ?? '');
    }
    expect(problems).toEqual([
      expect.stringMatching(/^--api-key-env: the .* is not set; set/),
      expect.stringMatching(/^The .* is not set; set/),
      expect.stringMatching(/^--api-key-env: the .* contains spaces/),
      expect.stringMatching(/^The .* contains spaces/),
    ]);
    expect(problems.join()).not.toContain(apiKeyEnv);
  });

  it.each(['TOKEN', 'ACME_API_KEY', 'OAUTH2_SECRET', 'B2B_KEY', 'S3_KEY_2', 'ACME_V2_TOKEN'])(
    'about the variable %s name it',
    (apiKeyEnv) => {
      const problem = findSecretProblem({ service: { baseUrl: 'https://a.example' }, apiKeyEnv }, {});
      expect(problem).toContain(`The environment variable ${apiKeyEnv} is not set`);
    },
  );

  it.each(['AKIAIOSFODNN7EXAMPLE', 'QWERTZUIOPASDFGHJKLY', '4F9A_77C2', 'SK_9F8A7B6C5D'])(
    'about a variable whose name could be the key %s do not show it',
    (apiKeyEnv) => {
      const problem = findSecretProblem({ service: { baseUrl: 'https://a.example' }, apiKeyEnv }, {});
      expect(problem).toMatch(/ in apiKeyEnv .* is not set/);
      expect(problem).not.toContain(apiKeyEnv);
    },
  );
});
