/** The settings file that a first run writes, and problems of its secrets. The rest is in test/transcripts. */

import fs, { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { problemOfVariable } from '../../lib/local/service.ts';
import { settingsFileIn } from '../../lib/local/settings.ts';
import type { ServiceSettings } from '../../lib/settings/settings.ts';
import { readLocalRuns } from '../../lib/operator/local-settings.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('the settings of local exports', () => {
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
});

describe('a problem with a secret', () => {
  const problemOf = (apiKeyEnv: string, variables = {}) =>
    problemOfVariable(apiKeyEnv, variables, { auth: { kind: 'key', send: { 'X-Key': '{secret}' } } });

  it.each(['TOKEN', 'ACME_V2_TOKEN'])('names the variable %s', (apiKeyEnv) => {
    expect(problemOf(apiKeyEnv)).toContain(`The environment variable ${apiKeyEnv} is not set`);
  });

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
    const two = { kind: 'key', send: { A: '{secret.api}', B: '{secret.app}' }, query: { c: '{secret.id}' } };
    expect(problem(two)).toMatch(/set it to the service's API key, as JSON with api, app, id$/);
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
