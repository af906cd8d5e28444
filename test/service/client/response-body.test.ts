/** The body of a page: complete or an error, and never a connection left open. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ErrorName } from '../../../lib/core/errors.ts';
import type { Clock, PageRequest } from '../../../lib/core/ports.ts';
import { listen } from '../../support/service/loopback.ts';
import { cases, fc } from '../../support/property.ts';
import { chunk, type RawReply, rawResponse, startRawServer, twoReports } from '../../support/service/raw-server.ts';
import {
  anError,
  aCursor,
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

const chunkedHead = 'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ntransfer-encoding: chunked\r\n\r\n';
/** The headers and the first chunk of an incomplete page. */
const incomplete = Buffer.concat([Buffer.from(chunkedHead), chunk('<r>')]);
const json = pageRequest({ format: 'JSON' });

describe('a chunked body', () => {
  it('arrives complete, however it is chunked', async () => {
    const body = Buffer.from('<r><a>Grüße, 世界, 🌍</a><b/></r>');
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(body.length), { maxLength: 6 }), async (cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), body.length];
        const pieces = edges.slice(1).map((end, index) => body.subarray(edges[index], end));
        const page = await pageFrom(async (socket) => {
          socket.setNoDelay(true).write(chunkedHead);
          for (const piece of pieces.filter(({ length }) => length > 0)) socket.write(chunk(piece));
          socket.write(chunk(''));
        });
        expect(page.body.equals(body)).toBe(true);
        expect(page.reports).toBe(2);
      }),
      { numRuns: cases(25) },
    );
  });

  it('is streamed: its first bytes arrive before its last are sent', async () => {
    const { promise: firstChunkRead, resolve: onFirstChunk } = Promise.withResolvers<void>();
    await using server = await startRawServer(async (socket) => {
      socket.write(Buffer.concat([Buffer.from(chunkedHead), chunk('<r><a/>')]));
      await firstChunkRead;
      socket.write(Buffer.concat([chunk('</r>'), chunk('')]));
    });
    await using client = clientFor(server);
    const received: string[] = [];
    await client.fetch(pageRequest(), {
      async sink(body) {
        for await (const piece of body) {
          received.push(Buffer.from(piece).toString());
          onFirstChunk();
        }
      },
    });
    expect(received).toEqual(['<r><a/>', '</r>']);
  });

  it('that ends when the connection closes is complete if its root is closed', async () => {
    const page = await pageFrom((socket) => {
      socket.end(rawResponse({ framing: 'close' }));
    });
    expect(page.body.toString()).toBe(twoReports);
    expect(page.reports).toBe(2);
  });
});

describe('a body that has arrived with its headers', () => {
  it('is read after the request for the next page has been sent', async () => {
    await using server = await startRawServer(rawResponse({ headers: { 'x-service-cursor': aCursor } }));
    await using client = clientFor(server);
    // Two connections, so that the next request does not wait for this body's.
    await Promise.all([readPage(fetchPage(client, pageRequest())), readPage(fetchPage(client, pageRequest()))]);
    const events: string[] = [];
    const onSent = () => events.push('request sent');
    subscribe('undici:client:sendHeaders', onSent);
    try {
      let next: ReturnType<typeof fetchPage> | undefined;
      await client.fetch(pageRequest(), {
        async sink(body) {
          for await (const _ of body) events.push('body read');
        },
        onNextCursor() {
          next = fetchPage(client, pageRequest({ cursor: aCursor }));
        },
      });
      await next;
    } finally {
      unsubscribe('undici:client:sendHeaders', onSent);
    }
    expect(events).toEqual(['request sent', 'request sent', 'body read']);
  });
});

