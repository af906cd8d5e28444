/** Runs whose last page has a cursor, which the service answers with a response that is no page. */

import { describe, expect, it } from 'vitest';
import { asRunId, type EndEntry, type LogEntry, type LoopState, refOf } from '../../../lib/core/model.ts';
import { findRun } from '../../../lib/operator/run-view.ts';
import { readRunData } from '../../../lib/operator/run-report/run-data.ts';
import type { PageLog, ReportService } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { planRun } from '../../../lib/operator/plan-run.ts';
import { aFetchedPage, at, collect, respondWith, withSpools } from '../../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  pagesIn,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { cursorAt, failsAt, type Script, someReports } from '../../support/export/scripted-service.ts';

/** Five reports on three pages, the last of which is followed by status 204. */
const aBench = (options: BenchOptions = {}) => anExportBench({ endStatus: 204, ...options });
const all = ['r1', 'r2', 'r3', 'r4', 'r5'];

const entriesOf = async ({ log }: Bench, run: { readonly export: string; readonly run: string }) =>
  await collect(log.entries({ export: run.export, run: asRunId(run.run) }));

/** The log, to which the end of the pages is appended in this way. */
const logWithEnds = (bench: Bench, append: (entry: EndEntry) => Promise<LogEntry>): PageLog =>
  Object.assign(Object.create(bench.log) as PageLog, {
    append: async (entry: LogEntry) => (entry.kind === 'end' ? await append(entry) : await bench.log.append(entry)),
  });

/** A run that has begun, of which an invocation exports pages up to its last one. */
async function exportedPages(bench: Bench) {
  const begun = await begin(bench.deps, 'one');
  const export_ = async (loop: LoopState, changed: object = {}) =>
    await exportPage({ ...bench.deps, ...changed }, { loop, execution: 'one' });
  let loop: LoopState = begun;
  while (loop.page < 4) loop = await export_(loop);
  return { loop, exportNext: (changed: object = {}) => export_(loop, changed), run: asRunId(begun.run) };
}

/** Answers with a page: the API has grown since the end was sent. */
const grown: ReportService = {
  fetch: async (_, options) => await respondWith(aFetchedPage({ body: '<reports><r id="r6"/></reports>' }), options),
};

describe('an end that is no page', () => {
  it('publishes the pages before it, and stores and announces nothing of its own', async () => {
    const bench = aBench();
    const result = completed(await bench.start());
    expect(result).toMatchObject({ pages: 3, reports: 5 });
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
    expect(pagesIn(bench)).toHaveLength(3);
    expect(bench.events.filter(({ event }) => event.startsWith('page-'))).toHaveLength(3);
    const end = (await entriesOf(bench, result)).at(-1);
    expect(end).toMatchObject({ kind: 'end', page: 4, status: 204, totals: { reports: 5 }, documentRoot: 'reports' });
    expect(bench.manifest(result.manifest)).toMatchObject({ serviceCompletedAt: '2026-11-20T01:59:59Z' });
    // The next run begins where any run does.
    expect(completed(await bench.start())).toMatchObject({ since: result.watermark });
  });

  it('ends each slice of a run by itself', async () => {
    const bench = aBench({ reports: someReports(12) });
    const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:12:00Z') };
    const result = completed(await bench.start({ ...bounds, slice: 'PT3M', parallel: 2 }));
    expect(result).toMatchObject({ pages: 8, reports: 12 });
    expect(reportIdsOf(bench, result.manifest)).toEqual(someReports(12).map(({ id }) => id));
  });

  it.each([
    ['before it is logged', false, 4],
    ['after it is logged', true, null],
  ])('is requested again only if the attempt was cut off %s', async (_, isLogged, page) => {
    const bench = aBench();
    const { exportNext, run } = await exportedPages(bench);
    const log = logWithEnds(bench, async (end) => {
      if (isLogged) await bench.log.append(end);
      throw new Error('cut off');
    });
    await expect(exportNext({ log })).rejects.toThrow('cut off');
    expect(await planRun({ ...asExportTarget(bench), runtime: bench.deps.runtime })).toMatchObject({
      act: 'resume',
      page,
    });
    const resumed = bench.with({});
    expect(completed(await resumed.start())).toMatchObject({ run, pages: 3, reports: 5 });
    expect(resumed.service.requests).toHaveLength(isLogged ? 0 : 1);
  });

  it('waits as any response, and does not use up the pages of the run', async () => {
    const bench = aBench({ script: failsAt({ 4: 7 }), limits: { maxPages: 4 } });
    expect(completed(await bench.start())).toMatchObject({ pages: 3 });
    expect(bench.slept).toEqual([7_000]);
  });

  it('is not believed while an earlier attempt has stored the page: some services send it once', async () => {
    const bench = aBench();
    const { exportNext, run } = await exportedPages(bench);
    const log = Object.assign(Object.create(bench.log) as PageLog, {
      append: async () => await Promise.reject(new Error('cut off')),
    });
    await expect(exportNext({ service: grown, log })).rejects.toThrow('cut off');
    expect(pagesIn(bench)).toHaveLength(4);
    expect(await exportNext()).toMatchObject({ next: 'page', page: 5 });
    expect((await entriesOf(bench, { ...refOf({ export: bench.deps.definition.name, run }) })).at(-1)).toMatchObject({
      kind: 'page',
      page: 4,
    });
  });
});

