/** Servers that speak APIs of their own, exported with descriptions. Each run is interrupted, and resumed. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import type { ServiceProps } from '../../../lib/settings/props.ts';
import { aDirectory, readManifest, runInProcess } from '../../support/process/command-line.ts';

const docs = join(import.meta.dirname, '../../../docs/apis');
/** The description in the docs, of the service at `baseUrl`. */
const described = (file: string, baseUrl: string): ServiceProps => ({
  ...(JSON.parse(readFileSync(join(docs, file), 'utf8')) as { services: { vendor: ServiceProps } }).services.vendor,
  baseUrl,
});

/** Runs the export until it has two pages, and then to its end. Returns the pages. */
async function exportAll(service: ServiceProps, settings: object, itemsOf: (page: string) => readonly string[]) {
  const out = await aDirectory();
  const file = join(out, 'settings.json');
  const env = { REPORT_EXPORT_API_KEY: 'a-key-of-32-characters-0123456789' };
  const write = (limits: object) =>
    writeFileSync(
      file,
      JSON.stringify({ services: { vendor: service }, exports: [{ name: 'all', ...settings, ...limits }] }),
    );
  write({ maxPages: 2 });
  const target = join(out, 'exports');
  const interrupted = await runInProcess(['local', '--settings', file, '--out', target], env);
  expect(interrupted.stderr).toContain('reached the limit of 2 pages');
  write({});
  const completed = await runInProcess(['local', '--settings', file, '--out', target], env);
  expect(completed).toMatchObject({ status: 0 });
  expect(await runInProcess(['verify', '--out', target], env)).toMatchObject({ status: 0 });
  const manifest = await readManifest(
    join(target, JSON.parse(readFileSync(join(target, 'all/latest.json'), 'utf8')).manifest),
  );
  const bodies = manifest.pages.map(({ key }: { key: string }) => readFileSync(join(target, key), 'utf8'));
  return {
    reports: manifest.totals.reports,
    pages: bodies.length,
    items: bodies.flatMap(itemsOf),
    stored: readdirSync(target),
  };
}

const jsonItems = (pointer: string) => (page: string) => (JSON.parse(page) as Record<string, string[]>)[pointer] ?? [];

describe.each(inject('registries'))('the $name of distribution', ({ endpoint }) => {
  it('is exported by links, each repository once and in order', async () => {
    const names = Array.from(
      { length: 95 },
      (_, index) => `team-${index % 7}/image-${String(index).padStart(3, '0')}`,
    ).toSorted();
    for (const name of names) await pushImage(endpoint, name);
    const exported = await exportAll(described('registry.json', endpoint), { size: 20 }, jsonItems('repositories'));
    expect(exported).toMatchObject({ reports: 95, pages: 5, items: names });
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
