/** The faults that tests inject, as they arrive over a plain socket. */

import { describe, expect, it } from 'vitest';
import {
  always,
  combineFaults,
  combineScripts,
  connectionReset,
  delayed,
  errorDocument,
  errorResponse,
  type Fault,
  type FaultScript,
  htmlAsXml,
  malformedXml,
  onPage,
  onRequest,
  throttled,
  trickled,
  truncated,
  withBody,
  withContentType,
} from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import type { Simulator } from '../../support/service/simulator.ts';
import {
  aReport,
  countChildren,
  requestBody,
  sendRawRequest,
  sendRequest,
  someReports,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';

const document = '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="r1"/><r id="r2"/><r id="r3"/></reports>';
const firstPage = document.replace('<r id="r2"/><r id="r3"/>', '');
const startFaulty = (faults: FaultScript): Promise<Simulator> => startTestSimulator({ faults });

/** The response to a request for a page of one report, in Latin-1. */
async function received(fault: Fault, size?: number) {
  await using simulator = await startFaulty(always(fault));
  const { text, error } = await sendRawRequest(simulator, { body: requestBody({ size }) });
  const end = text.indexOf('\r\n\r\n');
  return { head: text.slice(0, end + 2), body: text.slice(end + 4), error, exchanges: simulator.exchanges };
}

describe('a fault script', () => {
  it('affects the nth request, or the first attempts at a page, and is combined with others', async () => {
    await using simulator = await startFaulty(
      combineScripts(
        onRequest(1, { headers: { date: null } }),
        onPage(1, withContentType('text/plain')),
        onPage(2, errorResponse(500), { times: 2 }),
      ),
    );
    const options = { fields: { size: 2 } };
    const { cursor, headers } = await sendRequest(simulator, options);
    expect([headers.date, headers['content-type']]).toEqual([undefined, 'text/plain']);
    const attempt = () => sendRequest(simulator, { ...options, cursor: String(cursor) });
    const attempts = [await attempt(), await attempt(), await attempt()];
    expect(attempts.map(({ status, ids }) => [status, ids])).toEqual([
      [500, []],
      [500, []],
      [200, ['r3']],
    ]);
  });

  it('receives request, page, attempt and cursor', async () => {
    const inputs: unknown[] = [];
    await using simulator = await startFaulty((input) => void inputs.push(input));
    const { cursor } = await sendRequest(simulator, { fields: { size: 2 } });
    await sendRequest(simulator, { fields: { size: 2 }, cursor: String(cursor) });
    await sendRequest(simulator, { fields: { size: 2 }, cursor: String(cursor) });
    await sendRequest(simulator, { fields: { size: 9 }, cursor: 'unknown-cursor' });
    await sendRequest(simulator, { method: 'GET' });
    expect(inputs).toEqual([
      { request: 1, page: 1, attempt: 1, cursor: undefined },
      { request: 2, page: 2, attempt: 1, cursor },
      { request: 3, page: 2, attempt: 2, cursor },
      { request: 4, page: undefined, attempt: 1, cursor: 'unknown-cursor' },
      { request: 5, page: undefined, attempt: 1, cursor: undefined },
    ]);
  });
});

describe('a fault', () => {
  it.each<[string, Fault, readonly RegExp[], string?]>([
    [
      'an error status',
      errorResponse(410, 'scripted message'),
      [/^HTTP\/1\.1 410 /, /content-type: application\/json\r\n/, /^(?![^]*cursor)/],
      '{"error":"scripted","message":"scripted message"}',
    ],
    ['Retry-After in seconds', throttled('120'), [/^HTTP\/1\.1 429 /, /retry-after: 120\r\n/]],
    [
      'Retry-After as a date',
      throttled(new Date('2026-11-20T02:00:00Z'), 503),
      [/^HTTP\/1\.1 503 /, /retry-after: Fri, 20 Nov 2026 02:00:00 GMT\r\n/],
    ],
    ['another body, with the headers of the page', withBody(''), [/content-length: 0\r\n/, /x-service-cursor: \d/], ''],
    ['another content type', withContentType('text/html'), [/content-type: text\/html\r\n/]],
    [
      'a wrong content-length, in any case of its name',
      combineFaults(withBody('<reports/>'), { headers: { 'Content-Length': '99' } }, truncated(10)),
      [/Content-Length: 99\r\n/, /^(?![^]*content-length)/],
      '<reports/>',
    ],
    ['an empty cursor', { cursor: () => [''] }, [/x-service-cursor: \r\n/]],
    ['two cursors', { cursor: () => ['a', 'b'] }, [/x-service-cursor: a\r\nx-service-cursor: b\r\n/]],
    [
      'a cursor that is not ASCII, in UTF-8',
      { cursor: () => ['1763604000000,é→'] },
      [RegExp(`x-service-cursor: ${Buffer.from('1763604000000,é→').toString('latin1')}\r`)],
    ],
    ['no cursor although more reports remain', { cursor: () => [] }, [/^(?![^]*cursor)/], firstPage],
    ['a body in small pieces', trickled(9, 2), [/content-length: \d+\r\n/], firstPage],
    ['a truncated body', truncated(50), [/content-length: \d+\r\n/], firstPage.slice(0, 50)],
    ['nothing but headers', truncated(0), [/content-length: \d+\r\n/], ''],
    [
      'a truncated body without length or chunks',
      truncated(50, 'close'),
      [/^(?![^]*(content-length|transfer-encoding))/i],
      firstPage.slice(0, 50),
    ],
    ['a body that ends with the connection', { framing: 'close' }, [/^(?![^]*content-length)/], firstPage],
    [
      'a slow 503 that is truncated',
      combineFaults(throttled('1', 503), delayed(1), trickled(4, 1), truncated(10)),
      [/^HTTP\/1\.1 503 /, /retry-after: 1\r\n/],
      '{"error":"',
    ],
  ])('is %s', async (_, fault, headers, body) => {
    const response = await received(fault, 1);
    for (const pattern of headers) expect(response.head).toMatch(pattern);
    expect(response.body).toBe(body ?? response.body);
    expect(response.error).toBeUndefined();
  });

  it.each([
    ['before anything is sent, by a reset', connectionReset('start'), 'ECONNRESET'],
    ['before anything is sent', { disconnect: { at: 'start', by: 'close' } } as const, undefined],
    ['after the headers, by a reset', connectionReset(0), 'ECONNRESET'],
    ['within the body, by a reset', connectionReset(50), 'ECONNRESET'],
  ])('closes the connection %s', async (_, fault, error) => {
    const response = await received(fault);
    expect(response.error).toBe(error);
    expect(response.exchanges).toMatchObject([{ isComplete: false }]);
  });

  it.each([
    ['an error document', errorDocument, '<error>'],
    ['HTML as XML', htmlAsXml, '<html xmlns="http://www.w3.org/1999/xhtml">'],
  ])('is %s, which is well-formed XML', async (_, fault, tag) => {
    await using simulator = await startFaulty(always(fault));
    const { text, headers } = await sendRequest(simulator);
    expect(text).toContain(tag);
    expect(countChildren(text)).toBeGreaterThan(0);
    expect(headers['content-type']).toBe('application/xml;charset=UTF-8');
  });

  it('is malformed XML with a correct content-length', async () => {
    await using simulator = await startFaulty(always(malformedXml));
    const malformed = await sendRequest(simulator);
    expect(malformed.headers['content-length']).toBe(String(malformed.bytes.length));
    expect(() => countChildren(malformed.text)).toThrow('unexpected close tag');
  });

  it('truncates a chunked body, and a page of several megabytes at the exact byte', async () => {
    const { head, body } = await received(truncated(50, 'chunked'));
    expect(head.toLowerCase()).toContain('transfer-encoding: chunked\r\n');
    expect(body.replaceAll(/(^|\r\n)[\da-f]+\r\n|\r\n$/g, '')).toBe(document.slice(0, 50));
    const reports = inMemoryReports([aReport(1, { xml: `<r>${'é'.repeat(3_000_000)}</r>` })]);
    await using simulator = await startTestSimulator({ reports, faults: always(truncated(4_000_001)) });
    const { text } = await sendRawRequest(simulator);
    expect(text.slice(text.indexOf('\r\n\r\n') + 4)).toHaveLength(4_000_001);
  });

  it('delays the response after selecting the page and before setting the date header', async () => {
    const times = [Date.UTC(2026, 10, 20, 0, 0, 1), Date.UTC(2026, 10, 20, 0, 0, 7)];
    const all = inMemoryReports(someReports(2));
    await using simulator = await startTestSimulator({
      reports: {
        oldest: 0,
        *from(position, at) {
          for (const report of all.from(position, at)) if (report.date <= at) yield report;
        },
      },
      now: () => times.shift() ?? 0,
      faults: always(delayed(1)),
    });
    const { ids, headers } = await sendRequest(simulator);
    expect([ids, headers.date]).toEqual([['r1'], 'Fri, 20 Nov 2026 00:00:07 GMT']);
  });
});
