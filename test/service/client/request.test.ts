/** The requests that the client sends (docs/service-contract.md, sections 2.1, 2.2, 4.1 and 5). */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { asCursor } from '../../../lib/core/model.ts';
import type { PageRequest } from '../../../lib/core/ports.ts';
import { reportExportService } from '../../../lib/service/api/report-export-service.ts';
import { httpRequest } from '../../../lib/service/client/request.ts';
import { at, fetchPage } from '../../support/builders.ts';
import { fc } from '../../support/property.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor, pageRequest, readPage } from '../../support/service/service-client.ts';

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

describe('the request', () => {
  it('has whole seconds, as the contract shows, also if the watermark has milliseconds', async () => {
    const [request] = await requestsOf({}, { ...pageRequest(), since: at('2026-11-20T02:00:00.999Z') });
    expect(bodyOf(request).filter).toEqual({ date: { gte: '2026-11-20T02:00:00Z' } });
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
