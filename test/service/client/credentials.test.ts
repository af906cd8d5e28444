/** The credentials of a request for each kind of authentication, and what messages show of them (docs/apis.md). */

import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import { describe, expect, it } from 'vitest';
import type { ApiKeySource } from '../../../lib/service/client/api-key.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { type Auth, shownCredentials } from '../../../lib/service/api/auth/kinds.ts';
import { type Api, apiSchema } from '../../../lib/service/api/description.ts';
import { fetchPage } from '../../support/builders.ts';
import { listen } from '../../support/service/loopback.ts';
import { clientFor, pageRequest } from '../../support/service/service-client.ts';

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Respond = (received: Received, response: ServerResponse) => void;

const page = '{"data":[{"id":1}],"next":null}';

/** An API whose pages `respond` may replace, and whose tokens it issues. */
async function start(auth: object, respond: Respond = () => {}) {
  const requests: Received[] = [];
  const server = await listen(
    createServer((request, response) => {
      void text(request).then((body) => {
        const received = { path: request.url ?? '', headers: request.headers, body };
        requests.push(received);
        response.setHeader('content-type', 'application/json');
        respond(received, response);
        if (!response.writableEnded) response.end(page);
      });
    }),
  );
  const api: Api = apiSchema.parse({
    request: { path: '/items' },
    auth: JSON.parse(JSON.stringify(auth).replaceAll('SERVER', server.url)),
    next: { from: 'body', at: '/next', to: { query: 'cursor' } },
    page: { format: 'json', reports: '/data/*' },
  });
  let now = Date.parse('2026-11-20T02:00:00Z');
  const connect = (secret: string | ApiKeySource) =>
    clientFor(server, { api, apiKey: typeof secret === 'string' ? fixedApiKey(secret) : secret, now: () => now });
  const wait = (seconds: number) => (now += seconds * 1_000);
  return { ...server, requests, connect, wait, [Symbol.asyncDispose]: server[Symbol.asyncDispose] };
}

const request = pageRequest({ format: 'JSON' });

const oauth2 = { kind: 'oauth2', tokenUrl: 'SERVER/token', clientId: 'client' };
const login = {
  kind: 'login',
  path: '/auth',
  body: { user: '{secret.user}', keys: ['{secret.password}'] },
  token: '/a/token',
};
const tokenOf = (answer: object): Respond => {
  const body = JSON.stringify(answer);
  return ({ path }, response) => void (path.startsWith('/items') || response.end(body));
};
const issued = tokenOf({ access_token: 'tok0123456789' });

describe('a private key', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const currentDate = new Date('2026-11-20T02:01:00Z');

  it.each([pem, JSON.stringify({ private_key: pem, client_email: 'me' })])(
    'signs the token itself without tokenUrl, and another one before it expires',
    async (secret) => {
      const auth = { kind: 'jwt', issuer: 'me', audience: 'appstoreconnect-v1', algorithm: 'ES256', keyId: 'k1' };
      await using api = await start(auth);
      await using client = api.connect(secret);
      for (const seconds of [0, 60, 80]) {
        api.wait(seconds);
        await fetchPage(client, request);
      }
      const tokens = api.requests.map(({ headers }) => headers.authorization?.replace('Bearer ', '') ?? '');
      expect(tokens[1]).toBe(tokens[0]);
      expect(tokens[2]).not.toBe(tokens[0]);
      const options = { issuer: 'me', audience: 'appstoreconnect-v1', currentDate };
      expect((await jwtVerify(tokens[0] ?? '', publicKey, options)).payload.exp).toBe(1_795_140_180);
      expect(decodeProtectedHeader(tokens[0] ?? '')).toEqual({ alg: 'ES256', typ: 'JWT', kid: 'k1' });
    },
  );

  it('proves who the client is (private_key_jwt)', async () => {
    const auth = { ...oauth2, clientAuthentication: 'private_key_jwt', algorithm: 'ES256' };
    await using api = await start(auth, issued);
    await using client = api.connect(pem);
    await fetchPage(client, request);
    const form = new URLSearchParams(api.requests[0]?.body);
    expect(Object.fromEntries(form)).toMatchObject({
      client_id: 'client',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    });
    const options = { issuer: 'client', subject: 'client', audience: `${api.url}/token`, currentDate };
    const { payload } = await jwtVerify(form.get('client_assertion') ?? '', publicKey, options);
    expect(payload.jti).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each([
    { kind: 'jwt', tokenUrl: 'SERVER/token', issuer: 'me', algorithm: 'ES256' },
    { ...oauth2, clientAuthentication: 'private_key_jwt', algorithm: 'ES256' },
  ])('has assertions that no message shows: %j', async (auth) => {
    await using api = await start(auth, ({ body }, response) => {
      const form = new URLSearchParams(body);
      response.statusCode = 401;
      response.end(JSON.stringify({ message: `not valid: ${form.get('assertion') ?? form.get('client_assertion')}` }));
    });
    await using client = api.connect(pem);
    await expect(fetchPage(client, request)).rejects.toThrow(/Response: \[not shown: it contains the API key\]$/);
  });
});

describe('a login', () => {
  it.each([
    ['seconds', 600, [0, 530, 20]],
    ['seconds as text', '600', [0, 530, 20]],
    ['an instant', '2026-11-20T02:10:00Z', [0, 530, 20]],
    ['seconds since 1970', 1_795_140_600, [0, 530, 20]],
    ['less than a minute', 40, [0, 25, 10]],
  ])('is shared by requests, and repeated before its token expires: %s', async (_, until, waits) => {
    const auth = { ...login, body: undefined, form: { key: '{secret}' }, expires: '/until' };
    await using api = await start(auth, (received, response) => {
      response.sendDate = false;
      tokenOf({ a: { token: 'session-0123456789' }, until })(received, response);
    });
    await using client = api.connect('a key of a login');
    for (const seconds of waits) {
      api.wait(seconds);
      await Promise.all([fetchPage(client, request), fetchPage(client, request)]);
    }
    expect(api.requests.filter(({ path }) => path === '/auth').map(({ body }) => body)).toEqual(
      Array(2).fill('key=a+key+of+a+login'),
    );
  });
});

it('a person is shown which header, and which parameter, has which credential', () => {
  const shown = (auth: object) => {
    const { headers, query } = shownCredentials(auth as Auth, 'secret acme/key');
    return { ...headers, ...(Object.keys(query).length > 0 && { query }) };
  };
  expect(shown({ kind: 'key', send: { 'DD-API-KEY': '{secret.api}', B: 'x {secret}' } })).toEqual({
    'DD-API-KEY': '(field api of secret acme/key)',
    B: 'x (secret acme/key)',
  });
  expect(shown({ kind: 'key', send: { B: '{secret.app}' }, query: { api_key: '{secret.api}' } })).toEqual({
    B: '(field app of secret acme/key)',
    query: { api_key: '(field api of secret acme/key)' },
  });
  expect(shown({ kind: 'basic' })).toEqual({ Authorization: 'Basic (secret acme/key)' });
  expect(shown({ ...oauth2, tokenUrl: 'https://a.example/token' })).toEqual({
    Authorization: 'Bearer (a token from https://a.example/token)',
  });
  expect(shown(login)).toEqual({ Authorization: 'Bearer (a token by secret acme/key)' });
  expect(shown({ ...login, path: undefined, url: 'https://a.example/token' })).toEqual({
    Authorization: 'Bearer (a token from https://a.example/token)',
  });
  expect(shown({ kind: 'none' })).toEqual({});
});
