/** The requests that the client sends (docs/service-contract.md, sections 2.1, 2.2, 4.1 and 5). */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import type { PageRequest } from '../../../lib/core/ports.ts';
import { reportExportService } from '../../../lib/service/api/report-export-service.ts';
import { httpRequest } from '../../../lib/service/client/request.ts';
import { serviceSettingsSchema } from '../../../lib/settings/settings.ts';
import { at, fetchPage } from '../../support/builders.ts';
import { fc } from '../../support/property.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import {
  anError,
  aCursor,
  clientFor,
  failureOf,
  pageRequest,
  readPage,
  trickyApiKey,
} from '../../support/service/service-client.ts';

/** The requests of a client with these settings for these pages, one after the other. */
async function requestsOf(settings: Parameters<typeof clientFor>[1], ...pages: readonly PageRequest[]) {
  await using server = await startRawServer(rawResponse());
  await using client = clientFor(server, settings);
  for (const page of pages) {
    await fetchPage(client, page);
    // undici releases a connection one turn of the event loop after the body ends.
    await nextTurn();
  }
  return server.requests;
}
const bodyOf = (request: { readonly body: string } | undefined) => JSON.parse(request?.body ?? '');
const until = at('2026-11-20T03:00:00Z');

describe('the request', () => {
  it('is a POST of JSON with the API key in the vendor’s header', async () => {
    const [request] = await requestsOf({ vendor: 'ACME' }, pageRequest());
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
    const [request] = await requestsOf({ userAgent: 'acme-exporter/2 (finance)' }, pageRequest());
    expect(request?.headers['user-agent']).toBe('acme-exporter/2 (finance)');
  });

  it.each(['', ' a', 'a ', 'a\r\nX-SERVICE-API-KEY: b', 'a\n', 'a\0', 'ü', 'a'.repeat(257)])(
    'does not accept the user agent %j',
    (userAgent) => {
      const { error } = serviceSettingsSchema.safeParse({ baseUrl: 'https://a.example', userAgent });
      expect(error?.issues.map(({ path }) => path)).toEqual([['userAgent']]);
    },
  );

  it('has whole seconds, as the contract shows, also if the watermark has milliseconds', async () => {
    const [request] = await requestsOf({}, { ...pageRequest(), since: at('2026-11-20T02:00:00.999Z') });
    expect(bodyOf(request).filter).toEqual({ date: { gte: '2026-11-20T02:00:00Z' } });
  });

  it.each(['query', 'body'] as const)(
    'has both bounds of a slice on every page, with the cursor in the %s',
    async (cursorIn) => {
      const filter = { kind: 'a', date: { zone: 'UTC' } };
      const pages = [null, aCursor].map((cursor) => ({ ...pageRequest({ filter, cursor }), until }));
      const date = { zone: 'UTC', gte: '2026-11-20T02:00:00Z', before: '2026-11-20T03:00:00Z' };
      for (const request of await requestsOf({ cursorIn, filterUntil: 'date.before' }, ...pages)) {
        expect(bodyOf(request).filter).toEqual({ kind: 'a', date });
      }
    },
  );

  it('has no upper bound if the run has none, or the service has no condition for one', async () => {
    const [unbounded] = await requestsOf({ filterUntil: 'date.lt' }, pageRequest());
    const [unconditional] = await requestsOf({}, { ...pageRequest(), until });
    for (const request of [unbounded, unconditional]) {
      expect(bodyOf(request).filter).toEqual({ date: { gte: '2026-11-20T02:00:00Z' } });
    }
  });

  it('contains size and further filter fields only if they are set', async () => {
    const filter = { kind: 'a', date: { lt: '2027-01-01T00:00:00Z' } };
    const [request] = await requestsOf({}, pageRequest({ size: 7, filter }));
    expect(bodyOf(request)).toEqual({
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
    const requests = await requestsOf({}, ...Array.from({ length: 5 }, () => pageRequest()));
    expect(requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1]);
  });
});

describe('the cursor', () => {
  const pages = [null, aCursor].map((cursor) => pageRequest({ size: 3, cursor }));

  it('is sent in the query with its comma as %2C, in an otherwise identical request', async () => {
    const [first, second] = await requestsOf({}, ...pages);
    const target = '/v1/report/export?cursor=1588888888888%2C550e8400-e29b-41d4-a716-446655440000';
    expect(second).toEqual({ ...first, target });
  });

  it('is sent in the body unchanged, and not in the query', async () => {
    const [first, second] = await requestsOf({ cursorIn: 'body' }, ...pages);
    expect(second?.target).toBe('/v1/report/export');
    expect(bodyOf(second)).toEqual({ ...bodyOf(first), cursor: aCursor });
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
        const contract = reportExportService({ vendor: 'SERVICE', cursorIn: 'query' });
        const base = new URL('http://127.0.0.1/base/');
        const { path: target } = httpRequest(base, contract, request, { compression: true });
        expect(target).toMatch(/^\/base\/v1\/report\/export\?cursor=[^ +,&#?]+$/);
        expect(new URL(target, 'http://127.0.0.1').searchParams.get('cursor')).toBe(text);
      }),
    );
  });
});

describe('a client with invalid options', () => {
  it.each(['reports.example.com', 'ftp://reports.example.com', ''])('is rejected: base URL %j', async (url) => {
    const creating = Promise.try(() => clientFor({ url }));
    expect(await failureOf(creating)).toMatchObject(anError('ConfigurationError', 'baseUrl'));
  });
});
