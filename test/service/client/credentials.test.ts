/** The credentials of a request for each kind of authentication, and what messages show of them (docs/apis.md). */

import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import { describe, expect, it } from 'vitest';
import type { ApiKeySource } from '../../../lib/service/client/api-key.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { type Auth, problemOfSecret, shownCredentials } from '../../../lib/service/api/auth/kinds.ts';
import { type Api, apiSchema } from '../../../lib/service/api/description.ts';
import { fetchPage } from '../../support/builders.ts';
import { listen } from '../../support/service/loopback.ts';
import { clientFor, expectNoKey, failureOf, pageRequest } from '../../support/service/service-client.ts';

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

/** The headers, by lower-case name, that a request has with this secret. */
async function headersWith(auth: object, secret: string, names: readonly string[], respond?: Respond) {
  await using api = await start(auth, respond);
  await using client = api.connect(secret);
  await fetchPage(client, request);
  const { headers = {} } = api.requests.at(-1) ?? {};
  return names.map((name) => headers[name]);
}

describe('a request has', () => {
  it.each([
    ['the whole secret', { kind: 'key', send: { 'X-Key': 'k {secret}' } }, 'abc', { 'x-key': 'k abc' }],
    [
      'several fields of the secret (Datadog)',
      { kind: 'key', send: { 'DD-API-KEY': '{secret.api}', 'DD-APPLICATION-KEY': '{secret.app}' } },
      '{"api":"one","app":"two","note":"not sent"}',
      { 'dd-api-key': 'one', 'dd-application-key': 'two' },
    ],
    ['a number in JSON', { kind: 'bearer', send: { 'X-Id': '{secret.id}' } }, '{"id":17}', { 'x-id': '17' }],
    ['a bearer token', { kind: 'bearer' }, 'abc', { authorization: 'Bearer abc' }],
    ['an empty password', { kind: 'basic' }, 'key:', { authorization: `Basic ${btoa('key:')}` }],
    ['a password with a colon', { kind: 'basic' }, 'me:a:b', { authorization: `Basic ${btoa('me:a:b')}` }],
    [
      'user and password in JSON, beside the key of a gateway',
      { kind: 'basic', send: { Authorization: 'Basic {token}', 'Ocp-Apim-Subscription-Key': '{secret.gateway}' } },
      '{"user":"me","password":"","gateway":"g-1"}',
      { authorization: `Basic ${btoa('me:')}`, 'ocp-apim-subscription-key': 'g-1' },
    ],
  ])('%s', async (_, auth, secret, expected) => {
    expect(await headersWith(auth, secret, Object.keys(expected))).toEqual(Object.values(expected));
  });
});

describe('a secret that is not what is needed', () => {
  it.each<[auth: object, secret: string, problem: string]>([
    [
      { kind: 'key', send: { A: '{secret.app}' } },
      'a-key-of-one',
      'must be JSON with a text in its field app: {"app":"…"}',
    ],
    [{ kind: 'key', send: { A: '{secret.app}' } }, '{"api":"one"}', 'must be JSON with a text in its field app'],
    [{ kind: 'key', send: { A: '{secret.toString}' } }, '{ "a": 1 }', 'must be JSON with a text in its field toString'],
    [
      { kind: 'key', send: { A: '{secret.app}' } },
      '{"app":"a\\nb"}',
      'contains characters that an HTTP header cannot carry',
    ],
    [{ kind: 'basic' }, 'no-colon-in-it', 'must be a user and a password: user:password'],
    [{ kind: 'basic' }, '{"user":"a:b","password":"c"}', 'has a colon in its field "user"'],
  ])('for %j is refused before a request, and not shown', async (auth, secret, problem) => {
    await using api = await start(auth);
    await using client = api.connect(secret);
    const error = await failureOf(fetchPage(client, request));
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringContaining(problem) });
    expect(problemOfSecret(secret, auth as Auth)).toContain(problem);
    expect(error.message).not.toContain(secret);
    expect(api.requests).toEqual([]);
  });
});

