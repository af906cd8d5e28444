/** Client credentials, against the authorization server oidc-provider; and assertions that jose checks. */

import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { jwtVerify } from 'jose';
import Provider from 'oidc-provider';
import { describe, expect, it, vi } from 'vitest';
import type { NetworkSource, ServiceNetwork } from '../../../lib/service/network/network.ts';
import type { ApiKeySource } from '../../../lib/service/client/api-key.ts';
import { type Api, apiSchema } from '../../../lib/service/api/description.ts';
import { listen } from '../../support/service/loopback.ts';
import { startPrivateService } from '../../support/service/private-service.ts';
import { startProxy } from '../../support/service/proxy-server.ts';
import {
  backoff,
  clientFor,
  expectNoKey,
  failureOf,
  pageRequest,
  readPage,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const clientSecret = 'S3cr3t+of/the=client "x" 0123456789';
const path = '/v1/reports';

const serve = (listener: RequestListener) => listen(createServer(listener));

/** A service whose tokens `isValid` decides about, and an authorization server. */
async function start({
  isValid,
  answerToken,
}: {
  isValid?: (token: string) => boolean;
  answerToken?: RequestListener;
} = {}) {
  let provider: Provider | undefined;
  const tokenRequests: IncomingMessage[] = [];
  const tokens: string[] = [];
  const login = await serve((request, response) => {
    tokenRequests.push(request);
    if (answerToken !== undefined) answerToken(request, response);
    else provider?.callback()(request, response);
  });
  // It warns that it keeps everything in memory.
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  provider = new Provider(login.url, {
    clients: [
      {
        client_id: 'the exporter',
        client_secret: clientSecret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
    },
    scopes: ['reports.read'],
    ttl: { ClientCredentials: 600 },
  });
  const service = await serve((request, response) => {
    void (async () => {
      const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
      tokens.push(token);
      const known = await provider?.ClientCredentials.find(token);
      const isAccepted = isValid === undefined ? known?.scope === 'reports.read' : isValid(token);
      response
        .writeHead(isAccepted ? 200 : 401, { 'content-type': 'application/json' })
        .end('{"data":[{"id":1}],"next":null}');
    })();
  });
  const api: Api = apiSchema.parse({
    request: { path, query: { since: '{since}' } },
    auth: { kind: 'oauth2', tokenUrl: `${login.url}/token`, clientId: 'the exporter', scope: 'reports.read' },
    next: { from: 'body', at: '/next', to: { query: 'cursor' } },
    page: { format: 'json', reports: '/data/*' },
  });
  return {
    api,
    service,
    tokenRequests,
    tokens,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await login[Symbol.asyncDispose]();
    },
  };
}

const secretsOf = (...secrets: readonly [string, ...string[]]): ApiKeySource => {
  const left = [...secrets];
  return {
    get: async () => left[0] ?? '',
    refresh: async () => (left.length > 1 ? (left.shift(), left[0] ?? '') : (left[0] ?? '')),
  };
};

const request = pageRequest({ format: 'JSON' });

describe('client credentials', () => {
  it('are exchanged for one token, which all pages use until it expires', async () => {
    await using bench = await start();
    let now = Date.parse('2026-11-20T02:00:00Z');
    await using client = clientFor(bench.service, { api: bench.api, apiKey: secretsOf(clientSecret), now: () => now });
    const read = () => fetchPage(client, request).then(readPage);
    await Promise.all([read(), read(), read()]);
    await read();
    expect(bench.tokenRequests).toHaveLength(1);
    now += 539_000;
    await read();
    expect(bench.tokenRequests).toHaveLength(1);
    now += 2_000;
    await read();
    expect(bench.tokenRequests).toHaveLength(2);
    expect(new Set(bench.tokens).size).toBe(2);
  });

  it('stop waiting for the server when the caller aborts, and no other caller does', async () => {
    const waiting: (() => void)[] = [];
    await using bench = await start({
      isValid: () => true,
      answerToken: (_request, response) =>
        void waiting.push(() => response.end('{"access_token":"a-token","token_type":"bearer"}')),
    });
    await using client = clientFor(bench.service, { api: bench.api, apiKey: secretsOf(clientSecret) });
    const caller = new AbortController();
    const aborted = fetchPage(client, request, caller.signal);
    const other = fetchPage(client, request);
    await expect.poll(() => waiting.length, backoff).toBe(1);
    const reason = new Error('no more time');
    caller.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    waiting[0]?.();
    await readPage(other);
    expect(bench.tokens).toEqual(['a-token']);
  });

  it('name the setting of the authorization server if it cannot be reached', async () => {
    await using bench = await start();
    const closed = await serve(() => {});
    await closed[Symbol.asyncDispose]();
    const api = { ...bench.api, auth: { ...bench.api.auth, tokenUrl: `${closed.url}/token` } };
    await using client = clientFor(bench.service, { api, apiKey: secretsOf(clientSecret) });
    expect(await failureOf(fetchPage(client, request))).toMatchObject({
      name: 'ServiceUnreachableError',
      message: expect.stringMatching(
        /^Authorization server .* refused the connection \(ECONNREFUSED\) for an access token\. .*auth\.tokenUrl/,
      ),
    });
  });
});

describe('an assertion', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const audience = 'https://login.example.com/token';
  const now = Date.parse('2026-11-20T02:00:00Z');

  /** A server that grants a token for a valid assertion, as RFC 7523 says. */
  async function startServer() {
    const accepted: unknown[] = [];
    const bench = await start({
      isValid: (token) => token === 'a-token',
      answerToken: (received, response) => {
        void (async () => {
          const form = new URLSearchParams(await text(received));
          const verified = await jwtVerify(form.get('assertion') ?? '', createPublicKey(publicKey), {
            audience,
            currentDate: new Date(now),
          }).catch(() => undefined);
          const isGranted = verified !== undefined && form.get('grant_type')?.endsWith(':jwt-bearer');
          if (verified !== undefined) accepted.push([verified.protectedHeader, verified.payload]);
          if (isGranted !== true) response.writeHead(400, { 'content-type': 'application/json' });
          const { assertion } = Object.fromEntries(form);
          response.end(
            isGranted === true
              ? '{"access_token":"a-token","token_type":"Bearer","expires_in":3600}'
              : JSON.stringify({ error: 'invalid_grant', error_description: `${assertion} is not valid` }),
          );
        })();
      },
    });
    return { ...bench, accepted };
  }
  const jwtApi = (api: Api, rest: object = {}): Api => {
    const { tokenUrl } = api.auth as { readonly tokenUrl: string };
    const auth = { kind: 'jwt', tokenUrl, issuer: 'me@example.com', audience, scope: 'read', keyId: 'k1', ...rest };
    return { ...api, auth } as Api;
  };

  it.each([
    ['as it is', privateKey],
    ['with line breaks as in JSON', privateKey.replaceAll('\n', String.raw`\n`)],
  ])('is signed with the secret, %s, and exchanged for one token', async (_, secret) => {
    await using bench = await startServer();
    const api = jwtApi(bench.api);
    await using client = clientFor(bench.service, { api, apiKey: secretsOf(secret), now: () => now });
    await readPage(fetchPage(client, request));
    await readPage(fetchPage(client, request));
    const seconds = now / 1_000;
    expect(bench.accepted).toEqual([
      [
        { alg: 'RS256', typ: 'JWT', kid: 'k1' },
        { iss: 'me@example.com', aud: audience, scope: 'read', iat: seconds, exp: seconds + 180 },
      ],
    ]);
  });

  it('is not shown when the server quotes it, and neither is the key', async () => {
    await using bench = await startServer();
    const api = jwtApi(bench.api, { audience: 'urn:other' });
    await using client = clientFor(bench.service, { api, apiKey: secretsOf(privateKey), now: () => now });
    const error = await failureOf(fetchPage(client, request));
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(
        /rejects the assertion\. Check auth\.issuer.*Response: ("error":"[a-z_]+" )?\[not shown/,
      ),
    });
    expect(error.message).not.toContain('eyJ');
    expectNoKey(error, privateKey);
  });

  it('needs a private key of its algorithm', async () => {
    await using bench = await startServer();
    const api = jwtApi(bench.api, { algorithm: 'ES256' });
    await using client = clientFor(bench.service, { api, apiKey: secretsOf(privateKey) });
    expect(await failureOf(fetchPage(client, request))).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^The secret contains no private key for ES256/),
    });
    expect(bench.tokenRequests).toEqual([]);
  });
});

