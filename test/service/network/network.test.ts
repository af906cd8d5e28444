/** The client with a proxy, a private certificate authority and a client certificate, over real sockets. */

import { createServer, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ErrorName } from '../../../lib/core/errors.ts';
import type { NetworkSource, ServiceNetwork } from '../../../lib/service/network/network.ts';
import { createAuthority } from '../../support/service/certificates.ts';
import { listen } from '../../support/service/loopback.ts';
import { privateHost, startPrivateService } from '../../support/service/private-service.ts';
import { type ProxyServer, startProxy } from '../../support/service/proxy-server.ts';
import { rawResponse, startRawServer, twoReports } from '../../support/service/raw-server.ts';
import {
  anError,
  clientFor,
  expectNoKey,
  failureOf,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

/** A source that returns the current value of `network`, and counts its refreshes. */
function aSource(network: ServiceNetwork, next = network): NetworkSource & { refreshes: number } {
  let current = network;
  const source = {
    refreshes: 0,
    get: async () => current,
    async refresh() {
      source.refreshes += 1;
      current = next;
      return current;
    },
  };
  return source;
}

const password = 'pr0xy-p@ssword:42';
const credentials = { username: 'exporter', password };
type Service = Awaited<ReturnType<typeof startPrivateService>>;

/** A client that reaches the service through the proxy, and trusts its certificate authority. */
const proxied = (
  service: Service,
  { url: origin }: ProxyServer,
  { withCredentials = false, ...network }: ServiceNetwork & { readonly withCredentials?: boolean } = {},
  options: Parameters<typeof clientFor>[1] = {},
) =>
  clientFor(
    { url: service.namedUrl },
    {
      network: aSource({
        proxy: withCredentials ? { origin, credentials } : { origin },
        ca: service.authority.cert,
        ...network,
      }),
      ...options,
    },
  );

describe('through a proxy, the client', () => {
  it('requests the service in a tunnel, in which the proxy sees neither requests nor the API key', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service });
    await using client = proxied(service, proxy);
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    await nextTurn();
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);

    const authority = `${privateHost}:${new URL(service.url).port}`;
    // The second request reuses the tunnel.
    expect(proxy.requests).toMatchObject([{ authority, headers: { host: authority } }]);
    expect(proxy.requests[0]?.headers).not.toHaveProperty('proxy-authorization');
    expect(service.requests).toHaveLength(2);
    expect(service.requests[0]?.headers).toMatchObject({ 'x-service-api-key': trickyApiKey });
    expect(proxy.bytes().includes('/v1/report/export')).toBe(false);
    expect(proxy.bytes().includes(trickyApiKey)).toBe(false);
  });

  it('resumes the TLS session in a second tunnel', async () => {
    await using service = await startPrivateService({
      listener: (_request, response) => {
        response.setHeader('content-type', 'application/xml').setHeader('connection', 'close').end(twoReports);
      },
    });
    await using proxy = await startProxy({ target: service });
    await using client = proxied(service, proxy);
    await readPage(fetchPage(client, pageRequest()));
    await readPage(fetchPage(client, pageRequest()));
    expect(service.resumed).toEqual([false, true]);
    expect(proxy.requests).toHaveLength(2);
  });

  it('authenticates to the proxy, and sends the credentials to the proxy only', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
    await using client = proxied(service, proxy, { withCredentials: true });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(Object.keys(service.requests[0]?.headers ?? {}).filter((name) => name.startsWith('proxy'))).toEqual([]);
  });

  it('uses rotated credentials at once when the proxy rejects the old ones', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
    const { cert: ca } = service.authority;
    const former = { proxy: { origin: proxy.url, credentials: { ...credentials, password: 'former' } }, ca };
    const network = aSource(former, { proxy: { origin: proxy.url, credentials }, ca });
    await using client = clientFor({ url: service.namedUrl }, { network });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(network.refreshes).toBe(1);
    expect(proxy.requests).toHaveLength(2);
  });

  const close = (socket: Socket) => void socket.destroy();
  const staySilent = () => {};
  const answer = (text: string) => (socket: Socket) => void socket.end(text);
  const refusing = { credentials: () => 'somebody:else' };
  it.each<[string, Partial<Parameters<typeof startProxy>[0]>, ErrorName, RegExp]>([
    [
      'rejects the credentials',
      refusing,
      'ConfigurationError',
      /407 .*rejected the credentials.*proxyCredentialsSecret/,
    ],
    ['responds with 403', { reject: 403 }, 'ConfigurationError', /403 to CONNECT for .*not allow connections/],
    ['responds with 400', { reject: 400 }, 'ConfigurationError', /responded with 400 to CONNECT/],
    ['responds with 500', { reject: 500 }, 'ServiceUnavailableError', /500 to CONNECT for .*no connection to/],
    ['responds with 502', { reject: 502 }, 'ServiceUnreachableError', /502 to CONNECT for .*the port in baseUrl/],
    ['responds with 503', { reject: 503 }, 'ServiceUnreachableError', /503 to CONNECT for .*the port in baseUrl/],
    ['closes the connection', { reject: close }, 'ServiceUnavailableError', /cannot be reached \(ECONNRESET\)/],
    ['is none', { reject: answer('SSH-2.0-x\r\n') }, 'ServiceUnreachableError', /not an HTTP proxy: .*Check proxyUrl/],
    ['stays silent', { reject: staySilent }, 'ServiceUnavailableError', /\(ETIMEDOUT\)/],
  ])('names the proxy, without a second tunnel, if it %s', async (_, options, name, message) => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, ...options });
    const isSilent = options.reject === staySilent;
    await using client = proxied(service, proxy, { withCredentials: true }, isSilent ? { connectTimeout: 500 } : {});
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error).toMatchObject({ ...anError(name, message), cause: { name: 'ProxyError' } });
    expect(error.message).toContain(proxy.url);
    expectNoKey(error, password);
    // On a slow machine, the time may be up before the first request.
    expect(isSilent ? [0, 1] : [1]).toContain(proxy.requests.length);
    expect(service.requests).toEqual([]);
  });

  it('names the proxy if it requires credentials, and there are none', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, ...refusing });
    await using client = proxied(service, proxy);
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject(
      anError(
        'ConfigurationError',
        /^Proxy http:.*:\d+ responded with 407 to CONNECT for page 1 .*requires credentials/,
      ),
    );
  });

  it('names the proxy, and keeps the error code, if it cannot be reached', async () => {
    const closed = await listen(createServer());
    await closed[Symbol.asyncDispose]();
    const origin = closed.url;
    const network = aSource({ proxy: { origin, credentials } });
    await using client = clientFor({ url: 'https://reports.internal.example' }, { network });
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error).toMatchObject({
      name: 'ServiceUnreachableError',
      message: expect.stringContaining(`Proxy ${origin} cannot be reached (ECONNREFUSED) for page 1`),
      cause: { code: 'ECONNREFUSED', cause: { code: 'ECONNREFUSED' } },
    });
    expectNoKey(error, password);
  });

  it('fails as a broken connection if the proxy dies within a page', async () => {
    await using service = await startPrivateService({
      listener: (_request, response) => {
        response.setHeader('content-type', 'application/xml').write(twoReports.slice(0, 50));
      },
    });
    await using proxy = await startProxy({ target: service });
    await using client = proxied(service, proxy);
    const sink = async (body: AsyncIterable<Uint8Array>) => {
      for await (const _ of body) proxy.cut();
    };
    expect((await failureOf(client.fetch(pageRequest(), { sink }))).name).toBe('ServiceUnavailableError');
  });

  it('uses a proxy over TLS, whose certificate it verifies', async () => {
    await using service = await startPrivateService();
    const authority = createAuthority({ name: 'Proxy CA' });
    const tls = authority.issue({ name: 'proxy', hosts: ['127.0.0.1'] });
    await using proxy = await startProxy({ target: service, tls, credentials: () => `exporter:${password}` });
    await using distrustful = proxied(service, proxy, { withCredentials: true });
    const error = await failureOf(fetchPage(distrustful, pageRequest()));
    expect(error.message).toMatch(
      /^Proxy https:.* cannot be reached \((SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE)\)/,
    );
    expect(proxy.requests).toEqual([]);

    const ca = service.authority.cert + authority.cert;
    await using client = proxied(service, proxy, { withCredentials: true, ca });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
  });

  it('opens a tunnel for http, too: the proxy never rewrites a request', async () => {
    await using service = await startRawServer(rawResponse());
    await using proxy = await startProxy({ target: service });
    await using client = clientFor(service, { network: aSource({ proxy: { origin: proxy.url } }) });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(proxy.requests).toMatchObject([{ authority: new URL(service.url).host }]);
    expect(service.requests).toMatchObject([{ target: '/v1/report/export' }]);
  });
});

