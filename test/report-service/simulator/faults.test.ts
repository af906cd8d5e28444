import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import {
  always,
  combined,
  cursorHeaderNamed,
  cursors,
  cursorTwice,
  cyclingCursor,
  delayed,
  dripping,
  emptyPage,
  expiringCursors,
  type FaultScript,
  gzipped,
  malformed,
  onPage,
  onRequest,
  redirecting,
  refusing,
  reset,
  throttled,
  together,
  truncated,
  typed,
  withBody,
  withoutDate,
} from '../../../lib/report-service/simulator/faults.ts';
import { givenReports } from '../../../lib/report-service/simulator/report-source.ts';
import type { Simulator } from '../../../lib/report-service/simulator/simulator.ts';
import {
  aBody,
  aReport,
  aSimulator,
  ask,
  askOnTheWire,
  childrenOf,
  refusalOf,
  someReports,
  theKey,
  walk,
} from '../../support/asking-the-simulator.ts';

const document = '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="r1"/><r id="r2"/><r id="r3"/></reports>';
const bySize = (size: number) => ({ fields: { size } });
/** A simulator with five reports. */
const faulty = (faults: FaultScript): Promise<Simulator> =>
  aSimulator({ reports: givenReports(someReports(5)), faults });
const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4);
const headOf = (text: string): string => text.slice(0, text.indexOf('\r\n\r\n') + 2);

describe('when faults strike', () => {
  it('on the nth request', async () => {
    await using simulator = await faulty(onRequest(2, refusing(503)));
    const statuses = [await ask(simulator), await ask(simulator), await ask(simulator)].map(({ status }) => status);
    expect(statuses).toEqual([200, 503, 200]);
  });

  it('on the first attempts at a page of the walk; the next attempt finds the page as it should be', async () => {
    await using simulator = await faulty(onPage(2, refusing(500), { times: 2 }));
    const { cursor } = await ask(simulator, bySize(2));
    const asking = { ...bySize(2), cursor: String(cursor) };
    const attempts = [await ask(simulator, asking), await ask(simulator, asking), await ask(simulator, asking)];
    expect(attempts.map(({ status }) => status)).toEqual([500, 500, 200]);
    expect(attempts[2]?.ids).toEqual(['r3', 'r4']);
  });

  it('together: faults of several scripts are combined', async () => {
    await using simulator = await faulty(
      together(onPage(1, withoutDate), onRequest(1, typed('text/plain')), onRequest(2, refusing(500))),
    );
    const { headers, status } = await ask(simulator);
    expect(status).toBe(200);
    expect(headers.date).toBeUndefined();
    expect(headers['content-type']).toBe('text/plain');
  });

  it('wherever a script of one’s own says: it is told request, page, attempt and cursor', async () => {
    const asked: unknown[] = [];
    await using simulator = await faulty((question) => void asked.push(question));
    const { cursor } = await ask(simulator, bySize(4));
    await ask(simulator, { ...bySize(4), cursor: String(cursor) });
    await ask(simulator, { ...bySize(4), cursor: String(cursor) });
    await ask(simulator, { ...bySize(9), cursor: 'not one of ours' });
    await ask(simulator, { method: 'GET' });
    expect(asked).toEqual([
      { request: 1, page: 1, attempt: 1, cursor: undefined },
      { request: 2, page: 2, attempt: 1, cursor },
      { request: 3, page: 2, attempt: 2, cursor },
      { request: 4, page: undefined, attempt: 1, cursor: 'not one of ours' },
      { request: 5, page: undefined, attempt: 1, cursor: undefined },
    ]);
  });
});

