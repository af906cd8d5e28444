/** Runs of exports with parents: each value of a list is a slice with pages of its own. */

import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import type { ExportDefinition, ExportState, LogEntry, LoopState } from '../../../lib/core/model.ts';
import type { PageRequest, ReceivedEnd } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { planRun } from '../../../lib/operator/plan-run.ts';
import { findRun } from '../../../lib/operator/run-view.ts';
import { verifyRun, verifyUnfinishedRun } from '../../../lib/operator/verify-run.ts';
import { aFetchedPage, anExportRequest, collect, someLimits } from '../../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  begin,
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
const pagesOfParent = ({ parent = '', cursor }: PageRequest) => {
  const id = idsOf(parent)[cursor === null ? 0 : 1] ?? '';
  const body = `<reports><report id="${id}"/></reports>`;
  return aFetchedPage({ body, reports: 1, nextCursor: cursor === null ? cursorAt(1) : null });
};
const aBench = (options: BenchOptions = {}) =>
  anExportBench({ script: pagesOfParent, ...options, definition: { ...parents, ...options.definition } });
const failingOnce = (parent: string, error: ExportError): { script: Script; recover: () => void } => {
  let isDown = true;
  const script: Script = (request) => {
    if (isDown && request.parent === parent) throw error;
    return pagesOfParent(request);
  };
  return { script, recover: () => (isDown = false) };
};
const gone: ReceivedEnd = { kind: 'end', reason: 'gone', status: 404 };
/** Of these parents, the first request says that they are gone. */
const withGone =
  (isGone: (parent: string) => boolean): Script =>
  (request) =>
    request.cursor === null && isGone(request.parent ?? '') ? gone : pagesOfParent(request);
const pageOf = ({ objects }: Bench['store'], suffix: string): string =>
  [...objects.keys()].find((key) => key.includes(suffix)) ?? '';
