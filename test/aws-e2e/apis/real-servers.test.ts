/** Servers that speak APIs of their own, exported with descriptions. Each run is killed, and resumed. */

import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, request as requestOf } from 'node:http';
import { join } from 'node:path';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import type { ExportProps, ServiceProps } from '../../../lib/settings/props.ts';
import { listen } from '../../support/service/loopback.ts';
import { aDirectory, readManifest, run, start } from '../../support/process/command-line.ts';

const docs = join(import.meta.dirname, '../../../docs/apis');
interface Described {
  readonly services: { readonly vendor: ServiceProps };
  readonly exports: readonly ExportProps[];
}

/** Exports of a server, with the settings in `file` of the docs, whose exports `change` replaces. */
async function openExports(
  file: string,
  endpoint: string,
  change: (exports: readonly ExportProps[]) => readonly object[],
) {
  const relay = await startRelay(endpoint);
  const out = await aDirectory();
  const settings = join(out, 'settings.json');
  const { services, exports } = JSON.parse(readFileSync(join(docs, file), 'utf8')) as Described;
  const vendor = { ...services.vendor, baseUrl: relay.url };
  writeFileSync(settings, JSON.stringify({ services: { vendor }, exports: change(exports) }));
  const target = join(out, 'exports');
  const env = { REPORT_EXPORT_API_KEY: 'a-key-of-32-characters-0123456789' };

  /** Kills the run at the request number `killedAt`, and resumes it after `meanwhile`. */
  return async function exportAll<Page>(
    name: string,
    killedAt: number,
    itemsOf: (page: Page) => readonly string[],
    meanwhile: () => Promise<void> = async () => {},
  ) {
    const command = ['local', name, '--settings', settings, '--out', target];
    const held = relay.holdRequest(killedAt);
    const killed = start(command, env);
    await Promise.race([held, killed.ended]);
    // Pages are committed in order, so a first page is logged. A run without one would be replaced instead of resumed.
    await expect.poll(() => globSync(`${name}/**/page-*000002.*`, { cwd: target })).not.toEqual([]);
    killed.process.kill('SIGKILL');
    expect(await killed.ended).toMatchObject({ signal: 'SIGKILL', stderr: expect.not.stringContaining('Error') });
    await meanwhile();
    expect(await run(command, env)).toMatchObject({ status: 0, stderr: expect.stringContaining('Resuming') });

    expect(await run(['verify', name, '--out', target], env)).toMatchObject({ status: 0 });
    const { manifest } = JSON.parse(readFileSync(join(target, name, 'latest.json'), 'utf8')) as { manifest: string };
    expect(globSync(`${name}/**/manifest.json`, { cwd: target })).toEqual([manifest]);
    const { pages, totals, parents } = await readManifest(join(target, manifest));
    const items = pages.flatMap(({ key, parent }) =>
      itemsOf(JSON.parse(readFileSync(join(target, key), 'utf8')) as Page).map((item) =>
        parent === undefined ? item : `${parent}: ${item}`,
      ),
    );
    expect(totals.reports).toBe(items.length);
    return { items, parents };
  };
}

/** Forwards requests to the server. */
async function startRelay(endpoint: string) {
  let remaining = Infinity;
  let held = Promise.withResolvers<void>();
  const relay = await listen(
    createServer((received, response) => {
      remaining -= 1;
      if (remaining === 0) return held.resolve();
      const { method, url = '/', headers } = received;
      const forwarded = requestOf(new URL(url, endpoint), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        answer.pipe(response);
      });
      received.pipe(forwarded);
    }),
  );
  onTestFinished(relay[Symbol.asyncDispose]);
  return {
    url: relay.url,
    /** Never answers the request with this number from now on. Resolves when that arrives. */
    async holdRequest(number: number): Promise<void> {
      held = Promise.withResolvers();
      remaining = number;
      await held.promise;
    },
  };
}

