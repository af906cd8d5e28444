/** What an exchange cannot show of a response: when it arrived, how much of it is read, and its connection. */

import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { at, fetchPage } from '../../support/builders.ts';
import { chunk, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  backoff,
  clientFor,
  failureFrom,
  failureOf,
  impatientClock,
  pageFrom,
  pageRequest,
  readPage,
} from '../../support/service/service-client.ts';

it('has the time of its request, and how long its headers took, without what was read before and after', async () => {
  let now = Date.UTC(2026, 10, 20, 2);
  const wait = (ms: number) => {
    now += ms;
  };
  const get = async () => {
    wait(3_000);
    return 'key';
  };
  const { promise: bodyBegun, resolve: onChunk } = Promise.withResolvers<void>();
  await using server = await startRawServer(async (socket) => {
    wait(40);
    const response = rawResponse();
    socket.write(response.subarray(0, -20));
    await bodyBegun;
    wait(7_000);
    socket.write(response.subarray(-20));
  });
  const apiKey = { get, refresh: get };
  await using client = clientFor(server, { apiKey, now: () => now, monotonicNow: () => now });
  const received = await client.fetch(pageRequest(), {
    async sink(body) {
      for await (const _ of body) onChunk();
    },
  });
  expect(received).toHaveProperty('timing', { requestedAt: at('2026-11-20T02:00:03Z'), latencyMs: 40 });
});

it.each([-60_000, 3_600_000])('the service time does not depend on a clock that is set by %d ms', async (setMs) => {
  const clockOf = (...times: number[]) => {
    return () => times.shift() ?? Number.NaN;
  };
  const response = rawResponse({ headers: { date: 'Fri, 20 Nov 2026 02:00:40 GMT' } });
  const now = clockOf(1_000_000, 1_000_000 + setMs);
  const page = await pageFrom(response, pageRequest(), { now, monotonicNow: clockOf(5_000, 35_000) });
  expect(page.serviceTime).toBe('2026-11-20T02:00:10Z');
});

it('an endless error response is read only as far as the excerpt needs', async () => {
  const { promise: closed, resolve: onClose } = Promise.withResolvers<number>();
  const { message } = await failureFrom(async (socket) => {
    socket.on('close', () => onClose(socket.bytesWritten));
    socket.write('HTTP/1.1 500 Oops\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n');
    while (!socket.destroyed)
      if (!socket.write(chunk('again '.repeat(1_000)))) await once(socket, 'drain').catch(() => {});
  });
  expect(message).toContain('again again');
  // The size of the buffers, but not what arrives within two seconds.
  expect(await closed).toBeLessThan(16 * 1024 * 1024);
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

  it.each([
    [
      'is incomplete',
      rawResponse({ status: 503, framing: 'chunked', body: 'x'.repeat(8192) })
        .subarray(0, -5)
        .toString(),
    ],
    ['has invalid headers', 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9999\r\n\r\n<html>'],
    [
      'is too long by its headers',
      'HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: 9999999\r\n\r\n',
    ],
    ['rejects the key', 'HTTP/1.1 401 No\r\ncontent-type: text/plain\r\ncontent-length: 99999\r\n\r\nno'],
  ])('is closed if the response %s', async (_, response) => {
    await using server = await startRawServer(response);
    await using client = clientFor(server, { clock: impatientClock });
    await failureOf(fetchPage(client, pageRequest()));
    await expect.poll(() => server.open, backoff).toBe(0);
  });
});