const rejectWith = (message: string): Respond => {
  const body = JSON.stringify({ message });
  return (_, response) => void response.writeHead(422).end(body);
};

async function messageWith(auth: object, secret: string, quoted: string): Promise<string> {
  await using api = await start(auth, rejectWith(quoted));
  await using client = api.connect(secret);
  return (await failureOf(fetchPage(client, request))).message;
}

describe('a message', () => {
  const limit = 'The parameter limit is too large';
  const basic = { kind: 'basic' };
  const two = { kind: 'key', send: { A: '{secret.api}', B: '{secret.app}' } };
  const secrets = '{"api":"S3cret-of-the-API","app":"Wh1te-rabbit-99","tenant":"limit-tenant"}';

  it.each([
    ['an empty password', basic, 'sk_0123456789abcdef:', limit],
    ['a placeholder for a password', basic, 'sk_0123456789abcdef:x', limit],
    ['a short password', basic, 'reports:limit', limit],
    ['a short user and an empty password', basic, 'it:', limit],
    ['a short field', two, '{"api":"S3cret-of-the-API","app":"limit"}', limit],
    ['a field that is not sent', two, secrets, 'unknown limit-tenant'],
  ])('shows what the service says, with %s', async (_, auth, secret, quoted) => {
    expect(await messageWith(auth, secret, quoted)).toContain(quoted);
  });

  it.each([
    ['the user, which is the key', basic, 'sk_0123456789abcdef:', 'no key sk_0123456789abcdef'],
    ['the user beside a placeholder', basic, 'sk_0123456789abcdef:x', 'no key sk_0123456789abcdef'],
    ['the password', basic, 'me:a-longer-password', 'not a-longer-password'],
    ['the first of two secrets', two, secrets, 'not S3cret-of-the-API'],
    ['the second of two secrets', two, secrets, 'not Wh1te-rabbit-99'],
    ['a short key', { kind: 'key', send: { A: '{secret}' } }, 's3cr3t', 'not s3cr3t'],
  ])('never has %s', async (_, auth, secret, quoted) => {
    expect(await messageWith(auth, secret, quoted)).toContain('[not shown: it contains the API key]');
  });

  it('never has a key that is in the link to the next page, which is refused', async () => {
    await using api = await start(basic, (_, response) =>
      response.end('{"data":[],"next":"b&key=sk_0123456789abcdef"}'),
    );
    await using client = api.connect('sk_0123456789abcdef:');
    const error = await failureOf(fetchPage(client, request));
    expect(error.name).toBe('ContractError');
    expectNoKey(error, 'sk_0123456789abcdef');
  });
});

const oauth2 = { kind: 'oauth2', tokenUrl: 'SERVER/token', clientId: 'client' };
const login = {
  kind: 'login',
  path: '/auth',
  body: { user: '{secret.user}', keys: ['{secret.password}'] },
  token: '/a/token',
};
const loginSecret = '{"user":"reports","password":"p\\"4ssw0rd ü","gateway":"g-1"}';
const tokenOf = (answer: object): Respond => {
  const body = JSON.stringify(answer);
  return ({ path }, response) => void (path.startsWith('/items') || response.end(body));
};
const issued = tokenOf({ access_token: 'tok0123456789' });

