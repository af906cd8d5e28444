/** Runs of exports with parents: each value of a list is a slice with pages of its own. */

import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportDefinition, LogEntry } from '../../../lib/core/model.ts';
import type { PageRequest, Received, ReportService } from '../../../lib/core/ports.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { planRun } from '../../../lib/operator/plan-run.ts';
import { findRun } from '../../../lib/operator/run-view.ts';
import { verifyRun, verifyUnfinishedRun } from '../../../lib/operator/verify-run.ts';
import { aFetchedPage, anExportRequest, collect } from '../../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  manifestsIn,
  pagesIn,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { cursorAt, type Script } from '../../support/export/scripted-service.ts';

const values = ['open', 'closed', 'a/b'];
const parents: Partial<ExportDefinition> = { parents: { values }, slicing: { parallel: 2 } };
const idsOf = (parent: string) => [`${parent}-1`, `${parent}-2`];
const all = values.flatMap(idsOf);

/** Two pages for each parent, of one report each. */
const pagesOfParent: Script = ({ parent = '', cursor }) => {
  const id = idsOf(parent)[cursor === null ? 0 : 1] ?? '';
  const body = `<reports><report id="${id}"/></reports>`;
  return aFetchedPage({ body, reports: 1, nextCursor: cursor === null ? cursorAt(1) : null });
};
const aBench = (options: BenchOptions = {}) =>
  anExportBench({ script: pagesOfParent, ...options, definition: { ...parents, ...options.definition } });
const failingOnce = (parent: string, error: ExportError): { script: Script; recover: () => void } => {
  let isDown = true;
  const script: Script = (request, nth) => {
    if (isDown && request.parent === parent) throw error;
    return pagesOfParent(request, nth);
  };
  return { script, recover: () => (isDown = false) };
};
const verify = async (bench: Bench, run: string) =>
  await verifyRun(
    { store: bench.store, log: bench.log, onPage: () => {} },
    await openPublishedRun(bench.store, bench.deps.definition.name, run),
  );

