/** Harmful responses, case by case: each is rejected or passed through unchanged, at a bounded cost. */

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { constants, deflateRawSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { listen } from '../../support/service/loopback.ts';
import { chunk, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
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
import { createVirtualClock } from '../../support/virtual-clock.ts';
import { fetchPage } from '../../support/builders.ts';

const mebibyte = 1024 * 1024;

/** Sends `opening`, then `again` until the connection closes. `sent` counts the bytes that have left. */
function flooding(opening: string | Buffer, again: string | Buffer) {
  const flood = {
    sent: 0,
    respond: async (socket: Socket) => {
      socket.write(opening);
      while (!socket.destroyed) {
        if (!socket.write(again)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {});
        flood.sent = socket.bytesWritten;
        // Let the client read.
        await new Promise(setImmediate);
      }
    },
  };
  return flood;
}

const head = (...lines: readonly string[]) =>
  ['HTTP/1.1 200 OK', 'content-type: application/xml', ...lines, '', ''].join('\r\n');

describe('a gzip bomb', () => {
  /** A mebibyte of spaces in a kilobyte. */
  const bomb = gzipSync(Buffer.alloc(mebibyte, ' '));
  const json = pageRequest({ format: 'JSON' });

  it('that never ends is refused by its ratio, long before its size', async () => {
    const header = bomb.subarray(0, 10);
    const block = deflateRawSync(Buffer.alloc(mebibyte, ' '), { finishFlush: constants.Z_FULL_FLUSH });
    const opening = head('content-encoding: gzip', 'transfer-encoding: chunked');
    const flood = flooding(Buffer.concat([Buffer.from(opening), chunk(header)]), chunk(block));
    await using server = await startRawServer(flood.respond);
    await using client = clientFor(server, { maxPageBytes: 1_000 * mebibyte });
    let bytes = 0;
    const sink = async (body: AsyncIterable<Uint8Array>) => {
      for await (const part of body) bytes += part.length;
    };
    expect(await failureOf(client.fetch(json, { sink }))).toMatchObject(
      anError('ContractError', 'set compression to false'),
    );
    await expect.poll(() => server.open, backoff).toBe(0);
    expect(bytes).toBeLessThan(17 * mebibyte);
    // The size of the buffers.
    expect(flood.sent).toBeLessThan(16 * mebibyte);
  });

  it('in an error response is decompressed as far as the excerpt needs', async () => {
    const response = rawResponse({
      status: 500,
      headers: { 'content-encoding': 'gzip', 'content-type': 'text/plain' },
      body: gzipSync(Buffer.alloc(64 * mebibyte, 'x')),
    });
    expect((await failureFrom(response)).message).toMatch(/Response: x{199}…$/);
  });
});

describe('an XML bomb', () => {
  it('with external entities fetches nothing', async () => {
    await using other = await startRawServer(rawResponse());
    const { url } = other;
    const body =
      `<?xml version="1.0"?><!DOCTYPE r PUBLIC "-//x" "${url}/dtd" [<!ENTITY e SYSTEM "${url}/e">` +
      `<!ENTITY % p SYSTEM "${url}/p">%p;<!ENTITY f SYSTEM "file:///etc/passwd">]>` +
      `<r xmlns:xi="http://www.w3.org/2001/XInclude">&e;&f;<xi:include href="${url}/x"/></r>`;
    expect(await readPage(pageFrom(rawResponse({ body })))).toBe(body);
    expect({ requests: other.requests, open: other.open }).toEqual({ requests: [], open: 0 });
  });
});

describe('an endless response', () => {
  const totalTimeoutMs = 240_000;

  it.each([
    ['of early hints', '', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100)],
    ['of blank lines', '', '\r\n'.repeat(1_000)],
    ['of a chunk’s extension', `${head('transfer-encoding: chunked')}4;`, 'x'.repeat(1_000)],
  ])('%s fails after the total timeout', async (_, opening, again) => {
    const flood = flooding(opening, again);
    await using server = await startRawServer(flood.respond);
    const clock = createVirtualClock();
    await using client = clientFor(server, { clock, totalTimeout: totalTimeoutMs });
    const failing = failureOf(readPage(fetchPage(client, pageRequest())));
    await expect.poll(() => flood.sent, backoff).toBeGreaterThan(4 * mebibyte);
    await clock.advance(totalTimeoutMs);
    expect(await failing).toMatchObject(anError('ServiceUnavailableError', '240000 ms in total'));
    await expect.poll(() => server.open, backoff).toBe(0);
    expect(clock.sleepers()).toBe(0);
  });
});

describe('a response of one byte per second', () => {
  it.each([
    ['in the status line', '', 'HTTP/1.1 200 '],
    ['in the headers', '', 'HTTP/1.1 200 OK\r\nx-slow: '],
    ['in the body', head('content-length: 9999'), '<r>'],
    ['in a chunk', `${head('transfer-encoding: chunked')}fff\r\n`, '<r>'],
  ])('%s fails after four minutes, and not before', async (_, opening, start) => {
    const { error, seconds } = await trickle(opening, start);
    expect(error).toMatchObject(anError('ServiceUnavailableError', '240000 ms in total'));
    expect(seconds).toBe(240);
  });

  it('in an error response is read for two seconds only', async () => {
    const opening = 'HTTP/1.1 410 Gone\r\ncontent-type: text/plain\r\ncontent-length: 9999\r\n\r\n';
    // The other limit is that of the whole request.
    const { error, seconds } = await trickle(opening, 'Sorry', { limits: 2 });
    expect(error).toMatchObject({ name: 'RequestRejectedError' });
    expect(seconds).toBe(2);
  });

  /**
   * Sends `opening`, then `start` and padding at a byte per second. Returns the error, and when it came. `limits` of
   * time apply once the client has read the opening.
   */
  async function trickle(opening: string, start: string, { limits } = { limits: 1 }) {
    let socket: Socket | undefined;
    await using server = await startRawServer((taken) => {
      socket = taken;
      socket.setNoDelay(true).write(opening);
    });
    const clock = createVirtualClock();
    await using client = clientFor(server, { clock, totalTimeout: 240_000 });
    let failed: Error | undefined;
    const failing = failureOf(readPage(fetchPage(client, pageRequest()))).then((error) => {
      failed = error;
    });
    await expect.poll(() => socket, backoff).toBeDefined();
    await expect.poll(() => clock.sleepers(), backoff).toBe(limits);
    let seconds = 0;
    for (; failed === undefined && seconds < 1_000; seconds += 1) {
      socket?.write(start[seconds] ?? 'x');
      await clock.advance(1_000);
      // After a timeout, destroying the stream takes some turns of the event loop.
      if (clock.sleepers() < limits) await failing;
    }
    await expect.poll(() => server.open, backoff).toBe(0);
    return { error: failed, seconds };
  }
});

describe('a redirect to another host', () => {
  it.each([300, 301, 302, 303, 305, 307, 308])(
    'with %i is not followed: the other host receives nothing',
    async (status) => {
      await using other = await startRawServer(rawResponse());
      const headers = {
        location: `${other.url}/v1/report/export?key=${encodeURIComponent(trickyApiKey)}`,
        refresh: `0; url=${other.url}`,
        'content-location': other.url,
        'alt-svc': `http/1.1="${other.url.replace('http://', '')}"`,
        'retry-after': '0',
      };
      await using server = await startRawServer(rawResponse({ status, headers, body: '' }), rawResponse());
      await using client = clientFor(server);
      const { name, message } = await failureOf(fetchPage(client, pageRequest()));
      expect(name).toBe('RequestRejectedError');
      // The rest of the address may be secret.
      expect(message).toContain(`redirects are not followed, because they would forward the API key. Check baseUrl`);
      expect(message).toMatch(new RegExp(`; the response redirects to ${other.url}$`));
      await readPage(fetchPage(client, pageRequest({ cursor: aCursor })));
      expect({ requests: other.requests, open: other.open }).toEqual({ requests: [], open: 0 });
      expect(server.requests).toHaveLength(2);
    },
  );
});

describe('an unsolicited response', () => {
  const numbered = (n: string) => rawResponse({ body: `<reports><report n="${n}"/></reports>` });

  it('after another response is not mistaken for the next page', async () => {
    await using server = await startRawServer(Buffer.concat([numbered('1'), numbered('smuggled')]), numbered('2'));
    await using client = clientFor(server);
    expect(await readPage(fetchPage(client, pageRequest()))).toContain('n="1"');
    expect(await readPage(fetchPage(client, pageRequest({ cursor: aCursor })))).toContain('n="2"');
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 2]);
  });

  it('between two requests is not mistaken for the next page', async () => {
    await using server = await startRawServer(async (socket, { connection }) => {
      socket.write(numbered(`${connection}`));
      await pause(20);
      socket.write(numbered('unsolicited'));
    });
    await using client = clientFor(server);
    expect(await readPage(fetchPage(client, pageRequest()))).toContain('n="1"');
    await expect.poll(() => server.open, backoff).toBe(0);
    expect(await readPage(fetchPage(client, pageRequest({ cursor: aCursor })))).toContain('n="2"');
  });

  it('before the request was read is checked like any other', async () => {
    const hasty = createServer((socket) => {
      socket.on('error', () => {}).end(rawResponse({ headers: { 'content-type': 'text/html' } }));
    });
    await using listening = await listen(hasty);
    await using client = clientFor(listening);
    const error = await failureOf(fetchPage(client, pageRequest()));
    expect(['ContractError', 'ServiceUnavailableError']).toContain(error.name);
  });
});