describe('a cursor header after the last chunk', () => {
  const endingWith = (trailers: string) =>
    Buffer.concat([Buffer.from(chunkedHead), chunk(twoReports), Buffer.from(`0\r\n${trailers}\r\n`)]);

  it.each(['x-service-cursor', 'X-SERVICE-CURSOR', 'X-Service-Cursor'])(
    'fails with ContractError, because the page would count as the last one (%s)',
    async (name) => {
      for (const request of [pageRequest(), json, pageRequest({ cursor: aCursor })]) {
        const error = await failureFrom(endingWith(`x-checksum: 1\r\n${name}: ${aCursor}\r\n`), request);
        expect(error).toMatchObject(anError('ContractError', /the cursor header follows the body/));
      }
    },
  );

  it('is not confused with other trailers, which are ignored', async () => {
    expect(await readPage(pageFrom(endingWith('x-checksum: 1\r\nx-cursor: 2\r\n')))).toBe(twoReports);
  });

  it('of another vendor fails with ContractError, unless our own cursor precedes the body', async () => {
    const whole = endingWith(`X-Other-Cursor: ${aCursor}\r\n`).toString();
    const withCursor = whole.replace('\r\n', `\r\nx-service-cursor: ${aCursor}\r\n`);
    await using server = await startRawServer(whole, withCursor);
    await using client = clientFor(server);
    expect(await failureOf(readPage(fetchPage(client, pageRequest())))).toMatchObject(
      anError('ContractError', 'it has the trailer x-other-cursor, but the header x-service-cursor is expected'),
    );
    expect(await readPage(fetchPage(client, pageRequest()))).toBe(twoReports);
  });
});

describe('a truncated body', () => {
  it.each([
    ['length', 'keep-alive'],
    ['length', 'close'],
    ['chunked', 'keep-alive'],
    ['chunked', 'close'],
  ] as const)('is detected at any byte (%s, %s)', async (framing, connection) => {
    const whole = rawResponse({ framing, headers: { 'x-service-cursor': aCursor, connection } });
    const head = whole.indexOf('\r\n\r\n') + 4;
    const sample = [head, head + 1, head + 5, whole.length - 6, whole.length - 3, whole.length - 1];
    for (const end of sample) {
      const error = await failureFrom((socket) => {
        socket.end(whole.subarray(0, end));
      });
      expect(error).toMatchObject({
        name: 'ServiceUnavailableError',
        message: expect.stringMatching(/closed the connection after \d+ bytes of page 1 of run R/),
        cause: expect.any(Error),
      });
    }
  });

  const resetAfter = (bytes: Buffer) => (socket: Socket) =>
    void socket.write(bytes, () => setTimeout(() => socket.resetAndDestroy(), 20));
  const tooShort = rawResponse({ body: '{"reports":[]}', headers: { 'content-length': '15' }, framing: 'close' });
  const http10 = (...headers: readonly string[]) =>
    ['HTTP/1.0 200 OK', 'content-type: application/xml', ...headers, '', twoReports].join('\r\n');
  it.each<[string, RawReply, ErrorName, string | RegExp, PageRequest?]>([
    [
      'by its content-length in JSON',
      (socket) => void socket.end(tooShort),
      'ServiceUnavailableError',
      'after 14 bytes',
      json,
    ],
    [
      'by missing end tags, without a length',
      (socket) => void socket.end(rawResponse({ framing: 'close' }).subarray(0, -12)),
      'ContractError',
      /unclosed tag/,
    ],
    [
      'after a connection reset',
      resetAfter(rawResponse().subarray(0, -20)),
      'ServiceUnavailableError',
      'closed the connection after',
    ],
    [
      'by a reset in place of the last chunk, although it looks complete',
      resetAfter(Buffer.concat([Buffer.from(chunkedHead), chunk('<r/>')])),
      'ServiceUnavailableError',
      '',
    ],
    [
      'in HTTP/1.0 by its content-length',
      (socket) => void socket.end(http10(`content-length: ${Buffer.byteLength(twoReports) + 1}`)),
      'ServiceUnavailableError',
      '',
    ],
    ['in HTTP/1.0 without a length', (socket) => void socket.end(http10().slice(0, -4)), 'ContractError', ''],
  ])('is detected %s', async (_, reply, name, text, request) => {
    expect(await failureFrom(reply, request)).toMatchObject(anError(name, text));
  });

  it.each([[`content-length: ${Buffer.byteLength(twoReports)}`], []])(
    'is not any response of HTTP/1.0: one whose end is certain is read (%s)',
    async (...headers) => {
      const reply: RawReply = (socket) => void socket.end(http10(...headers));
      expect(await readPage(pageFrom(reply))).toBe(twoReports);
    },
  );
});

