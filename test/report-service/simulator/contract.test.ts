import { describe, expect, it } from 'vitest';
import { givenReports } from '../../../lib/report-service/simulator/report-source.ts';
import {
  aBody,
  aReport,
  aSimulator,
  ask,
  askOnTheWire,
  refusalOf,
  someReports,
  theKey,
  walk,
} from '../../support/asking-the-simulator.ts';

describe('contract §1 and §3: paging', () => {
  it('§3: answers a request without a cursor with the first page, and each cursor with the page behind it', async () => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(5)) });
    const pages = await walk(simulator, { fields: { size: 2 } });
    expect(pages.map((page) => page.ids)).toEqual([['r1', 'r2'], ['r3', 'r4'], ['r5']]);
  });

  it('§1.4: names no cursor on the last page, also when that page is full', async () => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(4)) });
    const pages = await walk(simulator, { fields: { size: 2 } });
    expect(pages.map((page) => typeof page.cursor)).toEqual(['string', 'undefined']);
  });

  it('§1.4: answers a filter that nothing matches with an empty root and no cursor', async () => {
    await using simulator = await aSimulator({ reports: givenReports([]) });
    const page = await ask(simulator);
    expect(page.text).toBe('<?xml version="1.0" encoding="UTF-8"?>\n<reports></reports>');
    expect(page.cursor).toBeUndefined();
  });

  it('§3: reports that arrive with later dates while a walk is under way extend it, and shift nothing', async () => {
    const reports = givenReports(someReports(3));
    await using simulator = await aSimulator({ reports });
    const first = await ask(simulator, { fields: { size: 2 } });
    reports.add(aReport(4), aReport(5));
    const second = await ask(simulator, { fields: { size: 2 }, cursor: String(first.cursor) });
    const third = await ask(simulator, { fields: { size: 2 }, cursor: String(second.cursor) });
    expect([first.ids, second.ids, third.ids]).toEqual([['r1', 'r2'], ['r3', 'r4'], ['r5']]);
    expect(third.cursor).toBeUndefined();
  });

  it('§3: whether more remain is decided when the page is answered, not before', async () => {
    const reports = givenReports(someReports(2));
    await using simulator = await aSimulator({ reports });
    const asking = { fields: { size: 2 } };
    expect((await ask(simulator, asking)).cursor).toBeUndefined();
    reports.add(aReport(3));
    expect((await ask(simulator, asking)).cursor).toBeDefined();
  });

  it('§3: the same cursor sent again is answered with the same bytes', async () => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(4)) });
    const { cursor } = await ask(simulator, { fields: { size: 2 } });
    const again = () => ask(simulator, { fields: { size: 2 }, cursor: String(cursor) });
    expect((await again()).bytes).toEqual((await again()).bytes);
  });
});

