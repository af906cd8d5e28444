/** Counted pages of json-server, whose records change during the export. It repeats its last page. */

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { readFileSync, writeFileSync } from 'node:fs';
// @ts-expect-error It has no types.
import { createApp as createUntyped } from 'json-server/lib/app.js';
import { expect, it } from 'vitest';
import { aDirectory, readManifest, runInProcess } from '../../support/process/command-line.ts';

interface Event {
  readonly id: string;
  readonly date: string;
}

const createApp = createUntyped as (db: object) => { readonly handler: RequestListener };

const api = {
  request: {
    path: '/events',
    query: { 'date:gte': '{since}', 'date:lt': '{until}', _sort: 'date', _per_page: '{size}' },
  },
  auth: { kind: 'none' },
  next: { from: 'count', to: { query: '_page' }, total: '/items', confirm: false },
  page: { format: 'json', reports: '/data/*' },
};

it('are exported to the last one, start over when they shift, and fail when they shift too often', async () => {
  const events: Event[] = Array.from({ length: 25 }, (_, index) => ({
    id: `E-${String(index).padStart(2, '0')}`,
    date: new Date(Date.UTC(2026, 10, 1, index)).toISOString().replace('.000', ''),
  }));
  const expected = events.slice(5);
  let beforeRequest = (): unknown => undefined;
  const requests: string[] = [];
  const app = createApp({ data: { events }, write: () => {} });
  const server = createServer((request, response) => {
    requests.push(new URLSearchParams(request.url?.split('?')[1]).get('_page') ?? '');
    beforeRequest();
    app.handler(request, response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const out = await aDirectory();
    const file = join(out, 'settings.json');
    const target = join(out, 'exports');
    const run = (limits: object = {}) => {
      const since = { initial: '2026-11-01T05:00:00Z', lag: 'PT1H' };
      const exports = [{ name: 'events', size: 6, since, ...limits }];
      writeFileSync(file, JSON.stringify({ services: { events: { baseUrl, api } }, exports }));
      requests.length = 0;
      return runInProcess(['local', '--settings', file, '--out', target, '--max-attempts', '1'], {});
    };

    expect(await run({ maxPages: 2 })).toMatchObject({ stderr: expect.stringContaining('limit of 2 pages') });
    // While the run is interrupted, the first page loses an event, so that one of page 3 is on page 2 now.
    events.splice(6, 1);
    expected.splice(1, 1);
    expect(await run()).toMatchObject({ status: 0, stderr: expect.stringContaining('do not add up') });
    expect(requests).toEqual(['3', '1', '2', '3', '4']);
    const { manifest } = JSON.parse(readFileSync(join(target, 'events/latest.json'), 'utf8')) as { manifest: string };
    const { pages, api: described } = await readManifest(join(target, manifest));
    const exported = pages.flatMap(
      ({ key }: { key: string }) => (JSON.parse(readFileSync(join(target, key), 'utf8')) as { data: Event[] }).data,
    );
    expect(exported).toEqual(expected);
    expect(described).toMatchObject({ pagination: 'counted' });

    beforeRequest = () =>
      events.unshift({ id: `N-${events.length}`, date: new Date(Date.now() - 7_200_000).toISOString() });
    const failed = await run({ name: 'restless' });
    expect(failed).toMatchObject({ status: 1, stderr: expect.stringContaining('do not add up') });
    expect(requests).toEqual(['1', '2', '1', '2']);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
