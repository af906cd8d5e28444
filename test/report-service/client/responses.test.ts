/** How the client handles the status and headers of a response (docs/service-contract.md, sections 2.3 and 7). */

import { once } from 'node:events';
import { setImmediate as loop, setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { chunk, rawAnswer, startRawServer } from '../../support/service/raw-server.ts';
import {
  aCursor,
  backoff,
  clientFor,
  failureOf,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';

type Parts = NonNullable<Parameters<typeof rawAnswer>[0]>;

/** What the client does with one page answered so. */
async function fetchAnswered(parts: Parts, request = pageRequest(), options: Parameters<typeof clientFor>[1] = {}) {
  await using server = await startRawServer(rawAnswer(parts));
  await using client = clientFor(server, options);
  const page = await client.fetchPage(request);
  return { page, text: await readPage(page) };
}

const failureFor = (parts: Parts, request = pageRequest(), options: Parameters<typeof clientFor>[1] = {}) =>
  failureOf(fetchAnswered(parts, request, options));

const json = pageRequest({ format: 'JSON' });

describe('a good page', () => {
  it('comes byte for byte, with its reports, its type and the service’s time', async () => {
    const body = '\uFEFF<r>\r\n<a>1</a>\t<b/><c><d/></c></r>\n';
    const { page, text } = await fetchAnswered(
      { body, headers: { date: 'Fri, 20 Nov 2026 02:00:07 GMT' } },
      pageRequest(),
      { now: () => 0 },
    );
    expect(text).toBe(body);
    expect(page.reports()).toBe(3);
    expect(page).toMatchObject({
      contentType: 'application/xml;charset=UTF-8',
      nextCursor: null,
      serviceTime: '2026-11-20T02:00:07Z',
    });
  });

  it('with no report at all is a page too', async () => {
    const { page } = await fetchAnswered({ body: '<reports/>' });
    expect(page.reports()).toBe(0);
  });

  it('tells its reports only once it has been read', async () => {
    await using server = await startRawServer(rawAnswer());
    await using client = clientFor(server);
    const page = await client.fetchPage(pageRequest());
    expect(() => page.reports()).toThrow('to its end before its reports');
  });

  it('in a format that is not XML passes through unread, whatever it calls itself', async () => {
    const { page, text } = await fetchAnswered({ body: '<not xml', headers: { 'content-type': 'x/y; z' } }, json);
    expect(text).toBe('<not xml');
    expect(page.reports()).toBeNull();
    expect(page.contentType).toBe('x/y; z');
  });

  it('in a container is not read as XML either', async () => {
    const { page } = await fetchAnswered(
      { body: 'PK', headers: { 'content-type': '' } },
      pageRequest({ container: 'ZIP' }),
    );
    expect(page.reports()).toBeNull();
    expect(page.contentType).toBe('application/octet-stream');
  });
});

describe('the service’s time', () => {
  const date = 'Fri, 20 Nov 2026 02:00:40 GMT';
  it.each([
    ['is taken back by the time the answer took, in whole seconds', date, 30_000, '2026-11-20T02:00:10Z'],
    ['is rounded down, or what arrived in between would be left out', date, 30_001, '2026-11-20T02:00:09Z'],
    ['is taken back by a second where the answer took a moment', date, 1, '2026-11-20T02:00:39Z'],
    ['is not moved forward by a clock of ours that was set back', date, -60_000, '2026-11-20T02:00:40Z'],
    ['is unknown where the date is none', 'yesterday', 0, null],
    ['is unknown where the date is not in HTTP’s form, which would be read in local time', '2026-11-20 02:00', 0, null],
    ['is read in the older forms of HTTP too', 'Friday, 20-Nov-26 02:00:40 GMT', 0, '2026-11-20T02:00:40Z'],
    ['is read in the oldest form of HTTP too', 'Fri Nov 20 02:00:40 2026', 0, '2026-11-20T02:00:40Z'],
    ['is unknown where the date names a time zone of its own', 'Fri, 20 Nov 2026 02:00:40 PST GMT', 0, null],
    ['is unknown where the calendar has no such day', 'Sun, 31 Feb 2026 02:00:40 GMT', 0, null],
    ['is unknown where a day has no such hour', 'Fri, 20 Nov 2026 24:00:00 GMT', 0, null],
    ['is unknown where a number alone would pass for a year', '1 GMT', 0, null],
    ['is unknown where no clock goes back so far', '-271821-04-20 GMT', 1, null],
  ])('%s', async (_, header, elapsedMs, expected) => {
    const clock = [1_000_000, 1_000_000 + elapsedMs];
    const now = () => clock.shift() ?? Number.NaN;
    const { page } = await fetchAnswered({ headers: { date: header } }, pageRequest(), { now });
    expect(page.serviceTime).toBe(expected);
  });

  it('is unknown where the service sends no date', async () => {
    const { page } = await fetchAnswered({});
    expect(page.serviceTime).toBeNull();
  });
});

describe('the cursor header', () => {
  it.each(['x-service-cursor', 'X-Service-Cursor', 'X-SERVICE-CURSOR'])('is found as %s', async (name) => {
    const { page } = await fetchAnswered({ headers: { [name]: aCursor } });
    expect(page.nextCursor).toBe(aCursor);
  });

  it('is found for a vendor in mixed case', async () => {
    const { page } = await fetchAnswered({ headers: { 'x-acme-cursor': aCursor } }, pageRequest(), { vendor: 'AcMe' });
    expect(page.nextCursor).toBe(aCursor);
  });

  it('keeps all that is its own, and loses the blanks around it, which HTTP does not count', async () => {
    const { page } = await fetchAnswered({ headers: { 'x-service-cursor': ' \t {not, "ours"} %2C  to+judge\t ' } });
    expect(page.nextCursor).toBe('{not, "ours"} %2C  to+judge');
  });

  it.each([
    ['empty', [['x-service-cursor', '']]],
    ['blank', [['x-service-cursor', ' \t ']]],
    [
      'there twice',
      [
        ['x-service-cursor', 'a'],
        ['X-SERVICE-CURSOR', 'a'],
      ],
    ],
    ['Latin-1', [['x-service-cursor', '1588888888888,é']]],
    ['broken by a tab', [['x-service-cursor', '1588888888888,\t550e']]],
  ] as const)('that is %s breaks the contract', async (_, headers) => {
    const error = await failureFor({ headers });
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining('cursor') });
  });
});

