/**
 * Whatever the service sends, the client delivers a complete page as it was sent, or throws a typed error that is
 * short, printable and free of the API key. Nothing hangs, nothing else is thrown, no connection stays open.
 */

import { decodeText } from '../../../lib/service/api/next/cursor-text.ts';
import { isUtf8 } from 'node:buffer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ExportError, errorNames } from '../../../lib/core/errors.ts';
import { cases, fc, test } from '../../support/property.ts';
import { searchForSecrets } from '../../support/secret-search.ts';
import { isAcceptedBySaxes } from '../../support/service/checked-pages.ts';
import { tooDeep } from '../../support/service/hostile-bodies.ts';
import { type HostileResponse, hostileResponses } from '../../support/service/hostile-responses.ts';
import { type RawServer, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { type ParsedResponse, parseResponse } from '../../support/service/reference-parser.ts';
import { aCursor, backoff, clientFor, pageRequest } from '../../support/service/service-client.ts';
import { createVirtualClock } from '../../support/virtual-clock.ts';
import { fetchPage } from '../../support/builders.ts';

const keys = { old: 'S3cr3t/key+with="odd"&<chars>  \\%42', rotated: 'an0ther-key/of=the same' };
const maxPageBytes = 64 * 1024;
const maxMessageLength = 1_000;

const marker = '<reports><the-next-page/></reports>';
let current: HostileResponse;
let server: RawServer;
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', onUnhandled).on('uncaughtException', onUnhandled);
  server = await startRawServer(async (socket, { target }) => {
    if (target.includes('cursor=')) {
      socket.write(rawResponse({ body: marker, headers: { connection: 'close' } }));
      return;
    }
    const { bytes, cuts, ending } = current;
    socket.setNoDelay(true);
    const edges = [0, ...cuts, bytes.length];
    for (const [place, end] of edges.slice(1).entries()) {
      const piece = bytes.subarray(edges[place], end);
      if (piece.length > 0) await new Promise<unknown>((resolve) => socket.write(piece, resolve));
      // One turn of the event loop, so that most pieces arrive separately.
      await new Promise(setImmediate);
    }
    if (ending === 'end') socket.end();
    if (ending === 'reset') socket.resetAndDestroy();
  });
});
afterAll(async () => {
  process.off('unhandledRejection', onUnhandled).off('uncaughtException', onUnhandled);
  await server[Symbol.asyncDispose]();
});

type Accepted = Awaited<ReturnType<typeof fetchPage>>;

/** Requests a page, then the next one over the same client. */
async function fetchTwice(response: HostileResponse, parsed: ParsedResponse, isXml: boolean) {
  current = response;
  const clock = createVirtualClock();
  const totalTimeoutMs = 60_000;
  await using client = clientFor(server, {
    clock,
    totalTimeout: totalTimeoutMs,
    maxPageBytes,
    apiKey: { get: async () => keys.old, refresh: async () => keys.rotated },
  });
  const first = fetchPage(client, pageRequest(isXml ? {} : { format: 'JSON' })).catch((error: unknown) => error);
  // The deadline ends a response without an end. Any other response must end without it.
  if (response.ending === 'stay open' && !parsed.strict) {
    let settled = false;
    void first.then(() => {
      settled = true;
    });
    for (let iterations = 0; iterations < 10 && !settled; iterations += 1)
      await new Promise((resolve) => setTimeout(resolve, 2));
    await clock.advance(totalTimeoutMs);
  }
  const outcome = await first;
  const next = await fetchPage(client, pageRequest({ cursor: aCursor })).catch((error: unknown) => error);
  return { outcome, next, sleepers: clock.sleepers() };
}

const isWholeXml = (bytes: Buffer) => isUtf8(bytes) && isAcceptedBySaxes(bytes.toString());

