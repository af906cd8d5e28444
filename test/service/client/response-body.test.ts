/** The body of a page as it streams: what a caller sees, timeouts and interruptions. No connection is left open. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../lib/core/ports.ts';
import { listen } from '../../support/service/loopback.ts';
import { cases, fc } from '../../support/property.ts';
import { chunk, type RawReply, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  aCursor,
  backoff,
  clientFor,
  failureOf,
  pageFrom,
  pageRequest,
  patientClock,
  readPage,
} from '../../support/service/service-client.ts';
import { fetchPage } from '../../support/builders.ts';
import { createVirtualClock } from '../../support/virtual-clock.ts';

const chunkedHead = 'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ntransfer-encoding: chunked\r\n\r\n';
/** The headers and the first chunk of an incomplete page. */
const incomplete = Buffer.concat([Buffer.from(chunkedHead), chunk('<r>')]);

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

describe('a body above the size limit', () => {
  it('is not read further', async () => {
    await using server = await startRawServer(async (socket) => {
      socket.write(incomplete);
      while (!socket.destroyed) {
        socket.write(chunk('<a/>'.repeat(1_000)));
        await pause(1);
      }
    });
    await using client = clientFor(server, { maxPageBytes: 100_000 });
    expect(await failureOf(fetchPage(client, pageRequest()))).toMatchObject({ name: 'ConfigurationError' });
    await expect.poll(() => server.open, backoff).toBe(0);
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
    const totalTimeout = 60_000;
    const sleep: Clock['sleep'] = async (ms, signal) => {
      // Any other timer: the headers have arrived, and the beginning of the body is being read.
      if (ms !== totalTimeout) interruption.abort('Ctrl-C');
      await patientClock.sleep(ms, signal);
    };
    await using client = clientFor(server, { totalTimeout, clock: { ...patientClock, sleep } });
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

it('the time that a request waits for its turn is none of its total time', async () => {
  await using server = await startRawServer(rawResponse());
  const clock = createVirtualClock();
  await using client = clientFor(server, { clock, totalTimeout: 1_000 });
  await fetchPage(client, { ...pageRequest(), beforeSend: () => clock.advance(60_000) });
  expect(server.requests).toHaveLength(1);
});