describe('a run of an export with parents', () => {
  it('is published once, with the pages of each parent in the order of the list', async () => {
    const bench = aBench();
    const result = completed(await bench.start());
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    expect(manifestsIn(bench)).toHaveLength(1);
    const { pages, parents: counts, slices } = bench.manifest(result.manifest);
    expect(
      pages.map((page) => [page.page, (page as { slice?: number }).slice, (page as { parent?: string }).parent]),
    ).toEqual(values.flatMap((value, index) => [1, 2].map((page) => [2 * index + page, index + 1, value])));
    expect({ counts, slices }).toEqual({ counts: { count: 3, withoutPages: 0 }, slices: undefined });
    expect(await verify(bench, result.run)).toMatchObject({ pages: 6, findingCount: 0 });
    expect(await findRun(asExportTarget(bench), result.run)).toMatchObject({
      state: 'completed',
      slices: { done: 3, count: 3, parents: true },
    });
  });

  it('proves no bounds of its slices, as all have the same; a bounded run proves its own once', async () => {
    const bench = aBench();
    completed(await bench.start());
    expect(bench.service.requests).toHaveLength(6);
    const bounds = { since: '2026-11-01T00:00:00Z', until: '2026-11-02T00:00:00Z' };
    const script: Script = (request, nth) =>
      request.since === request.until ? aFetchedPage({ reports: 0, nextCursor: null }) : pagesOfParent(request, nth);
    const bounded = aBench({ script });
    expect(completed(await bounded.start(bounds))).toMatchObject({ bounded: true, pages: 6 });
    expect(bounded.service.requests.filter(({ since, until }) => since === until)).toMatchObject([{ parent: 'open' }]);
  });

  it('is resumed with the parents that are left', async () => {
    const { script, recover } = failingOnce('closed', new ExportError('RequestRejectedError', 'no such state'));
    const bench = aBench({ script });
    const { run } = failed(await bench.start());
    expect(await findRun(asExportTarget(bench), run as never)).toMatchObject({
      pages: 4,
      slices: { done: 2, count: 3, parents: true, setAside: [{ slice: 2 }] },
    });
    const { active } = await bench.state();
    const dependencies = { store: bench.store, log: bench.log, onPage: () => {} };
    expect(await verifyUnfinishedRun(dependencies, active as never)).toMatchObject({ pages: 4, findingCount: 0 });
    const target = asExportTarget(bench);
    const planned = await planRun({ ...bench.deps, ...target, store: bench.store } as never);
    expect(planned).toMatchObject({
      act: 'resume',
      slice: 2,
      next: { parent: 'closed' },
      slices: { lengthSeconds: null },
    });
    recover();
    const before = bench.service.requests.length;
    const result = completed(await bench.start());
    expect(result.run).toBe(run);
    expect(bench.service.requests.slice(before).map(({ parent }) => parent)).toEqual(['closed', 'closed']);
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('is published once and whole, wherever a process is killed', async () => {
    const effectsOf = async (at: number) => {
      let left = at;
      const crash = () => {
        left -= 1;
        if (left === 0) throw new ExportError('ConfigurationError', 'cut off');
      };
      const bench = aBench({ crash });
      for (let start = 0; start < 4 && manifestsIn(bench).length === 0; start += 1) await bench.start();
      const manifest = manifestsIn(bench);
      expect({ at, manifests: manifest.length }).toEqual({ at, manifests: 1 });
      expect(reportIdsOf(bench, manifest[0] ?? null)).toEqual(all);
      return left > 0;
    };
    let isOver = false;
    for (let at = 1; !isOver; at += 1) isOver = await effectsOf(at);
  });

  it('does not continue with another list', async () => {
    const { script } = failingOnce('closed', new ExportError('RequestRejectedError', 'no such state'));
    const bench = aBench({ script });
    failed(await bench.start());
    const sha256 = 'f'.repeat(64);
    const request = anExportRequest({ size: 2, api: { sha256, requestSha256: sha256 } });
    const other = bench.with({ script, definition: { parents: { values: ['open', 'other'] }, request } });
    expect(failed(await other.start()).message).toContain('have changed, or the parents');
  });

  it('refuses a length of slices', async () => {
    expect(failed(await aBench().start({ slice: 'PT1H' })).message).toContain(
      'slice: has no meaning for an export with parents',
    );
    expect(completed(await aBench().start({ parallel: 3 })).pages).toBe(6);
  });

  it('has no page of a parent that is empty', async () => {
    const bench = aBench();
    const { fetch } = bench.service;
    const end: Received = { kind: 'end', reason: 'empty', status: 204 };
    const service: ReportService = {
      fetch: async (request, sent) => (request.parent === 'closed' ? end : await fetch(request, sent)),
    };
    Object.assign(bench.deps, { service });
    const result = completed(await bench.start());
    expect(reportIdsOf(bench, result.manifest)).toEqual([...idsOf('open'), ...idsOf('a/b')]);
    expect(bench.manifest(result.manifest).parents).toEqual({ count: 3, withoutPages: 1 });
    const ends = (
      await collect(bench.log.runEntries({ export: result.export, run: result.run as LogEntry['run'] }))
    ).filter(({ kind }) => kind === 'end');
    expect(ends).toMatchObject([{ slice: 2, page: 1, reason: 'empty', status: 204 }]);
    expect(await verify(bench, result.run)).toMatchObject({ pages: 4, findingCount: 0 });
  });

  it('may have other columns in CSV for each parent, but not within one', async () => {
    const request = anExportRequest({ format: 'CSV', reportsAt: { kind: 'csv', header: true } });
    const rootsOf =
      (root: (asked: PageRequest) => string): Script =>
      (asked, nth) => {
        const page = pagesOfParent(asked, nth);
        return page && { ...page, documentRoot: asDocumentRoot(root(asked)) };
      };
    const each = aBench({ definition: { request }, script: rootsOf(({ parent = '' }) => parent.replace('/', '')) });
    const result = completed(await each.start());
    expect(await verify(each, result.run)).toMatchObject({ findingCount: 0 });
    expect((await each.state()).documentRoot).toBeUndefined();
    completed(await each.start());
    const within = aBench({ definition: { request }, script: rootsOf(({ cursor }) => (cursor === null ? 'a' : 'b')) });
    expect(failed(await within.start()).error).toBe('ContractError');
    const inXml = aBench({ script: rootsOf(({ parent = '' }) => parent.replace('/', '')) });
    expect(failed(await inXml.start()).error).toBe('ContractError');
  });

  it('is found to be changed if a page has another parent', async () => {
    const bench = aBench();
    const { run, manifest } = completed(await bench.start());
    const text = bench.store.objects.get(manifest ?? '') ?? '';
    bench.store.objects.set(manifest ?? '', text.replace('"parent":"open"', '"parent":"closed"'));
    const { findings } = await verify(bench, run);
    expect(findings[0]?.message).toContain('has the parent "open", not "closed"');
    expect(pagesIn(bench)).toHaveLength(6);
  });
});
