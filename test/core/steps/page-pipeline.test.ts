/** Several pages in one invocation: requested ahead, committed in order, with the same result as one by one. */

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
  loggedPages,
  manifestsOf,
} from '../../support/export/export-bench.ts';
import { createMemoryLog } from '../../support/export/memory-adapters.ts';
import { cursorAt, failsAt, someReports } from '../../support/export/scripted-service.ts';

const manyPages = (options: BenchOptions = {}, pagesPerInvocation = 25) =>
  anExportBench({ reports: someReports(9), ...options, limits: { pagesPerInvocation, ...options.limits } });

type Changes = Pick<Invocation, 'hasTime' | 'retryAfterDeadline'> &
  Partial<Pick<StepDependencies, 'store' | 'log' | 'service'>> &
  Partial<Pick<Runtime, 'now' | 'sleep'>>;

/** One invocation of ExportPage, after BeginRun. */
async function invoke(bench: Bench, changes: Changes = {}): Promise<ExportPageOutcome> {
  const loop = await begin(bench.deps, 'one');
  const { runtime } = bench.deps;
  const { now, sleep, hasTime, retryAfterDeadline, ...adapters } = changes;
  const deps = { ...bench.deps, ...adapters, runtime: { ...runtime, ...(now && { now }), ...(sleep && { sleep }) } };
  return await exportPage(deps, { loop, execution: 'one', hasTime, retryAfterDeadline });
}

/** Steps that wait until the test lets them pass, by page. */
function gates() {
  const all = new Map<number, PromiseWithResolvers<void>>();
  const gateOf = (page: number) => {
    const gate = all.get(page) ?? Promise.withResolvers<void>();
    all.set(page, gate);
    return gate;
  };
  return {
    pass: async (page: number) => await gateOf(page).promise,
    open: (...pages: readonly number[]) => pages.forEach((page) => gateOf(page).resolve()),
  };
}

/** A store that keeps back each page that is received until its gate is open. */
const storeBehind = (bench: Bench, { pass }: ReturnType<typeof gates>) =>
  withSpools(bench.store, ({ fill }, { page }) => ({
    async fill(body) {
      await fill(body);
      await pass(page);
    },
  }));
