/** Refresh tokens: of any number of clients that share a secret, no two send the same one, and none is lost. */

import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createSlots } from '../../../lib/core/concurrency.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ApiKeySource } from '../../../lib/service/client/api-key.ts';
import { fetchPage } from '../../support/builders.ts';
import { clientFor, expectNoKey, failureOf, pageRequest, readPage } from '../../support/service/service-client.ts';
import { apiWithTokens, clientSecret, startTokenServer, type TokenServer } from '../../support/service/token-server.ts';
import { createVirtualClock } from '../../support/virtual-clock.ts';

const request = pageRequest({ format: 'JSON' });

/** A store of one secret for several processes, each of which reads it by a source of its own. */
function aStore(secret: string) {
  const lock = createSlots(1);
  const store = {
    secret,
    /** Called before a change is stored. */
    beforeStore: async () => {},
    source: (): ApiKeySource => ({
      get: async () => store.secret,
      refresh: async () => store.secret,
      async update(change) {
        const release = await lock.acquire();
        try {
          const next = await change(store.secret, () => {});
          await store.beforeStore();
          return (store.secret = next);
        } finally {
          release();
        }
      },
    }),
  };
  return store;
}

const clientOf = (server: TokenServer, apiKey: ApiKeySource, now = Date.now, auth: object = {}) =>
  clientFor(server, { api: apiWithTokens(server.url, auth), apiKey, now });

const opened: AsyncDisposable[] = [];
async function start(options: Parameters<typeof startTokenServer>[0] = {}) {
  const server = await startTokenServer(options);
  opened.push(server);
  const clock = { now: Date.parse('2026-11-20T02:00:00Z') };
  const store = aStore(server.consent());
  const client = (apiKey = store.source(), auth: object = {}) => {
    const created = clientOf(server, apiKey, () => clock.now, auth);
    opened.unshift(created);
    return { read: (signal?: AbortSignal) => fetchPage(created, request, signal).then(readPage) };
  };
  return { server, store, clock, client };
}
afterEach(async () => {
  for (const each of opened.splice(0)) await each[Symbol.asyncDispose]();
});