describe('answers other than a page', () => {
  it.each([400, 401, 403, 404, 408, 410, 429, 500, 502, 503])(
    'status %i, with a JSON body and no cursor',
    async (status) => {
      await using simulator = await faulty(always(refusing(status, 'no such luck')));
      const told = await ask(simulator, bySize(1));
      expect(refusalOf(told)).toEqual({ status, error: 'scripted', message: 'no such luck' });
      expect(told.headers['content-type']).toBe('application/json');
      expect(told.cursor).toBeUndefined();
    },
  );

  it('Retry-After in seconds and as an HTTP-date', async () => {
    const date = new Date('2026-11-20T02:00:00Z');
    await using simulator = await faulty(together(onRequest(1, throttled('120')), onRequest(2, throttled(date, 503))));
    const first = await ask(simulator);
    expect([first.status, first.headers['retry-after']]).toEqual([429, '120']);
    const second = await ask(simulator);
    expect([second.status, second.headers['retry-after']]).toEqual([503, 'Fri, 20 Nov 2026 02:00:00 GMT']);
  });

  it('a redirect', async () => {
    await using simulator = await faulty(always(redirecting('http://127.0.0.1:9/elsewhere', 307)));
    const told = await ask(simulator);
    expect([told.status, told.headers.location]).toEqual([307, 'http://127.0.0.1:9/elsewhere']);
  });

  it('any body at all, under the page’s own headers', async () => {
    await using simulator = await faulty(always(withBody('')));
    const told = await ask(simulator, bySize(1));
    expect([told.status, told.text, told.headers['content-length']]).toEqual([200, '', '0']);
    expect(told.cursor).toBeDefined();
  });
});

describe('pages that are not what they should be', () => {
  it('malformed XML of the promised length', async () => {
    await using simulator = await faulty(always(malformed));
    const told = await ask(simulator);
    expect(told.headers['content-length']).toBe(String(told.bytes.length));
    expect(() => childrenOf(told.text)).toThrow('unexpected close tag');
  });

  it('a wrong content-type', async () => {
    await using simulator = await faulty(always(typed('text/html')));
    expect((await ask(simulator)).headers['content-type']).toBe('text/html');
  });

  it('gzip, though nobody asked for it', async () => {
    await using simulator = await faulty(always(gzipped));
    const told = await ask(simulator);
    expect(told.headers['content-encoding']).toBe('gzip');
    expect(childrenOf(gunzipSync(told.bytes).toString())).toBe(5);
  });

  it('a content-length that is not true, in any case of its name', async () => {
    const fault = combined(withBody('<reports/>'), { headers: { 'Content-Length': '99' } }, truncated(10));
    await using simulator = await faulty(always(fault));
    const { text } = await askOnTheWire(simulator);
    expect(headOf(text).match(/content-length: .*/gi)).toEqual(['Content-Length: 99']);
    expect(bodyOf(text)).toBe('<reports/>');
  });

  it('no date header', async () => {
    await using simulator = await faulty(always(withoutDate));
    expect((await ask(simulator)).headers.date).toBeUndefined();
  });

  it('empty pages with a cursor: each cursor is another one, and no report is lost', async () => {
    const ties = givenReports(someReports(5).map((report) => ({ ...report, date: '2026-11-20T00:00:00Z' })));
    const script: FaultScript = ({ request: n }) => ([1, 2, 4, 6, 7].includes(n) ? emptyPage : undefined);
    await using simulator = await aSimulator({ reports: ties, faults: script });
    const pages = await walk(simulator, bySize(2));
    expect(pages.map(({ ids }) => ids)).toEqual([[], [], ['r1', 'r2'], [], ['r3', 'r4'], [], [], ['r5']]);
    expect(new Set(pages.map(({ cursor }) => cursor)).size).toBe(8);
  });
});

