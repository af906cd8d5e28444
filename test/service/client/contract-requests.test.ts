/** The requests to the Report Export Service, name by name and byte by byte. */

import { expect, it } from 'vitest';
import { at, fetchPage } from '../../support/builders.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { aCursor, clientFor, pageRequest } from '../../support/service/service-client.ts';

const until = at('2026-11-20T03:00:00Z');
const filter = { kind: 'a', date: { zone: 'UTC' }, list: ['x', 1, null], text: 'ä{since}' };

const settings = {
  'the defaults': {},
  'another vendor': { vendor: 'Acme-2' },
  'the cursor in the body': { cursorIn: 'body' },
  'an upper bound': { filterUntil: 'date.before' },
  'further headers, and no compression': { headers: { 'X-Tenant': 'acme' }, userAgent: 'acme/1', compression: false },
} as const;

it.each(Object.entries(settings))('of the contract stay as they are, with %s', async (name, given) => {
  await using server = await startRawServer(rawResponse({ headers: { 'content-type': 'application/xml' } }));
  await using client = clientFor({ url: `${server.url}/base/` }, { apiKey: undefined, ...given });
  for (const cursor of [null, aCursor]) {
    const requests = [
      pageRequest({ cursor }),
      { ...pageRequest({ cursor, size: 7, filter }), until },
      pageRequest({
        cursor,
        size: 10,
        format: 'XML',
        container: 'NONE',
        filter: { date: { lt: '2027-01-01T00:00:00Z' } },
      }),
    ];
    for (const request of requests) await fetchPage(client, request);
  }
  const { host } = new URL(server.url);
  const sent = server.requests.map(({ method, target, headers, body }) => ({ method, target, headers, body }));
  await expect(`${JSON.stringify(sent, null, 1).replaceAll(host, 'HOST')}\n`).toMatchFileSnapshot(
    `contract-requests/${name.replaceAll(/\W+/g, '-')}.txt`,
  );
});
