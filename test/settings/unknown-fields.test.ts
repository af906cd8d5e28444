import { expect, it } from 'vitest';
import { problemsOfFile } from '../support/settings-file.ts';

const schedule = { expression: 'rate(1 hour)' };
const anApi = { request: { path: '/v1' }, next: { from: 'link' }, page: { format: 'ndjson' } };

/** The problems of a settings file that also has these fields. */
function problemsOf(added: { readonly [place in 'file' | 'service' | 'export' | 'schedule']?: object }): string[] {
  const value = {
    services: { acme: { baseUrl: 'https://reports.example.com', ...added.service } },
    exports: [{ name: 'nightly', schedule: { ...schedule, ...added.schedule }, ...added.export }],
    ...added.file,
  };
  return problemsOfFile(JSON.stringify(value));
}

const elsewhere =
  'A secret does not belong in the settings, but in AWS Secrets Manager and, for runs on this machine, in the environment variable ' +
  'that apiKeyEnv names';

it.each([
  [
    'of an object',
    { schedule: { timezone: 'UTC' } },
    /^some\.json:1 exports\[0\]\.schedule: unknown field: "timezone"\. There are expression, timeZone, flexibleWindow, enabled, freshness$/,
  ],
  [
    'of the file, without the name of the schema',
    { file: { objectTags: {} } },
    /^some\.json:1: unknown field: "objectTags"\. There are stackName, services, exports, /,
  ],
  [
    'that is long',
    { export: { ['maxPages'.repeat(9)]: 1 } },
    /^some\.json:1 exports\[0\]: unknown field: "(maxPages){5}"\. There are name, since, /,
  ],
  [
    'beside others',
    { export: { colour: 1, shape: 2 } },
    /^some\.json:1 exports\[0\]: unknown fields: "colour", "shape"\. There are name, /,
  ],
  [
    'of another kind',
    { service: { api: { ...anApi, auth: { kind: 'bearer', prefix: 's' } } } },
    /^some\.json:1 services\.acme\.api\.auth: unknown field: "prefix"\. There are kind, send$/,
  ],
  [
    'that could be a secret',
    { service: { api: { ...anApi, auth: { kind: 'bearer', clientSecret: 's' } } } },
    new RegExp(`services\\.acme\\.api\\.auth: unknown field: "clientSecret"\\. There are kind, send\\. ${elsewhere}$`),
  ],
  ['that could be a key', { service: { apiKey: 'k' } }, new RegExp(`unknown field: "apiKey".*\\. ${elsewhere}$`)],
])('an unknown field %s is named with the fields that exist', (_, added, problem) => {
  expect(problemsOf(added)).toEqual([expect.stringMatching(problem)]);
});
