/** Several pages in one invocation: prefetched, committed in order, with the same result as one by one. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { Invocation } from '../../../lib/core/model.ts';
import type { PageLog, PageRequest, ReportService, Runtime, StepDependencies } from '../../../lib/core/ports.ts';
import type { ExportPageOutcome } from '../../../lib/core/steps/loop-outcome.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { aFetchedPage, collect, putPage, withSpools } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  cutOffAt,
  loggedPages,
  manifestsOf,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { createMemoryLog } from '../../support/export/memory-adapters.ts';
import { cursorAt, failsAt, someReports } from '../../support/export/scripted-service.ts';

const manyPages = (options: BenchOptions = {}, pagesPerInvocation = 25) =>
  anExportBench({ reports: someReports(9), size: 2, ...options, limits: { pagesPerInvocation, ...options.limits } });

/** One invocation of ExportPage, after BeginRun. */
async function invoke(
  bench: Bench,
  command: Pick<Invocation, 'hasTime' | 'retryAfterDeadline'> &
    Partial<Pick<StepDependencies, 'store' | 'log' | 'service'>> &
    Partial<Pick<Runtime, 'now' | 'sleep'>> = {},
): Promise<ExportPageOutcome> {
  const loop = await begin(bench.deps, 'one');
  const { runtime } = bench.deps;
  const { now, sleep, hasTime, retryAfterDeadline, ...adapters } = command;
  const deps = { ...bench.deps, ...adapters, runtime: { ...runtime, ...(now && { now }), ...(sleep && { sleep }) } };
  return await exportPage(deps, { loop, execution: 'one', hasTime, retryAfterDeadline });
}