describe('the content type of an XML page', () => {
  it.each([
    'application/xml',
    'application/xml;charset=UTF-8',
    'Application/XML; Charset="utf-8"; profile=x',
    'application/xml ; charset=Utf-8',
  ])('may be %s', async (type) => {
    const { page } = await fetchAnswered({ headers: { 'content-type': type } });
    expect(page.contentType).toBe(type);
  });

  it.each(['text/html', 'application/json', 'application/xml;charset=ISO-8859-1', 'application/xhtml+xml', 'xml', ''])(
    'must not be %j',
    async (type) => {
      const error = await failureFor({ headers: { 'content-type': type } });
      expect(error.name).toBe('ContractError');
      expect(error.message).toContain(type === '' ? 'content type (none)' : JSON.stringify(type));
    },
  );

  it('must not come twice', async () => {
    const headers = [
      ['content-type', 'application/xml'],
      ['content-type', 'text/html'],
    ] as const;
    const error = await failureFor({ headers });
    expect(error).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining('application/xml, text/html'),
    });
  });
});

describe('an answer in a form nobody asked for', () => {
  it.each([pageRequest(), json])('breaks the contract if it is compressed', async (request) => {
    const error = await failureFor({ headers: { 'content-encoding': 'gzip' } }, request);
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining('"gzip"') });
  });

  it('may say that it is as it is', async () => {
    const { text } = await fetchAnswered({ headers: { 'content-encoding': 'Identity' }, body: '<r/>' });
    expect(text).toBe('<r/>');
  });

  it('breaks the contract if its end could not be told from a lost connection', async () => {
    const error = await failureFor({ framing: 'close', body: 'half?' }, json);
    expect(error).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining('neither a content-length'),
    });
  });

  it('breaks the contract in a transfer encoding other than chunks', async () => {
    const error = await failureFor({ headers: { 'transfer-encoding': 'gzip, chunked' }, framing: 'close' });
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining('"gzip, chunked"') });
  });

  it('breaks the contract if it is larger than a page may be, before any of it is read', async () => {
    await using server = await startRawServer(
      'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: 101\r\n\r\n',
    );
    await using client = clientFor(server, { limits: { maxPageBytes: 100 } });
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error).toMatchObject({ name: 'ContractError', message: expect.stringContaining('100 bytes') });
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});

