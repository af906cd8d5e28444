/** The simulator follows docs/service-contract.md, section by section, and rejects what the contract does not show. */

import { describe, expect, it } from 'vitest';
import { cases, fc } from '../../support/property.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import {
  aReport,
  errorOf,
  fetchAllPages,
  requestBody,
  sendRequest,
  simulatorApiKey,
  type SimulatorRequest,
  someReports,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';

describe('pages (sections 1, 3, 4.1 and 8)', () => {
  const start = Date.UTC(2026, 10, 20);
  // Few dates, so that many reports share one. Sizes are those that the contract allows, or none.
  const instants = fc.integer({ min: 0, max: 12 }).map((tick) => start + tick * 250);
  const timelines = fc.oneof(
    { weight: 9, arbitrary: fc.array(instants, { maxLength: 40 }) },
    { weight: 1, arbitrary: fc.array(instants, { minLength: 90, maxLength: 320, size: 'max' }) },
  );
  const sizes = fc.option(fc.integer({ min: 1, max: 10 }), { nil: undefined });

  it('have every matching report exactly once, in order, and are as few as possible', async () => {
    await fc.assert(
      fc.asyncProperty(timelines, sizes, instants, fc.constantFrom('query', 'body'), async (...given) => {
        const [dates, size, since, cursorIn] = given;
        const reports = dates.map((date, index) => aReport(index, { date }));
        await using simulator = await startTestSimulator({ reports: inMemoryReports(reports) });
        const filter = { date: { gte: new Date(since).toISOString() } };
        const pages = await fetchAllPages(simulator, { fields: { filter, size }, cursorIn });
        const matching = reports.filter(({ date }) => Number(date) >= since);
        const inOrder = matching.toSorted((a, b) => Number(a.date) - Number(b.date)).map(({ id }) => id);
        expect(pages.flatMap(({ ids }) => ids)).toEqual(inOrder);
        expect(pages).toHaveLength(Math.max(1, Math.ceil(matching.length / (size ?? 100))));
      }),
      { numRuns: cases(100) },
    );
  });

  it('do not shift when reports arrive with later dates, which are appended', async () => {
    const reports = inMemoryReports(someReports(3));
    await using simulator = await startTestSimulator({ reports });
    const first = await sendRequest(simulator, { fields: { size: 2 } });
    reports.add(aReport(4), aReport(5));
    const second = await sendRequest(simulator, { fields: { size: 2 }, cursor: String(first.cursor) });
    const third = await sendRequest(simulator, { fields: { size: 2 }, cursor: String(second.cursor) });
    expect([first.ids, second.ids, third.ids]).toEqual([['r1', 'r2'], ['r3', 'r4'], ['r5']]);
    expect(third.cursor).toBeUndefined();
  });

  it('have only reports between the bounds, and of the type', async () => {
    const at = (ms: number) => new Date(start + ms).toISOString();
    const reports = [0, 500, 1_000, 1_500].map((ms, index) =>
      aReport(index, { date: start + ms, type: index === 1 ? 'b' : 'a' }),
    );
    await using simulator = await startTestSimulator({ reports: inMemoryReports(reports) });
    const idsOf = async (filter: object) =>
      (await fetchAllPages(simulator, { fields: { filter, size: 1 } })).map(({ ids }) => ids);
    expect(await idsOf({ date: { gte: at(0), lt: at(1_000) } })).toEqual([['r0'], ['r1']]);
    expect(await idsOf({ date: { gte: at(0), lte: at(1_000) } })).toEqual([['r0'], ['r1'], ['r2']]);
    expect(await idsOf({ date: { gte: at(0) }, type: 'a' })).toEqual([['r0'], ['r2'], ['r3']]);
  });
});