describe('contract §2.1: the export request', () => {
  const dates = ['2026-11-20T00:00:00Z', '2026-11-20T00:00:00.500Z', '2026-11-20T00:00:01Z'];
  const dated = givenReports(dates.map((date, index) => aReport(index, { date })));
  const idsFor = async (date: object) => {
    await using simulator = await aSimulator({ reports: dated });
    return (await ask(simulator, { fields: { filter: { date } } })).ids;
  };

  it('filter.date.gte selects the reports dated at or after the instant', async () => {
    expect(await idsFor({ gte: '2026-11-20T00:00:00Z' })).toEqual(['r0', 'r1', 'r2']);
    expect(await idsFor({ gte: '2026-11-20T00:00:00.001Z' })).toEqual(['r1', 'r2']);
    expect(await idsFor({ gte: '2026-11-20T00:00:00.5Z' })).toEqual(['r1', 'r2']);
    expect(await idsFor({ gte: '2026-11-20T00:00:02Z' })).toEqual([]);
  });

  it('our assumption: lt and lte set an upper end, exclusive and inclusive', async () => {
    expect(await idsFor({ gte: '2026-11-20T00:00:00Z', lt: '2026-11-20T00:00:00.500Z' })).toEqual(['r0']);
    expect(await idsFor({ gte: '2026-11-20T00:00:00Z', lte: '2026-11-20T00:00:00.500Z' })).toEqual(['r0', 'r1']);
  });

  it('no cursor is named when only reports beyond the upper end remain', async () => {
    await using simulator = await aSimulator({ reports: dated });
    const date = { gte: '2026-11-20T00:00:00Z', lte: '2026-11-20T00:00:00.500Z' };
    const pages = await walk(simulator, { fields: { filter: { date }, size: 1 } });
    expect(pages.map((page) => page.ids)).toEqual([['r0'], ['r1']]);
  });

  it('our assumption: filter.type selects by equality, and only matching reports count as remaining', async () => {
    const types = ['a', 'b', 'a', 'b', 'a', 'b'];
    const reports = givenReports(types.map((type, index) => aReport(index, { type })));
    await using simulator = await aSimulator({ reports });
    const filter = { date: { gte: '1970-01-01T00:00:00Z' }, type: 'a' };
    const pages = await walk(simulator, { fields: { filter, size: 2 } });
    expect(pages.map((page) => page.ids)).toEqual([['r0', 'r2'], ['r4']]);
  });

  it.each([
    ['no filter', { filter: undefined }, 'filter must be an object'],
    ['no date', { filter: {} }, 'filter.date must be an object'],
    ['no gte', { filter: { date: {} } }, 'filter.date.gte must be an ISO 8601 UTC timestamp'],
    ['a date alone', { filter: { date: { gte: '2026-11-20' } } }, 'filter.date.gte must be'],
    ['an offset', { filter: { date: { gte: '2026-11-20T00:00:00+01:00' } } }, 'filter.date.gte must be'],
    ['another date operator', { filter: { date: { gte: '1970-01-01T00:00:00Z', eq: 1 } } }, 'does not show: eq'],
    [
      'another filter field',
      { filter: { date: { gte: '1970-01-01T00:00:00Z' }, owner: 'me' } },
      'does not show: owner',
    ],
    ['a type that is no string', { filter: { date: { gte: '1970-01-01T00:00:00Z' }, type: 1 } }, 'filter.type must be'],
    ['another field', { sise: 5 }, 'does not show: sise'],
    ['no format', { format: undefined }, 'format must be XML'],
    ['another format', { format: 'JSON' }, 'format must be XML'],
    ['another container', { container: 'ZIP' }, 'container must be NONE'],
    ['a cursor that is no string', { cursor: 7 }, 'cursor must be a string'],
  ])('our assumption: %s is refused with 400', async (_, fields, message) => {
    await using simulator = await aSimulator();
    const refusal = refusalOf(await ask(simulator, { fields }));
    expect(refusal).toMatchObject({ status: 400, error: 'invalid_request', message: expect.stringContaining(message) });
  });

  it('our assumption: every problem of a request is named at once', async () => {
    await using simulator = await aSimulator();
    const { message } = refusalOf(await ask(simulator, { fields: { format: 'CSV', size: 0, filter: [] } }));
    expect(message).toBe(
      'filter must be an object; filter.date must be an object; ' +
        'filter.date.gte must be an ISO 8601 UTC timestamp such as 2026-11-20T02:00:00Z; ' +
        'format must be XML: the contract shows no other value; size must be an integer from 1 to 10',
    );
  });
});

