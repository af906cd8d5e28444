import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import {
  always,
  combineFaults,
  combineScripts,
  connectionReset,
  delayed,
  errorDocument,
  errorResponse,
  type FaultScript,
  gzipped,
  htmlAsXml,
  malformedXml,
  onPage,
  onRequest,
  otherNamespace,
  redirect,
  repeatedCursor,
  throttled,
  trickled,
  truncated,
  withBody,
  withContentType,
  withCursorHeader,
  withCursors,
  withoutDate,
} from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import type { Simulator } from '../../support/service/simulator.ts';
import {
  aReport,
  countChildren,
  errorOf,
  requestBody,
  sendRawRequest,
  sendRequest,
  simulatorApiKey,
  someReports,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';

const document = '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="r1"/><r id="r2"/><r id="r3"/></reports>';
const withSize = (size: number) => ({ fields: { size } });
/** A simulator with five reports. */
const startFaulty = (faults: FaultScript): Promise<Simulator> =>
  startTestSimulator({ reports: inMemoryReports(someReports(5)), faults });
const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4);
const headersOf = (text: string): string => text.slice(0, text.indexOf('\r\n\r\n') + 2);

describe('fault scripts', () => {
  it('onRequest affects the nth request', async () => {
    await using simulator = await startFaulty(onRequest(2, errorResponse(503)));
    const statuses = [await sendRequest(simulator), await sendRequest(simulator), await sendRequest(simulator)].map(
      ({ status }) => status,
    );
    expect(statuses).toEqual([200, 503, 200]);
  });

  it('onPage affects the first attempts at a page; the next attempt succeeds', async () => {
    await using simulator = await startFaulty(onPage(2, errorResponse(500), { times: 2 }));
    const { cursor } = await sendRequest(simulator, withSize(2));
    const options = { ...withSize(2), cursor: String(cursor) };
    const attempts = [
      await sendRequest(simulator, options),
      await sendRequest(simulator, options),
      await sendRequest(simulator, options),
    ];
    expect(attempts.map(({ status }) => status)).toEqual([500, 500, 200]);
    expect(attempts[2]?.ids).toEqual(['r3', 'r4']);
  });

  it('combineScripts combines the faults of several scripts', async () => {
    await using simulator = await startFaulty(
      combineScripts(
        onPage(1, withoutDate),
        onRequest(1, withContentType('text/plain')),
        onRequest(2, errorResponse(500)),
      ),
    );
    const { headers, status } = await sendRequest(simulator);
    expect(status).toBe(200);
    expect(headers.date).toBeUndefined();
    expect(headers['content-type']).toBe('text/plain');
  });

  it('a custom script receives request, page, attempt and cursor', async () => {
    const inputs: unknown[] = [];
    await using simulator = await startFaulty((input) => void inputs.push(input));
    const { cursor } = await sendRequest(simulator, withSize(4));
    await sendRequest(simulator, { ...withSize(4), cursor: String(cursor) });
    await sendRequest(simulator, { ...withSize(4), cursor: String(cursor) });
    await sendRequest(simulator, { ...withSize(9), cursor: 'unknown-cursor' });
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

describe('error responses', () => {
  it.each([400, 401, 403, 404, 408, 410, 429, 500, 502, 503])(
    'sends status %i with a JSON body and no cursor',
    async (status) => {
      await using simulator = await startFaulty(always(errorResponse(status, 'scripted message')));
      const response = await sendRequest(simulator, withSize(1));
      expect(errorOf(response)).toEqual({ status, error: 'scripted', message: 'scripted message' });
      expect(response.headers['content-type']).toBe('application/json');
      expect(response.cursor).toBeUndefined();
    },
  );

  it('sends Retry-After in seconds and as an HTTP date', async () => {
    const date = new Date('2026-11-20T02:00:00Z');
    await using simulator = await startFaulty(
      combineScripts(onRequest(1, throttled('120')), onRequest(2, throttled(date, 503))),
    );
    const first = await sendRequest(simulator);
    expect([first.status, first.headers['retry-after']]).toEqual([429, '120']);
    const second = await sendRequest(simulator);
    expect([second.status, second.headers['retry-after']]).toEqual([503, 'Fri, 20 Nov 2026 02:00:00 GMT']);
  });

  it('redirects', async () => {
    await using simulator = await startFaulty(always(redirect('http://127.0.0.1:9/other', 307)));
    const response = await sendRequest(simulator);
    expect([response.status, response.headers.location]).toEqual([307, 'http://127.0.0.1:9/other']);
  });

  it('sends any body with the headers of the page', async () => {
    await using simulator = await startFaulty(always(withBody('')));
    const response = await sendRequest(simulator, withSize(1));
    expect([response.status, response.text, response.headers['content-length']]).toEqual([200, '', '0']);
    expect(response.cursor).toBeDefined();
  });
});

describe('invalid pages', () => {
  it('malformed XML with a correct content-length', async () => {
    await using simulator = await startFaulty(always(malformedXml));
    const response = await sendRequest(simulator);
    expect(response.headers['content-length']).toBe(String(response.bytes.length));
    expect(() => countChildren(response.text)).toThrow('unexpected close tag');
  });

  it.each([
    ['an error document', errorDocument, '<error>', undefined],
    ['HTML as XML', htmlAsXml, '<html xmlns="http://www.w3.org/1999/xhtml">', undefined],
    ['the page in another namespace', otherNamespace, '<reports xmlns="urn:example:reports:v2">', expect.any(String)],
  ])('%s, which is well-formed XML', async (_, fault, tag, cursor) => {
    await using simulator = await startFaulty(always(fault));
    const response = await sendRequest(simulator, withSize(1));
    expect(response).toMatchObject({ status: 200, cursor });
    expect(response.headers['content-type']).toBe('application/xml;charset=UTF-8');
    expect(response.text).toContain(tag);
    expect(countChildren(response.text)).toBeGreaterThan(0);
  });

  it('a wrong content-type', async () => {
    await using simulator = await startFaulty(always(withContentType('text/html')));
    expect((await sendRequest(simulator)).headers['content-type']).toBe('text/html');
  });

  it('gzip that the client did not request', async () => {
    await using simulator = await startFaulty(always(gzipped));
    const response = await sendRequest(simulator);
    expect(response.headers['content-encoding']).toBe('gzip');
    expect(countChildren(gunzipSync(response.bytes).toString())).toBe(5);
  });

  it('a wrong content-length, in any case of its name', async () => {
    const fault = combineFaults(withBody('<reports/>'), { headers: { 'Content-Length': '99' } }, truncated(10));
    await using simulator = await startFaulty(always(fault));
    const { text } = await sendRawRequest(simulator);
    expect(headersOf(text).match(/content-length: .*/gi)).toEqual(['Content-Length: 99']);
    expect(bodyOf(text)).toBe('<reports/>');
  });

  it('no date header', async () => {
    await using simulator = await startFaulty(always(withoutDate));
    expect((await sendRequest(simulator)).headers.date).toBeUndefined();
  });
});

describe('invalid cursors', () => {
  const cursorLines = async (faults: FaultScript): Promise<string[]> => {
    await using simulator = await startFaulty(faults);
    const { text } = await sendRawRequest(simulator, { body: requestBody({ size: 1 }) });
    return headersOf(text)
      .split('\r\n')
      .filter((line) => /^x-service-cursor:/i.test(line));
  };
  const regular = /^x-service-cursor: \d{13},[\da-f-]{36}$/;

  it('a header name in another case', async () => {
    const lines = await cursorLines(always(withCursorHeader('X-Service-Cursor')));
    expect(lines).toEqual([expect.stringMatching(/^X-Service-Cursor: \d{13},[\da-f-]{36}$/)]);
  });

  it('an empty header', async () => {
    expect(await cursorLines(always(withCursors('')))).toEqual(['x-service-cursor: ']);
  });

  it('two headers, equal or different', async () => {
    expect(await cursorLines(always(repeatedCursor))).toEqual([
      expect.stringMatching(regular),
      expect.stringMatching(regular),
    ]);
    expect(await cursorLines(always(withCursors('a', 'b')))).toEqual(['x-service-cursor: a', 'x-service-cursor: b']);
  });

  it('characters other than ASCII, sent as UTF-8', async () => {
    const [line = ''] = await cursorLines(always(withCursors('1763604000000,é→')));
    expect(Buffer.from(line, 'latin1').toString()).toBe('x-service-cursor: 1763604000000,é→');
  });

  it('no header although more reports remain', async () => {
    expect(await cursorLines(always(withCursors()))).toEqual([]);
  });

  it('a cursor that is rejected once, then accepted', async () => {
    await using simulator = await startFaulty(onPage(2, errorResponse(410)));
    const { cursor } = await sendRequest(simulator, withSize(3));
    const retry = () => sendRequest(simulator, { ...withSize(3), cursor: String(cursor) });
    expect([(await retry()).status, (await retry()).status]).toEqual([410, 200]);
  });
});

describe('slow and interrupted responses', () => {
  it('delays the response after selecting the page and before setting the date header', async () => {
    const reports = [aReport(1), aReport(2)];
    const times = [Number(reports[0]?.date), Number(reports[1]?.date) + 5_000];
    await using simulator = await startTestSimulator({
      reports: { oldest: 0, from: (position, at) => datedUntil(at, inMemoryReports(reports).from(position, at)) },
      now: () => times.shift() ?? 0,
      faults: always(delayed(1)),
    });
    const response = await sendRequest(simulator);
    expect(response.ids).toEqual(['r1']);
    expect(response.headers.date).toBe('Fri, 20 Nov 2026 00:00:07 GMT');
  });

  it('sends the complete body in small pieces', async () => {
    await using simulator = await startTestSimulator({ faults: always(trickled(9, 2)) });
    const response = await request(`${simulator.baseUrl}/v1/report/export`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-api-key': simulatorApiKey },
      body: requestBody(),
    });
    const pieces: Buffer[] = [];
    for await (const piece of response.body) pieces.push(piece as Buffer);
    expect(Buffer.concat(pieces).toString()).toBe(document);
    expect(pieces.length).toBeGreaterThan(1);
  });

  it.each([0, 1, 50, document.length - 1])('truncates after %i bytes, despite the content-length', async (at) => {
    await using simulator = await startTestSimulator({ faults: always(truncated(at)) });
    const { text, error } = await sendRawRequest(simulator);
    expect(headersOf(text)).toContain(`content-length: ${document.length}\r\n`);
    expect(bodyOf(text)).toBe(document.slice(0, at));
    expect(error).toBeUndefined();
    await expect(sendRequest(simulator)).rejects.toBeInstanceOf(Error);
    expect(simulator.exchanges).toMatchObject([
      { bytes: at, isComplete: false },
      { bytes: at, isComplete: false },
    ]);
  });

  it('truncates a chunked body', async () => {
    await using simulator = await startTestSimulator({ faults: always(truncated(50, 'chunked')) });
    const { text } = await sendRawRequest(simulator);
    expect(headersOf(text).toLowerCase()).toContain('transfer-encoding: chunked\r\n');
    expect(headersOf(text)).not.toContain('content-length');
    expect(bodyOf(text)).not.toContain('\r\n0\r\n');
    expect(bodyOf(text).replaceAll(/(^|\r\n)[\da-f]+\r\n|\r\n$/g, '')).toBe(document.slice(0, 50));
  });

  it('truncates a body without length or chunks: the client cannot notice', async () => {
    await using simulator = await startTestSimulator({ faults: always(truncated(50, 'close')) });
    const { text, error } = await sendRawRequest(simulator);
    expect(headersOf(text)).not.toContain('content-length');
    expect(headersOf(text).toLowerCase()).not.toContain('transfer-encoding');
    expect(bodyOf(text)).toBe(document.slice(0, 50));
    expect(error).toBeUndefined();
    expect((await sendRequest(simulator)).text).toBe(document.slice(0, 50));
  });

  it.each(['chunked', 'close'] as const)('framing %s alone leaves the page unchanged', async (framing) => {
    await using simulator = await startTestSimulator({ faults: always({ framing }) });
    const response = await sendRequest(simulator);
    expect(response.text).toBe(document);
    expect(response.headers['content-length']).toBeUndefined();
  });

  it('resets the connection before sending anything', async () => {
    await using simulator = await startTestSimulator({ faults: always(connectionReset('start')) });
    expect(await sendRawRequest(simulator)).toEqual({ text: '', error: 'ECONNRESET' });
    expect(simulator.exchanges).toMatchObject([{ status: 0, bytes: 0, isComplete: false }]);
  });

  it('closes the connection before sending anything', async () => {
    await using simulator = await startTestSimulator({ faults: always({ disconnect: { at: 'start', by: 'close' } }) });
    expect(await sendRawRequest(simulator)).toEqual({ text: '', error: undefined });
  });

  it.each([0, 50])('resets the connection after %i bytes of the body', async (at) => {
    await using simulator = await startTestSimulator({ faults: always(connectionReset(at)) });
    expect((await sendRawRequest(simulator)).error).toBe('ECONNRESET');
    await expect(sendRequest(simulator)).rejects.toBeInstanceOf(Error);
  });

  it('combines faults: a slow 503 that is truncated', async () => {
    const fault = combineFaults(throttled('1', 503), delayed(1), trickled(4, 1), truncated(10));
    await using simulator = await startTestSimulator({ faults: always(fault) });
    const { text } = await sendRawRequest(simulator);
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(headersOf(text)).toContain('retry-after: 1\r\n');
    expect(bodyOf(text)).toBe('{"error":"');
  });

  it('truncates a page of several megabytes at the exact byte', async () => {
    const reports = inMemoryReports([aReport(1, { xml: `<r>${'é'.repeat(3_000_000)}</r>` })]);
    await using simulator = await startTestSimulator({ reports, faults: onRequest(1, truncated(4_000_001)) });
    const { text } = await sendRawRequest(simulator);
    expect(bodyOf(text)).toHaveLength(4_000_001);
    expect((await sendRequest(simulator)).bytes).toHaveLength(document.length - 3 * 12 + 7 + 6_000_000);
  });
});

function* datedUntil<Dated extends { readonly date: number }>(at: number, reports: Iterable<Dated>) {
  for (const report of reports) if (report.date <= at) yield report;
}
