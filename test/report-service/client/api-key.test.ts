/** Which key a request carries, and when the client looks for a newer one (docs/service-contract.md, section 5). */

import { setImmediate as loop } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type ApiKeySource, fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { rawAnswer, startRawServer, twoReports } from '../../support/service/raw-server.ts';
import {
  backoff,
  clientFor,
  expectNoKey,
  failureOf,
  pageRequest,
  readPage,
} from '../../support/service/service-client.ts';

/** A key that was renewed at its origin after we had looked: `old` until somebody asks again. */
function renewedKey(old: string, renewed: string): ApiKeySource & { refreshed: number } {
  const source = {
    refreshed: 0,
    get: async () => (source.refreshed === 0 ? old : renewed),
    refresh: async () => {
      source.refreshed += 1;
      return renewed;
    },
  };
  return source;
}

const refusal = (status: number, body = 'no') => rawAnswer({ status, body, headers: { 'content-type': 'text/plain' } });

const unfinishedRefusal = 'HTTP/1.1 401 No\r\ncontent-type: text/plain\r\ncontent-length: 99999\r\n\r\nno';

describe('a key the service refuses', () => {
  it.each([401, 403])('with %i is looked up again, and the page comes with the newer one', async (status) => {
    await using server = await startRawServer(refusal(status), rawAnswer());
    const apiKey = renewedKey('the-old-key', 'the-new-key');
    await using client = clientFor(server, { apiKey });
    expect(await readPage(client.fetchPage(pageRequest()))).toBe(twoReports);
    await readPage(client.fetchPage(pageRequest()));
    expect(server.requests.map(({ headers }) => headers['X-SERVICE-API-KEY'])).toEqual([
      'the-old-key',
      'the-new-key',
      'the-new-key',
    ]);
    expect(apiKey.refreshed).toBe(1);
  });

  it('that has not changed is not tried again', async () => {
    await using server = await startRawServer(refusal(401, 'who are you?'));
    await using client = clientFor(server, { apiKey: fixedApiKey('the-only-key') });
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('Response: who are you?'),
    });
    expect(server.requests).toHaveLength(1);
  });

  it('in its newer form too is a mistake for a person to mend; neither key is told', async () => {
    await using server = await startRawServer(
      refusal(401),
      refusal(403, 'neither the-old-key nor the-new-key will do'),
    );
    await using client = clientFor(server, { apiKey: renewedKey('the-old-key', 'the-new-key') });
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('neither [redacted] nor [redacted] will do'),
    });
    for (const key of ['the-old-key', 'the-new-key']) expectNoKey(error, key);
    expect(server.requests).toHaveLength(2);
  });

  it('leaves no connection behind', async () => {
    await using server = await startRawServer(unfinishedRefusal, rawAnswer({ headers: { connection: 'close' } }));
    await using client = clientFor(server, { apiKey: renewedKey('a', 'b') });
    await readPage(client.fetchPage(pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});

describe('a source of keys', () => {
  it('that fails fails the page with its own error', async () => {
    await using server = await startRawServer(unfinishedRefusal);
    const mishap = new Error('the secret is gone');
    const get = async () => 'the-old-key';
    await using first = clientFor(server, { apiKey: { get: () => Promise.reject(mishap), refresh: get } });
    await expect(first.fetchPage(pageRequest())).rejects.toBe(mishap);
    await using second = clientFor(server, { apiKey: { get, refresh: () => Promise.reject(mishap) } });
    await expect(second.fetchPage(pageRequest())).rejects.toBe(mishap);
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('that never answers is waited for no longer than the total time', async () => {
    await using server = await startRawServer(rawAnswer());
    const never = () => new Promise<string>(() => {});
    await using client = clientFor(server, { apiKey: { get: never, refresh: never }, limits: { totalTimeoutMs: 30 } });
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('30 ms in total'),
    });
  });

  it('is asked before every request, so a rotated key is picked up', async () => {
    await using server = await startRawServer(rawAnswer());
    const keys = ['one', 'two'];
    const get = async () => keys.shift() ?? 'three';
    await using client = clientFor(server, { apiKey: { get, refresh: get } });
    for (let page = 1; page <= 3; page += 1) {
      await readPage(client.fetchPage(pageRequest()));
      await loop();
    }
    expect(server.requests.map(({ headers }) => headers['X-SERVICE-API-KEY'])).toEqual(['one', 'two', 'three']);
  });
});

describe('a key that was renewed', () => {
  it('is not told either, when the service echoes the former one later', async () => {
    await using server = await startRawServer(
      refusal(401),
      rawAnswer(),
      refusal(400, 'was it not the-former-key that you had?'),
      rawAnswer({ headers: { 'x-service-cursor': '1588888888888,the-former-key' } }),
    );
    await using client = clientFor(server, { apiKey: renewedKey('the-former-key', 'the-new-key') });
    await readPage(client.fetchPage(pageRequest()));
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error.message).toContain('was it not [redacted] that you had?');
    expect(await failureOf(client.fetchPage(pageRequest()))).toMatchObject({ name: 'ContractError' });
  });

  it('again and again is forgotten in the end: what is looked for does not grow without bound', async () => {
    const keys = Array.from({ length: 10 }, (_, n) => `key-number-${n}-of-many`);
    await using server = await startRawServer(
      ...(keys.map(() => refusal(400, `not ${keys.join(' ')}`)) as [Buffer, ...Buffer[]]),
    );
    const left = [...keys];
    const get = async () => left.shift() ?? '';
    await using client = clientFor(server, { apiKey: { get, refresh: get } });
    let said = '';
    while (left.length > 0) said = (await failureOf(client.fetchPage(pageRequest()))).message;
    expect(said).toContain('key-number-0-of-many');
    expect(said).not.toContain('key-number-9-of-many');
  });
});

describe('a key that no header can carry', () => {
  it.each(['', ' ', 'key\n', ' key', 'key\r\nX-Other: 1', 'kéy', 'k\u0000y'])('is not sent: %j', async (key) => {
    await using server = await startRawServer(rawAnswer());
    await using client = clientFor(server, { apiKey: fixedApiKey(key) });
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringContaining('API key') });
    expect(server.requests).toEqual([]);
  });
});