describe('cursor headers that are not what they should be', () => {
  const cursorLines = async (faults: FaultScript): Promise<string[]> => {
    await using simulator = await faulty(faults);
    const { text } = await askOnTheWire(simulator, { body: aBody({ size: 1 }) });
    return headOf(text)
      .split('\r\n')
      .filter((line) => /^x-service-cursor:/i.test(line));
  };
  const genuine = /^x-service-cursor: \d{13},[\da-f-]{36}$/;

  it('in another case', async () => {
    const lines = await cursorLines(always(cursorHeaderNamed('X-Service-Cursor')));
    expect(lines).toEqual([expect.stringMatching(/^X-Service-Cursor: \d{13},[\da-f-]{36}$/)]);
  });

  it('empty', async () => {
    expect(await cursorLines(always(cursors('')))).toEqual(['x-service-cursor: ']);
  });

  it('twice, the same or different', async () => {
    expect(await cursorLines(always(cursorTwice))).toEqual([
      expect.stringMatching(genuine),
      expect.stringMatching(genuine),
    ]);
    expect(await cursorLines(always(cursors('a', 'b')))).toEqual(['x-service-cursor: a', 'x-service-cursor: b']);
  });

  it('not ASCII: UTF-8 on the wire', async () => {
    const [line = ''] = await cursorLines(always(cursors('1763604000000,é→')));
    expect(Buffer.from(line, 'latin1').toString()).toBe('x-service-cursor: 1763604000000,é→');
  });

  it('missing, though more remains', async () => {
    expect(await cursorLines(always(cursors()))).toEqual([]);
  });

  it.each([
    { leadIn: 0, length: 1 },
    { leadIn: 0, length: 2 },
    { leadIn: 0, length: 3 },
    { leadIn: 2, length: 1 },
    { leadIn: 3, length: 4 },
  ])('going round: %j', async ({ leadIn, length }) => {
    await using simulator = await aSimulator({
      reports: givenReports(someReports(20)),
      faults: cyclingCursor({ leadIn, length }),
    });
    const seen: string[] = [];
    for (let cursor: string | undefined; seen.length < leadIn + 3 * length; seen.push(String(cursor))) {
      cursor = String((await ask(simulator, { ...bySize(1), cursor })).cursor);
    }
    const round = seen.slice(leadIn, leadIn + length);
    expect(new Set(seen.slice(0, leadIn + length)).size).toBe(leadIn + length);
    expect(seen.slice(leadIn)).toEqual([...round, ...round, ...round]);
  });

  it('a walk too short to go round ends as it should', async () => {
    await using simulator = await faulty(cyclingCursor({ length: 5 }));
    expect(await walk(simulator, bySize(1))).toHaveLength(5);
  });

  it('expired once: refused, then accepted again', async () => {
    await using simulator = await faulty(onPage(2, refusing(410)));
    const { cursor } = await ask(simulator, bySize(3));
    const again = () => ask(simulator, { ...bySize(3), cursor: String(cursor) });
    expect([(await again()).status, (await again()).status]).toEqual([410, 200]);
  });

  it('expired by age, or given out by a former instance: refused for good, while a new walk goes through', async () => {
    let now = 1_000_000;
    const aging = (): FaultScript => expiringCursors({ lifetimeMs: 60_000, now: () => now });
    await using simulator = await faulty(aging());
    const { cursor } = await ask(simulator, bySize(3));
    const again = (at: Simulator) => ask(at, { ...bySize(3), cursor: String(cursor) });
    now += 60_000;
    expect((await again(simulator)).status).toBe(200);
    now += 1;
    expect((await again(simulator)).status).toBe(410);
    expect(await walk(simulator, bySize(2))).toHaveLength(3);
    await using successor = await faulty(aging());
    expect((await again(successor)).status).toBe(410);
  });
});

