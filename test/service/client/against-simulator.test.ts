/** The client against the simulator, which keeps the service contract or breaks it on purpose. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import type { Fault } from '../../support/service/faults.ts';
import * as fault from '../../support/service/faults.ts';
import { generatedReports } from '../../../lib/service/simulator/generated-reports.ts';
import type { SimulatorOptions } from '../../support/service/simulator.ts';
import { startSimulator } from '../../support/service/simulator.ts';
import { clientFor, failureOf, pageRequest, readPage, trickyApiKey } from '../../support/service/service-client.ts';

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
    const page = await client.fetchPage(requestFor(cursor, size));
    const body = await readPage(page);
    pages.push({ reports: page.reports(), sha256: createHash('sha256').update(body).digest('hex') });
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
      expect((await failureOf(client.fetchPage(requestFor(cursor)).then(readPage))).name).toBe(
        'ServiceUnavailableError',
      );
      const page = await client.fetchPage(requestFor(cursor));
      await readPage(page);
      counts.push(page.reports());
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(counts).toEqual([10, 10, 5]);
  });
});

describe('a faulty service', () => {
  const cases: readonly (readonly [string, Fault, string])[] = [
    ['rejects the request', fault.errorResponse(400), 'RequestRejectedError'],
    ['throttles for seconds', fault.throttled('2'), 'ServiceThrottledError'],
    ['throttles until a date', fault.throttled(new Date(now() + 90_000), 503), 'ServiceThrottledError'],
    ['redirects', fault.redirect('https://elsewhere.example/'), 'RequestRejectedError'],
    ['resets the connection at once', fault.connectionReset('start'), 'ServiceUnavailableError'],
    ['closes the connection after the headers', fault.truncated(0), 'ServiceUnavailableError'],
    ['closes the connection between chunks', fault.truncated(100, 'chunked'), 'ServiceUnavailableError'],
    ['truncates a body without a length', fault.truncated(100, 'close'), 'ContractError'],
    ['sends malformed XML', fault.malformedXml, 'ContractError'],
    ['sends an empty body', fault.withBody(''), 'ContractError'],
    ['compresses the body', fault.gzipped, 'ContractError'],
    ['sends another content type', fault.withContentType('text/html'), 'ContractError'],
    ['sends an empty cursor', fault.withCursors(''), 'ContractError'],
    ['sends a cursor that is not ASCII', fault.withCursors('é'), 'ContractError'],
    ['repeats the cursor header', fault.repeatedCursor, 'ContractError'],
  ];
  it.each(cases)('that %s fails with a typed error', async (_, injected, name) => {
    await using simulator = await simulate({ faults: fault.always(injected) });
    await using client = clientFor({ url: simulator.baseUrl }, { now });
    const error = await failureOf(client.fetchPage(requestFor()).then(readPage));
    expect(error).toMatchObject({ name, message: expect.stringContaining('page 1 of run R') });
  });

  it.each([
    ['sends a byte at a time', fault.trickled(1, 5)],
    ['responds too late', fault.delayed(60_000)],
  ])('that %s fails after the total timeout', async (_, injected) => {
    await using simulator = await simulate({ faults: fault.always(injected) });
    await using client = clientFor({ url: simulator.baseUrl }, { totalTimeout: 300 });
    const error = await failureOf(client.fetchPage(requestFor()).then(readPage));
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('300 ms in total'),
    });
  });

  it('still serves pages without a date, with any framing, and with a header name in any case', async () => {
    const harmless = [
      fault.withoutDate,
      { framing: 'chunked' },
      { framing: 'close' },
      fault.withCursorHeader('X-Service-CURSOR'),
    ] as const;
    for (const injected of harmless) {
      await using simulator = await simulate({ faults: fault.always(injected) });
      await using client = clientFor({ url: simulator.baseUrl });
      expect((await fetchAll(client)).map(({ reports }) => reports)).toEqual([10, 10, 5]);
    }
  });

  it('sets Retry-After by its own clock', async () => {
    await using simulator = await simulate({ faults: fault.always(fault.throttled(new Date(now() + 90_000))) });
    await using client = clientFor({ url: simulator.baseUrl }, { now: () => 0 });
    expect(await failureOf(client.fetchPage(requestFor()))).toMatchObject({ retryAfterSeconds: 90 });
  });

  it('that no longer accepts a cursor fails with CursorRejectedError', async () => {
    await using simulator = await simulate({ faults: fault.onPage(2, fault.errorResponse(410)) });
    await using client = clientFor({ url: simulator.baseUrl });
    const { nextCursor, body } = await client.fetchPage(requestFor());
    await body[Symbol.asyncIterator]().return?.();
    expect(await failureOf(client.fetchPage(requestFor(nextCursor)))).toMatchObject({ name: 'CursorRejectedError' });
  });

  it('that expects another API key fails with ConfigurationError', async () => {
    await using simulator = await simulate({ apiKey: 'another' });
    await using client = clientFor({ url: simulator.baseUrl });
    expect(await failureOf(client.fetchPage(requestFor()))).toMatchObject({ name: 'ConfigurationError' });
  });
});