describe.each(inject('registries'))('the $name of distribution', ({ endpoint, directory }) => {
  it('is exported by links, each repository once and in order, and the tags of those that still exist', async () => {
    const names = Array.from(
      { length: 95 },
      (_, index) => `team-${index % 7}/image-${String(index).padStart(3, '0')}`,
    ).toSorted();
    const tagsOf = (index: number) => ['latest', 'v1', 'v2'].slice(0, 1 + (index % 3));
    for (const [index, name] of names.entries()) await pushImage(endpoint, name, tagsOf(index));
    const exportAll = await openExports('registry.json', endpoint, ([repositories, tags]) => [
      { ...repositories, size: 20 },
      { ...tags, size: 2 },
    ]);
    const repositories = await exportAll(
      'repositories',
      4,
      (page: { repositories: readonly string[] }) => page.repositories,
    );
    expect(repositories).toEqual({ items: names });

    const last = names.at(-1) ?? '';
    const deleteLast = () => rm(join(directory, 'images/docker/registry/v2/repositories', last), { recursive: true });
    const tags = await exportAll('tags', 30, (page: { tags: readonly string[] }) => page.tags, deleteLast);
    expect(tags.items).toEqual(
      names.slice(0, -1).flatMap((name, index) => tagsOf(index).map((tag) => `${name}: ${tag}`)),
    );
    expect(tags.parents).toMatchObject({ export: 'repositories', count: 95, gone: 1 });
  });
});

describe.each(inject('fhirServers'))('the server $name', ({ endpoint }) => {
  interface Bundle {
    readonly entry?: readonly { readonly resource: { readonly id: string } }[];
  }
  const idsIn = ({ entry = [] }: Bundle) => entry.map(({ resource }) => resource.id);
  const idsOf = (numbers: readonly number[]) =>
    numbers.map((number) => `observation-${String(number).padStart(3, '0')}`);
  const all = Array.from({ length: 95 }, (_, index) => index);

  it('is exported by the URLs in its bundles, in parallel slices, each observation once and in order', async () => {
    const settings = { size: 5, since: { initial: '2020-01-01T00:00:00Z' }, slices: { parallel: 3, length: 'P365D' } };
    const exportAll = await openExports('fhir-observations.json', endpoint, ([observations]) => [
      { ...observations, ...settings },
    ]);
    expect(await exportAll('observations', 12, idsIn)).toEqual({ items: idsOf(all) });
  });

  it('is exported patient by patient, without one that is deleted meanwhile', async () => {
    const exportAll = await openExports('fhir-observations.json', endpoint, () => [
      { name: 'patients', size: 3, api: { request: { path: '/r4/Patient' } } },
      {
        name: 'observations',
        parents: { export: 'patients', id: '/resource/id' },
        size: 5,
        slices: { parallel: 3 },
        api: { request: { path: '/r4/Observation', query: { patient: '{parent}', _count: '{size}' } } },
      },
    ]);
    const patients = Array.from({ length: 12 }, (_, index) => `patient-${String(index).padStart(3, '0')}`);
    expect(await exportAll('patients', 4, idsIn)).toEqual({ items: patients });
    const deletePatient = async () => void (await fetch(`${endpoint}/r4/Patient/patient-009`, { method: 'DELETE' }));
    const { items, parents } = await exportAll('observations', 9, idsIn, deletePatient);
    expect(items).toEqual(
      patients
        .filter((_, patient) => patient !== 9)
        .flatMap((name) =>
          idsOf(all.filter((number) => number % 11 === patients.indexOf(name))).map((id) => `${name}: ${id}`),
        ),
    );
    expect(parents).toMatchObject({ export: 'patients', count: 12, gone: 1 });
  });
});

/** An image without layers. */
async function pushImage(endpoint: string, name: string, tags: readonly string[]): Promise<void> {
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
  const body = JSON.stringify(manifest);
  for (const tag of tags) {
    const url = `${endpoint}/v2/${name}/manifests/${tag}`;
    const tagged = await fetch(url, { method: 'PUT', body, headers: { 'content-type': type } });
    if (!tagged.ok) throw new Error(`The registry refuses a manifest: ${tagged.status} ${await tagged.text()}`);
  }
}
