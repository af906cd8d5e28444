import { describe, expect, it } from 'vitest';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import {
  aReport,
  errorOf,
  fetchAllPages,
  requestBody,
  sendRawRequest,
  sendRequest,
  simulatorApiKey,
  type SimulatorRequest,
  someReports,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';

describe('docs/service-contract.md, sections 1 and 3: paging', () => {
  it('§1.4: returns an empty root element and no cursor if no report matches', async () => {
    await using simulator = await startTestSimulator({ reports: inMemoryReports([]) });
    const page = await sendRequest(simulator);
    expect(page.text).toBe('<?xml version="1.0" encoding="UTF-8"?>\n<reports></reports>');
    expect(page.cursor).toBeUndefined();
  });

  it('§3: reports that arrive during pagination with later dates are appended and do not shift pages', async () => {
    const reports = inMemoryReports(someReports(3));
    await using simulator = await startTestSimulator({ reports });
    const first = await sendRequest(simulator, { fields: { size: 2 } });
    reports.add(aReport(4), aReport(5));
    const second = await sendRequest(simulator, { fields: { size: 2 }, cursor: String(first.cursor) });
    const third = await sendRequest(simulator, { fields: { size: 2 }, cursor: String(second.cursor) });
    expect([first.ids, second.ids, third.ids]).toEqual([['r1', 'r2'], ['r3', 'r4'], ['r5']]);
    expect(third.cursor).toBeUndefined();
  });

  it('§3: decides whether more reports remain when it sends the page, not before', async () => {
    const reports = inMemoryReports(someReports(2));
    await using simulator = await startTestSimulator({ reports });
    const options = { fields: { size: 2 } };
    expect((await sendRequest(simulator, options)).cursor).toBeUndefined();
    reports.add(aReport(3));
    expect((await sendRequest(simulator, options)).cursor).toBeDefined();
  });
});

describe('docs/service-contract.md, section 2.1: the export request', () => {
  const dates = ['2026-11-20T00:00:00Z', '2026-11-20T00:00:00.500Z', '2026-11-20T00:00:01Z'];
  const datedReports = inMemoryReports(dates.map((date, index) => aReport(index, { date })));
  const idsFor = async (date: object) => {
    await using simulator = await startTestSimulator({ reports: datedReports });
    return (await sendRequest(simulator, { fields: { filter: { date } } })).ids;
  };

  it('assumption: lt is an exclusive and lte an inclusive upper bound', async () => {
    expect(await idsFor({ gte: '2026-11-20T00:00:00Z', lt: '2026-11-20T00:00:00.500Z' })).toEqual(['r0']);
    expect(await idsFor({ gte: '2026-11-20T00:00:00Z', lte: '2026-11-20T00:00:00.500Z' })).toEqual(['r0', 'r1']);
  });

  it('sends no cursor if only reports beyond the upper bound remain', async () => {
    await using simulator = await startTestSimulator({ reports: datedReports });
    const date = { gte: '2026-11-20T00:00:00Z', lte: '2026-11-20T00:00:00.500Z' };
    const pages = await fetchAllPages(simulator, { fields: { filter: { date }, size: 1 } });
    expect(pages.map((page) => page.ids)).toEqual([['r0'], ['r1']]);
  });

  it('assumption: filter.type selects by equality, and only matching reports count as remaining', async () => {
    const types = ['a', 'b', 'a', 'b', 'a', 'b'];
    const reports = inMemoryReports(types.map((type, index) => aReport(index, { type })));
    await using simulator = await startTestSimulator({ reports });
    const filter = { date: { gte: '1970-01-01T00:00:00Z' }, type: 'a' };
    const pages = await fetchAllPages(simulator, { fields: { filter, size: 2 } });
    expect(pages.map((page) => page.ids)).toEqual([['r0', 'r2'], ['r4']]);
  });

  it.each([
    ['no filter', { filter: undefined }, 'body filter: is required'],
    ['no gte', { filter: { date: {} } }, 'body filter.date.gte: must be an ISO 8601 UTC instant'],
    ['a date alone', { filter: { date: { gte: '2026-11-20' } } }, 'filter.date.gte: must be an ISO 8601 UTC instant'],
    [
      'another filter field',
      { filter: { date: { gte: '1970-01-01T00:00:00Z' }, owner: 'me' } },
      'unknown field: "owner"',
    ],
    [
      'a type that is not a string',
      { filter: { date: { gte: '1970-01-01T00:00:00Z' }, type: 1 } },
      'filter.type: must be a string',
    ],
    ['another field', { sise: 5 }, 'unknown field: "sise"'],
    ['another format', { format: 'JSON' }, 'format: must be XML'],
    ['a cursor that is not a string', { cursor: 7 }, 'cursor: must be a string'],
  ])('assumption: rejects %s with 400', async (_, fields, message) => {
    await using simulator = await startTestSimulator();
    const rejection = errorOf(await sendRequest(simulator, { fields }));
    expect(rejection).toMatchObject({
      status: 400,
      error: 'invalid_request',
      message: expect.stringContaining(message),
    });
  });

  it('assumption: reports all problems of a request at once', async () => {
    await using simulator = await startTestSimulator();
    const { message } = errorOf(await sendRequest(simulator, { fields: { format: 'CSV', size: 0, filter: [] } }));
    expect(message).toBe(
      'body filter: must be an object; body format: must be XML: the contract shows no other value; body size: must be an integer from 1 to 10',
    );
  });
});

describe('docs/service-contract.md, section 2.2: the cursor', () => {
  it('is 13 digits, a comma and hyphenated hexadecimal groups', async () => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    expect(cursor).toMatch(/^\d{13},[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/);
  });

  it('keeps its form for reports whose date has fewer than 13 digits', async () => {
    const old = [1, 2, 3].map((n) => aReport(n, { date: n }));
    await using simulator = await startTestSimulator({ reports: inMemoryReports(old) });
    const pages = await fetchAllPages(simulator, { fields: { size: 1 } });
    expect(pages.map((page) => String(page.cursor).slice(0, 14))).toEqual([
      '0000000000001,',
      '0000000000002,',
      'undefined',
    ]);
    expect(pages.flatMap((page) => page.ids)).toEqual(['r1', 'r2', 'r3']);
  });

  it('is read from the query percent-decoded, with %2C for the comma', async () => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    const target = `/v1/report/export?cursor=${String(cursor).replace(',', '%2C')}`;
    expect((await sendRequest(simulator, { fields: { size: 1 }, target })).ids).toEqual(['r2']);
    expect(simulator.exchanges.at(-1)?.target).toBe(target);
  });

  it('is read from the body unchanged, with the plain comma', async () => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    expect((await sendRequest(simulator, { fields: { size: 1, cursor } })).ids).toEqual(['r2']);
    expect(
      (await sendRequest(simulator, { fields: { size: 1, cursor: encodeURIComponent(String(cursor)) } })).status,
    ).toBe(400);
  });

  it.each([
    ['empty', () => ''],
    ['free text', () => 'next please'],
    ['another date', (cursor: string) => `2${cursor.slice(1)}`],
    ['another hash', (cursor: string) => cursor.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
  ])('assumption: rejects a forged cursor (%s) with 400', async (_, forge) => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    const rejection = errorOf(await sendRequest(simulator, { fields: { size: 1 }, cursor: forge(String(cursor)) }));
    expect(rejection).toMatchObject({ status: 400, error: 'invalid_cursor' });
  });
});

