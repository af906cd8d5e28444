/** Servers that speak APIs of their own, exported with descriptions. Each run is killed, and resumed. */

import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as requestOf } from 'node:http';
import { join } from 'node:path';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import type { ServiceProps } from '../../../lib/settings/props.ts';
import { listen } from '../../support/service/loopback.ts';
import { aDirectory, readManifest, run, start } from '../../support/process/command-line.ts';

const docs = join(import.meta.dirname, '../../../docs/apis');
/** The description in the docs, of the service at `baseUrl`. */
const described = (file: string, baseUrl: string): ServiceProps => ({
  ...(JSON.parse(readFileSync(join(docs, file), 'utf8')) as { services: { vendor: ServiceProps } }).services.vendor,
  baseUrl,
});

/** Exports with the description in `file`. Kills the run at the request number `killedAt`, and resumes it. */
async function exportAll<Page>(
  file: string,
  endpoint: string,
  settingsOfExport: object,
  killedAt: number,
  itemsOf: (page: Page) => readonly string[],
) {
  const relay = await startRelay(endpoint, killedAt);
  const out = await aDirectory();
  const settings = join(out, 'settings.json');
  const service = described(file, relay.url);
  const exports = [{ name: 'all', ...settingsOfExport }];
  writeFileSync(settings, JSON.stringify({ services: { vendor: service }, exports }));
  const target = join(out, 'exports');
  const command = ['local', '--settings', settings, '--out', target];
  const env = { REPORT_EXPORT_API_KEY: 'a-key-of-32-characters-0123456789' };

  const killed = start(command, env);
  await Promise.race([relay.held, killed.ended]);
  // Pages are committed in order, so a first page is logged. A run without one would be replaced instead of resumed.
  await expect.poll(() => globSync('**/page-*000002.*', { cwd: target })).not.toEqual([]);
  killed.process.kill('SIGKILL');
  expect(await killed.ended).toMatchObject({ signal: 'SIGKILL', stderr: expect.not.stringContaining('Error') });
  expect(await run(command, env)).toMatchObject({ status: 0, stderr: expect.stringContaining('Resuming') });

  expect(await run(['verify', '--out', target], env)).toMatchObject({ status: 0 });
  const { manifest } = JSON.parse(readFileSync(join(target, 'all/latest.json'), 'utf8')) as { manifest: string };
  const { pages, totals } = await readManifest(join(target, manifest));
  const bodies = pages.map(({ key }) => JSON.parse(readFileSync(join(target, key), 'utf8')) as Page);
  return { reports: totals.reports, items: bodies.flatMap(itemsOf) };
}

/** Forwards requests to the server, but never answers the request number `heldRequest`. */
async function startRelay(endpoint: string, heldRequest: number) {
  let requests = 0;
  const held = Promise.withResolvers<void>();
  const relay = await listen(
    createServer((received, response) => {
      requests += 1;
      if (requests === heldRequest) return held.resolve();
      const { method, url = '/', headers } = received;
      const forwarded = requestOf(new URL(url, endpoint), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        answer.pipe(response);
      });
      received.pipe(forwarded);
    }),
  );
  onTestFinished(relay[Symbol.asyncDispose]);
  return { url: relay.url, held: held.promise };
}

describe.each(inject('registries'))('the $name of distribution', ({ endpoint }) => {
  it('is exported by links, each repository once and in order', async () => {
    const names = Array.from(
      { length: 95 },
      (_, index) => `team-${index % 7}/image-${String(index).padStart(3, '0')}`,
    ).toSorted();
    for (const name of names) await pushImage(endpoint, name);
    const itemsOf = ({ repositories }: { repositories: readonly string[] }) => repositories;
    const exported = await exportAll('registry.json', endpoint, { size: 20 }, 4, itemsOf);
    expect(exported).toEqual({ reports: 95, items: names });
  });
});

describe.each(inject('fhirServers'))('the server $name', ({ endpoint }) => {
  it('is exported by the URLs in its bundles, in parallel slices, each observation once and in order', async () => {
    const settings = {
      size: 5,
      since: { initial: '2020-01-01T00:00:00Z' },
      slices: { parallel: 3, length: 'P365D' },
    };
    const itemsOf = ({ entry = [] }: { entry?: readonly { resource: { id: string } }[] }) =>
      entry.map(({ resource }) => resource.id);
    const exported = await exportAll('fhir-observations.json', endpoint, settings, 12, itemsOf);
    const ids = Array.from({ length: 95 }, (_, index) => `observation-${String(index).padStart(3, '0')}`);
    expect(exported).toEqual({ reports: 95, items: ids });
  });
});

/** An image without layers. */
async function pushImage(endpoint: string, name: string): Promise<void> {
  const config = '{}';
  const digest = `sha256:${createHash('sha256').update(config).digest('hex')}`;
  const upload = await fetch(`${endpoint}/v2/${name}/blobs/uploads/`, { method: 'POST' });
  const location = new URL(upload.headers.get('location') ?? '', endpoint);
  location.searchParams.set('digest', digest);
  const stored = await fetch(location, {
    method: 'PUT',
    body: config,
    headers: { 'content-type': 'application/octet-stream' },
  });
  if (!stored.ok) throw new Error(`The registry refuses a blob: ${stored.status}`);
  const type = 'application/vnd.oci.image.manifest.v1+json';
  const manifest = {
    schemaVersion: 2,
    mediaType: type,
    config: { mediaType: 'application/vnd.oci.empty.v1+json', digest, size: 2 },
    layers: [],
  };
  const tagged = await fetch(`${endpoint}/v2/${name}/manifests/latest`, {
    method: 'PUT',
    body: JSON.stringify(manifest),
    headers: { 'content-type': type },
  });
  if (!tagged.ok) throw new Error(`The registry refuses a manifest: ${tagged.status} ${await tagged.text()}`);
}
