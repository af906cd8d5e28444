/** Runs against real addresses that cannot be reached: a mistake in the settings fails at once, an outage is retried. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { Retry, RunEnd } from '../../lib/target/target.ts';
import { runLocally } from '../../lib/local/run.ts';
import type { NetworkSource } from '../../lib/service/network/network.ts';
import { onPage, redirect } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { anExportDefinition, anExportRequest } from '../support/builders.ts';
import { aDirectory } from '../support/process/command-line.ts';
import { startPrivateService } from '../support/service/private-service.ts';
import { twoReports } from '../support/service/raw-server.ts';
import { aCursor, clientFor, trickyApiKey } from '../support/service/service-client.ts';
import { someReports } from '../support/service/simulator-client.ts';

const definition = anExportDefinition({ request: anExportRequest({ size: 2 }) });

/** A run without delays between attempts. */
async function runAt(
  baseUrl: string,
  {
    out,
    maxAttempts,
    network,
  }: { readonly out: string; readonly maxAttempts?: number; readonly network?: NetworkSource },
): Promise<{ readonly end: RunEnd; readonly retries: readonly Retry[] }> {
  await using service = clientFor({ url: baseUrl }, { network });
  const retries: Retry[] = [];
  const end = await runLocally({
    definition,
    service,
    out,
    startInput: {},
    runtime: { ...systemRuntime, sleep: async () => {} },
    maxAttempts,
    emit: () => {},
    onRetry: (retry) => retries.push(retry),
  });
  return { end, retries };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}

describe('a service that refuses connections', () => {
  it('fails a run without a page after three attempts, with the remedy', async () => {
    const { end, retries } = await runAt(`http://127.0.0.1:${await freePort()}`, { out: await aDirectory() });
    expect(end).toMatchObject({
      status: 'failed',
      failed: {
        error: 'ServiceUnreachableError',
        message: expect.stringMatching(
          /refused the connection \(ECONNREFUSED\).*Check the host name and the port in baseUrl/,
        ),
        resumable: true,
      },
    });
    expect(retries.map(({ attempt, maxAttempts }) => [attempt, maxAttempts])).toEqual([
      [1, 2],
      [2, 2],
    ]);
  });

  it('is retried as an outage once the run has a page, as often as --max-attempts allows', async () => {
    const out = await aDirectory();
    const options = { vendor: 'SERVICE', apiKey: trickyApiKey, reports: inMemoryReports(someReports(5)) };
    const first = await startSimulator({ ...options, faults: onPage(2, redirect('https://elsewhere.example/')) });
    expect((await runAt(first.baseUrl, { out })).end).toMatchObject({ status: 'failed', failed: { pages: 1 } });
    await first.close();

    const outage = await runAt(first.baseUrl, { out, maxAttempts: 5 });
    expect(outage.end).toMatchObject({ status: 'failed', failed: { error: 'ServiceUnavailableError', pages: 1 } });
    expect(outage.retries.map(({ attempt, maxAttempts }) => [attempt, maxAttempts])).toEqual([
      [1, 4],
      [2, 4],
      [3, 4],
      [4, 4],
    ]);

    await using second = await startSimulator(options);
    expect((await runAt(second.baseUrl, { out })).end).toMatchObject({ status: 'completed', result: { pages: 3 } });
  });
});

describe('a service that demands a client certificate', () => {
  const trusting = (ca: string): NetworkSource => {
    const network = { ca };
    return { get: async () => network, refresh: async () => network };
  };

  it('fails a run without a page after three attempts, and names the settings of the certificate', async () => {
    // In TLS 1.3, it closes the connection after the handshake.
    await using service = await startPrivateService({
      tls: { requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.3' },
    });
    const network = trusting(service.authority.cert);
    const { end, retries } = await runAt(service.url, { out: await aDirectory(), network });
    expect(end).toMatchObject({
      status: 'failed',
      failed: { message: expect.stringMatching(/client certificate.*tls\.clientCertificateSecret/) },
    });
    // None, if the server's alert arrives before the connection is closed.
    expect(retries.length).toBeLessThanOrEqual(2);
  });

  it('is an outage once the run has a page: whatever closes connections then, the settings are right', async () => {
    await using service = await startPrivateService({
      listener: (request, response) => {
        if (service.requests.length > 1) request.socket.destroy();
        else {
          response.setHeader('content-type', 'application/xml').setHeader('x-service-cursor', aCursor);
          response.setHeader('connection', 'close').end(twoReports);
        }
      },
    });
    const network = trusting(service.authority.cert);
    const { end, retries } = await runAt(service.url, { out: await aDirectory(), network, maxAttempts: 5 });
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'ServiceUnavailableError', pages: 1 } });
    expect(retries).toHaveLength(4);
  });
});
