import { describe, expect, it } from 'vitest';
import { problemsOfFile } from '../support/settings-file.ts';

const schedule = { expression: 'rate(1 hour)' };

const anApi = { request: { path: '/v1' }, next: { from: 'link' }, page: { format: 'ndjson' } };

/** What is wrong with a settings file that has these fields, too. */
function problemsOf(added: { readonly [place in 'file' | 'service' | 'export' | 'schedule']?: object }): string[] {
  const value = {
    services: { acme: { baseUrl: 'https://reports.example.com', ...added.service } },
    exports: [{ name: 'nightly', schedule: { ...schedule, ...added.schedule }, ...added.export }],
    ...added.file,
  };
  return problemsOfFile(JSON.stringify(value));
}

const elsewhere =
  'a secret does not belong in the settings, but in AWS Secrets Manager and, for runs on this machine, in the environment variable ' +
  'that apiKeyEnv names';

describe('an unknown field of the settings', () => {
  it.each([
    [
      'a field in another spelling',
      { schedule: { timezone: 'UTC' } },
      'exports[0].schedule.timezone: unknown field; did you mean timeZone?',
    ],
    ['a mistyped field', { export: { maxPage: 3 } }, 'exports[0].maxPage: unknown field; did you mean maxPages?'],
    [
      'a field of an object in it',
      { export: { overlap: 'P1D' } },
      'exports[0].overlap: unknown field; did you mean exports[].since.overlap?',
    ],
    [
      'a field of the service',
      { export: { cursorIn: 'query' } },
      'exports[0].cursorIn: unknown field; did you mean services.*.cursorIn?',
    ],
    [
      'a field of an object in the service',
      { export: { ca: 'x' } },
      'exports[0].ca: unknown field; did you mean services.*.tls.ca?',
    ],
    [
      'a field of the export',
      { service: { schedule } },
      'services.acme.schedule: unknown field; did you mean exports[].schedule?',
    ],
    [
      'a field of an object in another spelling',
      { export: { timezone: 'UTC' } },
      'exports[0].timezone: unknown field; did you mean exports[].schedule.timeZone?',
    ],
    [
      'a field of a common object',
      { file: { objectTags: {} } },
      'objectTags: unknown field; did you mean bucket.objectTags?',
    ],
    [
      'a field of the whole file',
      { service: { tracing: true } },
      'services.acme.tracing: unknown field; did you mean tracing?',
    ],
    ['a field of no object', { export: { colour: 'red' } }, 'exports[0]: unknown field: "colour"'],
    [
      'a field longer than any other',
      { export: { ['maxPages'.repeat(9)]: 1 } },
      `exports[0]: unknown field: "${'maxPages'.repeat(5)}"`,
    ],
    [
      'a secret',
      { service: { api: { ...anApi, auth: { kind: 'bearer', clientSecret: 's' } } } },
      `services.acme.api.auth.clientSecret: unknown field; ${elsewhere}`,
    ],
    ['an API key', { service: { apiKey: 'k' } }, `services.acme.apiKey: unknown field; ${elsewhere}`],
    ['a token', { service: { bearerToken: 't' } }, `services.acme.bearerToken: unknown field; ${elsewhere}`],
  ])('is probably %s', (_, added, problem) => {
    expect(problemsOf(added)).toEqual([`some.json:1 ${problem}`]);
  });

  it('is named with all others', () => {
    expect(problemsOf({ export: { colour: 1, shape: 2, maxPage: 3, overlap: 'P1D' } })).toEqual([
      'some.json:1 exports[0]: unknown fields: "colour", "shape"',
      'some.json:1 exports[0].maxPage: unknown field; did you mean maxPages?',
      'some.json:1 exports[0].overlap: unknown field; did you mean exports[].since.overlap?',
    ]);
  });
});
