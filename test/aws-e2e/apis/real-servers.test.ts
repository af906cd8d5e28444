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

/** A run is killed while it waits for the response to a request. */
interface Kill {
  /** The number of the request, among those whose URL has this text. */
  readonly request: number;
  readonly url?: string;
  /** Whether it has a report job, and no page yet. */
  readonly isJob?: boolean;
  /** How much later, by its clock, the run is resumed. */
  readonly minutes?: number;
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
  // Jobs are over soon.
  const described = readFileSync(join(docs, file), 'utf8').replace('"within": "P1D"', '"every": "PT1S"');
  const { services, exports } = JSON.parse(described) as Described;
  const vendor = { ...services.vendor, baseUrl: relay.url };
  writeFileSync(settings, JSON.stringify({ services: { vendor }, exports: change(exports) }));
  const target = join(out, 'exports');
  const env = { REPORT_EXPORT_API_KEY: 'a-key-of-32-characters-0123456789' };

  /** Kills the run, and resumes it after `meanwhile`. */
  return async function exportAll(
    name: string,
    kill: Kill,
    itemsOf: (page: string) => readonly string[],
    meanwhile: () => Promise<void> = async () => {},
  ) {
    const command = ['local', name, '--settings', settings, '--out', target];
    const held = relay.holdResponse(kill);
    const killed = start(command, env);
    await Promise.race([held, killed.ended]);
    const { isJob = false, minutes = 0 } = kill;
    // Pages are committed in order, so a first page is logged. A run without one would be replaced instead of resumed.
    if (!isJob) await expect.poll(() => globSync(`${name}/**/page-*000002.*`, { cwd: target })).not.toEqual([]);
    killed.process.kill('SIGKILL');
    expect(await killed.ended).toMatchObject({ signal: 'SIGKILL', stderr: expect.not.stringContaining('Error') });
    await meanwhile();
    const clock = encodeURIComponent(`const now = Date.now; Date.now = () => now() + ${minutes * 60_000}`);
    const resumed = await run(command, { ...env, NODE_OPTIONS: `--import=data:text/javascript,${clock}` });
    expect(resumed).toMatchObject({ status: 0, stderr: expect.stringContaining('Resuming') });

    expect(await run(['verify', name, '--out', target], env)).toMatchObject({ status: 0 });
    const { manifest } = JSON.parse(readFileSync(join(target, name, 'latest.json'), 'utf8')) as { manifest: string };
    expect(globSync(`${name}/**/manifest.json`, { cwd: target })).toEqual([manifest]);
    const { pages, totals, parents } = await readManifest(join(target, manifest));
    const items = pages.flatMap(({ key, parent }) =>
      itemsOf(readFileSync(join(target, key), 'utf8')).map((item) =>
        parent === undefined ? item : `${parent}: ${item}`,
      ),
    );
    expect(totals.reports).toBe(items.length);
    return { items, parents, requested: relay.requested };
  };
}