describe('OAuth 2', () => {
  it('sends the token as `send` says, whatever its type, and other fields of the secret beside it (Google Ads)', async () => {
    const send = { Authorization: 'Bearer {token}', 'developer-token': '{secret.developer}' };
    const secret = '{"client_secret":"c-secret","developer":"dev-0123"}';
    expect(await headersWith({ ...oauth2, send }, secret, ['authorization', 'developer-token'], issued)).toEqual([
      'Bearer tok0123456789',
      'dev-0123',
    ]);
    const acme = { ...oauth2, send: { Authorization: 'Acme-token {token}' } };
    expect(await headersWith(acme, 'c-secret', ['authorization'], issued)).toEqual(['Acme-token tok0123456789']);
  });

  it.each<[name: string, auth: object, expected: Partial<Received>]>([
    ['by HTTP Basic, encoded', {}, { body: 'grant_type=client_credentials' }],
    ['by HTTP Basic, as it is', { clientAuthentication: 'basic-unencoded' }, {}],
    [
      'in the body',
      { clientAuthentication: 'body' },
      { body: 'grant_type=client_credentials&client_id=client&client_secret=s3cr%2Bet%2F0123456789%3D' },
    ],
    [
      'in JSON',
      { clientAuthentication: 'body', encoding: 'json', parameters: { audience: 'a' } },
      {
        body: JSON.stringify({
          grant_type: 'client_credentials',
          client_id: 'client',
          client_secret: 's3cr+et/0123456789=',
          audience: 'a',
        }),
      },
    ],
  ])('sends the client %s', async (name, more, expected) => {
    await using api = await start({ ...oauth2, ...more }, issued);
    await using client = api.connect('s3cr+et/0123456789=');
    await fetchPage(client, request);
    const [first] = api.requests;
    expect(first).toMatchObject({ path: '/token', ...expected });
    const basic = Buffer.from((first?.headers.authorization ?? '').slice('Basic '.length), 'base64').toString();
    const pairs: Readonly<Record<string, string>> = {
      'by HTTP Basic, encoded': 'client:s3cr%2Bet%2F0123456789%3D',
      'by HTTP Basic, as it is': 'client:s3cr+et/0123456789=',
    };
    expect(basic).toBe(pairs[name] ?? '');
    expect(first?.headers['content-type']).toBe(
      name === 'in JSON' ? 'application/json' : 'application/x-www-form-urlencoded',
    );
  });

  it.each([
    [400, '{"error":"invalid_client"}', 'ConfigurationError', 'auth.clientAuthentication, as some servers read'],
    [401, '{"error":"invalid_client"}', 'ConfigurationError', 'auth.clientAuthentication, as some servers read'],
    [415, '{"message":"JSON only"}', 'RequestRejectedError', 'Check auth.tokenUrl, auth.encoding and auth.parameters'],
    [200, '{"token":"a"}', 'ContractError', 'for an access token: it has no access_token'],
    [200, '{"access_token":"a","token_type":"mac"}', 'ContractError', 'its token_type is not Bearer'],
    [200, '{"access_token":"a b"}', 'ContractError', 'its access_token is no text that a header can carry'],
    [200, '{"access_token":"a","expires_in":"soon"}', 'ContractError', 'its expires_in is no number of seconds'],
    [200, '<html>', 'ContractError', 'it is no JSON document'],
  ])('names what is wrong with a response (%i %s)', async (status, body, name, message) => {
    await using api = await start(oauth2, (_, response) => void response.writeHead(status).end(body));
    await using client = api.connect('c-secret');
    expect(await failureOf(fetchPage(client, request))).toMatchObject({
      name,
      message: expect.stringContaining(message),
    });
  });

  it('says that the scheme may be another one if a token and the next one are rejected', async () => {
    await using api = await start(oauth2, ({ path }, response) =>
      path === '/token' ? issued({ path, headers: {}, body: '' }, response) : void response.writeHead(401).end('{}'),
    );
    await using client = api.connect('c-secret');
    expect(await failureOf(fetchPage(client, request))).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('auth.send'),
    });
  });
});

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
});

