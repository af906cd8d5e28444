/** Where the chain of each parent begins, if requests have `{since}`. No child is missed, whatever the list has. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { selectionOf } from '../../../lib/core/filter.ts';
import type { ExportDefinition, ExportedParents } from '../../../lib/core/model.ts';
import type { Received, ReportService } from '../../../lib/core/ports.ts';
import { storeCoverage } from '../../../lib/core/parents/coverage.ts';
import { maxParents } from '../../../lib/core/parents/plan.ts';
import { parentsPerPart, storeParents } from '../../../lib/core/parents/plan-parts.ts';
import { planRun } from '../../../lib/operator/plan-run.ts';
import { reportReaderOf } from '../../../lib/service/formats/values/report-reader.ts';
import { aFetchedPage, anExportRequest, aRun, at } from '../../support/builders.ts';
import { anExportBench, asExportTarget, completed, failed } from '../../support/export/export-bench.ts';
import type { Script } from '../../support/export/scripted-service.ts';

const hour = 3_600_000;
const initial = '2026-11-01T00:00:00Z' as never;
const parents: ExportedParents = {
  export: 'repos',
  id: '/@id',
  also: {},
  where: [],
  inHeaders: [],
  hasCoverage: true,
  listsChanges: false,
};
const issues: Script = ({ parent = '' }) =>
  aFetchedPage({
    body: `<reports><report id="${parent}"/></reports>`,
    reports: 1,
    nextCursor: null,
    serviceTime: null,
  });

function someExports(own: Partial<ExportDefinition> = {}) {
  let listed: readonly string[] = [];
  const gone = new Set<string>();
  const repos = anExportBench({
    script: () => {
      const body = `<reports>${listed.map((id) => `<report id="${id}"/>`).join('')}</reports>`;
      return aFetchedPage({ body, reports: listed.length, nextCursor: null });
    },
    definition: { name: 'repos', stateName: 'repos' },
  });
  const since = { from: 'watermark', initial, overlapMs: 0 } as const;
  const definition = { name: 'issues', stateName: 'issues', since, parents, ...own };
  const bench = repos.with({ script: issues, limits: { goneAtMostPercent: 90 }, definition });
  const { fetch } = bench.service;
  const end: Received = { kind: 'end', reason: 'gone', status: 404 };
  const service: ReportService = {
    fetch: async (request, sent) => (gone.has(request.parent ?? '') ? end : await fetch(request, sent)),
  };
  Object.assign(bench.deps, { service, reportReader: reportReaderOf({ listed: { page: { format: 'xml' } } }) });
  return {
    bench,
    gone,
    /** Publishes the list, and runs `issues` an hour later. Returns where each chain has begun. */
    run: async (ids: readonly string[], input: object = {}) => {
      listed = ids;
      completed(await repos.start());
      bench.advance(hour);
      const before = bench.service.requests.length;
      const end = await bench.start(input);
      const begun = bench.service.requests.slice(before).map((request) => [request.parent, request.since] as const);
      return { end, begun: Object.fromEntries(begun) as Readonly<Record<string, string>> };
    },
    watermark: async () => (await bench.state()).watermark?.instant,
  };
}