describe('contract §2.2: the cursor', () => {
  it('is 13 digits, a comma and hyphenated hexadecimal groups', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    expect(cursor).toMatch(/^\d{13},[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/);
  });

  it('keeps its form for reports dated long before a moment had 13 digits', async () => {
    const old = [1, 2, 3].map((n) => aReport(n, { date: n }));
    await using simulator = await aSimulator({ reports: givenReports(old) });
    const pages = await walk(simulator, { fields: { size: 1 } });
    expect(pages.map((page) => String(page.cursor).slice(0, 14))).toEqual([
      '0000000000001,',
      '0000000000002,',
      'undefined',
    ]);
    expect(pages.flatMap((page) => page.ids)).toEqual(['r1', 'r2', 'r3']);
  });

  it('is taken from the query percent-decoded, with %2C for the comma', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const target = `/v1/report/export?cursor=${String(cursor).replace(',', '%2C')}`;
    expect((await ask(simulator, { fields: { size: 1 }, target })).ids).toEqual(['r2']);
    expect(simulator.exchanges.at(-1)?.target).toBe(target);
  });

  it('is taken from the body as it is, with the plain comma', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    expect((await ask(simulator, { fields: { size: 1, cursor } })).ids).toEqual(['r2']);
    expect((await ask(simulator, { fields: { size: 1, cursor: encodeURIComponent(String(cursor)) } })).status).toBe(
      400,
    );
  });

  it.each([
    ['nothing at all', () => ''],
    ['free text', () => 'next please'],
    ['upper case', (cursor: string) => cursor.toUpperCase()],
    ['another date', (cursor: string) => `2${cursor.slice(1)}`],
    ['another ordinal', (cursor: string) => cursor.replace(/,0000000./, ',0000000f')],
    ['another hash', (cursor: string) => cursor.replace(/.$/, (last) => (last === '0' ? '1' : '0'))],
  ])('our assumption: a forged cursor (%s) is refused with 400', async (_, forge) => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const refusal = refusalOf(await ask(simulator, { fields: { size: 1 }, cursor: forge(String(cursor)) }));
    expect(refusal).toMatchObject({ status: 400, error: 'invalid_cursor' });
  });
});