describe('a refresh token', () => {
  it('is exchanged once for all pages of all processes, until the access token expires', async () => {
    const { server, client, clock } = await start();
    const clients = Array.from({ length: 5 }, () => client());
    await Promise.all(clients.flatMap(({ read }) => [read(), read()]));
    await client().read();
    expect(server.exchanged).toHaveLength(1);
    expect(new Set(server.requests).size).toBe(1);
    clock.now += 3_539_000;
    await client().read();
    expect(server.exchanged).toHaveLength(1);
    clock.now += 2_000;
    await Promise.all(clients.map(({ read }) => read()));
    expect(server.exchanged).toHaveLength(2);
    expect(server.reused).toEqual([]);
  });

  it('is replaced once if the service rejects the access token that several processes use', async () => {
    const { server, client } = await start();
    const clients = Array.from({ length: 5 }, () => client());
    for (const { read } of clients) await read();
    for (const count of [2, 3]) {
      server.expire();
      await Promise.all(clients.flatMap(({ read }) => [read(), read()]));
      expect(server.exchanged).toHaveLength(count);
    }
    expect(server.reused).toEqual([]);
  });

  it.each([0, '0', null, undefined])(
    'is never sent twice by many processes whose access tokens live for %s s',
    async (life) => {
      const { server, client } = await start({ lifeSeconds: life });
      const clients = Array.from({ length: 8 }, () => client());
      await Promise.all(
        clients.map(async ({ read }) => {
          for (let page = 0; page < 5; page += 1) await read();
        }),
      );
      expect(server.exchanged).toHaveLength(Number(life ?? 1) === 0 ? 40 : 1);
      expect(new Set(server.exchanged).size).toBe(server.exchanged.length);
    },
  );

  it('is stored before the access token is used, which no other process sees earlier', async () => {
    const { server, store, client } = await start();
    const { read } = client();
    store.beforeStore = async () => {
      await sleep(50);
      expect(server.requests).toEqual([]);
    };
    await read();
    const { access_token, refresh_token, ...rest } = JSON.parse(store.secret);
    expect(server.requests).toEqual([access_token]);
    expect(refresh_token).not.toBe(server.exchanged[0]);
    expect(rest).toEqual({ client_secret: clientSecret, expires_in: 3_600, expires_at: 1_795_143_600 });
  });

  it('is not used if it cannot be stored', async () => {
    const { server, store, client } = await start();
    const error = new ExportError('ServiceUnavailableError', 'The secret could not be written');
    store.beforeStore = () => Promise.reject(error);
    expect(await failureOf(client().read())).toBe(error);
    expect(server.requests).toEqual([]);
  });

  it('is stored before the request ends that its caller aborts', async () => {
    const { server, store, client } = await start();
    const caller = new AbortController();
    const reason = new Error('no more time');
    server.options.beforeResponse = async () => {
      caller.abort(reason);
      await sleep(50);
    };
    await expect(client().read(caller.signal)).rejects.toBe(reason);
    expect(server.issued()).toContain(JSON.parse(store.secret).refresh_token);
    expect(JSON.parse(store.secret).refresh_token).not.toBe(server.exchanged[0]);
    expect(server.requests).toEqual([]);
  });

  it('is kept if the response has no other', async () => {
    const { server, client } = await start({ rotates: false });
    const { read } = client();
    await read();
    server.expire();
    await read();
    expect(new Set(server.exchanged).size).toBe(1);
    expect(server.exchanged).toHaveLength(2);
  });

  it.each(['basic', 'body', 'none'] as const)('is sent with the client authentication %s', async (method) => {
    const { client } = await start({ clientAuthentication: method });
    expect(await client(undefined, { clientAuthentication: method }).read()).toContain('data');
  });

  it.each([
    ['of another type', { token_type: 'mac' }, 'its token_type is not Bearer'],
    ['without an access token', { access_token: undefined }, 'it has no access_token'],
    ['with an invalid life', { expires_in: '3600s' }, 'its expires_in is no number of seconds'],
  ])('is stored if the response is invalid, and fails the attempt: %s', async (_, alter, problem) => {
    const { server, store, client, clock } = await start();
    const { read } = client();
    await read();
    const before = server.issued();
    clock.now += 3_600_000;
    server.options.alter = alter;
    const error = await failureOf(read());
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining(problem) });
    const stored = JSON.parse(store.secret);
    expect(Object.keys(stored)).toEqual(['client_secret', 'refresh_token']);
    expect(before).not.toContain(stored.refresh_token);
    for (const secret of server.issued()) expectNoKey(error, secret);
    server.options.alter = undefined;
    await read();
    expect(server.exchanged).toHaveLength(3);
    expect(server.reused).toEqual([]);
  });

  it('is reported as rejected with the code of an error that has the status 200', async () => {
    const { server, client } = await start();
    server.options.alter = { access_token: undefined, refresh_token: undefined, error: 'bad_refresh_token' };
    expect(await failureOf(client().read())).toMatchObject({
      name: 'ContractError',
      message: expect.stringMatching(/: it has no access_token, but the error bad_refresh_token$/),
    });
  });

  it.each([
    ['text outside ASCII', 'r3fresh é 0123456789', 'r3fresh é 0123456789'],
    ['a number', 12_345_678, '12345678'],
  ])('may be %s', async (_, token, sent) => {
    const { server, client } = await start({ lifeSeconds: 0 });
    server.options.alter = { refresh_token: token };
    const { read } = client();
    await read();
    expect(await failureOf(read())).toMatchObject({ name: 'ConfigurationError' });
    expect(server.exchanged[1]).toBe(sent);
  });

  it('is stored by the next attempt if it could not be, and nothing is sent before', async () => {
    const { server, store, client } = await start();
    const { read } = client();
    const fail = () => Promise.reject(new ExportError('ServiceUnavailableError', 'The secret could not be written'));
    for (const beforeStore of [fail, fail, async () => {}]) {
      store.beforeStore = beforeStore;
      await read().catch(() => {});
    }
    expect(server.exchanged).toHaveLength(1);
    expect(server.requests).toHaveLength(1);
    server.expire();
    store.beforeStore = fail;
    await failureOf(read());
    const consented = server.consent();
    store.secret = consented;
    store.beforeStore = async () => {};
    await read();
    expect(server.exchanged.at(-1)).toBe(JSON.parse(consented).refresh_token);
    expect(server.reused).toEqual([]);
  });

  it('is not cut off by the timeouts of pages', async () => {
    const { server, store } = await start();
    const clock = createVirtualClock();
    server.options.beforeResponse = () => clock.advance(20_000);
    const apiKey = store.source();
    await using client = clientFor(server, { api: apiWithTokens(server.url), apiKey, clock, totalTimeout: 10_000 });
    expect(await failureOf(fetchPage(client, request))).toMatchObject({ message: expect.stringContaining('in total') });
    await fetchPage(client, request).then(readPage);
    expect(server.exchanged).toHaveLength(1);
  });

  it('is sent once if the server rejects it: what is read again may be outdated', async () => {
    const { server, store, client } = await start();
    const outdated = { ...store.source(), refresh: async () => server.consent() };
    server.options.respond = (response) => response.writeHead(403).end('a firewall');
    expect(await failureOf(client(outdated).read())).toMatchObject({ name: 'ConfigurationError' });
    expect(server.exchanged).toEqual([JSON.parse(store.secret).refresh_token]);
  });

  it('must be consented again if the server rejects it: a ConfigurationError, without the token', async () => {
    const { server, store, client } = await start();
    const { read } = client();
    await read();
    const [used] = server.exchanged;
    store.secret = JSON.stringify({ client_secret: clientSecret, refresh_token: used });
    server.expire();
    const error = await failureOf(read());
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(
        /rejects the refresh token.*invalid_grant, consent again, and store the new refresh token/,
      ),
    });
    // The response repeats the refresh token: of it, only the code is shown.
    expect(error.message).toMatch(/Response: "error":"invalid_grant" \[not shown/);
    for (const secret of [clientSecret, ...server.issued(), ...server.exchanged]) expectNoKey(error, secret);
    expect(server.exchanged).toHaveLength(2);
  });

  it('is not sent where its successor cannot be stored: only an access token that is stored is used', async () => {
    const { server, store, client, clock } = await start();
    let cached = store.secret;
    const refresh = async () => (cached = store.secret);
    const reader = client({ get: async () => cached, refresh });
    const refused = {
      name: 'ConfigurationError',
      message: expect.stringContaining('only the function may replace the refresh token'),
    };
    expect(await failureOf(reader.read())).toMatchObject(refused);
    await client().read();
    await reader.read();
    clock.now += 3_600_000;
    await client().read();
    await reader.read();
    server.expire();
    await client().read();
    await reader.read();
    clock.now += 3_600_000;
    expect(await failureOf(reader.read())).toMatchObject(refused);
    expect(server.exchanged).toHaveLength(3);
  });

  it('is not sent without the client secret, unless the client has none: the error quotes none of the secret', async () => {
    const { server, store, client } = await start();
    store.secret = '{"refresh_token":"r3fresh-token-of-a-person"}';
    const error = await failureOf(client().read());
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('The secret contains no client_secret. Store it, or set'),
    });
    expectNoKey(error, 'r3fresh-token-of-a-person');
    expect(server.exchanged).toEqual([]);
  });

  it('is sent again after an outage of the server, which may have replaced it', async () => {
    const { server, store, client } = await start();
    const { secret } = store;
    server.options.respond = (response, form) =>
      response.writeHead(500).end(`{"error":"${form.get('refresh_token')}"}`);
    const error = await failureOf(client().read());
    expect(error).toMatchObject({ name: 'ServiceUnavailableError' });
    expectNoKey(error, JSON.parse(secret).refresh_token);
    expect(store.secret).toBe(secret);
    server.options.respond = undefined;
    await client().read();
    expect(server.reused).toEqual([]);
  });
});
