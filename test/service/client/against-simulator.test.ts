/** The client against the simulator. What the client does with each response: responses.test.ts and response-body.test.ts. */

import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import * as fault from '../../support/service/faults.ts';
import { generatedReports } from '../../../lib/service/simulator/generated-reports.ts';
import type { SimulatorOptions } from '../../support/service/simulator.ts';
import { startSimulator } from '../../support/service/simulator.ts';
import { clientFor, failureOf, pageRequest, readPage, trickyApiKey } from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';

const now = () => Date.parse('2026-11-20T02:00:00Z');

const simulate = (options: Partial<SimulatorOptions> = {}) =>
  startSimulator({
    vendor: 'SERVICE',
    apiKey: trickyApiKey,
    reports: generatedReports({ seed: 1, count: 25, now }),
    now,
    ...options,
  });

function requestFor(cursor: Cursor | null = null, size = 10): PageRequest {
  return { ...pageRequest({ cursor, size }), since: '1970-01-01T00:00:00Z' as Instant };
}

/** Fetches every page. */
async function fetchAll(client: ReportService, size?: number) {
  const pages: { reports: number | null; sha256: string }[] = [];
  let cursor: Cursor | null = null;
  do {
    const page = await fetchPage(client, requestFor(cursor, size));
    const body = await readPage(page);
    pages.push({ reports: page.reports, sha256: createHash('sha256').update(body).digest('hex') });
    cursor = page.nextCursor;
  } while (cursor !== null);
  return pages;
}

describe('a run', () => {
  it.each([
    ['query', 10, [10, 10, 5]],
    ['body', 10, [10, 10, 5]],
    ['query', 5, [5, 5, 5, 5, 5]],
    ['query', undefined, [10, 10, 5]],
  ] as const)(
    'with the cursor in the %s and size %s receives every report, byte for byte',
    async (cursorIn, size, counts) => {
      await using simulator = await simulate({ vendor: 'Acme-2' });
      await using client = clientFor({ url: simulator.baseUrl }, { cursorIn, vendor: 'Acme-2' });
      const pages = await fetchAll(client, size);
      expect(pages.map(({ reports }) => reports)).toEqual(counts);
      expect(pages.map(({ sha256 }) => sha256)).toEqual(simulator.exchanges.map(({ sha256 }) => sha256));
    },
  );

  it('continues after each kind of failed response', async () => {
    const faults = fault.combineScripts(
      fault.onPage(1, fault.truncated(20)),
      fault.onPage(2, fault.connectionReset(0)),
      fault.onPage(3, fault.errorResponse(503)),
    );
    await using simulator = await simulate({ faults });
    await using client = clientFor({ url: simulator.baseUrl });
    const counts: (number | null)[] = [];
    let cursor: Cursor | null = null;
    do {
      expect((await failureOf(fetchPage(client, requestFor(cursor)).then(readPage))).name).toBe(
        'ServiceUnavailableError',
      );
      const page = await fetchPage(client, requestFor(cursor));
      await readPage(page);
      counts.push(page.reports);
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(counts).toEqual([10, 10, 5]);
  });

  it('continues after each response that lies about its encoding', async () => {
    const lies: readonly (readonly [name: string, lie: fault.Fault])[] = [
      ['ContractError', fault.encoded((gzip) => gzip, 'br')],
      ['ContractError', fault.encoded((gzip) => gzip, 'gzip, gzip')],
      ['ContractError', { headers: { 'content-encoding': 'gzip' } }],
      ['ContractError', fault.encoded((gzip) => Buffer.concat([gzip, gzip]))],
      [
        'ContractError',
        fault.encoded((gzip) => Buffer.concat([gzip.subarray(0, -8), Buffer.alloc(4), gzip.subarray(-4)])),
      ],
      ['ServiceUnavailableError', fault.encoded((gzip) => gzip.subarray(0, -8))],
      ['ServiceUnavailableError', fault.combineFaults(fault.gzipped, fault.truncated(100))],
      ['ConfigurationError', fault.encoded(() => gzipSync(Buffer.alloc(1_100_000, ' ')))],
    ];
    const faults = fault.combineScripts(...lies.map(([, lie], index) => fault.onRequest(index + 1, lie)));
    await using simulator = await simulate({ faults });
    await using client = clientFor({ url: simulator.baseUrl });
    for (const [name] of lies) {
      expect((await failureOf(fetchPage(client, requestFor()).then(readPage))).name).toBe(name);
    }
    const pages = await fetchAll(client);
    expect(pages.map(({ reports }) => reports)).toEqual([10, 10, 5]);
  });
});
