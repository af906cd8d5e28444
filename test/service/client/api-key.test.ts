/** Which API key a request carries, and when the client refreshes it (docs/service-contract.md, section 5). */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type ApiKeySource } from '../../../lib/service/client/api-key.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  anError,
  backoff,
  clientFor,
  failureOf,
  impatientClock,
  pageRequest,
  readPage,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

/** A key that was rotated at its origin: `get` returns the old one until `refresh` is called. */
function rotatedKey(old: string, rotated: string): ApiKeySource & { refreshed: number } {
  const source = {
    refreshed: 0,
    get: async () => (source.refreshed === 0 ? old : rotated),
    refresh: async () => {
      source.refreshed += 1;
      return rotated;
    },
  };
  return source;
}

const rejection = (status: number, body = 'no') =>
  rawResponse({ status, body, headers: { 'content-type': 'text/plain' } });

const unfinishedRejection = 'HTTP/1.1 401 No\r\ncontent-type: text/plain\r\ncontent-length: 99999\r\n\r\nno';

it('a request with a new key waits for its turn, too', async () => {
  await using server = await startRawServer(rejection(401), rawResponse());
  await using client = clientFor(server, { apiKey: rotatedKey('the-old-key', 'the-new-key') });
  const sentBefore: number[] = [];
  const beforeSend = async () => void sentBefore.push(server.requests.length);
  await fetchPage(client, { ...pageRequest(), beforeSend });
  expect(sentBefore).toEqual([0, 1]);
});

describe('a source of API keys', () => {
  it('fails the request with its own error', async () => {
    await using server = await startRawServer(unfinishedRejection);
    const failure = new Error('The secret does not exist');
    const get = async () => 'the-old-key';
    await using first = clientFor(server, { apiKey: { get: () => Promise.reject(failure), refresh: get } });
    await expect(fetchPage(first, pageRequest())).rejects.toBe(failure);
    await using second = clientFor(server, {
      apiKey: { get, refresh: () => Promise.reject(failure) },
      clock: impatientClock,
    });
    await expect(fetchPage(second, pageRequest())).rejects.toBe(failure);
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('that never responds fails the request after the total timeout', async () => {
    await using server = await startRawServer(rawResponse());
    const never = () => new Promise<string>(() => {});
    await using client = clientFor(server, { apiKey: { get: never, refresh: never }, totalTimeout: 30 });
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error).toMatchObject(anError('ServiceUnavailableError', '30 ms in total'));
  });

  it('is read before every request, so that a rotated key is used', async () => {
    await using server = await startRawServer(rawResponse());
    const keys = ['one', 'two'];
    const get = async () => keys.shift() ?? 'three';
    await using client = clientFor(server, { apiKey: { get, refresh: get } });
    for (let page = 1; page <= 3; page += 1) {
      await readPage(fetchPage(client, pageRequest()));
      await nextTurn();
    }
    expect(server.requests.map(({ headers }) => headers['X-SERVICE-API-KEY'])).toEqual(['one', 'two', 'three']);
  });
});

describe('after a 403, which may be about a single parent,', () => {
  it('credentials are read once in an invocation, and after a 401 each time', async () => {
    await using server = await startRawServer(rejection(403), rejection(403), rejection(403), rejection(401));
    const source = rotatedKey('the-only-key', 'the-only-key');
    await using client = clientFor(server, { apiKey: source });
    for (let request = 1; request <= 3; request += 1) {
      const error = await failureOf(fetchPage(client, pageRequest()));
      expect(error).toMatchObject({ name: 'ConfigurationError', isForbidden: true });
    }
    expect([source.refreshed, server.requests.length]).toEqual([1, 3]);
    for (const refreshed of [2, 3]) {
      expect(await failureOf(fetchPage(client, pageRequest()))).not.toHaveProperty('isForbidden');
      expect(source.refreshed).toBe(refreshed);
    }
  });

  it('requests that were sent with a former key are all repeated with the new one', async () => {
    await using server = await startRawServer(rejection(403), rejection(403), rawResponse());
    const [both, source] = [Promise.withResolvers<void>(), rotatedKey('the-old-key', 'the-new-key')];
    const refresh = async () => await both.promise.then(async () => await source.refresh());
    await using client = clientFor(server, { apiKey: { ...source, refresh } });
    const pages = [1, 2].map(async () => await fetchPage(client, pageRequest()));
    await expect.poll(() => server.requests.length, backoff).toBe(2);
    both.resolve();
    await Promise.all(pages);
    const sent = server.requests.map(({ headers }) => headers['X-SERVICE-API-KEY']);
    expect(sent).toEqual(['the-old-key', 'the-old-key', 'the-new-key', 'the-new-key']);
    expect(source.refreshed).toBe(1);
  });

  it('credentials that could not be read are read by the next request', async () => {
    await using server = await startRawServer(rejection(403), rejection(403), rawResponse());
    const source = rotatedKey('the-old-key', 'the-new-key');
    let isDown = true;
    const refresh = async () => {
      if (isDown) throw new Error('no secrets now');
      return await source.refresh();
    };
    await using client = clientFor(server, { apiKey: { ...source, refresh } });
    await expect(fetchPage(client, pageRequest())).rejects.toThrow('no secrets now');
    isDown = false;
    await fetchPage(client, pageRequest());
    expect(source.refreshed).toBe(1);
  });
});

describe('a rotated API key', () => {
  it('is still recognized when the service echoes it later', async () => {
    await using server = await startRawServer(
      rejection(401),
      rawResponse(),
      rejection(400, 'you sent the-former-key before'),
      rawResponse({ headers: { 'x-service-cursor': '1588888888888,the-former-key' } }),
    );
    await using client = clientFor(server, { apiKey: rotatedKey('the-former-key', 'the-new-key') });
    await readPage(fetchPage(client, pageRequest()));
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error.message).toMatch(/Response: \[not shown: it contains the API key\]$/);
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({ name: 'ContractError' });
  });

  it('is forgotten after ten more keys, so that the number of keys to search for is bounded', async () => {
    const keys = Array.from({ length: 11 }, (_, n) => String.fromCharCode(97 + n).repeat(20));
    await using server = await startRawServer(rejection(400, `not ${keys[0]}`));
    const unused = [...keys];
    const get = async () => unused.shift() ?? '';
    await using client = clientFor(server, { apiKey: { get, refresh: get } });
    const messages = [];
    while (unused.length > 0) messages.push((await failureOf(fetchPage(client, pageRequest()))).message);
    expect(messages.map((message) => message.includes(String(keys[0])))).toEqual([...Array(10).fill(false), true]);
  });
});
