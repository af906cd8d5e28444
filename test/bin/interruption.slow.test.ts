/** A run that is interrupted at any point is resumed and published whole: with real processes, files and sockets. */

import { createHash } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { RunSummary } from '../../lib/core/storage/published-schemas.ts';
import { type JobVendor, jobVendors, startJobVendor } from '../support/service/job-vendors.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import type { SimulatorOptions } from '../support/service/simulator.ts';
import { type Simulator, startSimulator } from '../support/service/simulator.ts';
import type { Manifest } from '../support/export/export-bench.ts';
import { aDirectory, jsonOf, readManifest, run, start } from '../support/process/command-line.ts';

const apiKey = 'a-key-that-must-never-show-9f8e7d';
const env = { REPORT_EXPORT_API_KEY: apiKey };
const count = 60;
const reports = Array.from({ length: count }, (_, index) => ({
  id: `r${index}`,
  date: Date.UTC(2026, 10, 1) + index * 60_000,
  xml: `<report id="r${index}">${'Zürich '.repeat(index)}</report>`,
}));

async function simulator(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const started = await startSimulator({ vendor: 'SERVICE', apiKey, reports: inMemoryReports(reports), ...options });
  onTestFinished(() => started.close());
  return started;
}

/** Writes the settings of a directory. Three reports a page. */
async function writeSettings({ baseUrl }: Simulator, out: string, bucket: object = {}): Promise<void> {
  const services = { service: { baseUrl } };
  const exports = [{ name: 'reports', size: 3 }];
  await writeFile(join(out, 'report-exporter.json'), JSON.stringify({ services, exports, bucket }));
}

/** A directory with the settings, and the command that exports to it. */
async function aTarget(service: Simulator) {
  const out = await aDirectory();
  await writeSettings(service, out);
  return { out, local: ['local', `--out=${out}`, '--json'] };
}

/** A response that a run waits for when it is interrupted, however fast it is. */
const neverEnding = { delayMs: 600_000 };

/** The manifests that a consumer finds, oldest first. */
function manifestsIn(out: string): Promise<Manifest[]> {
  const paths = globSync('reports/*/*/manifest.json', { cwd: out });
  return Promise.all(paths.toSorted().map((path) => readManifest(join(out, path)))).then((manifests) =>
    manifests.toSorted((a, b) => Number(a.sequence) - Number(b.sequence)),
  );
}

async function reportsOf(manifest: Manifest, out: string, pattern = /<report id="([^"]+)"/g): Promise<string[]> {
  const bodies = await Promise.all(
    manifest.pages.map(async ({ key, sha256, compression }) => {
      const object = await readFile(join(out, key));
      const body = compression === 'gzip' ? gunzipSync(object) : object;
      expect(createHash('sha256').update(body).digest('hex')).toBe(sha256);
      return body.toString();
    }),
  );
  return [...bodies.join('').matchAll(pattern)].map(([, id]) => id ?? '');
}

