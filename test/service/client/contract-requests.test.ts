/** The requests to the Report Export Service, name by name and byte by byte. */

import { expect, it } from 'vitest';
import { at, fetchPage } from '../../support/builders.ts';
import { rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { aCursor, clientFor, pageRequest } from '../../support/service/service-client.ts';

const until = at('2026-11-20T03:00:00Z');
const filter = { kind: 'a', date: { zone: 'UTC', lt: '2027-01-01T00:00:00Z' }, list: ['x', 1, null], text: 'ä{since}' };

const settings = {
  'the defaults': {},
  'another vendor': { vendor: 'Acme-2' },
  'the cursor in the body': { cursorIn: 'body' },
  'an upper bound': { filterUntil: 'date.before' },
  'further headers, and no compression': { headers: { 'X-Tenant': 'acme' }, userAgent: 'acme/1', compression: false },
} as const;

it('the requests of the contract stay as they are', async () => {
  await using server = await startRawServer(rawResponse({ headers: { 'content-type': 'application/xml' } }));
  const shown: string[] = [];
  for (const [name, given] of Object.entries(settings)) {
    await using client = clientFor({ url: `${server.url}/base/` }, { apiKey: undefined, ...given });
    const before = server.requests.length;
    await fetchPage(client, pageRequest());
    await fetchPage(client, { ...pageRequest({ cursor: aCursor, size: 7, filter, format: 'XML' }), until });
    const sent = server.requests.slice(before).map(({ method, target, headers, body }) => {
      const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
      return [`${method} ${target}`, ...lines, '', body].join('\n');
    });
    shown.push(`### ${name}`, ...sent);
  }
  const { host } = new URL(server.url);
  await expect(`${shown.join('\n\n').replaceAll(host, 'HOST')}\n`).toMatchFileSnapshot('contract-requests.txt');
});