describe('the cursor (section 2.2)', () => {
  it('is 13 digits, a comma and hyphenated hexadecimal groups, also for old reports', async () => {
    const old = [1, 2, 3].map((n) => aReport(n, { date: n }));
    await using simulator = await startTestSimulator({ reports: inMemoryReports(old) });
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    expect(cursor).toMatch(/^0000000000001,[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/);
  });

  it('is read from the query, with %2C for the comma, before the body, which may even be invalid', async () => {
    await using simulator = await startTestSimulator();
    const first = await sendRequest(simulator, { fields: { size: 1 } });
    const cursor = String(first.cursor);
    const target = `/v1/report/export?cursor=${cursor.replace(',', '%2C')}`;
    for (const inBody of [undefined, 'rubbish', 7])
      expect((await sendRequest(simulator, { fields: { size: 1, cursor: inBody }, target })).ids).toEqual(['r2']);
    expect((await sendRequest(simulator, { fields: { size: 1, cursor } })).ids).toEqual(['r2']);
  });

  it.each<[string, (cursor: string) => string, Record<string, unknown>?]>([
    ['is empty', () => ''],
    ['has another date', (cursor) => `2${cursor.slice(1)}`],
    ['has another hash', (cursor) => cursor.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
    ['is percent-encoded in the body', encodeURIComponent],
    ['comes with another since', String, { filter: { date: { gte: '1970-01-01T00:00:01Z' } } }],
    ['comes with another size', String, { size: 2 }],
    ['comes with no size', String, { size: undefined }],
  ])('is rejected if it %s', async (_, forge, fields = {}) => {
    await using simulator = await startTestSimulator();
    const { cursor } = await sendRequest(simulator, { fields: { size: 1 } });
    const request = { fields: { size: 1, ...fields }, cursor: forge(String(cursor)), cursorIn: 'body' } as const;
    expect(errorOf(await sendRequest(simulator, request))).toMatchObject({ status: 400, error: 'invalid_cursor' });
  });
});

describe('the response (section 2.3)', () => {
  it('has the reports unchanged in one XML document, and the headers that the contract shows', async () => {
    const at = Date.UTC(2026, 10, 20, 2, 0, 0, 999);
    const reports = [
      aReport(1, { xml: '<r id="é"><![CDATA[<&]]></r>' }),
      aReport(2, { xml: '<ns:r xmlns:ns="urn:x"/>\n' }),
    ];
    await using simulator = await startTestSimulator({ reports: inMemoryReports(reports), now: () => at });
    const { headers, bytes, text } = await sendRequest(simulator);
    expect(text).toBe(
      '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="é"><![CDATA[<&]]></r><ns:r xmlns:ns="urn:x"/>\n</reports>',
    );
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

  it.each([
    ['br, GZIP', true, 'gzip'],
    ['gzip;q=0', true, undefined],
    ['gzip', false, undefined],
  ])('to a client that accepts %j, with compression %j, is in %s', async (accepted, compression, encoding) => {
    await using simulator = await startTestSimulator({ compression });
    const { headers } = await sendRequest(simulator, { headers: { 'accept-encoding': accepted } });
    expect(headers['content-encoding']).toBe(encoding);
  });
});

describe('a request', () => {
  it.each<[string, NonNullable<SimulatorRequest['fields']>, string]>([
    ['no filter', { filter: undefined }, 'body filter: is required'],
    ['no gte', { filter: { date: {} } }, 'body filter.date.gte: must be an ISO 8601 UTC instant'],
    ['another filter', { filter: { date: { gte: '1970-01-01T00:00:00Z' }, owner: 1 } }, 'unknown field: "owner"'],
    ['another field', { sise: 5 }, 'unknown field: "sise"'],
    ['a cursor that is no text', { cursor: 7 }, 'cursor: must be a string'],
    [
      'several problems',
      { format: 'CSV', size: 0 },
      'shows no other value; body size: must be an integer from 1 to 10',
    ],
    ['a size above 10', { size: 11 }, 'body size: must be'],
  ])('with %s is rejected with 400', async (_, fields, message) => {
    await using simulator = await startTestSimulator();
    const expected = { status: 400, error: 'invalid_request', message: expect.stringContaining(message) };
    expect(errorOf(await sendRequest(simulator, { fields }))).toMatchObject(expected);
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
    ['another key', { headers: { 'X-SERVICE-API-KEY': `${simulatorApiKey}x` } }, 401, 'unauthorized'],
    ['another key, for another path', { headers: { 'X-SERVICE-API-KEY': '' }, target: '/' }, 401, 'unauthorized'],
  ])('for %s is rejected in JSON, without a cursor', async (_, request, status, error) => {
    await using simulator = await startTestSimulator();
    const response = await sendRequest(simulator, request);
    expect(errorOf(response)).toMatchObject({ status, error });
    expect(response.headers).toMatchObject({ 'content-type': 'application/json', 'x-request-id': expect.any(String) });
    expect([response.cursor, response.headers['content-disposition']]).toEqual([undefined, undefined]);
    expect(JSON.stringify(simulator.exchanges)).not.toContain(simulatorApiKey);
  });
});