describe('contract §2.3: the response', () => {
  it('holds the reports of the page in one XML document, as they are', async () => {
    const reports = [
      aReport(1, { xml: '<r id="é"><![CDATA[<&]]></r>' }),
      aReport(2, { xml: '<ns:r xmlns:ns="urn:x"/>\n' }),
    ];
    await using simulator = await aSimulator({ reports: givenReports(reports) });
    expect((await ask(simulator)).text).toBe(
      '<?xml version="1.0" encoding="UTF-8"?>\n<reports><r id="é"><![CDATA[<&]]></r><ns:r xmlns:ns="urn:x"/>\n</reports>',
    );
  });

  it('has every header that the contract shows', async () => {
    const at = Date.UTC(2026, 10, 20, 2, 0, 0, 999);
    await using simulator = await aSimulator({ now: () => at });
    const { headers, bytes } = await ask(simulator);
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

  it('has all of its header names, the cursor’s too, in lower case on the wire', async () => {
    await using simulator = await aSimulator({ vendor: 'AcMe-2' });
    const { text } = await askOnTheWire(simulator, { body: aBody({ size: 1 }), keyHeader: 'X-ACME-2-API-KEY' });
    const [statusLine, ...lines] = (text.split('\r\n\r\n')[0] ?? '').split('\r\n');
    expect(statusLine).toBe('HTTP/1.1 200 OK');
    const names = lines.map((line) => line.split(':')[0] ?? '');
    expect(names).toContain('x-acme-2-cursor');
    // This one is node's own, about the connection.
    const ours = names.filter((name) => name !== 'Connection');
    expect(ours).toEqual(ours.map((name) => name.toLowerCase()));
    expect(ours.filter((name) => name === 'vary')).toHaveLength(3);
  });
});

describe('contract §4.1: the endpoint', () => {
  it('rule 1: the cursor is taken by query or by body alike', async () => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(7)) });
    const byQuery = await walk(simulator, { fields: { size: 2 }, cursorIn: 'query' });
    const byBody = await walk(simulator, { fields: { size: 2 }, cursorIn: 'body' });
    expect(byQuery).toHaveLength(4);
    expect(byBody.map((page) => page.text)).toEqual(byQuery.map((page) => page.text));
  });

  it('rule 2: when both are sent the query’s is used and the body’s is ignored, whatever it holds', async () => {
    await using simulator = await aSimulator();
    const first = await ask(simulator, { fields: { size: 1 } });
    const second = await ask(simulator, { fields: { size: 1 }, cursor: String(first.cursor) });
    const both = { cursor: String(first.cursor) };
    expect((await ask(simulator, { ...both, fields: { size: 1, cursor: second.cursor } })).ids).toEqual(['r2']);
    expect((await ask(simulator, { ...both, fields: { size: 1, cursor: 'rubbish' } })).ids).toEqual(['r2']);
    expect((await ask(simulator, { ...both, fields: { size: 1, cursor: 7 } })).ids).toEqual(['r2']);
  });

  it('our assumption: a query with two cursors is refused, one with other parameters is not', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const encoded = encodeURIComponent(String(cursor));
    const twice = `/v1/report/export?cursor=${encoded}&cursor=${encoded}`;
    expect(refusalOf(await ask(simulator, { fields: { size: 1 }, target: twice }))).toMatchObject({ status: 400 });
    expect((await ask(simulator, { target: '/v1/report/export?trace=1' })).status).toBe(200);
  });

  it('rules 3 and 4, §8: without a size a page holds at most 100 reports', async () => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(201)) });
    expect((await walk(simulator)).map((page) => page.ids.length)).toEqual([100, 100, 1]);
  });

  it.each([1, 2, 9, 10])('rule 5, §8: with size %i a page holds at most so many', async (size) => {
    await using simulator = await aSimulator({ reports: givenReports(someReports(21)) });
    const lengths = (await walk(simulator, { fields: { size } })).map((page) => page.ids.length);
    expect(lengths).toHaveLength(Math.ceil(21 / size));
    expect(lengths.slice(0, -1).every((length) => length === size)).toBe(true);
  });

  it.each([0, 11, -1, 2.5, '5', null, true, [5]])(
    'rule 5, §8, our assumption: size %j is refused with 400',
    async (size) => {
      await using simulator = await aSimulator();
      const refusal = refusalOf(await ask(simulator, { fields: { size } }));
      expect(refusal).toMatchObject({
        status: 400,
        error: 'invalid_request',
        message: 'size must be an integer from 1 to 10',
      });
    },
  );

  it.each([
    ['another since', { filter: { date: { gte: '1970-01-01T00:00:01Z' } } }],
    ['another upper end', { filter: { date: { gte: '1970-01-01T00:00:00Z', lt: '2100-01-01T00:00:00Z' } } }],
    ['another type', { filter: { date: { gte: '1970-01-01T00:00:00Z' }, type: 'invoice' } }],
    ['another size', { size: 2 }],
    ['no size', { size: undefined }],
  ])('rule 6: a cursor sent with %s is refused', async (_, change) => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const told = await ask(simulator, { fields: { size: 1, ...change }, cursor: String(cursor) });
    expect(refusalOf(told)).toMatchObject({ status: 400, error: 'invalid_cursor' });
  });

  it('rule 6: the same request in other words is the same request', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const reworded =
      '{ "size": 1.0, "container": "NONE", "format": "XML", "filter": { "date": { "gte": "1970-01-01T00:00:00.000Z" } } }';
    const target = `/v1/report/export?cursor=${encodeURIComponent(String(cursor))}`;
    expect((await ask(simulator, { body: reworded, target })).ids).toEqual(['r2']);
  });

  it.each(['/', '/v1/report', '/v1/report/export/', '/v2/report/export', '//v1/report/export'])(
    'our assumption: the path %s is answered 404',
    async (target) => {
      await using simulator = await aSimulator();
      expect(refusalOf(await ask(simulator, { target }))).toMatchObject({ status: 404, error: 'not_found' });
    },
  );

  it.each(['GET', 'PUT', 'DELETE'] as const)(
    'our assumption: %s is answered 405, with what is allowed',
    async (method) => {
      await using simulator = await aSimulator();
      const told = await ask(simulator, { method });
      expect(refusalOf(told)).toMatchObject({ status: 405, error: 'method_not_allowed' });
      expect(told.headers.allow).toBe('POST');
    },
  );

  it('our assumption: a content-type other than application/json is answered 415; a charset does no harm', async () => {
    await using simulator = await aSimulator();
    expect(refusalOf(await ask(simulator, { headers: { 'content-type': 'text/plain' } })).status).toBe(415);
    expect(refusalOf(await ask(simulator, { headers: { 'content-type': 'application/jsonp' } })).status).toBe(415);
    expect((await ask(simulator, { headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).status).toBe(200);
  });

  it.each([
    ['no JSON', '{"filter":', 'invalid_json'],
    ['no body', '', 'invalid_json'],
    ['no UTF-8', Buffer.from('{"format":"\xE9"}', 'latin1'), 'invalid_json'],
    ['no object', '[]', 'invalid_request'],
    ['null', 'null', 'invalid_request'],
  ])('our assumption: a body that is %s is answered 400', async (_, body, error) => {
    await using simulator = await aSimulator();
    expect(refusalOf(await ask(simulator, { body }))).toMatchObject({ status: 400, error });
  });

  it('our assumption: a giant body is answered 413', async () => {
    await using simulator = await aSimulator();
    const told = await ask(simulator, { body: aBody({ cursor: 'x'.repeat(3_000_000) }) });
    expect(refusalOf(told)).toMatchObject({ status: 413, error: 'body_too_large' });
  });

  it('our assumption: refusals are JSON, with the gateway’s headers and no cursor', async () => {
    await using simulator = await aSimulator();
    const told = await ask(simulator, { fields: { size: 11 } });
    expect(told.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(told.bytes.length),
      'x-request-id': expect.any(String),
      date: expect.any(String),
    });
    expect(told.cursor).toBeUndefined();
    expect(told.headers['content-disposition']).toBeUndefined();
  });
});

