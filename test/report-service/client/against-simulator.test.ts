/** Both ends of the contract together: the client against a service that keeps it, and that breaks it on purpose. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Cursor, Instant } from '../../../lib/core/model.ts';
import type { PageRequest, ReportService } from '../../../lib/core/ports.ts';
import type { Fault } from '../../../lib/report-service/simulator/faults.ts';
import * as fault from '../../../lib/report-service/simulator/faults.ts';
import { generatedReports } from '../../../lib/report-service/simulator/generated-reports.ts';
import type { SimulatorOptions } from '../../../lib/report-service/simulator/simulator.ts';
import { startSimulator } from '../../../lib/report-service/simulator/simulator.ts';
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

function ask(cursor: Cursor | null = null, size = 10): PageRequest {
  return { ...pageRequest({ cursor, size }), since: '1970-01-01T00:00:00Z' as Instant };
}

/** What a walk over all pages gives. */
async function walk(client: ReportService, size?: number) {
  const pages: { reports: number | null; sha256: string }[] = [];
  let cursor: Cursor | null = null;
  do {
    const page = await client.fetchPage(ask(cursor, size));
    const body = await readPage(page);
    pages.push({ reports: page.reports(), sha256: createHash('sha256').update(body).digest('hex') });
    cursor = page.nextCursor;
  } while (cursor !== null);
  return pages;
}

describe('a walk', () => {
  it.each([
    ['query', 10, [10, 10, 5]],
    ['body', 10, [10, 10, 5]],
    ['query', 5, [5, 5, 5, 5, 5]],
    ['query', undefined, [10, 10, 5]],
  ] as const)(
    'by %s with size %s meets every report, and its bytes are those that were sent',
    async (cursorIn, size, counts) => {
      await using simulator = await simulate({ vendor: 'Acme-2' });
      await using client = clientFor({ url: simulator.baseUrl }, { cursorIn, vendor: 'Acme-2' });
      const pages = await walk(client, size);
      expect(pages.map(({ reports }) => reports)).toEqual(counts);
      expect(pages.map(({ sha256 }) => sha256)).toEqual(simulator.exchanges.map(({ sha256 }) => sha256));
    },
  );

  it('takes up where a broken page left it', async () => {
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
      expect((await failureOf(client.fetchPage(ask(cursor)).then(readPage))).name).toBe('ServiceUnavailableError');
      const page = await client.fetchPage(ask(cursor));
      await readPage(page);
      counts.push(page.reports());
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(counts).toEqual([10, 10, 5]);
  });
});

describe('a service that errs', () => {
  const cases: readonly (readonly [string, Fault, string])[] = [
    ['refuses', fault.errorResponse(400), 'RequestRejectedError'],
    ['asks for patience', fault.throttled('2'), 'ServiceThrottledError'],
    ['asks for patience till a date', fault.throttled(new Date(now() + 90_000), 503), 'ServiceThrottledError'],
    ['points elsewhere', fault.redirect('https://elsewhere.example/'), 'RequestRejectedError'],
    ['hangs up at once', fault.connectionReset('start'), 'ServiceUnavailableError'],
    ['hangs up after the headers', fault.truncated(0), 'ServiceUnavailableError'],
    ['hangs up between chunks', fault.truncated(100, 'chunked'), 'ServiceUnavailableError'],
    ['hangs up where nobody can tell', fault.truncated(100, 'close'), 'ContractError'],
    ['closes its root wrongly', fault.malformedXml, 'ContractError'],
    ['sends nothing', fault.withBody(''), 'ContractError'],
    ['compresses', fault.gzipped, 'ContractError'],
    ['sends another type', fault.withContentType('text/html'), 'ContractError'],
    ['sends an empty cursor', fault.withCursors(''), 'ContractError'],
    ['sends an odd cursor', fault.withCursors('é'), 'ContractError'],
    ['sends its cursor twice', fault.repeatedCursor, 'ContractError'],
  ];
  it.each(cases)('in that it %s is understood', async (_, mishap, name) => {
    await using simulator = await simulate({ faults: fault.always(mishap) });
    await using client = clientFor({ url: simulator.baseUrl }, { now });
    const error = await failureOf(client.fetchPage(ask()).then(readPage));
    expect(error).toMatchObject({ name, message: expect.stringContaining('page 1 of run R') });
  });

  it.each([
    ['drips', fault.trickled(1, 5)],
    ['dawdles', fault.delayed(60_000)],
  ])('in that it %s is given up', async (_, mishap) => {
    await using simulator = await simulate({ faults: fault.always(mishap) });
    await using client = clientFor({ url: simulator.baseUrl }, { limits: { totalTimeoutMs: 300 } });
    const error = await failureOf(client.fetchPage(ask()).then(readPage));
    expect(error).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('300 ms in total'),
    });
  });

  it('only in the date it leaves out, the framing or the letters of a header, serves a page all the same', async () => {
    const mishaps = [
      fault.withoutDate,
      { framing: 'chunked' },
      { framing: 'close' },
      fault.withCursorHeader('X-Service-CURSOR'),
    ] as const;
    for (const mishap of mishaps) {
      await using simulator = await simulate({ faults: fault.always(mishap) });
      await using client = clientFor({ url: simulator.baseUrl });
      expect((await walk(client)).map(({ reports }) => reports)).toEqual([10, 10, 5]);
    }
  });

  it('says till when to wait by its own clock', async () => {
    await using simulator = await simulate({ faults: fault.always(fault.throttled(new Date(now() + 90_000))) });
    await using client = clientFor({ url: simulator.baseUrl }, { now: () => 0 });
    expect(await failureOf(client.fetchPage(ask()))).toMatchObject({ retryAfterSeconds: 90 });
  });

  it('drops a cursor, which is not the request’s fault', async () => {
    await using simulator = await simulate({ faults: fault.onPage(2, fault.errorResponse(410)) });
    await using client = clientFor({ url: simulator.baseUrl });
    const { nextCursor, body } = await client.fetchPage(ask());
    await body[Symbol.asyncIterator]().return?.();
    expect(await failureOf(client.fetchPage(ask(nextCursor)))).toMatchObject({ name: 'CursorRejectedError' });
  });

  it('knows another key', async () => {
    await using simulator = await simulate({ apiKey: 'another' });
    await using client = clientFor({ url: simulator.baseUrl });
    expect(await failureOf(client.fetchPage(ask()))).toMatchObject({ name: 'ConfigurationError' });
  });
});
