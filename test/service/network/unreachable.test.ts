/** A service that cannot be reached at its address: real connections, and name servers that are replaced. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { anError, clientFor, failureOf, pageRequest } from '../../support/service/service-client.ts';
import { startPrivateService } from '../../support/service/private-service.ts';
import { fetchPage } from '../../support/builders.ts';

/** The error of a request for the first page. */
async function failureAt(url: string, options: Parameters<typeof clientFor>[1] = {}) {
  await using client = clientFor({ url }, options);
  return await failureOf(fetchPage(client, pageRequest()));
}

/** A connection pool whose name server answers every look-up with this error. */
function failingLookup(url: string, code: string): Pool {
  return new Pool(url, {
    connect: {
      lookup: (hostname, _, callback) =>
        callback(Object.assign(new Error(`getaddrinfo ${code} ${hostname}`), { code, hostname }), ''),
    },
  });
}

describe('a service that is probably not at this address', () => {
  it('has a host name that does not exist', async () => {
    const url = 'http://reports.example.invalid';
    const error = await failureAt(url, { createPool: () => failingLookup(url, 'ENOTFOUND') });
    expect(error).toMatchObject({
      name: 'ServiceUnreachableError',
      message:
        'Report service has a host name that does not exist (ENOTFOUND) for page 1 of run R. Check the host name in baseUrl',
      cause: { code: 'ENOTFOUND' },
    });
  });

  it('refuses the connection', async () => {
    const gone = createTcpServer().listen(0, '127.0.0.1');
    await once(gone, 'listening');
    const { port } = gone.address() as AddressInfo;
    gone.close();
    expect(await failureAt(`http://127.0.0.1:${port}`)).toMatchObject({
      name: 'ServiceUnreachableError',
      message:
        'Report service refused the connection (ECONNREFUSED) for page 1 of run R. ' +
        'Check the host name and the port in baseUrl, and that the service is running',
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('has a certificate for another host', async () => {
    await using server = await startPrivateService();
    expect(await failureAt(server.url.replace('127.0.0.1', 'localhost'), { network: server.network })).toMatchObject(
      anError(
        'ServiceUnreachableError',
        /\(ERR_TLS_CERT_ALTNAME_INVALID\) for page 1.*\. Check the host name in baseUrl, and/,
      ),
    );
  });

  it('responds with HTTP where HTTPS is expected', async () => {
    const server = createServer((_, response) => response.end()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await failureAt(`https://127.0.0.1:${port}`)).toMatchObject(
      anError(
        'ServiceUnreachableError',
        /handshake \(ERR_SSL_WRONG_VERSION_NUMBER\).*\. Check that the port in baseUrl/,
      ),
    );
    server.close();
  });

  it('closes the connection within the TLS handshake, as services do that reject a client certificate', async () => {
    const closing = createTcpServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(closing, 'listening');
    const { port } = closing.address() as AddressInfo;
    const error = await failureAt(`https://127.0.0.1:${port}`);
    expect(error).toMatchObject({ name: 'ServiceUnreachableError', cause: { code: 'ECONNRESET' } });
    expect(error.message).toMatch(
      /^Report service closed the connection during or right after the TLS handshake \(ECONNRESET\) for page 1 of run R\. /,
    );
    // Without TLS, it is an outage.
    expect(await failureAt(`http://127.0.0.1:${port}`)).toMatchObject({ name: 'ServiceUnavailableError' });
    closing.close();
  });

  it('supports other TLS versions only', async () => {
    await using server = await startPrivateService({ tls: { maxVersion: 'TLSv1.2' } });
    const dispatcher = new Pool(server.url, { connect: { minVersion: 'TLSv1.3' } });
    expect(await failureAt(server.url, { createPool: () => dispatcher })).toMatchObject(
      anError('ServiceUnreachableError', '(ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION)'),
    );
  });
});

describe('an outage', () => {
  it('is a name server that does not answer', async () => {
    const url = 'http://reports.example.invalid';
    expect(await failureAt(url, { createPool: () => failingLookup(url, 'EAI_AGAIN') })).toMatchObject({
      name: 'ServiceUnavailableError',
      message: 'Report service did not respond (EAI_AGAIN) for page 1 of run R',
    });
  });

  it('is a connection that breaks during the body, with whatever code', async () => {
    const broken = Object.assign(new Error('bad record'), { code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC' });
    await using server = await startPrivateService({
      listener: (_, response) => {
        response.writeHead(200, { 'content-type': 'application/xml;charset=UTF-8', 'content-length': '100' });
        response.write('<r>');
      },
    });
    const dispatcher = new Pool(server.url, { connect: { ca: server.authority.cert } });
    await using client = clientFor(server, { createPool: () => dispatcher });
    const sink = async (body: AsyncIterable<Uint8Array>) => {
      for await (const _ of body) await dispatcher.destroy(broken);
    };
    expect(await failureOf(client.fetch(pageRequest(), { sink }))).toMatchObject(
      anError('ServiceUnavailableError', /^Report service closed the connection after \d+ bytes of page 1/),
    );
  });
});