describe('contract §5: the key', () => {
  it('is taken whatever the case of its header’s name', async () => {
    await using simulator = await aSimulator();
    for (const keyHeader of ['x-service-api-key', 'X-SERVICE-API-KEY', 'x-Service-Api-Key']) {
      expect((await askOnTheWire(simulator, { keyHeader })).text).toMatch(/^HTTP\/1\.1 200 /);
    }
  });

  it('is required: none, a wrong one, or one in another vendor’s header is answered 401 (our assumption)', async () => {
    await using simulator = await aSimulator({ vendor: 'acme' });
    expect(refusalOf(await ask(simulator)).status).toBe(401);
    expect(refusalOf(await ask(simulator, { headers: { 'x-acme-api-key': '' } })).status).toBe(401);
    expect(refusalOf(await ask(simulator, { headers: { 'x-acme-api-key': `${theKey}x` } })).status).toBe(401);
    expect((await ask(simulator, { headers: { 'x-acme-api-key': theKey } })).status).toBe(200);
  });

  it('is required on every request: also on further pages, and before the path is looked at', async () => {
    await using simulator = await aSimulator();
    const { cursor } = await ask(simulator, { fields: { size: 1 } });
    const wrong = { headers: { 'X-SERVICE-API-KEY': 'wrong' } };
    expect((await ask(simulator, { ...wrong, fields: { size: 1 }, cursor: String(cursor) })).status).toBe(401);
    expect((await ask(simulator, { ...wrong, target: '/nowhere' })).status).toBe(401);
  });

  it('never stands in what is noted of an exchange, or in a refusal', async () => {
    await using simulator = await aSimulator();
    await ask(simulator);
    const refused = await ask(simulator, { headers: { 'X-SERVICE-API-KEY': 'another-secret' } });
    expect(JSON.stringify(simulator.exchanges)).not.toContain(theKey);
    expect(JSON.stringify(simulator.exchanges)).not.toContain('another-secret');
    expect(refused.text).not.toContain('secret');
  });
});