/** Whether the response is a valid page in every respect. */
function isValidPage({ strict, status, headers, body }: ParsedResponse, isXml: boolean): boolean {
  const cursors = headers.get('x-service-cursor') ?? ['-'];
  return (
    strict &&
    body !== undefined &&
    body.length <= maxPageBytes &&
    status !== undefined &&
    status >= 200 &&
    status < 300 &&
    status !== 206 &&
    cursors.length === 1 &&
    /^[\x20-\x7e]+$/.test(cursors[0] ?? '') &&
    /^(application\/xml(;charset=UTF-8)?)$/.test((headers.get('content-type') ?? []).join()) &&
    /^(identity)?$/.test((headers.get('content-encoding') ?? []).join()) &&
    (headers.get('upgrade') ?? headers.get('connection')?.filter((value) => value !== 'close') ?? []).length === 0 &&
    searchForSecrets({ headers: [...headers.values()].flat().join('\n') }, keys).length === 0 &&
    JSON.stringify([...headers]).length < 8_000 &&
    (isXml
      ? isWholeXml(body) && !body.includes(tooDeep)
      : headers.has('content-length') || headers.has('transfer-encoding'))
  );
}

function expectTypedError(error: unknown): asserts error is ExportError {
  expect(error).toBeInstanceOf(ExportError);
  const { name, message } = error as ExportError;
  expect(errorNames).toContain(name);
  expect(message.length).toBeGreaterThan(10);
  expect(message.length).toBeLessThanOrEqual(maxMessageLength);
  expect(message).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]+$/u);
  expect(searchForSecrets({ error }, keys)).toEqual([]);
}

let accepted = 0;
let rejected = 0;

describe('any response', () => {
  test.prop([hostileResponses(keys.old), fc.boolean()], { numRuns: cases(400) })(
    'is delivered as a complete page, or fails with a typed error',
    async (response, isXml) => {
      const parsed = parseResponse(response.bytes, response.ending !== 'stay open');
      const { outcome, next, sleepers } = await fetchTwice(response, parsed, isXml);
      if (outcome instanceof Error) {
        rejected += 1;
        expectTypedError(outcome);
        expect(response.ending !== 'reset' && isValidPage(parsed, isXml)).toBe(false);
      } else {
        accepted += 1;
        const { body, ...page } = outcome as Accepted;
        expect(parsed.status).toSatisfy((status: number) => status >= 200 && status < 300 && status !== 206);
        expect(body.toString('latin1')).toBe(parsed.body?.toString('latin1'));
        expect(page.nextCursor === null ? [] : [decodeText(page.nextCursor)]).toEqual(
          parsed.headers.get('x-service-cursor') ?? [],
        );
        if (isXml) expect(isWholeXml(body)).toBe(true);
        else expect(parsed.headers.has('content-length') || parsed.headers.has('transfer-encoding')).toBe(true);
        expect(parsed.headers.get('content-encoding')?.join() ?? '').toMatch(/^(identity|utf-?8)?$/i);
        expect(body.length).toBeLessThanOrEqual(maxPageBytes);
        // Several equal ones are one.
        const types = (parsed.headers.get('content-type') ?? []).flatMap((each) =>
          each.split(',').map((type) => type.trim()),
        );
        expect(page.contentType).toBe(types[0] || 'application/octet-stream');
        expect(new Set(types).size).toBeLessThan(2);
      }
      // No part of a response may be mistaken for the next one.
      if (next instanceof Error) expectTypedError(next);
      else expect((next as Accepted).body.toString()).toBe(marker);
      expect(sleepers).toBe(0);
      expect(unhandled).toEqual([]);
    },
  );

  it('leaves no open connection and no unhandled error', async () => {
    await expect.poll(() => server.open, backoff).toBe(0);
    expect(unhandled).toEqual([]);
  });

  it('was accepted and rejected often enough for the property to mean something', () => {
    expect(accepted).toBeGreaterThan(cases(30));
    expect(rejected).toBeGreaterThan(cases(30));
  });
});