describe('the authorization server', () => {
  const answer: RequestListener = ({ url }, response) => {
    const page = url === '/token' ? { access_token: 'a-token', token_type: 'Bearer' } : { data: [], next: null };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(page));
  };
  const apiWith = (tokenUrl: string): Api =>
    apiSchema.parse({
      request: { path },
      auth: { kind: 'oauth2', tokenUrl, clientId: 'the exporter' },
      next: { from: 'body', at: '/next', to: { query: 'cursor' } },
      page: { format: 'json', reports: '/data/*' },
    });
  const networkOf = (network: ServiceNetwork): NetworkSource => ({
    get: async () => network,
    refresh: async () => network,
  });

  it('is reached as the service is: through the proxy, with its certificate authority and client certificate', async () => {
    await using server = await startPrivateService({ tls: { requestCert: true }, listener: answer });
    await using proxy = await startProxy({ target: server });
    const { key, cert } = server.authority.issue({ name: 'exporter' });
    const network = networkOf({
      proxy: { origin: proxy.url },
      ca: server.authority.cert,
      clientCertificate: { key, cert },
    });
    const tokenUrl = `${server.namedUrl.replace('reports.', 'login.')}/token`;
    await using distrustful = clientFor(
      { url: server.namedUrl },
      { api: apiWith(tokenUrl), apiKey: secretsOf(clientSecret), network: networkOf({ proxy: { origin: proxy.url } }) },
    );
    const error = await failureOf(fetchPage(distrustful, request));
    expect(error).toMatchObject({
      name: 'ServiceUnreachableError',
      message: expect.stringMatching(/^Authorization server .* a certificate that is not trusted .* set tls\.ca/),
    });

    await using client = clientFor(
      { url: server.namedUrl },
      { api: apiWith(`${server.namedUrl}/token`), apiKey: secretsOf(clientSecret), network },
    );
    await readPage(fetchPage(client, request));
    expect(server.requests.map((each) => each.client)).toEqual(['exporter', 'exporter']);
    expect(server.requests.map(({ headers }) => String(headers.authorization).split(' ')[0])).toEqual([
      'Basic',
      'Bearer',
    ]);
    expect(proxy.bytes().includes('a-token')).toBe(false);
  });
});
