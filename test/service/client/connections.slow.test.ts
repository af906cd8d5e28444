/** How long the client keeps connections, and how it resumes TLS sessions. */

import type { RequestListener } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest, readPage } from '../../support/service/service-client.ts';
import { startPrivateService } from '../../support/service/private-service.ts';
import { fetchPage } from '../../support/builders.ts';

afterEach(() => {
  vi.useRealTimers();
});

const page = (...headers: readonly string[]) =>
  ['HTTP/1.1 200 OK', 'content-type: application/xml;charset=UTF-8', 'content-length: 4', ...headers, '', '<a/>'].join(
    '\r\n',
  );

describe('an idle connection', () => {
  it.each([
    ['is kept for a minute if the service says nothing', [], 59_000, 2_000],
    ['is kept for as long as the service says, less a margin', ['keep-alive: timeout=120'], 117_000, 2_000],
    ['is kept for at most five minutes, because gateways drop it then', ['keep-alive: timeout=900'], 299_000, 2_000],
  ])('%s', async (_, headers, keptMs, moreMs) => {
    await using server = await startRawServer(page(...headers));
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await using client = clientFor(server);
    await readPage(fetchPage(client, pageRequest()));
    await nextTurn();
    vi.advanceTimersByTime(keptMs);
    await readPage(fetchPage(client, pageRequest()));
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1]);
    await nextTurn();
    vi.advanceTimersByTime(keptMs + moreMs);
    await expect.poll(() => server.open).toBe(0);
  });
});

/** Node.js may collect garbage at any time; in a warm function it has. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

describe('a new connection', () => {
  // Each page needs a new connection.
  const closing: RequestListener = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/xml;charset=UTF-8', connection: 'close' });
    response.end('<a/>');
  };

  it.each(['TLSv1.2', 'TLSv1.3'] as const)('resumes the TLS session of the previous one (%s)', async (version) => {
    await using server = await startPrivateService({
      listener: closing,
      tls: { minVersion: version, maxVersion: version },
    });
    await using client = clientFor(server, { network: server.network });
    for (let pages = 0; pages < 4; pages += 1) {
      await readPage(fetchPage(client, pageRequest()));
      await nextTurn();
      collectGarbage();
      await nextTurn();
    }
    expect(server.resumed).toEqual([false, true, true, true]);
  });
});
