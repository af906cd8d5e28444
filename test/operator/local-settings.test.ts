/** The settings of exports on this machine: those of a file, or those of options. */

import fs, { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { problemOfVariable } from '../../lib/local/service.ts';
import { settingsFileIn } from '../../lib/local/settings.ts';
import type { ServiceSettings } from '../../lib/settings/settings.ts';
import { readLocalRuns } from '../../lib/operator/local-settings.ts';
import type { Options } from '../../lib/operator/option-table.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const directory = await temporaryDirectory();
afterAll(() => directory[Symbol.asyncDispose]());
const file = join(directory.path, 'settings.json');

const valid = {
  services: {
    acme: {
      baseUrl: 'https://a.example',
      vendor: 'ACME',
      apiKeyEnv: 'THE_KEY',
      maxPageBytes: 10,
      totalTimeout: 'PT1M',
      tls: { ca: 'ca.pem' },
    },
    other: { baseUrl: 'https://b.example' },
  },
  exports: [
    { name: 'one', service: 'acme', size: 3, since: { overlap: 'PT1H' }, schedule: { expression: 'rate(1 hour)' } },
    { name: 'two', service: 'other', filter: { type: 'daily' }, maxInlineWait: 'PT1S' },
  ],
  bucket: { compression: 'gzip' },
};

function read(names: readonly string[], options: Options) {
  const problems: string[] = [];
  const { exports, names: selected } = readLocalRuns({ out: directory.path, ...options }, names, problems);
  const settings = selected.map((name) => exports.find((each) => each.settings.export.name === name)?.settings);
  return { exports: settings, problems };
}

describe('the settings of local exports', () => {
  it('are those of the file, without secrets', () => {
    writeFileSync(file, JSON.stringify(valid));
    expect(read(['two', 'one'], { settings: file }).exports).toMatchObject([
      {
        service: { baseUrl: 'https://b.example' },
        export: { name: 'two', filter: { type: 'daily' }, maxInlineWait: 1_000 },
        apiKeyEnv: 'REPORT_EXPORT_API_KEY',
        compression: 'gzip',
      },
      {
        service: { baseUrl: 'https://a.example', maxPageBytes: 10, tls: { ca: join(directory.path, 'ca.pem') } },
        export: { name: 'one', size: 3, since: { overlap: 3_600_000 }, schedule: { expression: 'rate(1 hour)' } },
        apiKeyEnv: 'THE_KEY',
      },
    ]);
  });

  it('have no address with --simulate', () => {
    writeFileSync(file, JSON.stringify(valid));
    expect(read(['one'], { simulate: true, settings: file }).exports).toMatchObject([
      { service: { baseUrl: undefined, vendor: 'ACME' }, export: { name: 'one' }, compression: 'gzip' },
    ]);
  });

  it('are those of the options without a file', () => {
    expect(read([], {}).exports).toMatchObject([{ service: { baseUrl: undefined }, export: { name: 'reports' } }]);
    const options = { baseUrl: 'https://a.example', vendor: 'ACME', cursorIn: 'body', export: 'daily', size: '2' };
    expect(read([], options).exports).toMatchObject([
      {
        service: { baseUrl: 'https://a.example', vendor: 'ACME', cursorIn: 'body' },
        export: { name: 'daily', size: 2 },
        apiKeyEnv: 'REPORT_EXPORT_API_KEY',
      },
    ]);
  });

  it('are written to the file of the directory completely, or not at all', async () => {
    await using empty = await temporaryDirectory();
    const ofDirectory = settingsFileIn(empty.path);
    const write = () => readLocalRuns({ out: empty.path, export: 'daily' }, [], []).onPageStored?.(() => {});
    const { writeFileSync: writeWhole } = fs;
    const restore = replaceInFs({
      writeFileSync(path, text, options) {
        writeWhole(path, (text as string).slice(0, 20), options);
        throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      },
    });
    expect(write).toThrow(/the disk is full/);
    expect(existsSync(ofDirectory)).toBe(false);
    restore();
    write();
    expect(JSON.parse(readFileSync(ofDirectory, 'utf8'))).toMatchObject({ exports: [{ name: 'daily' }] });
    expect(readdirSync(empty.path)).toHaveLength(1);
  });

  it('are rejected with names that the file does not have', () => {
    writeFileSync(file, JSON.stringify(valid));
    const { problems } = read(['one', 'tow'], { settings: file });
    expect(problems).toEqual([`tow: no such export in ${file}`, '  Its exports: one, two']);
  });
});

describe('a problem with a secret', () => {
  const problemOf = (apiKeyEnv: string, variables = {}) =>
    problemOfVariable(apiKeyEnv, variables, { auth: { kind: 'key', send: { 'X-Key': '{secret}' } } });

  it.each(['TOKEN', 'ACME_API_KEY', 'OAUTH2_SECRET', 'B2B_KEY', 'S3_KEY_2', 'ACME_V2_TOKEN'])(
    'names the variable %s',
    (apiKeyEnv) => {
      expect(problemOf(apiKeyEnv)).toContain(`The environment variable ${apiKeyEnv} is not set`);
    },
  );

  it.each([
    ['key', 'API key'],
    ['basic', 'user and password, as user:password'],
    ['bearer', 'token'],
    ['oauth2', 'client secret'],
    ['oauth2', 'client secret and refresh token, as JSON', 'refresh_token'],
    ['jwt', 'private key'],
  ])('says what %s authentication needs', (kind, secret, grant?: string) => {
    const service = { auth: { kind, grant } } as Pick<ServiceSettings, 'auth'>;
    expect(problemOfVariable('KEY', {}, service)).toContain(`set it to the service's ${secret}`);
  });

  it('names the fields of a secret in JSON', () => {
    const problem = (auth: object) => problemOfVariable('KEY', {}, { auth } as Pick<ServiceSettings, 'auth'>);
    const two = { kind: 'key', send: { A: '{secret.api}', B: '{secret.app}' } };
    expect(problem(two)).toMatch(/set it to the service's API key, as JSON with api, app$/);
    const send = { Authorization: 'Basic {token}', B: '{secret.gateway}' };
    expect(problem({ kind: 'basic', send })).toMatch(/ user and password, as JSON with gateway$/);
    const body = { user: '{secret.user}', password: '{secret.password}' };
    expect(problem({ kind: 'login', body })).toMatch(/ user and password, as JSON$/);
  });

  it.each(['AKIAIOSFODNN7EXAMPLE', 'QWERTZUIOPASDFGHJKLY', '4F9A_77C2', 'SK_9F8A7B6C5D', 'sk_live_4242'])(
    'does not show %s, which could be the key',
    (apiKeyEnv) => {
      const problems = [problemOf(apiKeyEnv), problemOf(apiKeyEnv, { [apiKeyEnv]: 'a key with blanks' })];
      expect(problems).toEqual([
        expect.stringMatching(/ in apiKeyEnv .* is not set/),
        expect.stringMatching(/contains spaces/),
      ]);
      expect(problems.join()).not.toContain(apiKeyEnv);
    },
  );
});
