/** How the client handles the status and headers of a response (docs/service-contract.md, sections 2.3 and 7). */

import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { chunk, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  aCursor,
  anError,
  backoff,
  clientFor,
  failureFrom,
  failureOf,
  pageFrom,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';
import type { ErrorName } from '../../../lib/core/errors.ts';
import type { PageRequest } from '../../../lib/core/ports.ts';
import type { ApiKeySource } from '../../../lib/service/client/api-key.ts';

type Parts = NonNullable<Parameters<typeof rawResponse>[0]>;
type Options = NonNullable<Parameters<typeof pageFrom>[2]>;
/** The request and the client. */
type How = Options & { readonly request?: PageRequest };

const fetchResponse = (parts: Parts, request = pageRequest(), options: Options = {}) =>
  pageFrom(rawResponse(parts), request, options);
const failureFor = (...args: Parameters<typeof fetchResponse>) => failureOf(fetchResponse(...args));

const json = pageRequest({ format: 'JSON' });
const inJson = { request: json };
const oddKey = { apiKey: fixedApiKey('S3cr3t-key-with-odd') };
const acme = { vendor: 'AcMe' };
const key = Buffer.from(trickyApiKey);
const redacted = '[not shown: it contains the API key]';

describe('a page', () => {
  const body = '\uFEFF<r>\r\n<a>1</a>\t<b/><c><d/></c></r>\n';
  const date = { date: 'Fri, 20 Nov 2026 02:00:07 GMT' };
  const root = '<a:reports xmlns:a="urn:a">\n<a:report/></a:reports>';
  const withCursor = (name: string, value: string = aCursor) => ({ headers: { [name]: value } });
  const typed = (type: string): [string, Parts, object] => [
    `has the content type ${type}`,
    { headers: { 'content-type': type } },
    { contentType: type },
  ];
  it.each<[string, Parts, object, How?]>([
    ['is delivered byte for byte', { body }, { text: body, reports: 3, nextCursor: null }],
    ['has a service time', { headers: date }, { serviceTime: '2026-11-20T02:00:07Z' }, { monotonicNow: () => 0 }],
    ['has the document root of its root element', { body: root }, { documentRoot: '{urn:a}reports' }],
    ['has an excerpt', { body: root }, { excerpt: '<a:reports xmlns:a="urn:a"> <a:report/></a:reports>' }],
    [
      'has a name of its root element for messages, without a part of the API key',
      { body: '<r xmlns="urn:s3cr3tkey"/>' },
      { documentRoot: '{urn:s3cr3tkey}r', rootText: redacted },
      oddKey,
    ],
    [
      'in a format other than XML passes through unchecked, with any content type',
      { body: '<not xml', headers: { 'content-type': 'x/y; z' } },
      { text: '<not xml', reports: null, documentRoot: null, contentType: 'x/y; z' },
      inJson,
    ],
    [
      'in a container is not checked as XML either',
      { body: 'PK', headers: { 'content-type': '' } },
      { reports: null, contentType: 'application/octet-stream' },
      { request: pageRequest({ container: 'ZIP' }) },
    ],
    [
      'may be declared as identity',
      { headers: { 'content-encoding': 'Identity' }, body: '<r/>' },
      { transferredBytes: undefined },
    ],
    ...[
      'application/xml',
      'application/xml;charset=UTF-8',
      'Application/XML; Charset="utf-8"; profile=x',
      'application/xml ; charset=Utf-8',
      'application/xml;charset=utf8',
      'application/xml;charset=csUTF8',
      'application/xml;charset=US-ASCII',
    ].map(typed),
    ['has a cursor', withCursor('x-service-cursor'), { nextCursor: aCursor }],
    ['has a cursor in mixed case', withCursor('X-Service-Cursor'), { nextCursor: aCursor }],
    ['has a cursor in upper case', withCursor('X-SERVICE-CURSOR'), { nextCursor: aCursor }],
    ['has a cursor of a vendor in mixed case', withCursor('x-acme-cursor'), { nextCursor: aCursor }, acme],
    [
      'has a cursor without the surrounding blanks, which are not part of it',
      withCursor('x-service-cursor', ' \t {not, "ours"} %2C  to+judge\t '),
      { nextCursor: '{not, "ours"} %2C  to+judge' },
    ],
    [
      'has a cursor beside that of another vendor',
      { headers: { 'x-other-cursor': 'theirs', 'x-service-cursor': aCursor } },
      { nextCursor: aCursor },
    ],
    ...['x-cursor', 'x-service-cursors', 'service-cursor', 'x-service-cursor-type'].map(
      (name): [string, Parts, object, How] => [
        `has no cursor in ${name}`,
        withCursor(name),
        { nextCursor: null },
        acme,
      ],
    ),
    [
      'has a cursor with a key that is so short that it may occur by chance',
      withCursor('x-service-cursor'),
      { nextCursor: aCursor },
      { apiKey: fixedApiKey('550e8400') },
    ],
  ])('%s', async (_, parts, expected, how) => {
    const page = await fetchResponse(parts, how?.request, how);
    const shown = { text: await readPage(page), rootText: page.documentRootText(), excerpt: page.excerpt() };
    expect({ ...page, ...shown }).toMatchObject(expected);
  });

  it('has a short excerpt, without the API key', async () => {
    const page = await fetchResponse({ body: `<error key="${key.toString('hex')}">${'x'.repeat(100_000)}</error>` });
    expect(page.excerpt()).not.toContain(key.toString('hex'));
    expect(page.excerpt().length).toBeLessThanOrEqual(200);
  });

  it('has the time of its request, and how long its headers took, without what was read before and after', async () => {
    let now = Date.UTC(2026, 10, 20, 2);
    const waiting = (ms: number) => {
      now += ms;
    };
    const apiKey: ApiKeySource = {
      async get() {
        waiting(3_000);
        return 'key';
      },
      refresh: async () => 'key',
    };
    const { timing } = await pageFrom(
      async (socket) => {
        waiting(40);
        const response = rawResponse();
        socket.write(response.subarray(0, -20));
        await new Promise((resolve) => setTimeout(resolve, 20));
        waiting(7_000);
        socket.write(response.subarray(-20));
      },
      pageRequest(),
      { apiKey, now: () => now, monotonicNow: () => now },
    );
    expect(timing).toEqual({ requestedAt: '2026-11-20T02:00:03Z', latencyMs: 40 });
  });
});

/** A clock that is read once for each of the times. */
function clockOf(...times: number[]): () => number {
  return () => times.shift() ?? Number.NaN;
}

describe('the service time', () => {
  const date = 'Fri, 20 Nov 2026 02:00:40 GMT';
  it.each([
    ['is the date minus the response time, in whole seconds', date, 30_000, '2026-11-20T02:00:10Z'],
    ['is rounded down, so that no report in between is missed', date, 30_001, '2026-11-20T02:00:09Z'],
    ['is a second earlier even after a short response time', date, 1, '2026-11-20T02:00:39Z'],
    ['is unknown if the date is invalid', 'yesterday', 0, null],
    ['is unknown if the date is not an HTTP date, which would be read as local time', '2026-11-20 02:00', 0, null],
    ['accepts the RFC 850 form', 'Friday, 20-Nov-26 02:00:40 GMT', 0, '2026-11-20T02:00:40Z'],
    ['accepts the asctime form', 'Fri Nov 20 02:00:40 2026', 0, '2026-11-20T02:00:40Z'],
    ['is unknown if the date names another time zone', 'Fri, 20 Nov 2026 02:00:40 PST GMT', 0, null],
    ['is unknown if the day does not exist', 'Sun, 31 Feb 2026 02:00:40 GMT', 0, null],
    ['is unknown if the hour does not exist', 'Fri, 20 Nov 2026 24:00:00 GMT', 0, null],
    ['is unknown for a number that could pass for a year', '1 GMT', 0, null],
    ['is unknown for a date out of range', '-271821-04-20 GMT', 1, null],
  ])('%s', async (_, header, elapsedMs, expected) => {
    const page = await fetchResponse({ headers: { date: header } }, pageRequest(), {
      monotonicNow: clockOf(1_000_000, 1_000_000 + elapsedMs),
    });
    expect(page.serviceTime).toBe(expected);
  });

  it.each([-60_000, 3_600_000])(
    'does not depend on the local clock, which is set by %d ms meanwhile',
    async (setMs) => {
      const page = await fetchResponse({ headers: { date } }, pageRequest(), {
        now: clockOf(1_000_000, 1_000_000 + setMs),
        monotonicNow: clockOf(5_000, 35_000),
      });
      expect(page.serviceTime).toBe('2026-11-20T02:00:10Z');
    },
  );

  it('is unknown without a date', async () => {
    expect((await fetchResponse({})).serviceTime).toBeNull();
  });
});

describe('a response', () => {
  const twice = (name: string, ...values: readonly string[]): Parts => ({
    headers: values.map((value) => [name, value] as const),
  });
  const cursor = (value: string): Parts => ({ headers: { 'x-service-cursor': value } });
  const type = (value: string): Parts => ({ headers: { 'content-type': value } });
  const other = (name: string): [string, Parts, RegExp, How] => [
    `has the cursor of another vendor, ${name}, and would end the run`,
    { headers: { [name]: aCursor } },
    new RegExp(
      '^Report service sent an invalid response for page 2 of run R: ' +
        `it has the header ${name.toLowerCase()}, but x-acme-cursor is expected. Check the vendor$`,
    ),
    { ...acme, request: pageRequest({ cursor: aCursor }) },
  ];
  it.each<[string, Parts, string | RegExp, How?]>([
    ['has an empty cursor', cursor(''), 'cursor'],
    ['has a cursor of blanks', cursor(' \t '), 'cursor'],
    ['has a cursor twice', twice('x-service-cursor', 'a', 'a'), 'cursor'],
    ['has a cursor that is not ASCII', cursor('1588888888888,é'), 'cursor'],
    ['has a cursor in UTF-8', cursor(Buffer.from('café').toString('latin1')), 'cursor'],
    ['has a cursor with a tab', cursor('1588888888888,\t550e'), 'cursor'],
    ...[
      'a\nb',
      'a\rb',
      'a\r\nb',
      'a\r\nx-service-cursor: b',
      'a\r\n b',
      'a\0b',
      'a\x1b[2Jb',
      'a\x7fb',
      'c'.repeat(17_000),
    ].map((value): [string, Parts, string] => [`has a cursor that no header may contain: ${value}`, cursor(value), '']),
    ['has a cursor with the API key', cursor(`1588888888888,${trickyApiKey}`), 'the cursor contains the API key'],
    [
      'has a cursor with the API key in Base64',
      cursor(Buffer.from(`cursor:${trickyApiKey}`).toString('base64')),
      'the cursor contains the API key',
    ],
    ...['x-service-cursor', 'X-Service-Cursor', 'x-acme-2-cursor', 'x-acme_eu-cursor'].map(other),
    [
      'has the cursor of another vendor, with the API key in its name',
      { headers: { 'x-S3cr3t-key-with-odd-cursor': aCursor } },
      `it has the header ${redacted}, but x-service-cursor is expected`,
      oddKey,
    ],
    ...['text/html', 'application/json', 'application/xml;charset=ISO-8859-1', 'application/xhtml+xml', 'xml'].map(
      (value): [string, Parts, string] => [`has the content type ${value}`, type(value), JSON.stringify(value)],
    ),
    ['has no content type', type(''), 'content type (none)'],
    ['has two content types', twice('content-type', 'application/xml', 'text/html'), 'application/xml, text/html'],
    ['has a content type with the API key', type(`application/xml; note="${key.toString('hex')}"`), 'the API key'],
    ['has such a content type, in JSON', type(`application/xml; note="${key.toString('hex')}"`), 'the API key', inJson],
    [
      'has a root element with the API key',
      { body: '<S3cr3t-key-with-odd/>' },
      'the name of the root element contains the API key',
      oddKey,
    ],
    [
      'has a namespace with the API key',
      { body: '<r xmlns="urn:S3cr3t-key-with-odd"/>' },
      'the name of the root element contains the API key',
      oddKey,
    ],
    ['would be truncated unnoticed', { framing: 'close', body: 'half?' }, 'neither a content-length', inJson],
    [
      'has another transfer encoding than chunked',
      { headers: { 'transfer-encoding': 'gzip, chunked' }, framing: 'close' },
      '"gzip, chunked"',
    ],
  ])('is a ContractError if it %s', async (_, parts, text, how) => {
    expect(await failureFor(parts, how?.request, how)).toMatchObject(anError('ContractError', text));
  });

  it('is a ConfigurationError if its content-length is above the limit, before the body is read', async () => {
    await using server = await startRawServer(
      'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: 101\r\n\r\n',
    );
    await using client = clientFor(server, { maxPageBytes: 100 });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({
      name: 'ConfigurationError',
      message:
        'Report service sent 101 bytes for page 1 of run R, but maxPageBytes is 100. ' +
        'Raise maxPageBytes in the settings file, or restart the run with fewer reports per page (size)',
    });
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});

describe('a status', () => {
  it.each<[number, ErrorName, ErrorName]>([
    [206, 'ContractError', 'ContractError'],
    [204, 'ContractError', 'ContractError'],
    [301, 'RequestRejectedError', 'RequestRejectedError'],
    [304, 'ContractError', 'ContractError'],
    [400, 'RequestRejectedError', 'CursorRejectedError'],
    [401, 'ConfigurationError', 'ConfigurationError'],
    [403, 'ConfigurationError', 'ConfigurationError'],
    [404, 'RequestRejectedError', 'CursorRejectedError'],
    [408, 'ServiceUnavailableError', 'ServiceUnavailableError'],
    [410, 'RequestRejectedError', 'CursorRejectedError'],
    [422, 'RequestRejectedError', 'CursorRejectedError'],
    [429, 'ServiceThrottledError', 'ServiceThrottledError'],
    [500, 'ServiceUnavailableError', 'ServiceUnavailableError'],
    [503, 'ServiceUnavailableError', 'ServiceUnavailableError'],
    [599, 'ServiceUnavailableError', 'ServiceUnavailableError'],
    [600, 'ContractError', 'ContractError'],
  ])('of %i is a %s on the first page and a %s on later pages', async (status, first, further) => {
    const response: Parts = { status, body: '', headers: { 'content-type': 'text/plain' } };
    expect(await failureFor(response)).toMatchObject(anError(first, 'page 1 of run R'));
    const second = await failureFor(response, pageRequest({ cursor: aCursor }));
    expect(second).toMatchObject(anError(further, 'page 2 of run R'));
  });

  const gone =
    'POST /reports/v1/report/export rejected the cursor, which may have expired. If every run fails here, check cursorIn';
  it.each([
    [304, 'not modified, although the request has no condition', null],
    [404, '/reports/v1/report/export does not exist. Check baseUrl', null],
    [404, gone, aCursor],
    [410, gone, aCursor],
    [422, gone, aCursor],
  ])('of %i says what is wrong, and where: %s', async (status, problem, cursor) => {
    await using server = await startRawServer(rawResponse({ status, body: '' }));
    await using client = clientFor({ url: `${server.url}/reports/` });
    const { message } = await failureOf(fetchPage(client, pageRequest({ cursor })));
    expect(message.replace(server.url, '')).toBe(
      `Report service responded with ${status} for page ${cursor === null ? 1 : 2} of run R: ${problem}`,
    );
  });

  it('of 500 is an error even with a cursor header', async () => {
    const error = await failureFor({ status: 500, headers: { 'x-service-cursor': aCursor } });
    expect(error.name).toBe('ServiceUnavailableError');
  });
});

describe('Retry-After', () => {
  const date = 'Fri, 20 Nov 2026 02:00:00 GMT';
  const now = () => Date.parse('2026-11-20T01:59:00Z');
  it.each([
    ['seconds', '120', undefined, 120],
    ['seconds with blanks', '  7 ', undefined, 7],
    ['more seconds than a number can hold', '9'.repeat(400), undefined, Number.MAX_SAFE_INTEGER],
    ['a date, by the service’s clock', 'Fri, 20 Nov 2026 02:01:30 GMT', date, 90],
    ['a date, by the local clock if the response has no date', 'Fri, 20 Nov 2026 02:00:00 GMT', undefined, 60],
    ['a date in the past', 'Fri, 20 Nov 2026 01:00:00 GMT', date, 0],
  ])('as %s is the minimum wait before the next request', async (_, value, serviceDate, seconds) => {
    const headers = { 'retry-after': value, ...(serviceDate === undefined ? {} : { date: serviceDate }) };
    for (const status of [429, 503]) {
      const error = await failureFor({ status, headers, body: '' }, pageRequest(), { now });
      expect(error).toMatchObject({ name: 'ServiceThrottledError', retryAfterSeconds: seconds });
    }
  });

  it.each(['-5', '1.5.5', 'soon', '', '2026-11-20', '120, 120'])('of %j is ignored', async (value) => {
    const headers = { 'retry-after': value };
    const throttled = await failureFor({ status: 429, headers, body: '' });
    expect(throttled).toMatchObject({ name: 'ServiceThrottledError' });
    expect(throttled).not.toHaveProperty('retryAfterSeconds');
    expect(await failureFor({ status: 503, headers, body: '' })).toMatchObject({ name: 'ServiceUnavailableError' });
  });
});

describe('an error message', () => {
  it('contains status, page, request ID and the response, on one line', async () => {
    const error = await failureFor({
      status: 503,
      headers: { 'content-type': 'application/json', 'X-Amzn-RequestId': 'abc-123' },
      body: '{"message":\n\t"down\u0007\u202e for\r\nrepair"}',
    });
    expect(error.message).toBe(
      'Report service responded with 503 for page 1 of run R (request ID abc-123). ' +
        'Response: {"message": "down for repair"}',
    );
  });

  it('contains nothing that controls a terminal or reverses text, wherever the service sends it', async () => {
    const hostile = '\u001b]0;title\u0007\u001b[2J\r\n\u009b31m\u202eabc\u2066';
    const { message } = await failureFor({
      status: 500,
      headers: { 'content-type': 'text/plain', 'x-request-id': 'a\u009b31mb' },
      body: `before ${hostile} after`,
    });
    expect(message).toMatch(/before .* after/);
    expect(message).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  });

  it.each<[string, Record<string, string>, string, RegExp]>([
    ['at most 200 characters', { 'content-type': 'text/html' }, 'x'.repeat(100_000), /[^x]x{199}…$/],
    ['no image', { 'content-type': 'image/png' }, 'gibberish', /page 1 of run R$/],
    ['nothing undecodable', { 'content-type': 'text/plain', 'content-encoding': 'gzip' }, 'x', /page 1 of run R$/],
  ])('quotes %s of the response', async (_, headers, body, message) => {
    expect((await failureFor({ status: 500, headers, body })).message).toMatch(message);
  });
});

describe('an endless error response', () => {
  it('is read only as far as the excerpt needs', async () => {
    const { promise: closed, resolve: onClose } = Promise.withResolvers<number>();
    expect(
      (
        await failureFrom(async (socket) => {
          socket.on('close', () => onClose(socket.bytesWritten));
          socket.write('HTTP/1.1 500 Oops\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n');
          while (!socket.destroyed)
            if (!socket.write(chunk('again '.repeat(1_000)))) await once(socket, 'drain').catch(() => {});
        })
      ).message,
    ).toContain('again again');
    // The size of the buffers, but not what arrives within two seconds.
    expect(await closed).toBeLessThan(16 * 1024 * 1024);
  });
});

describe('a service that echoes the API key', () => {
  // test/service/redaction has the encodings.
  const interleaved = trickyApiKey.replaceAll(/(.)/g, '$1\0');
  const echoes: Record<string, string> = {
    plain: trickyApiKey,
    'in the middle of Base64': Buffer.from(`user:${trickyApiKey}:x`).toString('base64url'),
    'interleaved with control characters, at the end of the excerpt': `${'.'.repeat(190)}${interleaved}`,
    'at the end of the bytes that are read': `${'\u0001'.repeat(4096 - 20)}${trickyApiKey}`,
    'at the end of the excerpt': `${'.'.repeat(190)}${trickyApiKey}`,
  };
  it.each(Object.entries(echoes))('%s is not quoted', async (_, body) => {
    const error = await failureFor({ status: 400, headers: { 'content-type': 'text/plain' }, body });
    expect(error.message).toMatch(/Check filter and size: .*\. Response: \[not shown: it contains the API key\]$/);
  });

  it('and cuts it off is not quoted up to there', async () => {
    const headers = { 'content-type': 'text/plain' };
    // The first seven letters and digits are not recognized.
    for (const length of [4_087, 4_088, 4_089]) {
      const body = `${'\u0001'.repeat(length)}${trickyApiKey}`;
      expect((await failureFor({ status: 400, headers, body })).message).not.toContain('S3c');
    }
  });

  it('in a header is not quoted', async () => {
    const type = `${'x'.repeat(80)}/${trickyApiKey}`;
    expect((await failureFor({ headers: { 'content-type': type } })).message).not.toContain('S3cr3t');
    const headers = {
      'x-request-id': `${'x'.repeat(80)}${trickyApiKey}`,
      location: `https://${Buffer.from(trickyApiKey).toString('hex')}/`,
    };
    expect((await failureFor({ status: 302, headers, body: '' })).message).not.toContain('S3cr3t');
  });

  it('in malformed XML is not quoted', async () => {
    const error = await failureFor({ body: '<SecretKey>' }, pageRequest(), { apiKey: fixedApiKey('SecretKey') });
    expect(error.message).toContain('(unclosed tag: [not shown: it contains the API key])');
    expect(error.message).not.toContain('SecretKey');
  });
});

describe('an informational response before the final one', () => {
  const precededBy = (line: string) => Buffer.concat([Buffer.from(`HTTP/1.1 ${line}\r\n\r\n`), rawResponse()]);

  it('of 103 is skipped', async () => {
    const page = await pageFrom(precededBy('103 Early Hints\r\nx-service-cursor: not-this'));
    expect(page.nextCursor).toBeNull();
    expect(await readPage(page)).toContain('<reports>');
  });

  it('of 100, which undici rejects, fails with ServiceUnavailableError', async () => {
    expect(await failureFrom(precededBy('100 Continue'))).toMatchObject({ name: 'ServiceUnavailableError' });
  });
});

describe('the connection after an error', () => {
  it('is reused if the body was short', async () => {
    await using server = await startRawServer(rawResponse({ status: 503, body: 'short' }), rawResponse());
    await using client = clientFor(server);
    await failureOf(fetchPage(client, pageRequest()));
    await nextTurn();
    await readPage(fetchPage(client, pageRequest()));
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1]);
  });

  it('is closed if the body is incomplete', async () => {
    const start = rawResponse({ status: 503, framing: 'chunked', body: 'x'.repeat(8192) }).subarray(0, -5);
    await using server = await startRawServer(start);
    await using client = clientFor(server);
    await failureOf(fetchPage(client, pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('is closed if the headers of a page are invalid', async () => {
    await using server = await startRawServer(
      'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9999\r\n\r\n<html>',
    );
    await using client = clientFor(server);
    await failureOf(fetchPage(client, pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});