/** The service, except that the body of the page at `cursor` fails as `fail` does. */
const failingBody = (bench: Bench, cursor: PageRequest['cursor'], fail: () => Promise<never>): ReportService => ({
  fetch: async (request, options) =>
    await bench.service.fetch(request, request.cursor === cursor ? { ...options, sink: fail } : options),
});
const untilAborted = (_: number, signal?: AbortSignal) =>
  new Promise<void>((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
/** Waits until the service has received so many requests. */
const requested = async (bench: Bench, count: number) =>
  await expect.poll(() => bench.service.requests).toHaveLength(count);
const reset = async () => {
  throw new ExportError('ServiceUnavailableError', 'connection reset');
};
const logWith = (bench: Bench, append: PageLog['append']): PageLog => ({ ...bench.log, append });

describe('an invocation of several pages', () => {
  it('exports the whole run in one iteration, with the same result as page by page', async () => {
    const [bench, plain] = [manyPages(), manyPages({}, 1)];
    expect(completed(await bench.start())).toMatchObject({ pages: 5, reports: 9 });
    await plain.start();
    const pagesOf = (each: Bench) =>
      manifestsOf(each).map(({ pages }) => pages.map((page) => ({ ...page, key: page.key.slice(-15) })));
    expect(pagesOf(bench)).toEqual(pagesOf(plain));
    expect(bench.service.requests).toHaveLength(5);
  });

  it('exports at most pagesPerInvocation pages, and none that it has no time for', async () => {
    const bench = manyPages({}, 2);
    expect(await invoke(bench)).toMatchObject({ next: 'page', page: 3, iterations: 1 });
    expect(await loggedPages(bench)).toEqual([1, 2]);
    expect(bench.service.requests).toHaveLength(2);
    const hurried = manyPages();
    let left = 2;
    expect(await invoke(hurried, { hasTime: () => left-- > 0 })).toMatchObject({ next: 'page' });
    const logged = await loggedPages(hurried);
    expect(logged.length).toBeLessThan(5);
    expect(hurried.service.requests).toHaveLength(logged.length);
  });

  it('requests the next page while the current one arrives, is stored and is logged, and stores them in order', async () => {
    const bench = manyPages();
    const [received, logged] = [gates(), gates()];
    const log = logWith(bench, async (entry) => {
      await logged.pass(entry.page);
      return await bench.log.append(entry);
    });
    const invoked = invoke(bench, { store: storeBehind(bench, received), log });
    received.open(2);
    await requested(bench, 2);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2)]);
    expect(bench.store.objects.size).toBe(0);
    received.open(1);
    // Page 1 is stored, so two others may be in flight. None of them is stored before page 1 is logged.
    await requested(bench, 3);
    expect(bench.store.objects.size).toBe(1);
    received.open(3, 4, 5);
    logged.open(5, 4, 3, 2, 1);
    expect(await invoked).toMatchObject({ next: 'finish' });
    expect([...bench.store.objects.keys()].map((key) => key.slice(-6, -4))).toEqual(['01', '02', '03', '04', '05']);
    expect(await loggedPages(bench)).toEqual([1, 2, 3, 4, 5]);
  });

  it('stores no page after one that cannot be stored, and the next start continues there', async () => {
    const bench = manyPages();
    const full = withSpools(bench.store, ({ put }, { page }) => ({
      async put(received) {
        if (page === 2) throw new Error('the disk is full');
        return await put(received);
      },
    }));
    await expect(invoke(bench, { store: full })).rejects.toThrow('the disk is full');
    expect([await loggedPages(bench), bench.store.objects.size]).toEqual([[1], 1]);
    expect(completed(await bench.start()).pages).toBe(5);
  });

  it('logs no page after one that cannot be logged, and throws only once nothing is in flight', async () => {
    const bench = manyPages();
    const received = gates();
    const attempted: number[] = [];
    const log = logWith(bench, async ({ page }) => {
      attempted.push(page);
      throw new ExportError('ServiceUnavailableError', `page ${page} cannot be logged`);
    });
    let isOver = false;
    const invoked = invoke(bench, { store: storeBehind(bench, received), log }).finally(() => {
      isOver = true;
    });
    invoked.catch(() => {});
    received.open(1);
    await expect.poll(() => attempted).toEqual([1]);
    expect(isOver).toBe(false);
    received.open(2, 3);
    await expect(invoked).rejects.toThrow('page 1 cannot be logged');
    expect(await loggedPages(bench)).toEqual([]);
    expect(completed(await bench.start()).pages).toBe(5);
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

  it('requests nothing after a page that was requested ahead and has failed', async () => {
    const bench = manyPages();
    const received = gates();
    const hasFailed = Promise.withResolvers<void>();
    const invoked = invoke(bench, {
      store: storeBehind(bench, received),
      service: failingBody(bench, cursorAt(2), async () => {
        hasFailed.resolve();
        return await reset();
      }),
    });
    invoked.catch(() => {});
    await hasFailed.promise;
    received.open(1);
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
    'honors a Retry-After of %d s of a page that was requested ahead, although the page before it fails and the clock is set by %d ms',
    async (seconds, setMs) => {
      const gate = Promise.withResolvers<void>();
      let offsetMs = 0;
      const bench = manyPages({ script: failsAt({ 2: seconds }) });
      const service = failingBody(bench, null, async () => {
        await gate.promise;
        offsetMs = setMs;
        return await reset();
      });
      const now = () => bench.deps.runtime.now() + offsetMs;
      const invoked = invoke(bench, { service, retryAfterDeadline: Infinity, sleep: untilAborted, now });
      await requested(bench, 2);
      gate.resolve();
      expect(await invoked).toMatchObject({ next: 'wait', waitSeconds: seconds, page: 1, waits: 1 });
    },
  );

  it('adopts every page that is stored but not logged, without requesting it', async () => {
    const bench = manyPages();
    expect(await invoke(bench)).toMatchObject({ next: 'finish' });
    // The log as it was before the first page.
    const log = createMemoryLog();
    await log.replaceState({ ...(await bench.state()), version: 1 });
    expect(await invoke(bench, { log })).toMatchObject({ next: 'finish' });
    expect(bench.service.requests).toHaveLength(5);
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
    const received = gates();
    const invoked = invoke(bench, { store: storeBehind(bench, received) });
    await requested(bench, 2);
    const { active, ...idle } = await bench.state();
    await bench.log.replaceState({ ...idle, version: idle.version + 1 });
    received.open(1, 2, 3, 4, 5);
    await expect(invoked).rejects.toMatchObject({ name: 'RunSupersededError' });
    const logged = active === undefined ? [] : await collect(bench.log.entries(active));
    expect(logged.length).toBeLessThanOrEqual(2);
  });
});