function dropEntries(log: Bench['log'], slice: number): void {
  const before = { ...log };
  Object.assign(log, {
    async *runEntries(...args: Parameters<typeof log.runEntries>) {
      for await (const entry of before.runEntries(...args)) if (entry.slice !== slice) yield entry;
    },
  });
}
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `${index + 1}`);
const verify = async (bench: Bench, run: string, log = bench.log) =>
  await verifyRun(
    { store: bench.store, log, onPage: () => {} },
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
    expect({ counts, slices }).toEqual({
      counts: { count: 3, withoutPages: 0, gone: 0, skipped: 0 },
      slices: undefined,
    });
    expect(await verify(bench, result.run)).toMatchObject({ pages: 6, findingCount: 0 });
    expect(await findRun(asExportTarget(bench), result.run)).toMatchObject({
      state: 'completed',
      slices: { done: 3, count: 3, parents: { gone: 0, skipped: 0 } },
    });
  });

  it('proves no bounds of its slices, as all have the same; a bounded run proves its own once', async () => {
    const bench = aBench();
    completed(await bench.start());
    expect(bench.service.requests).toHaveLength(6);
    const bounds = { since: '2026-11-01T00:00:00Z', until: '2026-11-02T00:00:00Z' };
    const script: Script = (request) =>
      request.since === request.until ? aFetchedPage({ reports: 0, nextCursor: null }) : pagesOfParent(request);
    const bounded = aBench({ script });
    expect(completed(await bounded.start(bounds))).toMatchObject({ bounded: true, pages: 6 });
    expect(bounded.service.requests.filter(({ since, until }) => since === until)).toMatchObject([{ parent: 'open' }]);
  });

  it.each([
    ['a parent has started over', { attempts: { 2: 2 } }, () => {}, /has started parent 2 of run/],
    ['a parent has no last page', {}, ({ log }: Bench) => dropEntries(log, 2), /the last pages of 2 of 3 parents/],
    [
      'a page of it is missing',
      {},
      ({ store }: Bench) => store.objects.delete(pageOf(store, '000002-000001')),
      /^Page 1 of parent 2 of run/,
    ],
    [
      'a page of it was never logged',
      {},
      ({ store }: Bench) => store.objects.set(pageOf(store, '000002-000002').replace('2.xml', '3.xml'), '<reports/>'),
      /^Page 3 of parent 2 of run/,
    ],
  ])('is not published, and the error names the parent, if %s', async (_, restarted, damage, message) => {
    const bench = aBench();
    let loop: LoopState & { readonly next: string } = (await begin(bench.deps, 'one')) as LoopState & { next: string };
    while (loop.next !== 'finish') loop = await exportPage(bench.deps, { loop, execution: 'one' });
    const { active, ...state } = await bench.state();
    if (active?.slices === undefined) throw new Error('no run with slices');
    const changed = { ...active, ...restarted };
    await bench.log.replaceState({ ...state, version: state.version + 1, active: changed } as ExportState);
    damage(bench);
    await expect(finishRun(bench.deps, { run: active.run, execution: 'one' })).rejects.toThrow(message);
  });

  it('looks for a page that an earlier execution has stored only where its walkers begin', async () => {
    const bench = aBench({ definition: { parents: { values: numbered(30) } }, limits: { pagesPerInvocation: 100 } });
    const { ...before } = bench.store;
    let lookups = 0;
    Object.assign(bench.deps.store, {
      find: async (...args: Parameters<typeof before.find>) => ((lookups += 1), await before.find(...args)),
    });
    completed(await bench.start());
    expect(lookups).toBe(2);
  });

  it('is resumed with the parents that are left', async () => {
    const { script, recover } = failingOnce('closed', new ExportError('RequestRejectedError', 'no such state'));
    const bench = aBench({ script });
    const { run } = failed(await bench.start());
    expect(await findRun(asExportTarget(bench), run as never)).toMatchObject({
      pages: 4,
      slices: { done: 2, count: 3, parents: { gone: 0, skipped: 0 }, setAside: [{ slice: 2 }] },
    });
    const { active } = await bench.state();
    const dependencies = { store: bench.store, log: bench.log, onPage: () => {} };
    expect(await verifyUnfinishedRun(dependencies, active as never)).toMatchObject({ pages: 4, findingCount: 0 });
    const target = asExportTarget(bench);
    const planned = await planRun({ ...bench.deps, ...target, store: bench.store } as never);
    expect(planned).toMatchObject({
      act: 'resume',
      slice: 2,
      walk: { first: { parent: 'closed' } },
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

  it('has the pages of the others if one of them is forbidden, but none if the first request is', async () => {
    const forbidden = new ExportError('ConfigurationError', 'denied', { isForbidden: true });
    const { script } = failingOnce('closed', forbidden);
    const definition = { slicing: { parallel: 1 } };
    const bench = aBench({ script, definition });
    expect(failed(await bench.start())).toMatchObject({ error: 'ConfigurationError', pages: 4 });
    const { script: first } = failingOnce('open', forbidden);
    const refused = aBench({ script: first, definition });
    expect(failed(await refused.start())).toMatchObject({ error: 'ConfigurationError', pages: 0 });
    expect(refused.service.requests).toHaveLength(1);
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
    const end: ReceivedEnd = { kind: 'end', reason: 'empty', status: 204 };
    const bench = aBench({ script: (request) => (request.parent === 'closed' ? end : pagesOfParent(request)) });
    const result = completed(await bench.start());
    expect(reportIdsOf(bench, result.manifest)).toEqual([...idsOf('open'), ...idsOf('a/b')]);
    expect(bench.manifest(result.manifest).parents).toEqual({ count: 3, withoutPages: 1, gone: 0, skipped: 0 });
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
      (asked) => ({ ...pagesOfParent(asked), documentRoot: asDocumentRoot(root(asked)) });
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
    expect(findings[0]?.message).toContain('has the parent "closed", not "open"');
    expect(pagesIn(bench)).toHaveLength(6);
  });
});

describe('a parent that is gone', () => {
  it('has an end in place of its pages, and the run is published without it', async () => {
    const bench = aBench({ script: withGone((parent) => parent === 'closed') });
    const result = completed(await bench.start());
    expect(reportIdsOf(bench, result.manifest)).toEqual([...idsOf('open'), ...idsOf('a/b')]);
    const { missing, ...counts } = bench.manifest(result.manifest).parents as { missing: { key: string } };
    expect(counts).toEqual({ count: 3, withoutPages: 1, gone: 1, skipped: 0 });
    expect(bench.store.objects.get(missing.key)).toBe('{"slice":2,"parent":"closed","reason":"gone","status":404}\n');
    const run = { export: result.export, run: result.run as LogEntry['run'] };
    expect(await bench.log.last({ ...run, slice: 2, attempt: 1 })).toMatchObject({
      kind: 'end',
      page: 1,
      reason: 'gone',
      status: 404,
      parent: 'closed',
    });
    expect(await findRun(asExportTarget(bench), result.run)).toMatchObject({ slices: { parents: { gone: 1 } } });
    expect(await verify(bench, result.run)).toMatchObject({ pages: 4, findingCount: 0 });
  });

  it('is in the next run again if it has come back', async () => {
    let isBack = false;
    const bench = aBench({ script: withGone((parent) => parent === 'closed' && !isBack) });
    completed(await bench.start());
    isBack = true;
    expect(reportIdsOf(bench, completed(await bench.start()).manifest)).toEqual(all);
  });

  it('does not prove the bounds of a run: the next one is asked', async () => {
    const script: Script = (request, nth) => {
      const answer = withGone((parent) => parent === 'open')(request, nth);
      const isProof = request.since === request.until && answer?.kind !== 'end';
      return isProof ? aFetchedPage({ reports: 0, nextCursor: null }) : answer;
    };
    const bench = aBench({ script });
    const bounds = { since: '2026-11-01T00:00:00Z', until: '2026-11-02T00:00:00Z' };
    expect(completed(await bench.start(bounds))).toMatchObject({ pages: 4 });
    expect(bench.service.requests.slice(0, 2).map(({ parent }) => parent)).toEqual(['open', 'closed']);
  });

  it('stops the run if the first ten are gone, in a proof, too, and the next start begins a new one', async () => {
    const definition = { parents: { values: numbered(100) }, slicing: { parallel: 1 } };
    const bench = aBench({ definition, script: withGone(() => true) });
    const message = 'The first 10 parents of run';
    const first = failed(await bench.start());
    expect(first).toMatchObject({ error: 'ConfigurationError', pages: 0, resumable: true });
    expect(first.message).toContain(message);
    // The request of the next one was sent while the tenth was logged.
    expect(bench.service.requests).toHaveLength(11);
    const bounds = { since: '2026-11-01T00:00:00Z', until: '2026-11-02T00:00:00Z' };
    expect(failed(await bench.start(bounds)).message).toContain(message);
    expect(bench.service.requests).toHaveLength(21);
    const next = completed(await bench.with({ definition, script: pagesOfParent }).start());
    expect(next).toMatchObject({ pages: 200 });
    expect(next.run).not.toBe(first.run);
  });

  it('may be among the first ten with nine others, if one has a page', async () => {
    const definition = {
      parents: { values: numbered(12) },
      slicing: { parallel: 1 },
      limits: someLimits({ goneAtMostPercent: 100 }),
    };
    const bench = aBench({ definition, script: withGone((parent) => parent !== '10') });
    expect(completed(await bench.start())).toMatchObject({ pages: 2 });
  });

  describe.each([
    { count: 100, percent: 2, most: 2 },
    { count: 49, percent: 2, most: 1 },
    { count: 10, percent: 50, most: 5 },
    { count: 3, percent: 0, most: 1 },
  ])('with $percent % of $count allowed', ({ count, percent, most }) => {
    const definition = (goneAtMostPercent: number) => ({
      parents: { values: numbered(count) },
      limits: someLimits({ goneAtMostPercent, pagesPerInvocation: 1_000 }),
    });
    const lastGone = (gone: number) => withGone((parent) => Number(parent) > count - gone);

    it(`may be one of ${most}`, async () => {
      const bench = aBench({ definition: definition(percent), script: lastGone(most) });
      expect(completed(await bench.start())).toMatchObject({ pages: 2 * (count - most) });
    });

    it(`fails the run with ${most} others, until a person allows more: then nothing is requested again`, async () => {
      const script = lastGone(most + 1);
      const bench = aBench({ definition: definition(percent), script });
      const { run, message, resumable } = failed(await bench.start());
      expect(message).toContain(`${most + 1} of ${count} parents`);
      expect(message).toContain(`parents.gone.atMost allows ${most}`);
      expect({ resumable, manifests: manifestsIn(bench) }).toEqual({ resumable: true, manifests: [] });
      const allowed = bench.with({ definition: definition(100), script });
      expect(completed(await allowed.start())).toMatchObject({ run, pages: 2 * (count - most - 1) });
      expect(allowed.service.requests).toEqual([]);
    });
  });

  it('is never every one of them', async () => {
    const definition = { parents: { values: ['only'] }, limits: someLimits({ goneAtMostPercent: 100 }) };
    const bench = aBench({ definition, script: withGone(() => true) });
    expect(failed(await bench.start()).message).toContain('are gone (when.gone). The run is not published. Correct');
  });
});

describe('a parent that an operator skips', () => {
  /** Its second page fails, always. */
  const dead: Script = (request) => {
    if (request.parent === 'closed' && request.cursor !== null)
      throw new ExportError('RequestRejectedError', 'no access to this one');
    return pagesOfParent(request);
  };
  const others = [...idsOf('open'), ...idsOf('a/b')];
  const skip = { skipParent: ['closed'] };

  it('no longer prevents the publication of the others: the pages that it has are not in the run', async () => {
    const bench = aBench({ script: dead });
    const { run } = failed(await bench.start());
    expect(pagesIn(bench)).toHaveLength(5);
    const before = bench.service.requests.length;
    const result = completed(await bench.start(skip));
    expect(result).toMatchObject({ run, pages: 4 });
    expect(bench.service.requests).toHaveLength(before);
    expect(reportIdsOf(bench, result.manifest)).toEqual(others);
    const { missing, ...counts } = bench.manifest(result.manifest).parents as { missing: { key: string } };
    expect(counts).toEqual({ count: 3, withoutPages: 1, gone: 0, skipped: 1 });
    expect(await verify(bench, result.run)).toMatchObject({
      findingCount: 0,
      notes: ['1 page of another attempt left over in its folder: the run does not contain them'],
    });
    const expired = { ...bench.log, mayHaveExpired: () => true };
    const notes = [expect.stringContaining('no longer has the run'), expect.stringContaining('another attempt left')];
    expect(await verify(bench, result.run, expired)).toMatchObject({ findingCount: 0, notes });
    const list = bench.store.objects.get(missing.key) ?? '';
    bench.store.objects.set(missing.key, list.replace('closed', 'another'));
    expect((await verify(bench, result.run)).findings[0]?.message).toMatch(/missing-parents-.*has the bytes/);
    bench.store.objects.delete(missing.key);
    expect((await verify(bench, result.run)).findings[0]?.message).toMatch(/missing-parents-.*is missing/);
    const end = await bench.log.last({ export: result.export, run: run as LogEntry['run'], slice: 2, attempt: 2 });
    expect(end).toMatchObject({ kind: 'end', page: 1, reason: 'skipped', status: null, parent: 'closed' });
    expect(await findRun(asExportTarget(bench), result.run)).toMatchObject({
      slices: { done: 3, count: 3, parents: { gone: 0, skipped: 1 } },
    });
    // The next run asks for it again.
    const next = bench.with({ script: pagesOfParent, definition: parents });
    expect(reportIdsOf(next, completed(await next.start()).manifest)).toEqual(all);
  });

  it('is not requested by a new run, nor by the starts that resume it', async () => {
    const { script, recover } = failingOnce('a/b', new ExportError('RequestRejectedError', 'not now'));
    const bench = aBench({ script });
    const { run } = failed(await bench.start(skip));
    recover();
    const result = completed(await bench.start());
    expect(result).toMatchObject({ run, pages: 4 });
    expect(bench.service.requests.filter(({ parent }) => parent === 'closed')).toEqual([]);
  });

  it('is skipped by a run in progress, from its next iteration on', async () => {
    const bench = aBench({ script: dead, definition: { slicing: { parallel: 1 } } });
    const begun = await begin(bench.deps, 'one');
    bench.running.add('one');
    const exportNext = async (loop: LoopState) => await exportPage(bench.deps, { loop, execution: 'one' });
    let loop = await exportNext(await exportNext(begun));
    expect(await bench.start(skip)).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining('It skips the parents that the start names') as unknown,
    });
    while (loop.next === 'page') loop = await exportNext(loop);
    expect(loop.next).toBe('finish');
    const run = begun.run as LogEntry['run'];
    expect(await finishRun(bench.deps, { run, execution: 'one' })).toMatchObject({ run, pages: 4 });
  });

  it('is skipped by a run in progress although its cursors were rejected too often to start over', async () => {
    const script: Script = (request) => {
      if (request.parent === 'closed' && request.cursor !== null)
        throw new ExportError('CursorRejectedError', 'the cursor is unknown');
      return pagesOfParent(request);
    };
    const bench = aBench({ script, limits: { maxCursorRestarts: 0 }, definition: { slicing: { parallel: 1 } } });
    const begun = await begin(bench.deps, 'one');
    bench.running.add('one');
    const exportNext = async (loop: LoopState) => await exportPage(bench.deps, { loop, execution: 'one' });
    let loop = await exportNext(begun);
    while ((await bench.state()).active?.restarts === undefined) loop = await exportNext(loop);
    await bench.start(skip);
    while (loop.next === 'page') loop = await exportNext(loop);
    expect(loop.next).toBe('finish');
    const run = begun.run as LogEntry['run'];
    expect(await finishRun(bench.deps, { run, execution: 'one' })).toMatchObject({ run, pages: 4 });
  });

  it('is published as skipped, wherever a process is killed', async () => {
    let isOver = false;
    for (let at = 1; !isOver; at += 1) {
      let left = at;
      const crash = () => {
        left -= 1;
        if (left === 0) throw new ExportError('ConfigurationError', 'cut off');
      };
      const bench = aBench({ crash, script: dead });
      for (let start = 0; start < 5 && manifestsIn(bench).length === 0; start += 1) await bench.start(skip);
      const [manifest = null] = manifestsIn(bench);
      expect({ at, ids: reportIdsOf(bench, manifest) }).toEqual({ at, ids: others });
      expect(bench.manifest(manifest).parents).toMatchObject({ skipped: 1 });
      isOver = left > 0;
    }
  });

  it('may be the first one, whose bounds a proof would ask for', async () => {
    const script: Script = (request) => {
      if (request.parent === 'open') throw new ExportError('RequestRejectedError', 'no access to this one');
      const isProof = request.since === request.until;
      return isProof ? aFetchedPage({ reports: 0, nextCursor: null }) : pagesOfParent(request);
    };
    const bounds = { since: '2026-11-01T00:00:00Z', until: '2026-11-02T00:00:00Z' };
    const bench = aBench({ script });
    failed(await bench.start(bounds));
    expect(completed(await bench.start({ ...bounds, skipParent: ['open'] }))).toMatchObject({ pages: 4 });
  });

  it('must be a parent of the export, one of at most 100', async () => {
    expect(failed(await aBench().start({ skipParent: ['other'] })).message).toContain(
      'skipParent: the export has no parent "other"',
    );
    const without = failed(await anExportBench().start(skip)).message;
    expect(without).toContain('skipParent: the export has no parents');
    const bench = aBench({ script: withGone(() => true), definition: { parents: { values: numbered(102) } } });
    failed(await bench.start({ skipParent: numbered(100) }));
    expect(failed(await bench.start({ skipParent: ['101', '102'] })).message).toContain(
      'the run would skip 102 parents, and may skip 100',
    );
  });
});
