/** A service that cannot be reached at its address. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { connectionError } from '../../../lib/service/client/connection-errors.ts';
import { anError, anErrorContext, clientFor, failureOf, pageRequest } from '../../support/service/service-client.ts';
import { startPrivateService } from '../../support/service/private-service.ts';
import { fetchPage } from '../../support/builders.ts';

/** The error of a request for the first page. */
async function failureAt(url: string, options: Parameters<typeof clientFor>[1] = {}) {
  await using client = clientFor({ url }, options);
  return await failureOf(fetchPage(client, pageRequest()));
}

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

it.each([
  [
    'ENOTFOUND',
    'ServiceUnreachableError',
    'has a host name that does not exist (ENOTFOUND) for page 1 of run R. Check the host name in baseUrl',
  ],
  [
    'ECONNREFUSED',
    'ServiceUnreachableError',
    'refused the connection (ECONNREFUSED) for page 1 of run R. Check the host name and the port in baseUrl, and that the service is running',
  ],
  // The name server does not answer.
  ['EAI_AGAIN', 'ServiceUnavailableError', 'did not respond (EAI_AGAIN) for page 1 of run R'],
])('an error %s before the response is a %s', (code, name, problem) => {
  const cause = Object.assign(new Error('no connection'), { code });
  const timeouts = { connectTimeout: 1, headersTimeout: 1, bodyTimeout: 1, totalTimeout: 1 };
  const error = connectionError(anErrorContext(), cause, { isLate: false, timeouts, bytesRead: undefined });
  expect(error).toMatchObject({ name, message: `Report service ${problem}`, cause: { code } });
});

describe('a service that is probably not at this address', () => {
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
    const server = createServer((_, response) => response.end());
    expect(await failureAt(`https://127.0.0.1:${await portOf(server)}`)).toMatchObject(
      anError(
        'ServiceUnreachableError',
        /handshake \(ERR_SSL_WRONG_VERSION_NUMBER\).*\. Check that the port in baseUrl/,
      ),
    );
    server.close();
  });

  it('closes the connection within the TLS handshake, as services do that reject a client certificate', async () => {
    const closing = createTcpServer((socket) => socket.destroy());
    const address = `127.0.0.1:${await portOf(closing)}`;
    const error = await failureAt(`https://${address}`);
    expect(error).toMatchObject({ name: 'ServiceUnreachableError', cause: { code: 'ECONNRESET' } });
    expect(error.message).toMatch(
      /^Report service closed the connection during or right after the TLS handshake \(ECONNRESET\) for page 1 of run R\. /,
    );
    // Without TLS, it is an outage.
    expect(await failureAt(`http://${address}`)).toMatchObject({ name: 'ServiceUnavailableError' });
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
