import { once } from 'node:events';
import { connect } from 'node:net';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { always, delayed, dripping } from '../../../lib/report-service/simulator/faults.ts';
import { generatedReports } from '../../../lib/report-service/simulator/generated-reports.ts';
import type { Exchange } from '../../../lib/report-service/simulator/handler.ts';
import { givenReports, type ReportSource } from '../../../lib/report-service/simulator/report-source.ts';
import {
  aBody,
  aReport,
  aSimulator,
  ask,
  childrenOf,
  refusalOf,
  someReports,
  theKey,
  walk,
} from '../../support/asking-the-simulator.ts';
import { sha256Of } from '../../support/builders.ts';

describe('an instance and its successor', () => {
  it('a walk that one instance began is continued by the next, with the same pages', async () => {
    const asking = { fields: { size: 2 } };
    const reports = () => givenReports(someReports(7).map((report) => ({ ...report, date: '2026-11-20T00:00:00Z' })));
    await using whole = await aSimulator({ reports: reports(), seed: 7 });
    const pages = await walk(whole, asking);
    let cursor: string | undefined;
    for (const page of pages) {
      await using instance = await aSimulator({ reports: reports(), seed: 7 });
      const told = await ask(instance, { ...asking, cursor });
      expect(told.bytes).toEqual(page.bytes);
      expect(told.cursor).toEqual(page.cursor);
      cursor = told.cursor as string | undefined;
    }
    expect(pages.flatMap((page) => page.ids)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7']);
  });

  it('an instance of another seed or vendor refuses the cursor', async () => {
    await using one = await aSimulator({ seed: 1 });
    const { cursor } = await ask(one, { fields: { size: 1 } });
    const again = { fields: { size: 1 }, cursor: String(cursor) };
    await using otherSeed = await aSimulator({ seed: 2 });
    expect(refusalOf(await ask(otherSeed, again)).error).toBe('invalid_cursor');
    const key = 'key-of-acme';
    await using otherVendor = await aSimulator({ seed: 1, vendor: 'acme', apiKey: key });
    const told = await ask(otherVendor, { ...again, headers: { 'x-acme-api-key': key } });
    expect(refusalOf(told).error).toBe('invalid_cursor');
  });
});

describe('starting and closing', () => {
  it('says where it listens, on loopback alone', async () => {
    await using simulator = await aSimulator();
    expect(simulator.baseUrl).toBe(`http://127.0.0.1:${simulator.port}`);
    expect((await ask(simulator)).status).toBe(200);
  });

  it('a port that is taken is an error that names it', async () => {
    await using simulator = await aSimulator();
    await expect(aSimulator({ port: simulator.port })).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: `The simulator cannot listen on port ${simulator.port} of 127.0.0.1`,
      cause: { code: 'EADDRINUSE' },
    });
  });

  it.each([{ vendor: '' }, { vendor: 'a b' }, { vendor: 'x:y' }, { apiKey: '' }])('%j is refused', async (options) => {
    await expect(aSimulator(options)).rejects.toMatchObject({ name: 'ConfigurationError' });
  });

  it('closes with idle, fresh and waiting connections open, and as often as it is told to', async () => {
    const simulator = await aSimulator({ faults: ({ request }) => (request > 1 ? delayed(3_600_000) : undefined) });
    await ask(simulator);
    const fresh = connect(simulator.port, '127.0.0.1');
    await once(fresh, 'connect');
    const freshClosed = once(fresh, 'close');
    const waiting = ask(simulator).catch((error: unknown) => error);
    const half = connect(simulator.port, '127.0.0.1').on('error', () => {});
    half.write('POST /v1/report/export HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n123');
    await once(half, 'connect');
    const halfClosed = new Promise((resolve) => half.on('close', resolve));
    await Promise.all([simulator.close(), simulator.close()]);
    await Promise.all([freshClosed, halfClosed]);
    expect(await waiting).toBeInstanceOf(Error);
    await expect(ask(simulator)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('closes in the middle of an answer', async () => {
    const simulator = await aSimulator({ faults: always(dripping(1, 3_600_000)) });
    const told = await request(`${simulator.baseUrl}/v1/report/export`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-api-key': theKey },
      body: aBody(),
    });
    expect(told.statusCode).toBe(200);
    const body = told.body.text().catch((error: unknown) => error);
    await simulator.close();
    expect(await body).toBeInstanceOf(Error);
    expect(simulator.exchanges).toMatchObject([{ status: 200, whole: false }]);
  });
});

describe('what is noted of an exchange', () => {
  it('what was asked and what was answered', async () => {
    const heard: Exchange[] = [];
    await using simulator = await aSimulator({ onExchange: (exchange) => heard.push(exchange) });
    const first = await ask(simulator, { fields: { size: 2 } });
    const second = await ask(simulator, { fields: { size: 2 }, cursor: String(first.cursor) });
    expect(heard).toEqual(simulator.exchanges);
    expect(heard).toMatchObject([
      {
        number: 1,
        method: 'POST',
        target: '/v1/report/export',
        requestBody: { format: 'XML', container: 'NONE', size: 2 },
        requestHeaders: { 'content-type': 'application/json' },
        cursor: undefined,
        status: 200,
        nextCursors: [first.cursor],
        reports: ['r1', 'r2'],
        bytes: first.bytes.length,
        sha256: sha256Of(first.bytes),
        whole: true,
      },
      {
        number: 2,
        cursor: first.cursor,
        nextCursors: [],
        reports: ['r3'],
        sha256: sha256Of(second.bytes),
        whole: true,
      },
    ]);
  });

  it('a body that is not JSON is noted as text, and the refusal with it', async () => {
    await using simulator = await aSimulator();
    await ask(simulator, { body: '{nonsense' });
    expect(simulator.exchanges).toMatchObject([
      { requestBody: '{nonsense', status: 400, reports: [], cursor: undefined },
    ]);
  });

  it('a report that cannot be found is a 500 with the reason, and the service lives on', async () => {
    const broken = new Error('the shelf fell over');
    let failing = true;
    const given = givenReports([aReport(1)]);
    const reports: ReportSource = {
      oldest: given.oldest,
      from(position, at) {
        if (failing) throw broken;
        return given.from(position, at);
      },
    };
    await using simulator = await aSimulator({ reports });
    const refusal = { status: 500, error: 'internal_error', message: 'the shelf fell over' };
    expect(refusalOf(await ask(simulator))).toEqual(refusal);
    expect(simulator.exchanges.at(-1)?.problem).toBe(broken);
    failing = false;
    expect((await ask(simulator)).ids).toEqual(['r1']);
  });
});

describe('given reports', () => {
  it('are sorted by date, and those of one date stay in the order given', async () => {
    const reports = [aReport(5), aReport(1, { date: '2026-11-20T00:00:05Z' }), aReport(3), aReport(9, { date: 0 })];
    await using simulator = await aSimulator({ reports: givenReports(reports) });
    expect((await ask(simulator)).ids).toEqual(['r9', 'r3', 'r5', 'r1']);
  });

  it.each(['yesterday', -1, 1e13])('a report dated %j is refused: no cursor could hold it', (date) => {
    expect(() => givenReports([aReport(1, { date })])).toThrow('Report r1 is not dated between 1970 and 2286');
  });
});

describe('generated reports', () => {
  const start = Date.UTC(2026, 10, 20);
  const sourceAt = (now: number, overrides: { seed?: number; count?: number } = {}) =>
    generatedReports({ seed: 1, count: 25, now: () => now, ...overrides });
  const ids = (text: string) => Array.from(text.matchAll(/<report id="R-(\d+)"/g), ([, k]) => Number(k));

  it('two instances of one seed serve the same bytes and cursors, another seed serves others', async () => {
    const walked = async (seed: number) => {
      await using simulator = await aSimulator({ reports: sourceAt(start, { seed }), seed, now: () => start });
      return (await walk(simulator, { fields: { size: 10 } })).map(({ text, cursor }) => ({ text, cursor }));
    };
    const pages = await walked(1);
    expect(pages).toHaveLength(3);
    expect(await walked(1)).toEqual(pages);
    expect((await walked(2)).map(({ text }) => text)).not.toEqual(pages.map(({ text }) => text));
  });

  it('holds the newest at its beginning, and the later ones as their dates come', async () => {
    let now = start;
    await using simulator = await aSimulator({ reports: sourceAt(start), now: () => now });
    const first = (await walk(simulator)).flatMap(({ text }) => ids(text));
    expect(first).toHaveLength(25);
    expect(first.at(-1)).toBe(start / 10_000);
    now += 29_999;
    const filter = { date: { gte: new Date(start + 1).toISOString() } };
    expect((await walk(simulator, { fields: { filter } })).flatMap(({ text }) => ids(text))).toEqual([
      start / 10_000 + 1,
      start / 10_000 + 2,
    ]);
  });

  it('a later instance finds the reports that came after a former walk', async () => {
    const later = start + 60_000;
    await using simulator = await aSimulator({ reports: sourceAt(later), now: () => later });
    const filter = { date: { gte: new Date(start + 1).toISOString() } };
    expect((await walk(simulator, { fields: { filter } })).flatMap(({ text }) => ids(text))).toHaveLength(6);
  });

  it('a walk begun long ago goes on without a gap at an instance whose newest reports lie far behind it', async () => {
    const asking = { fields: { size: 10 } };
    await using former = await aSimulator({ reports: sourceAt(start), now: () => start });
    const first = await ask(former, asking);
    const later = start + 86_400_000;
    await using latter = await aSimulator({ reports: sourceAt(later), now: () => later });
    const second = await ask(latter, { ...asking, cursor: String(first.cursor) });
    expect(ids(second.text)[0]).toBe((ids(first.text).at(-1) ?? 0) + 1);
  });

  it('can be none, or far too many to hold, and is walked from anywhere', async () => {
    await using none = await aSimulator({ reports: sourceAt(start, { count: 0 }), now: () => start });
    expect(ids((await ask(none)).text)).toEqual([]);
    await using many = await aSimulator({ reports: sourceAt(start, { count: 100_000_000 }), now: () => start });
    const filter = { date: { gte: '2020-01-01T00:00:00Z' } };
    expect(ids((await ask(many, { fields: { filter, size: 1 } })).text)).toEqual([Date.UTC(2020, 0, 1) / 10_000]);
  });

  it.each([{ count: -1 }, { count: 1.5 }, { intervalSeconds: 0 }, { intervalSeconds: Number.NaN }])(
    '%j is refused',
    (wrong) => {
      expect(() => generatedReports({ seed: 1, count: 1, ...wrong })).toThrow('a count from 0 and a positive interval');
    },
  );

  it('holds what real reports hold, and is well-formed', async () => {
    await using simulator = await aSimulator({ reports: sourceAt(start, { count: 300 }), now: () => start });
    const pages = await walk(simulator);
    const text = pages.map((page) => page.text).join('');
    for (const trait of [
      /<!\[CDATA\[/,
      /<!--/,
      /&amp;/,
      /&#xD7;/,
      /[À-ž]/,
      /山田/,
      /🧾/,
      /xmlns:ext=/,
      /<reserved\/>/,
    ]) {
      expect(text).toMatch(trait);
    }
    const sizes = pages.map((page) => page.bytes.length / ids(page.text).length);
    for (const size of sizes) expect(size).toBeGreaterThan(300);
    for (const size of sizes) expect(size).toBeLessThan(4_000);
    for (const page of pages) expect(childrenOf(page.text)).toBe(100);
  });
});