describe('docs/service-contract.md, section 2.3: the response', () => {
  it('contains the reports of the page unchanged in one XML document', async () => {
    const reports = [
      aReport(1, { xml: '<r id="é"><![CDATA[<&]]></r>' }),
      aReport(2, { xml: '<ns:r xmlns:ns="urn:x"/>\n' }),
    ];
    await using simulator = await startTestSimulator({ reports: inMemoryReports(reports) });
    expect((await sendRequest(simulator)).text).toBe(
      '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="é"><![CDATA[<&]]></r><ns:r xmlns:ns="urn:x"/>\n</reports>',
    );
  });

  it('has all headers that the contract shows', async () => {
    const at = Date.UTC(2026, 10, 20, 2, 0, 0, 999);
    await using simulator = await startTestSimulator({ now: () => at });
    const { headers, bytes } = await sendRequest(simulator);
    expect(headers).toMatchObject({
      'content-type': 'application/xml;charset=UTF-8',
      'content-disposition': 'attachment; filename="reports.xml"',
      date: 'Fri, 20 Nov 2026 02:00:00 GMT',
      'content-length': String(bytes.length),
      vary: ['Origin', 'Access-Control-Request-Method', 'Access-Control-Request-Headers'],
      'x-content-type-options': 'nosniff',
      'x-xss-protection': '1; mode=block',
      'cache-control': 'no-cache, no-store, max-age=0, must-revalidate',
      pragma: 'no-cache',
      expires: '0',
      'x-frame-options': 'SAMEORIGIN',
      'x-request-id': expect.stringMatching(/^[\da-f-]{36}$/),
    });
  });

  it('sends all header names, including the cursor’s, in lower case', async () => {
    await using simulator = await startTestSimulator({ vendor: 'AcMe-2' });
    const text = await sendRawRequest(simulator, { body: requestBody({ size: 1 }), keyHeader: 'X-ACME-2-API-KEY' });
    const [statusLine, ...lines] = (text.split('\r\n\r\n')[0] ?? '').split('\r\n');
    expect(statusLine).toBe('HTTP/1.1 200 OK');
    const names = lines.map((line) => line.split(':')[0] ?? '');
    expect(names).toContain('x-acme-2-cursor');
    // Node adds this header itself.
    const sent = names.filter((name) => name !== 'Connection');
    expect(sent).toEqual(sent.map((name) => name.toLowerCase()));
    expect(sent.filter((name) => name === 'vary')).toHaveLength(3);
  });
});