describe('the chain of a parent', () => {
  it('begins where the first run does if the parent is new, and at the watermark if it was in the last run', async () => {
    const { run, watermark } = someExports();
    expect((await run(['a'])).begun).toEqual({ a: initial });
    const first = await watermark();
    expect((await run(['a', 'b'])).begun).toEqual({ a: first, b: initial });
  });

  it('begins where the parent was covered last, if that was not in the list for a while', async () => {
    const { run, watermark } = someExports({ publishEmptyRuns: false });
    await run(['a', 'b']);
    const first = await watermark();
    await run(['a']);
    await run([]);
    const third = await watermark();
    expect(third).not.toBe(first);
    expect((await run(['a', 'b'])).begun).toEqual({ a: expect.any(String), b: first });
    const fourth = await watermark();
    expect((await run(['a', 'b'])).begun).toEqual({ a: fourth, b: fourth });
  });

  it('begins where the parent was covered before it was gone', async () => {
    const { run, gone, watermark } = someExports();
    await run(['a', 'b', 'c']);
    const first = await watermark();
    gone.add('b').add('d');
    await run(['a', 'b', 'c', 'd']);
    const second = await watermark();
    gone.clear();
    expect((await run(['a', 'b', 'c', 'd'])).begun).toEqual({ a: second, b: first, c: second, d: initial });
  });

  it('is planned from where it begins', async () => {
    const { run, bench, gone } = someExports();
    gone.add('a');
    await run(['a', 'b']);
    const { reportReader, runtime } = bench.deps;
    const target = { ...asExportTarget(bench), runtime, loadReportReader: async () => reportReader };
    expect(await planRun(target)).toMatchObject({ walk: { first: { parent: 'a', since: initial } } });
  });

  it('begins where the parent was covered before it was skipped', async () => {
    const { run, watermark } = someExports();
    await run(['a', 'b']);
    const first = await watermark();
    completed((await run(['a', 'b', 'c'], { skipParent: ['b', 'c'] })).end);
    const second = await watermark();
    expect((await run(['a', 'b', 'c'])).begun).toEqual({ a: second, b: first, c: initial });
  });

  it('begins so much earlier as the overlap says, by its own coverage', async () => {
    const { run, bench } = someExports({ since: { from: 'watermark', initial, overlapMs: 60_000 } });
    await run(['a']);
    const { watermark } = await bench.state();
    const { begun } = await run(['a']);
    expect(Date.parse(watermark?.instant ?? '') - Date.parse(begun.a ?? '')).toBe(60_000);
  });

  it('begins where a start says, and is covered only if that leaves no gap', async () => {
    const { run, watermark } = someExports();
    await run(['a', 'b']);
    const first = await watermark();
    await run(['a']);
    const second = await watermark();
    const named = new Date(Date.parse(first ?? '') + 60_000).toISOString().replace('.000Z', 'Z');
    // Before the watermark, so before the end of a; after that of b.
    expect((await run(['a', 'b', 'c'], { since: named })).begun).toEqual({ a: named, b: named, c: named });
    const third = await watermark();
    expect(Date.parse(third ?? '')).toBeGreaterThan(Date.parse(second ?? ''));
    expect((await run(['a', 'b', 'c'])).begun).toEqual({ a: third, b: first, c: initial });
  });

  it('is not covered by a start that says where, if the parent is new and not in the first run', async () => {
    const { run, watermark } = someExports({ since: { from: 'watermark', overlapMs: 0 } });
    const [first, later] = ['2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z'];
    expect((await run(['a'], { since: first })).begun).toEqual({ a: first });
    expect((await run(['a', 'b'], { since: later })).begun).toEqual({ a: later, b: later });
    const second = await watermark();
    expect((await run(['a', 'b'])).begun).toEqual({ a: second, b: '1970-01-01T00:00:00Z' });
  });

  it('begins at the watermark of another filter that a start has begun', async () => {
    const { run, bench, watermark } = someExports();
    await run(['a']);
    Object.assign(bench.deps.definition, { request: anExportRequest({ filter: { other: 1 } }) });
    const since = '2026-11-10T00:00:00Z';
    expect((await run(['a'], { since })).begun).toEqual({ a: since });
    const second = await watermark();
    expect((await run(['a', 'b'])).begun).toEqual({ a: second, b: initial });
  });

  it('begins no earlier than the first run, with a service whose clock is behind', async () => {
    const { run, bench } = someExports();
    const { fetch } = bench.deps.service;
    const behind: ReportService = {
      fetch: async (...request) => ({ ...(await fetch(...request)), serviceTime: '2026-10-01T00:00:00Z' as never }),
    };
    Object.assign(bench.deps, { service: behind });
    await run(['a']);
    expect((await run(['a'])).begun).toEqual({ a: initial });
  });

  it('begins no earlier than before if the clock of the service is behind', async () => {
    const { run, bench } = someExports({ since: { from: 'watermark', initial, overlapMs: hour } });
    await run(['a']);
    const { fetch } = bench.deps.service;
    const behind = { serviceTime: '2026-10-01T00:00:00Z' as never };
    Object.assign(bench.deps, {
      service: { fetch: async (...request: Parameters<typeof fetch>) => ({ ...(await fetch(...request)), ...behind }) },
    });
    const { begun } = await run(['a']);
    expect((await run(['a'])).begun).toEqual(begun);
  });

  it('does not depend on the order of its further values in the settings', async () => {
    const ofOrder = (...names: readonly string[]) => ({
      ...parents,
      also: Object.fromEntries(names.map((name) => [name, '/@id'])),
    });
    const { run, bench, watermark } = someExports({ parents: ofOrder('x', 'y') });
    await run(['a']);
    const first = await watermark();
    Object.assign(bench.deps.definition, { parents: ofOrder('y', 'x') });
    expect((await run(['a'])).begun).toEqual({ a: first });
  });

  it('keeps its beginning when the run is resumed, and moves nothing before the run is complete', async () => {
    const { run, bench, watermark } = someExports();
    await run(['a', 'b']);
    const first = await watermark();
    const { fetch } = bench.deps.service;
    let isDown = true;
    Object.assign(bench.deps.service, {
      fetch: async (...[request, sent]: Parameters<typeof fetch>) => {
        if (isDown && request.parent === 'b') throw new ExportError('RequestRejectedError', 'down');
        return await fetch(request, sent);
      },
    });
    failed((await run(['a', 'b', 'c'])).end);
    expect(await watermark()).toBe(first);
    isDown = false;
    const { end, begun } = await run([]);
    expect(completed(end).pages).toBe(3);
    expect(begun).toEqual({ b: first });
  });
});