describe('a status', () => {
  it.each([
    [206, 'ContractError', 'ContractError'],
    [204, 'ContractError', 'ContractError'],
    [301, 'RequestRejectedError', 'RequestRejectedError'],
    [304, 'RequestRejectedError', 'RequestRejectedError'],
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
  ])('of %i is a %s on a first page and a %s further on', async (status, first, further) => {
    const answer: Parts = { status, body: '', headers: { 'content-type': 'text/plain' } };
    expect(await failureFor(answer)).toMatchObject({
      name: first,
      message: expect.stringContaining('page 1 of run R'),
    });
    expect(await failureFor(answer, pageRequest({ cursor: aCursor }))).toMatchObject({
      name: further,
      message: expect.stringContaining('page 2 of run R'),
    });
  });

  it('of 200 is not believed for its cursor alone: an error page with one is no page', async () => {
    const error = await failureFor({ status: 500, headers: { 'x-service-cursor': aCursor } });
    expect(error.name).toBe('ServiceUnavailableError');
  });
});

describe('a redirect', () => {
  it('is not followed, and only its origin is told', async () => {
    await using other = await startRawServer(rawAnswer());
    const location = `${other.url}/elsewhere?token=hush`;
    const error = await failureFor({ status: 307, headers: { location }, body: '' });
    expect(error).toMatchObject({
      name: 'RequestRejectedError',
      message: expect.stringContaining('redirects are not followed'),
    });
    expect(error.message).toContain(other.url);
    expect(error.message).not.toContain('hush');
    expect(other.requests).toEqual([]);
  });
});

describe('Retry-After', () => {
  const date = 'Fri, 20 Nov 2026 02:00:00 GMT';
  const now = () => Date.parse('2026-11-20T01:59:00Z');
  it.each([
    ['seconds', '120', undefined, 120],
    ['seconds among blanks', '  7 ', undefined, 7],
    ['more seconds than a number can count', '9'.repeat(400), undefined, Number.MAX_SAFE_INTEGER],
    ['a date, by the service’s own clock', 'Fri, 20 Nov 2026 02:01:30 GMT', date, 90],
    ['a date, by our clock where the service names no time', 'Fri, 20 Nov 2026 02:00:00 GMT', undefined, 60],
    ['a date gone by', 'Fri, 20 Nov 2026 01:00:00 GMT', date, 0],
  ])('in %s is a floor for the next request', async (_, value, ownDate, seconds) => {
    const headers = { 'retry-after': value, ...(ownDate === undefined ? {} : { date: ownDate }) };
    for (const status of [429, 503]) {
      const error = await failureFor({ status, headers, body: '' }, pageRequest(), { now });
      expect(error).toMatchObject({ name: 'ServiceThrottledError', retryAfterSeconds: seconds });
    }
  });

  it.each(['-5', '1.5', 'soon', '', '2026-11-20', '120, 120'])('of %j is as good as none', async (value) => {
    const headers = { 'retry-after': value };
    const throttled = await failureFor({ status: 429, headers, body: '' });
    expect(throttled).toMatchObject({ name: 'ServiceThrottledError', retryAfterSeconds: undefined });
    expect(await failureFor({ status: 503, headers, body: '' })).toMatchObject({ name: 'ServiceUnavailableError' });
  });
});