describe('a login', () => {
  const loggedIn = tokenOf({ a: { token: 'session-0123456789' } });

  it('sends fields of the secret, and shares the token until the service rejects it', async () => {
    let rejected: string | undefined;
    let logins = 0;
    const auth = { ...login, send: { 'X-Session': '{token}', 'X-Gateway': '{secret.gateway}' } };
    await using api = await start(auth, ({ path, headers }, response) => {
      if (path === '/auth') response.end(JSON.stringify({ a: { token: `session-${(logins += 1)}` } }));
      else if (headers['x-session'] === rejected) response.writeHead(401).end('{}');
    });
    await using client = api.connect(loginSecret);
    const read = () => fetchPage(client, request);
    await Promise.all([read(), read(), read()]);
    api.wait(10 ** 7);
    await read();
    expect(logins).toBe(1);
    rejected = 'session-1';
    await read();
    expect(logins).toBe(2);
    expect(api.requests.at(-1)?.headers).toMatchObject({ 'x-session': 'session-2', 'x-gateway': 'g-1' });
    const [first] = api.requests;
    expect(JSON.parse(first?.body ?? '')).toEqual({ user: 'reports', keys: ['p"4ssw0rd ü'] });
    expect(first?.headers).toMatchObject({ 'x-gateway': 'g-1', 'content-type': 'application/json' });
    expect(first?.headers).not.toHaveProperty('x-session');
  });

  it.each([
    ['seconds', 600],
    ['seconds as text', '600'],
    ['an instant', '2026-11-20T02:10:00Z'],
    ['seconds since 1970', 1_795_140_600],
  ])('is repeated before the token expires: %s', async (_, until) => {
    const auth = { ...login, body: undefined, form: { key: '{secret}' }, expires: '/until' };
    await using api = await start(auth, (received, response) => {
      response.sendDate = false;
      tokenOf({ a: { token: 'session-0123456789' }, until })(received, response);
    });
    await using client = api.connect('a key of a login');
    for (const seconds of [0, 530, 20]) {
      api.wait(seconds);
      await fetchPage(client, request);
    }
    expect(api.requests.filter(({ path }) => path === '/auth').map(({ body }) => body)).toEqual(
      Array(2).fill('key=a+key+of+a+login'),
    );
  });

  it.each<[respond: Respond, name: string, message: string]>([
    [
      (_, response) => void response.writeHead(401).end('{"error":"no p\\"4ssw0rd ü"}'),
      'ConfigurationError',
      'it rejects the login. Check auth.body and the secret. Response: [not shown',
    ],
    [
      (_, response) => void response.writeHead(404).end('{}'),
      'RequestRejectedError',
      '/auth does not exist. Check baseUrl and auth.path',
    ],
    [(_, response) => void response.writeHead(500).end('{}'), 'ServiceUnavailableError', 'responded with 500'],
    [tokenOf({ a: {} }), 'ContractError', 'it has no token at /a/token'],
  ])('that fails is explained (%#)', async (respond, name, message) => {
    await using api = await start(login, respond);
    await using client = api.connect(loginSecret);
    const error = await failureOf(fetchPage(client, request));
    expect(error).toMatchObject({ name, message: expect.stringContaining(message) });
    expectNoKey(error, 'p"4ssw0rd ü');
    expect(api.requests.every(({ path }) => path === '/auth')).toBe(true);
  });

  it('keeps the token out of messages', async () => {
    await using api = await start(login, (received, response) => {
      if (received.path === '/auth') loggedIn(received, response);
      else response.writeHead(422).end('{"message":"session-0123456789 is of another tenant"}');
    });
    await using client = api.connect(loginSecret);
    const error = await failureOf(fetchPage(client, request));
    expect(error.message).toContain('[not shown');
    expectNoKey(error, 'session-0123456789');
  });
});

it('a person is shown which header has which credential', () => {
  const shown = (auth: object) => shownCredentials(auth as Auth, 'secret acme/key');
  expect(shown({ kind: 'key', send: { 'DD-API-KEY': '{secret.api}', B: 'x {secret}' } })).toEqual({
    'DD-API-KEY': '(field api of secret acme/key)',
    B: 'x (secret acme/key)',
  });
  expect(shown({ kind: 'basic' })).toEqual({ Authorization: 'Basic (secret acme/key)' });
  expect(shown({ ...oauth2, tokenUrl: 'https://a.example/token' })).toEqual({
    Authorization: 'Bearer (a token from https://a.example/token)',
  });
  expect(shown(login)).toEqual({ Authorization: 'Bearer (a token by secret acme/key)' });
  expect(shown({ kind: 'none' })).toEqual({});
});