describe('a run that is interrupted', () => {
  it.each([
    ['pages', false],
    ['compressed pages, although each second start has another setting', true],
  ] as const)('by kill -9 at random moments is eventually published completely, with %s', async (_, isCompressed) => {
    const out = await aDirectory();
    // Slow enough for a kill to happen during a run, sometimes during a response body.
    const service = await simulator({
      faults: ({ request }) => (request % 3 === 0 ? { trickle: { bytes: 200, everyMs: 3 } } : { delayMs: 5 }),
    });
    const all = reports.map(({ id }) => id);
    const seenByReaders: string[][] = [];
    let kills = 0;
    let ended: Awaited<ReturnType<typeof run>>;
    for (;;) {
      const seen = service.exchanges.length;
      await writeSettings(service, out, isCompressed && kills % 2 === 0 ? { compression: 'gzip' } : {});
      const exporter = start(['local', `--out=${out}`, '--json'], env);
      const killAfter = 1 + Math.floor(Math.random() * 6);
      const killing = (async () => {
        while (service.exchanges.length < seen + killAfter && exporter.process.exitCode === null) await sleep(1);
        await sleep(Math.random() * 15);
        if (kills < 6) exporter.process.kill('SIGKILL');
      })();
      ended = await exporter.ended;
      await killing;
      // The process may have published before it was killed: then the run is complete.
      for (const manifest of await manifestsIn(out)) seenByReaders.push(await reportsOf(manifest, out));
      if (ended.signal !== 'SIGKILL') break;
      kills += 1;
    }
    expect(ended.status).toBe(0);
    // After a kill that came after publishing, the last start is a new run, which finds nothing new.
    expect(seenByReaders.filter((ids) => ids.length > 0)).toEqual(
      seenByReaders.filter((ids) => ids.length > 0).map(() => all),
    );
    const manifests = await manifestsIn(out);
    const [published] = manifests;
    expect(published?.totals).toMatchObject({ pages: count / 3, reports: count });
    // A run keeps the form in which it began. If it has no page yet, the next start begins another one.
    expect([...new Set(published?.pages.map((page) => page.compression))]).toEqual([published?.compression]);
    expect(isCompressed ? ['gzip', undefined] : [undefined]).toContain(published?.compression);
    // A kill costs at most the eight pages in flight.
    expect(service.exchanges.length).toBeLessThanOrEqual(count / 3 + 8 * kills + manifests.length - 1);
    const summary = await readFile(join(out, dirname(published?.pages[0]?.key ?? ''), 'run.json'), 'utf8');
    expect((JSON.parse(summary) as RunSummary).watermark).toBe(published?.serviceStartedAt);
    expect(ended.stdout + ended.stderr).not.toContain(apiKey);
  });

  it.each([
    ['created', '/$export?', 2],
    ['polled', '_jobId=', 1],
  ])('by kill -9 while a report job is %s leaves at most one job that is not used', async (_, request, created) => {
    const vendor = jobVendors.find(({ file }) => file === 'fhir-export.json') as JobVendor;
    const rows = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, at: Date.UTC(2026, 10, 3) }));
    const reached = Promise.withResolvers<void>();
    let isOver = false;
    const fault: Parameters<typeof startJobVendor>[2]['fault'] = ({ url }) => {
      if (isOver || !url.href.includes(request)) return undefined;
      reached.resolve();
      // The service creates a job, although its response is lost.
      if (created > 1) server.world.create(0, Number.MAX_SAFE_INTEGER);
      return 'silent';
    };
    await using server = await startJobVendor(vendor, rows, { now: Date.now, fault });
    server.world.waits = 0;
    const out = await aDirectory();
    const described = await readFile(join(import.meta.dirname, '../../docs/apis', vendor.file), 'utf8');
    const settings = described
      .replace('https://fhir.example.com', server.url)
      .replace('"within": "P1D"', '"every": "PT1S"');
    await writeFile(join(out, 'report-exporter.json'), settings);
    const local = ['local', `--out=${out}`, '--json'];
    const killed = start(local, env);
    await reached.promise;
    killed.process.kill('SIGKILL');
    await killed.ended;
    isOver = true;
    // Until then, the job may be one of a process that still runs.
    const later = 'const now = Date.now; Date.now = () => now() + 660_000';
    const end = jsonOf(
      await run(local, { ...env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(later)}` }),
    );
    expect(end).toMatchObject({ status: 'completed', reports: 5 });
    expect(await reportsOf(await readManifest(end.manifest ?? ''), out, /"id":"(\w)"/g)).toEqual(
      rows.map(({ id }) => id),
    );
    expect(server.created()).toBe(created);
  });

  it('by Ctrl-C exits with 130, publishes nothing, and is resumed without fetching a logged page again', async () => {
    const held = { from: 6 };
    const service = await simulator({ faults: ({ request }) => (request < held.from ? {} : neverEnding) });
    const { out, local } = await aTarget(service);
    const exporter = start(local, env);
    await expect.poll(() => service.exchanges.length).toBe(5);
    exporter.process.kill('SIGINT');
    const interrupted = await exporter.ended;
    expect(interrupted.status).toBe(130);
    held.from = Number.POSITIVE_INFINITY;
    expect(jsonOf(interrupted)).toMatchObject({ status: 'interrupted', since: '1970-01-01T00:00:00Z' });
    expect(jsonOf(interrupted)).not.toHaveProperty('error');
    expect(jsonOf(interrupted)).toMatchObject({ pages: expect.any(Number), reports: 3 * jsonOf(interrupted).pages });
    expect(interrupted.stderr).toContain(
      `Interrupted: reports (after page ${jsonOf(interrupted).pages})\n  Run again to resume.\n`,
    );
    expect(interrupted.stderr).not.toMatch(/fail/i);
    expect(existsSync(join(out, 'reports/latest.json'))).toBe(false);

    const before = service.exchanges.length;
    const resumed = jsonOf(await run(local, env));
    expect(resumed).toMatchObject({ status: 'completed', run: jsonOf(interrupted).run, reports: count });
    const cursors = service.exchanges.map(({ cursor }) => cursor);
    // No logged page is requested again, and of the others only the four that were in flight when the signal arrived.
    expect(service.exchanges.length - before).toBeLessThanOrEqual(count / 3 - jsonOf(interrupted).pages);
    expect(cursors.length - new Set(cursors).size).toBeLessThanOrEqual(4);
    expect(await reportsOf(await readManifest(resumed.manifest ?? ''), out)).toEqual(reports.map(({ id }) => id));
  });
});