describe('with a private certificate authority, the client', () => {
  it('trusts the service with it, and names the setting without it', async () => {
    await using service = await startPrivateService();
    await using distrustful = clientFor(service);
    const error = await failureOf(fetchPage(distrustful, pageRequest()));
    expect(error.message).toMatch(/\b(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE)\b.*set tls\.ca/);
    expect(service.requests).toEqual([]);

    await using client = clientFor(service, { network: service.network });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
  });

  it('rejects a certificate of the service that has expired, whose error code it keeps', async () => {
    await using service = await startPrivateService({ until: new Date(Date.now() - 1_000) });
    await using client = clientFor(service, { network: service.network });
    const error = await failureOf(fetchPage(client, pageRequest()));
    const code = 'CERT_HAS_EXPIRED';
    expect(error).toMatchObject({ message: expect.stringContaining(code), cause: { code } });
    // Another authority would not help.
    expect(error.message).not.toContain('tls.ca');
  });
});

describe('with a client certificate, the client', () => {
  const demanding = { requestCert: true, rejectUnauthorized: true };

  it.each(['TLSv1.2', 'TLSv1.3'] as const)('is accepted by a service that demands one, with %s', async (maxVersion) => {
    await using service = await startPrivateService({ tls: { ...demanding, maxVersion } });
    const { cert: ca } = service.authority;
    const clientCertificate = service.authority.issue({ name: 'exporter' });
    await using client = clientFor(service, { network: aSource({ ca, clientCertificate }) });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(service.requests).toMatchObject([{ client: 'exporter' }]);
  });

  it('presents it within the tunnel of a proxy, with an encrypted key', async () => {
    await using service = await startPrivateService({ tls: demanding });
    await using proxy = await startProxy({ target: service });
    const passphrase = 'open sesame 1001';
    const clientCertificate = { ...service.authority.issue({ name: 'exporter', passphrase }), passphrase };
    await using client = proxied(service, proxy, { clientCertificate });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(service.requests).toMatchObject([{ client: 'exporter' }]);
  });

  it('uses a rotated certificate at once when the handshake rejects the old one', async () => {
    await using service = await startPrivateService({ tls: demanding });
    const { cert: ca } = service.authority;
    const former = createAuthority({ name: 'Former CA' }).issue({ name: 'former' });
    const current = service.authority.issue({ name: 'current' });
    const network = aSource({ ca, clientCertificate: former }, { ca, clientCertificate: current });
    await using client = clientFor(service, { network });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(service.requests).toMatchObject([{ client: 'current' }]);
    expect(network.refreshes).toBe(1);
  });

  it('uses a rotated certificate at once when the service responds with 403', async () => {
    await using service = await startPrivateService({
      tls: { requestCert: true, rejectUnauthorized: false },
      listener: (_request, response) => {
        const isCurrent = service.requests.at(-1)?.client === 'current';
        response.statusCode = isCurrent ? 200 : 403;
        response.setHeader('content-type', 'application/xml').end(isCurrent ? twoReports : '');
      },
    });
    const { authority } = service;
    const [former, current] = [authority.issue({ name: 'former' }), authority.issue({ name: 'current' })];
    const ca = authority.cert;
    const network = aSource({ ca, clientCertificate: former }, { ca, clientCertificate: current });
    await using client = clientFor(service, { network });
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
    expect(service.requests.map(({ client: name }) => name)).toEqual(['former', 'current']);
  });

  const rejections = ['TLSv1.2', 'TLSv1.3'].flatMap((version) =>
    ['no certificate', 'one of another authority'].map((sent) => ({ version: version as 'TLSv1.2' | 'TLSv1.3', sent })),
  );
  const remedy =
    /client certificate.*tls\.clientCertificateSecret; on this machine, the files in tls\.clientCertificate and tls\.clientKey/;

  it.each(rejections)(
    'names the certificate as the likely cause if the service requires one: $version, $sent',
    async ({ version, sent }) => {
      await using service = await startPrivateService({ tls: { ...demanding, maxVersion: version } });
      await using proxy = await startProxy({ target: service });
      const ca = service.authority.cert;
      const clientCertificate =
        sent === 'no certificate' ? undefined : createAuthority({ name: 'Former CA' }).issue({ name: 'former' });
      const direct = clientFor(service, { network: aSource({ ca, clientCertificate }) });
      for (const client of [direct, proxied(service, proxy, { clientCertificate })]) {
        await using _ = client;
        const error = await failureOf(fetchPage(client, pageRequest()));
        // Three attempts before the first page of a run; later an outage. If the server's alert arrives in time, it is
        // sure.
        const isSure = /_ALERT_CERTIFICATE_REQUIRED/.test(error.message);
        expect(error.name).toBe(isSure ? 'ConfigurationError' : 'ServiceUnreachableError');
        expect(error.message).toMatch(remedy);
      }
      expect(service.requests).toEqual([]);
    },
  );

  it('names the certificate if the connection is reset right after the handshake', async () => {
    await using service = await startPrivateService({ listener: () => service.reset() });
    await using client = clientFor(service, { network: service.network });
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error).toMatchObject({ name: 'ServiceUnreachableError', cause: { code: 'ECONNRESET' } });
    expect(error.message).toMatch(remedy);
  });

  it.each(['closed', 'reset'])('sees an outage in a connection that is %s after a page', async (end) => {
    await using service = await startPrivateService({
      listener: (request, response) => {
        if (service.requests.length === 1) {
          response.setHeader('content-type', 'application/xml').end(twoReports);
        } else if (end === 'reset') service.reset();
        else request.socket.destroy();
      },
    });
    await using client = clientFor(service, { network: service.network });
    await readPage(fetchPage(client, pageRequest()));
    await nextTurn();
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(error.name).toBe('ServiceUnavailableError');
    expect(error.message).not.toContain('certificate');
    expect(service.resumed).toHaveLength(1);
  });

  const alerts = {
    bad: 42,
    unsupported: 43,
    revoked: 44,
    expired: 45,
    unknown: 46,
    unknownCa: 48,
    denied: 49,
    required: 116,
  };

  it.each(Object.entries(alerts))(
    'fails without a retry, and names the settings, if it is rejected: %s',
    async (_, alert) => {
      await using service = await startRawServer((socket) => void socket.destroy());
      const sendAlert = (socket: Socket) => {
        socket.once('data', () => socket.end(Buffer.from([0x15, 3, 3, 0, 2, 2, alert])));
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
      };
      await using proxy = await startProxy({ target: service, reject: sendAlert });
      const clientCertificate = createAuthority({ name: 'Former CA' }).issue({ name: 'former' });
      const network = aSource({ proxy: { origin: proxy.url }, clientCertificate });
      await using client = clientFor({ url: 'https://reports.internal.example' }, { network });
      const error = await failureOf(fetchPage(client, pageRequest()));
      expect(error.name).toBe('ConfigurationError');
      expect(error.message).toMatch(
        /client certificate.*\(ERR_SSL_.*tls\.clientCertificateSecret.*tls\.clientCertificate/,
      );
      expectNoKey(error, clientCertificate.key);
      expect(network.refreshes).toBe(1);
      expect(proxy.requests).toHaveLength(1);
    },
  );

  it('reports the closed connection if the certificate cannot be read again', async () => {
    await using service = await startPrivateService({ tls: demanding });
    const former = createAuthority({ name: 'Former CA' }).issue({ name: 'former' });
    const network = {
      ...aSource({ ca: service.authority.cert, clientCertificate: former }),
      refresh: async () => {
        throw new Error('Secrets Manager is throttling');
      },
    };
    await using client = clientFor(service, { network });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({ name: 'ServiceUnreachableError' });
  });
});