describe('answers that are slow or break off', () => {
  it('a delay falls between choosing the page and the date header', async () => {
    const reports = [aReport(1), aReport(2)];
    const times = [Number(reports[0]?.date), Number(reports[1]?.date) + 5_000];
    await using simulator = await aSimulator({
      reports: { oldest: 0, from: (position, at) => onlyUntil(at, givenReports(reports).from(position, at)) },
      now: () => times.shift() ?? 0,
      faults: always(delayed(1)),
    });
    const told = await ask(simulator);
    expect(told.ids).toEqual(['r1']);
    expect(told.headers.date).toBe('Fri, 20 Nov 2026 00:00:07 GMT');
  });

  it('a drip arrives in pieces, and whole', async () => {
    await using simulator = await aSimulator({ faults: always(dripping(9, 2)) });
    const told = await request(`${simulator.baseUrl}/v1/report/export`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-api-key': theKey },
      body: aBody(),
    });
    const pieces: Buffer[] = [];
    for await (const piece of told.body) pieces.push(piece as Buffer);
    expect(Buffer.concat(pieces).toString()).toBe(document);
    expect(pieces.length).toBeGreaterThan(1);
  });

  it.each([0, 1, 50, document.length - 1])(
    'truncated after %i bytes, though content-length promised them all',
    async (at) => {
      await using simulator = await aSimulator({ faults: always(truncated(at)) });
      const { text, error } = await askOnTheWire(simulator);
      expect(headOf(text)).toContain(`content-length: ${document.length}\r\n`);
      expect(bodyOf(text)).toBe(document.slice(0, at));
      expect(error).toBeUndefined();
      await expect(ask(simulator)).rejects.toBeInstanceOf(Error);
      expect(simulator.exchanges).toMatchObject([
        { bytes: at, whole: false },
        { bytes: at, whole: false },
      ]);
    },
  );

  it('truncated in the middle of chunks', async () => {
    await using simulator = await aSimulator({ faults: always(truncated(50, 'chunked')) });
    const { text } = await askOnTheWire(simulator);
    expect(headOf(text).toLowerCase()).toContain('transfer-encoding: chunked\r\n');
    expect(headOf(text)).not.toContain('content-length');
    expect(bodyOf(text)).not.toContain('\r\n0\r\n');
    expect(bodyOf(text).replaceAll(/(^|\r\n)[\da-f]+\r\n|\r\n$/g, '')).toBe(document.slice(0, 50));
  });

  it('truncated with nothing promised: to the client it looks whole', async () => {
    await using simulator = await aSimulator({ faults: always(truncated(50, 'close')) });
    const { text, error } = await askOnTheWire(simulator);
    expect(headOf(text)).not.toContain('content-length');
    expect(headOf(text).toLowerCase()).not.toContain('transfer-encoding');
    expect(bodyOf(text)).toBe(document.slice(0, 50));
    expect(error).toBeUndefined();
    expect((await ask(simulator)).text).toBe(document.slice(0, 50));
  });

  it.each(['chunked', 'close'] as const)('framing %s alone does no harm to the page', async (framing) => {
    await using simulator = await aSimulator({ faults: always({ framing }) });
    const told = await ask(simulator);
    expect(told.text).toBe(document);
    expect(told.headers['content-length']).toBeUndefined();
  });

  it('reset before anything is sent', async () => {
    await using simulator = await aSimulator({ faults: always(reset('start')) });
    expect(await askOnTheWire(simulator)).toEqual({ text: '', error: 'ECONNRESET' });
    expect(simulator.exchanges).toMatchObject([{ status: 0, bytes: 0, whole: false }]);
  });

  it('closed in good order before anything is sent', async () => {
    await using simulator = await aSimulator({ faults: always({ cut: { at: 'start', by: 'end' } }) });
    expect(await askOnTheWire(simulator)).toEqual({ text: '', error: undefined });
  });

  it.each([0, 50])('reset after %i bytes of the body', async (at) => {
    await using simulator = await aSimulator({ faults: always(reset(at)) });
    expect((await askOnTheWire(simulator)).error).toBe('ECONNRESET');
    await expect(ask(simulator)).rejects.toBeInstanceOf(Error);
  });

  it('combined: a slow 503 that breaks off', async () => {
    const fault = combined(throttled('1', 503), delayed(1), dripping(4, 1), truncated(10));
    await using simulator = await aSimulator({ faults: always(fault) });
    const { text } = await askOnTheWire(simulator);
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(headOf(text)).toContain('retry-after: 1\r\n');
    expect(bodyOf(text)).toBe('{"error":"');
  });

  it('a page of megabytes broken off goes no further than it should', async () => {
    const reports = givenReports([aReport(1, { xml: `<r>${'é'.repeat(3_000_000)}</r>` })]);
    await using simulator = await aSimulator({ reports, faults: onRequest(1, truncated(4_000_001)) });
    const { text } = await askOnTheWire(simulator);
    expect(bodyOf(text)).toHaveLength(4_000_001);
    expect((await ask(simulator)).bytes).toHaveLength(document.length - 3 * 12 + 7 + 6_000_000);
  });
});

function* onlyUntil<Dated extends { readonly date: number }>(at: number, reports: Iterable<Dated>) {
  for (const report of reports) if (report.date <= at) yield report;
}
