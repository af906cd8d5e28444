import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { createRenewedSecret, isExchanging } from '../../lib/local/renewed-secret.ts';
import { failureOf } from '../support/service/service-client.ts';
import { replaceInFs } from '../support/replaced-fs.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const consent = (refreshToken: string, clientSecret = 'the-client-secret') =>
  JSON.stringify({ client_secret: clientSecret, refresh_token: refreshToken });
/** Without a limit on waiting: the clock of waits stands still. */
const patientRuntime = { ...systemRuntime, monotonicNow: () => 0 };
function open(out: string, secret: string, runtime = patientRuntime) {
  const source = createRenewedSecret(out, secret, runtime);
  return { ...source, update: source.update as NonNullable<typeof source.update> };
}
const to = (refreshToken: string) => async (newest: string) =>
  JSON.stringify({ ...JSON.parse(newest), refresh_token: refreshToken, access_token: `of ${refreshToken}` });
const tokenOf = async (source: ReturnType<typeof open>) => JSON.parse(await source.get()).refresh_token as string;
const filesOf = async (out: string) => (await readdir(join(out, '.tokens'))).map((name) => join(out, '.tokens', name));

describe('a refresh token on this machine', () => {
  it('is that of the environment, and then what followed from it, also for other processes', async () => {
    await using directory = await temporaryDirectory();
    const out = join(directory.path, 'exports');
    const source = open(out, consent('first'));
    expect(await source.get()).toBe(consent('first'));
    expect(JSON.parse(await source.update(to('second')))).toMatchObject({ refresh_token: 'second' });
    expect(await tokenOf(source)).toBe('second');
    expect(JSON.parse(await open(out, consent('first')).refresh())).toEqual({
      client_secret: 'the-client-secret',
      refresh_token: 'second',
      access_token: 'of second',
    });
  });

  it('is in a file that only this user may read, without the client secret, which the environment has', async () => {
    await using out = await temporaryDirectory();
    await open(out.path, consent('first')).update(to('second'));
    const [file = '', ...others] = await filesOf(out.path);
    expect(others).toEqual([]);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({ refresh_token: 'second', access_token: 'of second' });
    expect(JSON.parse(await open(out.path, consent('first', 'a new secret')).get())).toMatchObject({
      client_secret: 'a new secret',
      refresh_token: 'second',
    });
  });

  it('is that of the environment again after another consent', async () => {
    await using out = await temporaryDirectory();
    await open(out.path, consent('first')).update(to('second'));
    const again = open(out.path, consent('consented again'));
    expect(await tokenOf(again)).toBe('consented again');
    await again.update(to('third'));
    expect(await tokenOf(again)).toBe('third');
  });

  it('is changed by one at a time; others wait, and get what is stored then', async () => {
    await using out = await temporaryDirectory();
    const seen: string[] = [];
    const updates = Array.from({ length: 5 }, (_, index) =>
      open(out.path, consent('first')).update(async (newest) => {
        seen.push(JSON.parse(newest).refresh_token);
        return await to(`token ${index}`)(newest);
      }),
    );
    const results = await Promise.all(updates);
    const tokens = results.map((each) => JSON.parse(each).refresh_token);
    expect(new Set(seen).size).toBe(5);
    const last = await tokenOf(open(out.path, consent('first')));
    expect(new Set([...tokens, 'first'])).toEqual(new Set([...seen, last]));
  });

  it('is not changed while another process does not end: the attempt fails after half a minute, to be retried', async () => {
    await using out = await temporaryDirectory();
    let locked: Disposable | undefined;
    let now = 0;
    const sleep = async (ms: number) => {
      now += ms;
    };
    const runtime = { ...systemRuntime, sleep, monotonicNow: () => now };
    const source = open(out.path, consent('first'), runtime);
    await source.update(to('second'));
    const [lock = ''] = (await readdir(join(out.path, '.locks'))).map(decodeURIComponent);
    locked = acquireExportLock(out.path, lock.replace('.sqlite', ''));
    const error = await failureOf(source.update(to('third')));
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('Another process'),
    });
    expect(now).toBeGreaterThan(30_000);
    locked?.[Symbol.dispose]();
    await source.update(to('third'));
  });

  it('is awaited with a line that says so, and an interruption ends the wait', async () => {
    await using out = await temporaryDirectory();
    const { promise: exchanged, resolve: exchange } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const other = open(out.path, consent('first')).update(async (newest) => {
      begin();
      await exchanged;
      return await to('second')(newest);
    });
    await begun;
    const interruption = new AbortController();
    const lines: string[] = [];
    const notify = (text: string) => {
      lines.push(text);
      interruption.abort(new Error('interrupted'));
    };
    const { signal } = interruption;
    const waiting = createRenewedSecret(out.path, consent('first'), systemRuntime, { signal, notify });
    await expect(waiting.update?.(to('third'))).rejects.toThrow('interrupted');
    expect(lines).toEqual(['Waiting up to 30 s for another process, which is exchanging the refresh token']);
    expect(isExchanging()).toBe(true);
    exchange();
    await other;
    expect(isExchanging()).toBe(false);
  });

  it('is not exchanged if its successor could not be stored', async () => {
    await using out = await temporaryDirectory();
    await writeFile(join(out.path, '.tokens'), '');
    let isExchanged = false;
    const update = open(out.path, consent('first')).update(async (newest) => {
      isExchanged = true;
      return newest;
    });
    expect(await failureOf(update)).toMatchObject({ name: 'ConfigurationError' });
    expect(isExchanged).toBe(false);
  });

  it('is not replaced by that of the environment if the file belongs to another user', async () => {
    await using out = await temporaryDirectory();
    await open(out.path, consent('first')).update(to('second'));
    replaceInFs({
      readFileSync() {
        throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
      },
    });
    expect(await failureOf(open(out.path, consent('first')).get())).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^Could not read .*\.tokens.*: permission denied\. Give this user access/),
    });
  });
});
