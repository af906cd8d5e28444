/** Refresh tokens on this machine: what a full disk, Ctrl-C or a damaged file does to a consent. */

import { readdir, symlink, writeFile } from 'node:fs/promises';
import fs, { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { createRenewedSecret } from '../../lib/local/renewed-secret.ts';
import { aDirectory, run, start } from '../support/process/command-line.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { expectNoKey, failureOf } from '../support/service/service-client.ts';
import { describedWithTokens, startTokenServer } from '../support/service/token-server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const consent = JSON.stringify({ client_secret: 'the-client-secret', refresh_token: 'first' });
const filesIn = async (out: string) => await readdir(join(out, '.tokens'));

/** Fails to write texts that are as long as `bytes`, after the beginning of them. */
function fillDisk(bytes: number): void {
  const write = fs.writeFileSync;
  replaceInFs({
    writeFileSync(path, text, options) {
      const isFull = typeof text === 'string' && String(path).includes('.tokens') && text.length >= bytes;
      if (!isFull) return write(path, text, options);
      write(path, text.slice(0, 10), options);
      throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
    },
  });
}

describe('a refresh token on this machine', () => {
  it('is not sent unless the disk has space for the longest response', async () => {
    await using out = await temporaryDirectory();
    fillDisk(70_000);
    let isSent = false;
    const update = createRenewedSecret(out.path, consent, systemRuntime).update?.(async (newest) => {
      isSent = true;
      return newest;
    });
    expect(await failureOf(update as Promise<string>)).toMatchObject({ name: 'ConfigurationError' });
    expect(isSent).toBe(false);
    expect(await filesIn(out.path)).toEqual([]);
  });

  it('is lost if it cannot be stored nevertheless: the error says so, and no file has a part of it', async () => {
    await using out = await temporaryDirectory();
    const update = createRenewedSecret(out.path, consent, systemRuntime).update?.(async (newest) => {
      fillDisk(20);
      return JSON.stringify({ ...JSON.parse(newest), refresh_token: 'second' });
    });
    expect(await failureOf(update as Promise<string>)).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/disk is full.*the new one is not stored\..*consent again/),
    });
    expect(await filesIn(out.path)).toEqual([]);
  });

  it('is not written through a symbolic link', async () => {
    await using out = await temporaryDirectory();
    const source = createRenewedSecret(out.path, consent, systemRuntime);
    const to = (token: string) => async (newest: string) =>
      JSON.stringify({ ...JSON.parse(newest), refresh_token: token });
    await source.update?.(to('second'));
    const [file = ''] = await filesIn(out.path);
    const other = join(out.path, 'other');
    await writeFile(other, 'untouched');
    await symlink(other, join(out.path, '.tokens', `${file}.new`));
    await source.update?.(to('third'));
    expect(await filesIn(out.path)).toEqual([file]);
    expect(JSON.parse(await source.get()).refresh_token).toBe('third');
  });

  it.each(['', '[]', '{"refresh_token":"s3cond-token', '{"refresh_token":""}'])(
    'is missing if its file contains %o: the error names the file',
    async (text) => {
      await using out = await temporaryDirectory();
      const source = createRenewedSecret(out.path, consent, systemRuntime);
      await source.update?.(async (newest) => JSON.stringify({ ...JSON.parse(newest), refresh_token: 'second' }));
      const [file = ''] = await filesIn(out.path);
      await writeFile(join(out.path, '.tokens', file), text);
      const error = await failureOf(source.get());
      expect(error.message).toMatch(
        /^The file .*\.tokens.*\.json contains no refresh token.*\. Delete it, consent again/,
      );
      expectNoKey(error, 's3cond-token');
    },
  );
});

describe('commands with a settings file', () => {
  it.each(['plan --request', 'doctor', 'local'])('keep the consent when %s is interrupted twice', async (command) => {
    await using server = await startTokenServer();
    const directory = await aDirectory();
    const file = join(directory, 'settings.json');
    const api = describedWithTokens(server.url);
    writeFileSync(file, JSON.stringify({ services: { acme: { baseUrl: server.url, api } }, exports: [{ name: 'a' }] }));
    const words = [...command.split(' '), '--settings', file, '--out', join(directory, 'exports')];
    const env = { REPORT_EXPORT_API_KEY: server.consent() };
    server.options.beforeResponse = () => sleep(1_000);
    const running = start(words, env);
    const { process, ended } = running;
    await expect.poll(() => server.exchanged.length, { interval: 10 }).toBe(1);
    process.kill('SIGINT');
    await expect.poll(() => running.stderr(), { interval: 10 }).toContain('to end now would lose the consent');
    process.kill('SIGINT');
    expect(await ended).toMatchObject({ status: 130 });
    expect(running.stderr().split('to end now')).toHaveLength(2);
    expect(await run(words, env)).toMatchObject({ status: 0 });
    expect(server.exchanged).toHaveLength(1);
    // In another directory, the same refresh token is sent again.
    const elsewhere = await run([...words.slice(0, -1), join(directory, 'elsewhere')], env);
    expect(`${elsewhere.stdout}${elsewhere.stderr}`).toContain('If it was used with another directory than');
    expect(server.reused).toHaveLength(1);
  });
});