describe('an invalid body', () => {
  it.each([
    ['at its beginning', 'Sorry!', 'text data outside of root'],
    ['at its end', '<r>\n <a>', 'unclosed tag: a'],
  ])('fails with ContractError: %s', async (_, body, problem) => {
    expect(await failureFrom(rawResponse({ body }))).toMatchObject(anError('ContractError', problem));
  });

  it('fails with ConfigurationError above the size limit, and is not read further', async () => {
    await using server = await startRawServer(async (socket) => {
      socket.write(incomplete);
      while (!socket.destroyed) {
        socket.write(chunk('<a/>'.repeat(1_000)));
        await pause(1);
      }
    });
    await using client = clientFor(server, { maxPageBytes: 100_000 });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({
      name: 'ConfigurationError',
      message:
        'Report service sent more than 100000 bytes for page 1 of run R, but maxPageBytes is 100000. ' +
        'Raise maxPageBytes in the settings file, or restart the run with fewer reports per page (size)',
    });
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('may be exactly as large as the limit', async () => {
    const page = pageFrom(rawResponse(), pageRequest(), { maxPageBytes: Buffer.byteLength(twoReports) });
    expect(await readPage(page)).toBe(twoReports);
  });
});

describe('a slow service', () => {
  const silent = () => {};
  // Over TLS, the listener never completes a handshake.
  it.each<[object, RawReply, string, string, number]>([
    [{ headersTimeout: 50 }, silent, 'http:', 'sent no response within 50 ms for', 0],
    [{ bodyTimeout: 50 }, incomplete, 'http:', 'sent no data for 50 ms after 3 bytes of', 0],
    [{ connectTimeout: 60 }, silent, 'https:', 'did not accept a connection within 60 ms for', 0],
    [{ totalTimeout: 60 }, silent, 'https:', 'took longer than 60 ms in total for', 1],
  ])('fails after the first of its timeouts: %j', async (timeouts, reply, scheme, problem, open) => {
    await using server = await startRawServer(reply);
    await using client = clientFor({ url: server.url.replace('http:', scheme) }, timeouts);
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({
      name: 'ServiceUnavailableError',
      message: `Report service ${problem} page 1 of run R`,
    });
    // A connection that is not open yet is kept until it is.
    await expect.poll(() => server.open, backoff).toBe(open);
  });
});

describe('a TLS connection', () => {
  it('offers HTTP/1.1 only, to which the header limit and the timeouts apply', async () => {
    const { promise: clientHello, resolve: onClientHello } = Promise.withResolvers<Buffer>();
    await using listener = await listen(
      createServer((socket) => {
        socket
          .on('error', () => {})
          .once('data', (hello) => {
            onClientHello(Buffer.from(hello));
            socket.destroy();
          });
      }),
    );
    await using client = clientFor({ url: `https://127.0.0.1:${listener.port}` });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({ name: 'ServiceUnreachableError' });
    // The ALPN protocols of the ClientHello: two bytes of length, then each protocol with its length.
    expect((await clientHello).includes('\x00\x09\x08http/1.1')).toBe(true);
  });
});

describe('a response that is not HTTP', () => {
  const echo = `X-SERVICE-API-KEY: ${trickyApiKey}`;
  const withLengths = (headers: string) => `HTTP/1.1 200 OK\r\n${headers}\r\n\r\nxx`;
  const lengths =
    'malformed headers, or more than one length: content-length twice, or together with transfer-encoding';
  it.each([
    ['in its first line', `SSH-2.0 ${echo}\r\n\r\n`, 'Expected HTTP/, RTSP/ or ICE/'],
    ['in its version', 'HTTP/1.2 200 OK\r\n\r\n', 'Invalid HTTP version'],
    ['in its headers', `HTTP/1.1 200 OK\r\n${echo}\r\nno colon\r\n\r\n`, 'Invalid header token'],
    ['in its chunks', Buffer.concat([incomplete, Buffer.from(`zz\r\n${echo}\r\n`)]), 'Invalid character in chunk size'],
    ['with two lengths', withLengths('content-length: 1\r\ncontent-length: 2'), lengths],
    ['with the same length twice', withLengths('content-length: 2\r\ncontent-length: 2'), lengths],
    ['with a length and chunks', withLengths('content-length: 1\r\ntransfer-encoding: chunked'), lengths],
    ['with a length that is no number', withLengths('content-length: 99999999999999999999'), lengths],
  ])('fails with ContractError, without repeating its bytes: %s', async (_, response, problem) => {
    const { name, message } = await failureFrom(response);
    expect(name).toBe('ContractError');
    expect(message).toMatch(/^Report service sent a response that is not valid HTTP \(/);
    expect(message).toContain(`(${problem})`);
    expect(message).toMatch(
      /(for|bytes of) page 1 of run R\. Send this message to the operators of the service, or of a proxy/,
    );
  });
});

describe('an interruption', () => {
  const silent = () => {};
  it('before the request prevents it', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    await expect(fetchPage(client, pageRequest(), AbortSignal.abort('enough'))).rejects.toBe('enough');
    expect(server.requests).toEqual([]);
  });

  it.each(['http:', 'https:'])('while waiting for a response (%s) rejects with its own reason', async (scheme) => {
    await using server = await startRawServer(silent);
    await using client = clientFor({ url: server.url.replace('http:', scheme) });
    const interruption = new AbortController();
    const fetching = fetchPage(client, pageRequest(), interruption.signal);
    await expect.poll(() => server.open, backoff).toBe(1);
    interruption.abort();
    await expect(fetching).rejects.toBe(interruption.signal.reason);
    expect(interruption.signal.reason).toMatchObject({ name: 'AbortError' });
  });

  it('during the body rejects with its own reason, and closes the connection', async () => {
    await using server = await startRawServer(incomplete);
    await using client = clientFor(server);
    const interruption = new AbortController();
    const sink = async (body: AsyncIterable<Uint8Array>) => {
      for await (const _ of body) interruption.abort('Ctrl-C');
    };
    const { signal } = interruption;
    await expect(client.fetch(pageRequest(), { sink, signal })).rejects.toBe('Ctrl-C');
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('during an error response rejects with its own reason', async () => {
    await using server = await startRawServer('HTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\n...');
    await using client = clientFor(server);
    const interruption = new AbortController();
    const fetching = fetchPage(client, pageRequest(), interruption.signal);
    await expect.poll(() => server.requests.length, backoff).toBe(1);
    interruption.abort('Ctrl-C');
    await expect(fetching).rejects.toBe('Ctrl-C');
  });

  it('during a response with Retry-After still reports that: other requests must not come earlier', async () => {
    await using server = await startRawServer('HTTP/1.1 429 Busy\r\nretry-after: 300\r\ncontent-length: 9\r\n\r\n...');
    const interruption = new AbortController();
    const totalTimeout = 15_000;
    const sleep: Clock['sleep'] = async (ms, signal) => {
      // Any other timer: the headers have arrived, and the beginning of the body is being read.
      if (ms !== totalTimeout) interruption.abort('Ctrl-C');
      await systemRuntime.sleep(ms, signal);
    };
    await using client = clientFor(server, { totalTimeout, clock: { ...systemRuntime, sleep } });
    const error = await failureOf(fetchPage(client, pageRequest(), interruption.signal));
    expect(error).toMatchObject({ name: 'ServiceThrottledError', retryAfterSeconds: 300 });
  });

  it('leaves no listener after the request', async () => {
    await using server = await startRawServer(rawResponse(), rawResponse({ status: 503 }), rawResponse());
    await using client = clientFor(server);
    const { signal } = new AbortController();
    await readPage(fetchPage(client, pageRequest(), signal));
    await failureOf(fetchPage(client, pageRequest(), signal));
    await expect.poll(() => getEventListeners(signal, 'abort'), backoff).toEqual([]);
  });
});

describe('a sink that fails', () => {
  it.each<[string, (body: AsyncIterable<Uint8Array>) => Promise<void>]>([
    [
      'within the body',
      async (body) => {
        for await (const _ of body) throw new Error('disk full');
      },
    ],
    [
      'before it reads anything',
      async () => {
        throw new Error('disk full');
      },
    ],
  ])('%s ends the request with its own error, and leaves no open connection', async (_, sink) => {
    await using server = await startRawServer(incomplete);
    await using client = clientFor(server);
    await expect(client.fetch(pageRequest(), { sink })).rejects.toThrow('disk full');
    await expect.poll(() => server.open, backoff).toBe(0);
  });

  it('to read to the end does not get a page', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    const page = client.fetch(pageRequest(), { sink: async () => {} });
    await expect(page).rejects.toThrow('The body of page 1 of run R was not read to its end');
  });
});

describe('a closed client', () => {
  it('fails what it was reading, without blaming the service', async () => {
    await using server = await startRawServer(incomplete);
    const client = clientFor(server);
    const sink = async (body: AsyncIterable<Uint8Array>) => {
      for await (const _ of body) void client[Symbol.asyncDispose]();
    };
    await expect(client.fetch(pageRequest(), { sink })).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    await expect(fetchPage(client, pageRequest())).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});
