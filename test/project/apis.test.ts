/** The descriptions in docs/apis are valid, and describe APIs that can be exported from the simulator. */

import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Cursor, Instant } from '../../lib/core/model.ts';
import { type Auth, tokenUrlOf } from '../../lib/service/api/auth/kinds.ts';
import type { Api } from '../../lib/service/api/description.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import { fileDocument } from '../../lib/settings/settings-document.ts';
import { exportDefinition } from '../../lib/settings/settings.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { clientFor, secretOf } from '../support/service/service-client.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { fetchPage } from '../support/builders.ts';

const folder = join(import.meta.dirname, '../../docs/apis');
const files = readdirSync(folder);
const page = readFileSync(join(folder, '../apis.md'), 'utf8');
const wholeKey = 'user:S3cr3t-key-of-the-service';
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});

/** Over three days, so that dates in any form select all of them. */
const reportsOf = (type: string | undefined) =>
  inMemoryReports(
    Array.from({ length: 250 }, (_, index) => ({
      id: `R-${index}`,
      date: Date.parse('2026-11-01T00:00:00Z') + index * 1_000_000,
      type,
      xml: `<report id="R-${index}"/>`,
    })),
  );

describe('a description in the docs', () => {
  it('is in the list of examples', () => {
    expect(files.filter((file) => !page.includes(`(apis/${file})`))).toEqual([]);
    expect(files.length).toBeGreaterThan(10);
  });

  const all = files.flatMap((file) => {
    const [described] = parseDeployment(fileDocument(join(folder, file))).services;
    // Those with jobs are exported from simulated vendors (test/service/jobs).
    const exports = (described?.exports ?? []).filter(({ api }) => api.job === undefined);
    return exports.map((each, index) => [file, each.name, index] as const);
  });

  it.each(all)('is valid, and exports each report once: %s, %s', async (file, _name, index) => {
    const path = join(folder, file);
    const { services } = parseDeployment(fileDocument(path));
    const [{ service: settings, exports }] = services as [(typeof services)[number]];
    const settingsOfExport = exports[index] as (typeof exports)[number];
    const { parents } = settingsOfExport;
    const api = withSimulatedId(settingsOfExport.api);
    const tokenUrlAt = (baseUrl: string, auth: Auth) => {
      const url = tokenUrlOf(auth);
      return url === undefined ? {} : { tokenUrl: `${baseUrl}${new URL(url).pathname}` };
    };
    const fields = [...JSON.stringify(api.auth).matchAll(/\{secret\.(\w+)\}/g)].map(([, name = '']) => name);
    const parts = ['client_secret', ...fields].map((name) => [name, `the-${name}-of-the-service`]);
    const apiKey = fields.length === 0 ? wholeKey : JSON.stringify(Object.fromEntries(parts));
    const filter = settingsOfExport.filter as { readonly type?: string } | undefined;
    const isOnePage = api.next.from === 'none';
    await using simulator = await startSimulator({
      vendor: 'SERVICE',
      apiKey,
      api,
      reports: reportsOf(filter?.type),
      ...(isOnePage && { pageSize: 1000 }),
    });
    const auth = { ...api.auth, ...tokenUrlAt(simulator.baseUrl, api.auth) };
    await using client = clientFor(
      { url: simulator.baseUrl },
      {
        ...settings,
        baseUrl: simulator.baseUrl,
        auth,
        api: { ...api, auth },
        apiKey: secretOf(api, api.auth.kind === 'jwt' ? privateKey : apiKey),
      },
    );
    const { request } = exportDefinition(settingsOfExport, 'simulator', settings);
    const bounds = { since: '2026-11-01T00:00:00Z' as Instant, until: '2026-11-20T00:00:00Z' as Instant };
    const begunAt = bounds.until;
    const size = request.size === undefined ? {} : { size: isOnePage ? 1000 : 100 };
    const counts: (number | null)[] = [];
    let cursor: Cursor | null = null;
    do {
      const fetched: Awaited<ReturnType<typeof fetchPage>> = await fetchPage(client, {
        request: { ...request, ...size },
        ...bounds,
        begunAt,
        ...(parents === undefined ? {} : { parent: parents.values?.[0] ?? 'a/b' }),
        cursor,
        label: 'a page',
      });
      counts.push(fetched.reports);
      cursor = fetched.nextCursor;
    } while (cursor !== null);
    // Solr, Typeform and counted pages end with a page without reports.
    const hasEmptyPage = file === 'solr.json' || isAtEmptyPage(api) || api.next.from === 'count';
    expect(counts).toEqual(isOnePage ? [250] : [100, 100, 50, ...(hasEmptyPage ? [0] : [])]);
    expect(simulator.exchanges.flatMap(({ reportIds }) => reportIds)).toEqual(
      Array.from({ length: 250 }, (_, index) => `R-${index}`),
    );
  });
});

/** The cursor in a report of the simulator is its ID. */
const withSimulatedId = (api: Api): Api =>
  api.next.from === 'report' ? { ...api, next: { ...api.next, at: '/id' } } : api;

const isAtEmptyPage = ({ last }: Api): boolean => last !== undefined && 'reports' in last;
