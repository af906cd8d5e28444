/** The requests that the client sends (docs/service-contract.md, sections 2.1, 2.2, 4.1 and 5). */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import { apiFor, httpRequest } from '../../../lib/service/client/request.ts';
import { serviceSettingsSchema } from '../../../lib/settings/settings.ts';
import { at, fetchPage } from '../../support/builders.ts';
import { fc } from '../../support/property.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  aCursor,
  clientFor,
  failureOf,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';

describe('the request', () => {
  it('is a POST of JSON with the API key in the vendor’s header', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server, { vendor: 'ACME' });
    await readPage(fetchPage(client, pageRequest()));
    const [request] = server.requests;
    expect(request).toMatchObject({ method: 'POST', target: '/v1/report/export' });
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      'X-ACME-API-KEY': trickyApiKey,
      'accept-encoding': 'gzip',
      'user-agent': 'report-exporter',
    });
    expect(request?.body).toBe('{"filter":{"date":{"gte":"2026-11-20T02:00:00Z"}},"format":"XML","container":"NONE"}');
  });

  it('names the user agent of the settings', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server, { userAgent: 'acme-exporter/2 (finance)' });
    await readPage(fetchPage(client, pageRequest()));
    expect(server.requests[0]?.headers['user-agent']).toBe('acme-exporter/2 (finance)');
  });

  it.each(['', ' a', 'a ', 'a\r\nX-SERVICE-API-KEY: b', 'a\n', 'a\0', 'ü', 'a'.repeat(257)])(
    'does not accept the user agent %j',
    (userAgent) => {
      const { error } = serviceSettingsSchema.safeParse({ baseUrl: 'https://a.example', userAgent });
      expect(error?.issues.map(({ path }) => path)).toEqual([['userAgent']]);
    },
  );

  it('has whole seconds, as the contract shows, also if the watermark has milliseconds', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    await readPage(fetchPage(client, { ...pageRequest(), since: at('2026-11-20T02:00:00.999Z') }));
    expect(JSON.parse(server.requests[0]?.body ?? '').filter).toEqual({ date: { gte: '2026-11-20T02:00:00Z' } });
  });

  it.each(['query', 'body'] as const)(
    'has both bounds of a slice on every page, with the cursor in the %s',
    async (cursorIn) => {
      await using server = await startRawServer(rawResponse());
      await using client = clientFor(server, { cursorIn, filterUntil: 'date.before' });
      const filter = { kind: 'a', date: { zone: 'UTC' } };
      for (const cursor of [null, aCursor]) {
        const until = at('2026-11-20T03:00:00Z');
        await readPage(fetchPage(client, { ...pageRequest({ filter, cursor }), until }));
      }
      const bodies = server.requests.map(({ body }) => JSON.parse(body).filter);
      const date = { zone: 'UTC', gte: '2026-11-20T02:00:00Z', before: '2026-11-20T03:00:00Z' };
      expect(bodies).toEqual([
        { kind: 'a', date },
        { kind: 'a', date },
      ]);
    },
  );

  it('has no upper bound if the run has none, or the service has no condition for one', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server, { filterUntil: 'date.lt' });
    await readPage(fetchPage(client, pageRequest()));
    await using other = clientFor(server);
    await readPage(fetchPage(other, { ...pageRequest(), until: at('2026-11-20T03:00:00Z') }));
    const filter = { date: { gte: '2026-11-20T02:00:00Z' } };
    expect(server.requests.map(({ body }) => JSON.parse(body).filter)).toEqual([filter, filter]);
  });

  it('contains size and further filter fields only if they are set', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    await readPage(
      fetchPage(client, pageRequest({ size: 7, filter: { kind: 'a', date: { lt: '2027-01-01T00:00:00Z' } } })),
    );
    expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual({
      filter: { kind: 'a', date: { lt: '2027-01-01T00:00:00Z', gte: '2026-11-20T02:00:00Z' } },
      format: 'XML',
      container: 'NONE',
      size: 7,
    });
  });

  it.each(['/', '/reporting', '/reporting/', '/reporting//'])('extends the path of the base URL: %s', async (path) => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor({ url: `${server.url}${path}` });
    await readPage(fetchPage(client, pageRequest()));
    expect(server.requests[0]?.target).toBe(`${path.replace(/\/+$/, '')}/v1/report/export`);
  });

  it('uses one connection for the pages of a run', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    for (let page = 1; page <= 5; page += 1) {
      await readPage(fetchPage(client, pageRequest()));
      // undici releases a connection one turn of the event loop after the body ends.
      await nextTurn();
    }
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1]);
  });
});

describe('the cursor', () => {
  it('is sent in the query with its comma as %2C, in an otherwise identical request', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server);
    await readPage(fetchPage(client, pageRequest({ size: 3 })));
    await readPage(fetchPage(client, pageRequest({ size: 3, cursor: aCursor })));
    const [first, second] = server.requests;
    expect(second?.target).toBe('/v1/report/export?cursor=1588888888888%2C550e8400-e29b-41d4-a716-446655440000');
    expect(second?.body).toBe(first?.body);
    expect(second?.headers).toEqual(first?.headers);
  });

  it('is sent in the body unchanged, and not in the query', async () => {
    await using server = await startRawServer(rawResponse());
    await using client = clientFor(server, { cursorIn: 'body' });
    await readPage(fetchPage(client, pageRequest({ size: 3 })));
    await readPage(fetchPage(client, pageRequest({ size: 3, cursor: aCursor })));
    const [first, second] = server.requests;
    expect(second?.target).toBe('/v1/report/export');
    expect(JSON.parse(second?.body ?? '')).toEqual({ ...JSON.parse(first?.body ?? ''), cursor: aCursor });
    expect(second?.body).toContain(`"cursor":"${aCursor}"`);
  });

  it('survives URL encoding, whatever it contains', () => {
    const cursors = fc.string({
      unit: fc.constantFrom(...Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i))),
      minLength: 1,
    });
    fc.assert(
      fc.property(cursors, (text) => {
        const request = pageRequest({ cursor: asCursor(text) });
        const settings = { vendor: 'SERVICE', cursorIn: 'query', compression: true } as const;
        const contract = apiFor(settings, request.request);
        const { path: target } = httpRequest(new URL('http://127.0.0.1/base/'), contract, request, settings);
        expect(target).toMatch(/^\/base\/v1\/report\/export\?cursor=[^ +,&#?]+$/);
        expect(new URL(target, 'http://127.0.0.1').searchParams.get('cursor')).toBe(text);
      }),
    );
  });
});

describe('a client with invalid options', () => {
  it.each(['reports.example.com', 'ftp://reports.example.com', ''])('is rejected: base URL %j', async (url) => {
    const creating = Promise.try(() => clientFor({ url }));
    expect(await failureOf(creating)).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('baseUrl'),
    });
  });
});