describe('of two overlapping invocations, of which one received a page and the other the end', () => {
  /** Both have their responses before the `first` one is logged. Then the other one continues. */
  async function overlap(first: 'page' | 'end') {
    const bench = aBench();
    const { exportNext, run } = await exportedPages(bench);
    const [received, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const pause = async () => {
      received.resolve();
      await resumed.promise;
    };
    const log = logWithEnds(bench, async (end) => await pause().then(() => bench.log.append(end)));
    const store = withSpools(bench.store, ({ put }) => ({ put: async (page) => await pause().then(() => put(page)) }));
    const [ofPage, ofEnd] = [{ service: grown }, {}];
    const other = exportNext(first === 'page' ? { ...ofEnd, log } : { ...ofPage, store });
    await received.promise;
    const outcome = await exportNext(first === 'page' ? ofPage : ofEnd);
    resumed.resolve();
    return { bench, run, outcome, other: await other };
  }

  it('the page counts if it is logged first, and the other one continues after it', async () => {
    const { outcome, other } = await overlap('page');
    expect(outcome).toMatchObject({ next: 'page', page: 5 });
    expect(other).toEqual(outcome);
  });

  it('the end counts if it is logged first, and the stored page is not in the run', async () => {
    const { bench, run, outcome, other } = await overlap('end');
    expect(outcome).toMatchObject({ next: 'finish', page: 4 });
    expect(other).toEqual(outcome);
    expect(pagesIn(bench)).toHaveLength(4);
    const result = await finishRun(bench.deps, { run, execution: 'one' });
    expect(result).toMatchObject({ pages: 3, reports: 5 });
    expect(reportIdsOf(bench, result.manifest)).toEqual(all);
  });

  it('only that page may be left over: another one is a conflict', async () => {
    const { bench, run } = await overlap('end');
    const [key = ''] = pagesIn(bench).slice(-1);
    bench.store.objects.set(key.replace('000004', '000005'), '<reports/>');
    await expect(finishRun(bench.deps, { run, execution: 'one' })).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringContaining('page-000005.xml exists but was never logged') as unknown as string,
    });
  });
});

describe('a slice that begins again after its end', () => {
  const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:12:00Z'), slice: 'PT3M', parallel: 1 };
  // The second page and the fourth one were requested with the same cursor, so the pages are in the run twice.
  const next = [1, 2, 3, 1, 4];
  const repeats: Script = ({ since, until }) => {
    const position = since === at('2026-11-01T00:03:00Z') && until !== since ? next.shift() : undefined;
    return position === undefined ? undefined : aFetchedPage({ reports: 1, nextCursor: cursorAt(position) });
  };

  it('has a new pass, of which status and report show the pages, and is published without those before', async () => {
    const bench = aBench({ reports: someReports(12), script: repeats });
    expect(failed(await bench.start(bounds))).toMatchObject({ error: 'RepeatedCursorError', resumable: true });
    const { store, log, deps } = bench;
    const [state] = await collect(log.boundedStates(deps.definition.name));
    const run = { export: deps.definition.name, run: asRunId(state?.active?.run ?? '') };
    expect(await log.last({ ...run, slice: 2, attempt: 1 })).toMatchObject({ kind: 'end' });
    const shown = await findRun(asExportTarget(bench), run.run);
    // Slices 1, 3 and 4, of two pages each. The end of a slice is no page.
    expect(shown).toMatchObject({ state: 'failed', pages: 6, reports: 9, slices: { done: 3, count: 4 } });
    let pages = 0;
    if (shown !== undefined) await readRunData(asExportTarget(bench), shown, () => (pages += 1));
    expect(pages).toBe(6);

    const result = completed(await bench.with({ script: () => undefined }).start(bounds));
    expect(result).toMatchObject({ ...run, pages: 8, reports: 12 });
    expect([...store.objects.keys()].some((key) => key.endsWith('/page-000002.2-000002.xml'))).toBe(true);
    expect(await log.last({ ...run, slice: 2, attempt: 2 })).toMatchObject({ kind: 'end', page: 3 });
  });
});