/** Forwards requests to the server. */
async function startRelay(endpoint: string) {
  const requested: string[] = [];
  let isHeld = (_url: string): boolean => false;
  let held = Promise.withResolvers<void>();
  const relay = await listen(
    createServer((received, response) => {
      const { method, url = '/', headers } = received;
      requested.push(url);
      const isLost = isHeld(url);
      const forwarded = requestOf(new URL(url, endpoint), { method, headers }, (answer) => {
        if (isLost) return held.resolve();
        // HAPI's is always two minutes, although its jobs take seconds here.
        const { 'retry-after': _, ...others } = answer.headers;
        response.writeHead(answer.statusCode ?? 502, others);
        answer.pipe(response);
      });
      received.pipe(forwarded);
    }),
  );
  onTestFinished(relay[Symbol.asyncDispose]);
  return {
    url: relay.url,
    requested,
    /** The server's response to this request never arrives. Resolves when the server has sent it. */
    async holdResponse({ request, url: part = '' }: Kill): Promise<void> {
      let remaining = request;
      isHeld = (url) => url.includes(part) && (remaining -= 1) === 0;
      held = Promise.withResolvers();
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
    const namesIn = (page: string) => (JSON.parse(page) as { repositories: readonly string[] }).repositories;
    expect(await exportAll('repositories', { request: 4 }, namesIn)).toMatchObject({ items: names });

    const last = names.at(-1) ?? '';
    const deleteLast = () => rm(join(directory, 'images/docker/registry/v2/repositories', last), { recursive: true });
    const tagsIn = (page: string) => (JSON.parse(page) as { tags: readonly string[] }).tags;
    const tags = await exportAll('tags', { request: 30 }, tagsIn, deleteLast);
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
  const idsIn = (page: string) => ((JSON.parse(page) as Bundle).entry ?? []).map(({ resource }) => resource.id);
  const numbered = (name: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${name}-${String(index).padStart(3, '0')}`);
  const patients = numbered('patient', 40);
  const observations = numbered('observation', 95);

  it('is exported by the URLs in its bundles, in parallel slices, each observation once and in order', async () => {
    const settings = { size: 5, since: { initial: '2020-01-01T00:00:00Z' }, slices: { parallel: 3, length: 'P365D' } };
    const exportAll = await openExports('fhir-observations.json', endpoint, ([described]) => [
      { ...described, ...settings },
    ]);
    expect(await exportAll('observations', { request: 12 }, idsIn)).toMatchObject({ items: observations });
  });

  it('is exported patient by patient, without one that is deleted meanwhile', async () => {
    const exportAll = await openExports('fhir-observations.json', endpoint, () => [
      { name: 'patients', size: 9, api: { request: { path: '/r4/Patient?_sort=_id' } } },
      {
        name: 'everything',
        parents: { export: 'patients', id: '/resource/id' },
        size: 2,
        slices: { parallel: 3 },
        api: { request: { path: '/r4/Patient/{parent}/$everything' } },
      },
    ]);
    expect(await exportAll('patients', { request: 4 }, idsIn)).toMatchObject({ items: patients });
    const deleted = `${endpoint}/r4/Patient/${patients[38]}`;
    const deletePatient = async () => void (await fetch(deleted, { method: 'DELETE' }));
    onTestFinished(async () => {
      const body = JSON.stringify({ resourceType: 'Patient', id: patients[38] });
      await fetch(deleted, { method: 'PUT', body, headers: { 'content-type': 'application/fhir+json' } });
    });
    const { items, parents } = await exportAll('everything', { request: 9 }, idsIn, deletePatient);
    const left = patients
      .map((id, patient) =>
        [id, ...observations.filter((_, index) => index % 39 === patient)].map((each) => `${id}: ${each}`),
      )
      .filter((_, patient) => patient !== 38);
    expect(items).toEqual(left.flat());
    expect(parents).toMatchObject({ export: 'patients', count: 40, gone: 1 });
  });

  it.each([
    // For ten minutes, the request may be one of a process that still runs.
    ['created', { url: '/$export?', request: 1, isJob: true, minutes: 11 }, 2],
    ['polled', { url: '/$export-poll-status', request: 1, isJob: true }, 1],
    ['downloaded', { url: '/Binary/', request: 3 }, 1],
  ])('is exported by a bulk export, each resource once, if the run is killed as it is %s', async (_, kill, jobs) => {
    const exportAll = await openExports('fhir-export.json', endpoint, (described) => described);
    const idsInLines = (page: string) => {
      const lines = page.split('\n').filter((line) => line !== '');
      return lines.map((line) => (JSON.parse(line) as { id: string }).id);
    };
    const { items, requested } = await exportAll('resources', kill, idsInLines);
    expect(items.toSorted()).toEqual([...observations, ...patients]);
    expect(requested.filter((url) => url.includes('/$export?'))).toHaveLength(jobs);
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