describe('docs/service-contract.md, section 4.1: the endpoint', () => {
  it('rule 2: uses the query’s cursor if both are sent, and ignores the body’s even if it is invalid', async () => {
    await using simulator = await startTestSimulator();
    const first = await sendRequest(simulator, { fields: { size: 1 } });
    const second = await sendRequest(simulator, { fields: { size: 1 }, cursor: String(first.cursor) });
    const both = { cursor: String(first.cursor) };
    expect((await sendRequest(simulator, { ...both, fields: { size: 1, cursor: second.cursor } })).ids).toEqual(['r2']);
    expect((await sendRequest(simulator, { ...both, fields: { size: 1, cursor: 'rubbish' } })).ids).toEqual(['r2']);
    expect((await sendRequest(simulator, { ...both, fields: { size: 1, cursor: 7 } })).ids).toEqual(['r2']);
  });

  it.each([0, 11, -1, 2.5, '5', null, true, [5]])('rule 5, §8, assumption: rejects size %j with 400', async (size) => {
    await using simulator = await startTestSimulator();
    const rejection = errorOf(await sendRequest(simulator, { fields: { size } }));
    expect(rejection).toMatchObject({
      status: 400,
      error: 'invalid_request',
      message: 'body size: must be an integer from 1 to 10',
    });
  });

  it.each([
    ['another since', { filter: { date: { gte: '1970-01-01T00:00:01Z' } } }],
    ['another size', { size: 2 }],
    ['no size', { size: undefined }],
  ])('rule 6: rejects a cursor sent with %s', async (_, change) => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    const response = await sendRequest(simulator, { fields: { size: 1, ...change }, cursor: String(cursor) });
    expect(errorOf(response)).toMatchObject({ status: 400, error: 'invalid_cursor' });
  });

  it('rule 6: accepts a cursor with an equivalent request that is formatted differently', async () => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    const reformatted =
      '{ "size": 1.0, "container": "NONE", "format": "XML", "filter": { "date": { "gte": "1970-01-01T00:00:00.000Z" } } }';
    const target = `/v1/report/export?cursor=${encodeURIComponent(String(cursor))}`;
    expect((await sendRequest(simulator, { body: reformatted, target })).ids).toEqual(['r2']);
  });

  it.each<[string, SimulatorRequest, number, string]>([
    ['the root', { target: '/' }, 404, 'not_found'],
    ['GET', { method: 'GET' }, 405, 'method_not_allowed'],
    ['text', { headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
    ['broken JSON', { body: '{"filter":' }, 400, 'invalid_json'],
    ['a body that is not UTF-8', { body: Buffer.from('{"format":"\xE9"}', 'latin1') }, 400, 'invalid_json'],
    ['a list', { body: '[]' }, 400, 'invalid_request'],
    ['two cursors in the query', { target: '/v1/report/export?cursor=a&cursor=a' }, 400, 'invalid_request'],
    ['a body over the limit', { body: requestBody({ cursor: 'x'.repeat(3_000_000) }) }, 413, 'body_too_large'],
    ['an empty key', { headers: { 'X-SERVICE-API-KEY': '' } }, 401, 'unauthorized'],
    ['another key', { headers: { 'X-SERVICE-API-KEY': `${simulatorApiKey}x` } }, 401, 'unauthorized'],
    ['another key, for another path', { headers: { 'X-SERVICE-API-KEY': 'x' }, target: '/' }, 401, 'unauthorized'],
  ])('assumption: rejects %s', async (_, request, status, error) => {
    await using simulator = await startTestSimulator();
    const response = await sendRequest(simulator, request);
    expect(errorOf(response)).toMatchObject({ status, error });
    expect(response.headers.allow).toBe(status === 405 ? 'POST' : undefined);
    expect(JSON.stringify(simulator.exchanges)).not.toContain(simulatorApiKey);
  });

  it('assumption: ignores other parameters in the query, and a charset', async () => {
    await using simulator = await startTestSimulator();
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' };
    expect((await sendRequest(simulator, { target: '/v1/report/export?trace=1', headers })).status).toBe(200);
  });

  it('assumption: error responses are JSON, with the common headers and without a cursor', async () => {
    await using simulator = await startTestSimulator();
    const response = await sendRequest(simulator, { fields: { size: 11 } });
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(response.bytes.length),
      'x-request-id': expect.any(String),
      date: expect.any(String),
    });
    expect(response.cursor).toBeUndefined();
    expect(response.headers['content-disposition']).toBeUndefined();
  });
});

describe('docs/service-contract.md, section 5: the key', () => {
  it('is accepted in any case of the header name', async () => {
    await using simulator = await startTestSimulator();
    for (const keyHeader of ['x-service-api-key', 'X-SERVICE-API-KEY', 'x-Service-Api-Key']) {
      expect(await sendRawRequest(simulator, { keyHeader })).toMatch(/^HTTP\/1\.1 200 /);
    }
  });

  it('is required on every request, in the header of the vendor', async () => {
    await using simulator = await startTestSimulator({ vendor: 'acme' });
    expect(errorOf(await sendRequest(simulator)).status).toBe(401);
    const headers = { 'x-acme-api-key': simulatorApiKey };
    const { cursor } = await sendRequest(simulator, { headers, fields: { size: 1 } });
    expect(errorOf(await sendRequest(simulator, { cursor: String(cursor), fields: { size: 1 } })).status).toBe(401);
  });
});