/** A store that records what happens to it, and stores a page only once it is released. */
function slowStore(bench: Bench) {
  const calls: string[] = [];
  const held = new Map<number, PromiseWithResolvers<void>>();
  const gateOf = (page: number) => held.get(page) ?? held.set(page, Promise.withResolvers<void>()).get(page);
  const store = withSpools(bench.store, ({ fill, put }, { page }) => ({
    async fill(body) {
      calls.push(`page ${page} arrives`);
      await fill(body);
      calls.push(`page ${page} is received`);
      await gateOf(page)?.promise;
    },
    async put(received) {
      const result = await put(received);
      calls.push(`page ${page} is stored`);
      return result;
    },
  }));
  return { store, calls, release: (page: number) => gateOf(page)?.resolve() };
}
/** The service, except that the body of the page at `cursor` fails as `fail` does. */
const failingBody = (bench: Bench, cursor: PageRequest['cursor'], fail: () => Promise<never>): ReportService => ({
  async fetch(request, options) {
    if (request.cursor !== cursor) return await bench.service.fetch(request, options);
    return await bench.service.fetch(request, { ...options, sink: fail });
  },
});
const untilAborted = (_: number, signal?: AbortSignal) =>
  new Promise<void>((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
/** Lets every promise settle that does not wait for the test. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

describe('an invocation of several pages', () => {
  it('exports the whole run in one iteration, with the same result as page by page', async () => {
    const bench = manyPages();
    const result = completed(await bench.start());
    expect(result).toMatchObject({ pages: 5, reports: 9 });
    expect(reportIdsOf(bench, result.manifest)).toEqual(someReports(9).map(({ id }) => id));
    const plain = anExportBench({ reports: someReports(9), size: 2 });
    await plain.start();
    const pagesOf = (each: Bench) =>
      manifestsOf(each).map(({ pages }) => pages.map((page) => ({ ...page, key: page.key.slice(-15) })));
    expect(pagesOf(bench)).toEqual(pagesOf(plain));
    expect(bench.service.requests).toHaveLength(5);
  });

  it('exports at most pagesPerInvocation pages, and returns the next page to export', async () => {
    const bench = manyPages({}, 2);
    expect(await invoke(bench)).toMatchObject({ next: 'page', page: 3, iterations: 1 });
    expect(await loggedPages(bench)).toEqual([1, 2]);
    expect(bench.service.requests).toHaveLength(2);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it('starts no page that it has no time for', async () => {
    const bench = manyPages();
    let left = 2;
    expect(await invoke(bench, { hasTime: () => left-- > 0 })).toMatchObject({ next: 'page' });
    expect((await loggedPages(bench)).length).toBeLessThan(5);
    expect(bench.service.requests).toHaveLength((await loggedPages(bench)).length);
  });

  it('requests the next page while the current one is being stored, and no more than that', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const invoked = invoke(bench, { store: slow.store });
    await settled();
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2)]);
    // Page 2 may be received completely, but page 1 becomes visible first.
    expect(slow.calls.toSorted()).toEqual([
      'page 1 arrives',
      'page 1 is received',
      'page 2 arrives',
      'page 2 is received',
    ]);
    expect([...bench.store.objects.keys()]).toEqual([]);

    slow.release(1);
    await settled();
    expect(await loggedPages(bench)).toEqual([1]);
    expect(bench.service.requests).toHaveLength(3);
    for (const page of [5, 4, 3, 2]) slow.release(page);
    expect(await invoked).toMatchObject({ next: 'finish' });
    expect(slow.calls.filter((call) => call.endsWith('is stored'))).toEqual(
      [1, 2, 3, 4, 5].map((page) => `page ${page} is stored`),
    );
  });

  it('stores no page after one that cannot be stored', async () => {
    const bench = manyPages();
    const full = withSpools(bench.store, ({ put }, { page }) => ({
      async put(received) {
        if (page === 2) throw new Error('the disk is full');
        return await put(received);
      },
    }));
    await expect(invoke(bench, { store: full })).rejects.toThrow('the disk is full');
    expect(await loggedPages(bench)).toEqual([1]);
    expect([...bench.store.objects.keys()]).toHaveLength(1);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it.each(['ServiceUnavailableError', 'ContractError'] as const)(
    'whose third page fails with %s commits the two before it, and then throws',
    async (name) => {
      const bench = manyPages({ script: failsAt({ 3: name }) });
      await expect(invoke(bench)).rejects.toMatchObject({ name });
      expect(await loggedPages(bench)).toEqual([1, 2]);
    },
  );

  it('leaves a long Retry-After of a later page to the Wait state, as its first consecutive wait', async () => {
    const bench = manyPages({ script: failsAt({ 3: 600 }) });
    expect(await invoke(bench)).toMatchObject({ next: 'wait', waitSeconds: 600, page: 3, waits: 1 });
    expect(await loggedPages(bench)).toEqual([1, 2]);
  });

  it('stores no page after the one at which repeating cursors are detected', async () => {
    const repeatingCursors = (plain: PageRequest) => {
      const at = Number.parseInt(plain.cursor?.slice(-12) ?? '0', 16);
      return aFetchedPage({ nextCursor: cursorAt(at === 6 ? 2 : at + 2) });
    };
    const [bench, plain] = [25, 1].map((pages) =>
      manyPages({ script: repeatingCursors, limits: { maxPages: 50 } }, pages),
    );
    for (const each of [bench, plain]) {
      expect(await each?.start()).toMatchObject({
        status: 'failed',
        failed: { error: 'RepeatedCursorError', pages: 7 },
      });
      expect([...(each?.store.objects.keys() ?? [])]).toHaveLength(7);
    }
  });

  it('requests nothing after a prefetched page that has failed', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const service = failingBody(bench, cursorAt(2), async () => {
      throw new ExportError('ServiceUnavailableError', 'connection reset');
    });
    const invoked = invoke(bench, { store: slow.store, service });
    invoked.catch(() => {});
    await settled();
    slow.release(1);
    await expect(invoked).rejects.toThrow('connection reset');
    expect(await loggedPages(bench)).toEqual([1]);
    expect(bench.service.requests).toHaveLength(2);
  });

  it.each([
    [600, 0],
    [5, 0],
    [600, -3_600_000],
    [600, 3_600_000],
  ])(
    'honors a Retry-After of %d s of a prefetched page, although the page before it fails and the clock is set by %d ms',
    async (seconds, setMs) => {
      const gate = Promise.withResolvers<void>();
      let offsetMs = 0;
      const bench = manyPages({ script: failsAt({ 2: seconds }) });
      const service = failingBody(bench, null, async () => {
        await gate.promise;
        offsetMs = setMs;
        throw new ExportError('ServiceUnavailableError', 'connection reset');
      });
      const now = () => bench.deps.runtime.now() + offsetMs;
      const retryAfterDeadline = Number.POSITIVE_INFINITY;
      const invoked = invoke(bench, { service, retryAfterDeadline, sleep: untilAborted, now });
      await settled();
      gate.resolve();
      expect(await invoked).toMatchObject({ next: 'wait', waitSeconds: seconds, page: 1, waits: 1 });
    },
  );

  it('adopts every page that is stored but not logged, without requesting it', async () => {
    const bench = manyPages();
    expect(await invoke(bench)).toMatchObject({ next: 'finish' });
    const { length: requested } = bench.service.requests;
    // The log as it was before the first page.
    const log = createMemoryLog();
    await log.replaceState({ ...(await bench.state()), version: 1 });
    expect(await invoke(bench, { log })).toMatchObject({ next: 'finish' });
    expect(bench.service.requests).toHaveLength(requested);
  });

  it('continues after the page that an earlier attempt has stored, without requesting it again', async () => {
    const { bench, resume } = cutOffAt('before the page is logged', {
      reports: someReports(9),
      limits: { pagesPerInvocation: 25 },
    });
    await invoke(bench).catch(() => {});
    resume();
    expect([...bench.store.objects.keys()]).toHaveLength(1);
    expect(await loggedPages(bench)).toEqual([]);
    const requested = bench.service.requests.length;
    expect(await invoke(bench)).toMatchObject({ next: 'finish' });
    const afterwards = bench.service.requests.slice(requested).map(({ cursor }: PageRequest) => cursor);
    expect(afterwards).toEqual([2, 4, 6, 8].map(cursorAt));
  });

  it('stores a page only once its predecessor is logged, and requests the next ones meanwhile', async () => {
    const bench = manyPages();
    const gates = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
    const appended: number[] = [];
    const log: PageLog = {
      ...bench.log,
      async append(entry) {
        appended.push(entry.page);
        await gates[entry.page]?.promise;
        return await bench.log.append(entry);
      },
    };
    const invoked = invoke(bench, { log });
    await settled();
    expect([...bench.store.objects.keys()]).toHaveLength(1);
    // The first page is stored, so two others may be in flight.
    expect(bench.service.requests).toHaveLength(3);
    expect(appended).toEqual([1]);
    for (const gate of gates) gate.resolve();
    expect(await invoked).toMatchObject({ next: 'finish' });
    expect(appended).toEqual([1, 2, 3, 4, 5]);
    expect(await loggedPages(bench)).toEqual([1, 2, 3, 4, 5]);
  });

  it('logs no page after one that cannot be logged, and throws only once nothing is in flight', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const log: PageLog = {
      ...bench.log,
      async append({ page }) {
        if (page === 1) throw new ExportError('ServiceUnavailableError', 'the log is unavailable');
        throw new Error(`page ${page} is logged`);
      },
    };
    let isOver = false;
    const invoked = invoke(bench, { store: slow.store, log }).finally(() => {
      isOver = true;
    });
    invoked.catch(() => {});
    slow.release(1);
    await settled();
    expect(isOver).toBe(false);
    for (const page of [2, 3]) slow.release(page);
    await expect(invoked).rejects.toThrow('the log is unavailable');
    expect(await loggedPages(bench)).toEqual([]);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it('continues with the next cursor of the page that another attempt has stored', async () => {
    const bench = manyPages({ reports: someReports(4) });
    let others = 0;
    const conflicting = withSpools(bench.store, ({ put }, identity) => ({
      async put(received) {
        if (identity.page === 1 && others++ === 0) {
          // Another attempt is faster, and received another cursor: that of the last page.
          const body = '<reports><report id="r1"/><report id="r2"/></reports>';
          await putPage(bench.store, identity, aFetchedPage({ body, reports: 2, nextCursor: cursorAt(3) }));
        }
        return await put(received);
      },
    }));
    expect(await invoke(bench, { store: conflicting })).toMatchObject({ next: 'finish' });
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(3)]);
    const { active } = await bench.state();
    const entries = active === undefined ? [] : await collect(bench.log.entries(active));
    expect(entries.map(({ cursor }) => cursor)).toEqual([null, cursorAt(3)]);
  });

  it('stops at the next page if its run is abandoned meanwhile', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const invoked = invoke(bench, { store: slow.store });
    await settled();
    const { active, ...idle } = await bench.state();
    await bench.log.replaceState({ ...idle, version: idle.version + 1 });
    for (const page of [1, 2, 3, 4, 5]) slow.release(page);
    await expect(invoked).rejects.toMatchObject({ name: 'RunSupersededError' });
    const logged = active === undefined ? [] : await collect(bench.log.entries(active));
    expect(logged.length).toBeLessThanOrEqual(2);
  });
});