describe('an error message', () => {
  it('tells status, page, request id and what the service says, on one line', async () => {
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

  it('says no more than 200 characters of an error page, however long it is', async () => {
    const error = await failureFor({
      status: 500,
      headers: { 'content-type': 'text/html' },
      body: 'x'.repeat(100_000),
    });
    expect(error.message.match(/x+$/)?.[0]).toHaveLength(200);
  });

  it.each([{ 'content-type': 'image/png' }, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }])(
    'does not repeat what is not text: %j',
    async (headers) => {
      const error = await failureFor({ status: 500, headers, body: 'gibberish' });
      expect(error.message).not.toContain('gibberish');
    },
  );

  it('does not wait for an error page that never ends', async () => {
    await using server = await startRawServer(async (socket) => {
      socket.write(`HTTP/1.1 500 Oops\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n`);
      while (!socket.destroyed) {
        socket.write(chunk('again '));
        await pause(20);
      }
    });
    await using client = clientFor(server);
    const error = await failureOf(client.fetchPage(pageRequest()));
    expect(error.message).toContain('responded with 500');
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});

describe('an error page that never ends', () => {
  it('is read only as far as its excerpt needs, however fast it comes', async () => {
    const { promise: closed, resolve: onClose } = Promise.withResolvers<number>();
    await using server = await startRawServer(async (socket) => {
      socket.on('close', () => onClose(socket.bytesWritten));
      socket.write('HTTP/1.1 500 Oops\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n');
      while (!socket.destroyed)
        if (!socket.write(chunk('again '.repeat(1_000)))) await once(socket, 'drain').catch(() => {});
    });
    await using client = clientFor(server);
    expect((await failureOf(client.fetchPage(pageRequest()))).message).toContain('again again');
    // Whatever lies in the buffers on the way, but not what two seconds could carry.
    expect(await closed).toBeLessThan(16 * 1024 * 1024);
  });
});

describe('a service that echoes the API key', () => {
  const echoes: Record<string, string> = {
    plain: trickyApiKey,
    'in capitals': trickyApiKey.toUpperCase(),
    'in JSON': JSON.stringify({ key: trickyApiKey }),
    'in a URL': encodeURIComponent(trickyApiKey),
    'in a form': new URLSearchParams({ key: trickyApiKey }).toString(),
    'in HTML': trickyApiKey
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&#34;'),
    'in Base64': Buffer.from(trickyApiKey).toString('base64'),
    'in the middle of Base64': Buffer.from(`user:${trickyApiKey}:x`).toString('base64url'),
    'with control characters between': trickyApiKey.replaceAll(/(.)/g, '$1\0'),
    'with control characters between, where the message is cut': `${'.'.repeat(190)}${trickyApiKey.replaceAll(/(.)/g, '$1\0')}`,
    'at the end of what is read of it': `${'\u0001'.repeat(4096 - 20)}${trickyApiKey}`,
    'right where the message is cut': `${'.'.repeat(190)}${trickyApiKey}`,
  };
  it.each(Object.entries(echoes))('%s is not repeated', async (_, body) => {
    const error = await failureFor({ status: 400, headers: { 'content-type': 'text/plain' }, body });
    // failureOf has looked for the key; no recognizable part of it may be left either.
    expect(error.message).not.toMatch(/S3cr3t|chars/i);
  });

  it('in a header that the error names is not repeated', async () => {
    const type = `${'x'.repeat(80)}/${trickyApiKey}`;
    expect((await failureFor({ headers: { 'content-type': type } })).message).not.toContain('S3cr3t');
    const headers = {
      'x-request-id': `${'x'.repeat(80)}${trickyApiKey}`,
      location: `https://${Buffer.from(trickyApiKey).toString('hex')}/`,
    };
    expect((await failureFor({ status: 302, headers, body: '' })).message).not.toContain('S3cr3t');
  });

  it.each([
    ['as it is', trickyApiKey],
    ['in the middle of something', `1588888888888,${trickyApiKey}`],
    ['in hexadecimal', Buffer.from(trickyApiKey).toString('hex')],
    ['in Base64', Buffer.from(`cursor:${trickyApiKey}`).toString('base64')],
    ['as in a URL', encodeURIComponent(trickyApiKey)],
  ])('in its cursor, which manifests and logs hold for good, breaks the contract: %s', async (_, cursor) => {
    const error = await failureFor({ headers: { 'x-service-cursor': cursor } });
    expect(error).toMatchObject({
      name: 'ContractError',
      message: expect.stringContaining('the cursor contains the API key'),
    });
  });

  it('in its content type, which the store keeps, breaks the contract', async () => {
    const type = `application/xml; note="${Buffer.from(trickyApiKey).toString('hex')}"`;
    expect(await failureFor({ headers: { 'content-type': type } })).toMatchObject({ name: 'ContractError' });
    expect(await failureFor({ headers: { 'content-type': type } }, json)).toMatchObject({ name: 'ContractError' });
  });

  it('of so few characters that any cursor may hold them by chance is not seen in one', async () => {
    const apiKey = fixedApiKey('550e8400');
    const { page } = await fetchAnswered({ headers: { 'x-service-cursor': aCursor } }, pageRequest(), { apiKey });
    expect(page.nextCursor).toBe(aCursor);
  });

  it('in broken XML is not repeated', async () => {
    const apiKey = { get: async () => 'SecretKey', refresh: async () => 'SecretKey' };
    const error = await failureFor({ body: '<SecretKey>' }, pageRequest(), { apiKey });
    expect(error.message).toContain('[redacted]');
    expect(error.message).not.toContain('SecretKey');
  });
});

describe('an informational answer ahead of the final one', () => {
  const behind = (line: string) => Buffer.concat([Buffer.from(`HTTP/1.1 ${line}\r\n\r\n`), rawAnswer()]);

  it('of 103 is passed over', async () => {
    await using server = await startRawServer(behind('103 Early Hints\r\nx-service-cursor: not-this'));
    await using client = clientFor(server);
    const page = await client.fetchPage(pageRequest());
    expect(page.nextCursor).toBeNull();
    expect(await readPage(page)).toContain('<reports>');
  });

  it('of 100, which undici takes for a fault, is at least told from a page', async () => {
    await using server = await startRawServer(behind('100 Continue'));
    await using client = clientFor(server);
    expect(await failureOf(client.fetchPage(pageRequest()))).toMatchObject({ name: 'ServiceUnavailableError' });
  });
});

describe('after an error', () => {
  it('with a short body its connection serves the next page', async () => {
    await using server = await startRawServer(rawAnswer({ status: 503, body: 'short' }), rawAnswer());
    await using client = clientFor(server);
    await failureOf(client.fetchPage(pageRequest()));
    await loop();
    await readPage(client.fetchPage(pageRequest()));
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1]);
  });

  it('with a body that is still coming its connection is closed', async () => {
    const start = rawAnswer({ status: 503, framing: 'chunked', body: 'x'.repeat(8192) }).subarray(0, -5);
    await using server = await startRawServer(start);
    await using client = clientFor(server);
    await failureOf(client.fetchPage(pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('with a good status but wrong headers its connection is closed', async () => {
    await using server = await startRawServer(
      'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9999\r\n\r\n<html>',
    );
    await using client = clientFor(server);
    await failureOf(client.fetchPage(pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});