it('stays as it was if the parent was not walked, in whatever part of the plan it is', async () => {
  const { store } = someExports().bench;
  const ids = Array.from({ length: parentsPerPart + 2 }, (_, index) => `p${index}`);
  const parts = await storeParents(
    store,
    'issues',
    ids.map((id) => ({ id })),
  );
  const run = {
    ...aRun({ export: 'issues', since: initial }),
    parents: { export: 'repos', parallel: 1, parts, coverage: { overlapMs: 0, initial } },
  };
  const unwalked = new Set([2, parentsPerPart + 1]);
  const digests = await storeCoverage(store, run, {}, { reached: at('2026-11-20T00:00:00Z'), unwalked });
  const stored = (digests ?? []).map((digest) => String(store.objects.get(`issues/_plans/${digest}.jsonl`)));
  const covered = new Set(stored.flatMap((text) => [...text.matchAll(/"id":"(\w+)"/g)].map(([, id]) => id)));
  expect(ids.filter((id) => !covered.has(id))).toEqual(['p1', `p${parentsPerPart}`]);
});

it('forgets the parents that are absent longest, if they are too many', async () => {
  const { store } = someExports().bench;
  const covered = Array.from({ length: maxParents + 2 }, (_, index) => ({ id: `${index}`, covered: initial }));
  const coverage = await storeParents(store, 'issues', covered);
  const parts = await storeParents(store, 'issues', [{ id: '0', covered: initial }]);
  const run = {
    ...aRun({ export: 'issues', since: initial }),
    parents: { export: 'repos', parallel: 1, parts, coverage: { overlapMs: 0, initial } },
  };
  const watermark = { ...selectionOf(run.request), instant: initial, run: run.run, documentRoot: null, coverage };
  const facts = { reached: at('2026-11-20T00:00:00Z'), unwalked: new Set<number>() };
  const digests = (await storeCoverage(store, run, { watermark } as never, facts)) ?? [];
  const text = digests.map((digest) => store.objects.get(`issues/_plans/${digest}.jsonl`)).join('');
  const ids = [...text.matchAll(/"id":"(\d+)"/g)].map(([, id]) => id);
  expect([ids.length, ids[0], ids[1], ids.at(-1)]).toEqual([maxParents + 1, '0', '1', `${maxParents}`]);
});

describe('a coverage that was changed', () => {
  it('stops the export, until a start says where all chains begin', async () => {
    const { run, bench } = someExports();
    await run(['a', 'b']);
    const { watermark } = await bench.state();
    const key = `issues/_plans/${watermark?.coverage?.[0]}.jsonl`;
    const text = bench.store.objects.get(key) ?? '';
    bench.store.objects.set(key, text.replace('"b"', '"x"'));
    const { end } = await run(['a', 'b']);
    expect(failed(end)).toMatchObject({ error: 'ConfigurationError', message: expect.stringContaining('are covered') });
    expect(failed(end).message).toContain('--restart and --since 2026-11-01T00:00:00Z: all');
    const again = await run(['a', 'b'], { restart: true, since: initial });
    completed(again.end);
    expect(again.begun).toEqual({ a: initial, b: initial });
    completed((await run(['a', 'b'])).end);
  });
});

it('needs no coverage with a lookback window, nor without {since}', async () => {
  for (const own of [
    { since: { from: 'lookback', lookbackMs: 2 * hour } as const },
    { parents: { ...parents, hasCoverage: false } },
  ]) {
    const { run, bench } = someExports(own);
    await run(['a']);
    await run(['a', 'b']);
    expect((await bench.state()).watermark).not.toHaveProperty('coverage.0');
    const since = new Set(bench.service.requests.slice(-2).map((request) => request.since));
    expect(since.size).toBe(1);
  }
});
