/** Runs against real addresses that cannot be reached: a mistake in the settings fails at once, an outage is retried. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { Retry, RunEnd } from '../../lib/core/operations/deployment.ts';
import { runLocally } from '../../lib/local/run.ts';
import { onPage, redirect } from '../../lib/report-service/simulator/faults.ts';
import { inMemoryReports } from '../../lib/report-service/simulator/report-source.ts';
import { startSimulator } from '../../lib/report-service/simulator/simulator.ts';
import { anExportDefinition, anExportRequest } from '../support/builders.ts';
import { aDirectory } from '../support/process/command-line.ts';
import { clientFor, trickyApiKey } from '../support/service/service-client.ts';
import { someReports } from '../support/service/simulator-client.ts';

const definition = anExportDefinition({ request: anExportRequest({ size: 2 }) });

/** A run without delays between attempts. */
async function runAt(
  baseUrl: string,
  { out, maxAttempts }: { readonly out: string; readonly maxAttempts?: number },
): Promise<{ readonly end: RunEnd; readonly retries: readonly Retry[] }> {
  await using service = clientFor({ url: baseUrl });
  const retries: Retry[] = [];
  const end = await runLocally({
    definition,
    service,
    out,
    startInput: {},
    runtime: { ...systemRuntime, sleep: async () => {} },
    maxAttempts,
    openObserver: () => ({
      emit: () => {},
      onRetry: (retry) => retries.push(retry),
      close: () => {},
    }),
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
