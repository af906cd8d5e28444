/** Several pages in one invocation: asked for ahead, committed one by one and in order, and stopped at the same places. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { Invocation, LoopState } from '../../../lib/core/model.ts';
import type {
  PageLog,
  PageRequest,
  PageStore,
  ReportService,
  Runtime,
  StepDependencies,
} from '../../../lib/core/ports.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import type { ExportPageOutcome } from '../../../lib/core/steps/export-page.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { aFetchedPage, collect } from '../../support/builders.ts';
import { anExportBench, type Bench, type BenchOptions, reportIdsOf } from '../../support/export-bench.ts';
import { createMemoryLog } from '../../support/memory-adapters.ts';
import { cursorAt, someReports } from '../../support/scripted-service.ts';

const manyPages = (options: BenchOptions = {}, pagesPerInvocation = 25) =>
  anExportBench({ reports: someReports(9), size: 2, ...options, limits: { pagesPerInvocation, ...options.limits } });

/** One invocation of ExportPage, behind BeginRun. */
async function invoke(
  bench: Bench,
  command: Pick<Invocation, 'hasTime' | 'retryAfterDeadline'> &
    Partial<Pick<StepDependencies, 'store' | 'log' | 'service'>> &
    Partial<Pick<Runtime, 'sleep'>> = {},
): Promise<ExportPageOutcome> {
  const begun = await beginRun(bench.deps, { input: {}, execution: 'one' });
  if (begun.next === 'skip') throw new Error(begun.reason);
  const { runtime } = bench.deps;
  const { sleep, hasTime, retryAfterDeadline, ...adapters } = command;
  const deps = { ...bench.deps, ...adapters, runtime: { ...runtime, ...(sleep && { sleep }) } };
  return await exportPage(deps, { loop: begun satisfies LoopState, execution: 'one', hasTime, retryAfterDeadline });
}
const loggedPages = async (bench: Bench) => {
  const { active } = await bench.head();
  return active === undefined ? [] : (await collect(bench.log.entries(active))).map(({ page }) => page);
};

/** A store that tells what happens to it, and stores a page only when it is let. */
function slowStore(bench: Bench) {
  const told: string[] = [];
  const held = new Map<number, PromiseWithResolvers<void>>();
  const gateOf = (page: number) => held.get(page) ?? held.set(page, Promise.withResolvers<void>()).get(page);
  const store: PageStore = {
    ...bench.store,
    async put(identity, page) {
      told.push(`page ${identity.page} comes`);
      async function* body() {
        yield* page.body;
        told.push(`page ${identity.page} is whole`);
        await gateOf(identity.page)?.promise;
      }
      const put = await bench.store.put(identity, { ...page, body: body() });
      told.push(`page ${identity.page} is stored`);
      return put;
    },
  };
  return { store, told, release: (page: number) => gateOf(page)?.resolve() };
}
/** The service, whose page at `cursor` has a body that breaks off as `breakOff` does. */
const spoiling = (bench: Bench, cursor: PageRequest['cursor'], breakOff: () => Promise<never>): ReportService => ({
  async fetchPage(request) {
    const page = await bench.service.fetchPage(request);
    async function* body(): AsyncGenerator<Uint8Array> {
      yield await breakOff();
    }
    return request.cursor === cursor ? { ...page, body: body() } : page;
  },
});
const untilAborted = (_: number, signal?: AbortSignal) =>
  new Promise<void>((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

describe('an invocation of several pages', () => {
  it('exports the whole run in one turn, as a walk page by page does', async () => {
    const bench = manyPages();
    const end = await bench.start();
    if (end.status !== 'completed') throw new Error(end.status);
    expect(end.result).toMatchObject({ pages: 5, reports: 9 });
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(someReports(9).map(({ id }) => id));
    const plain = anExportBench({ reports: someReports(9), size: 2 });
    const other = await plain.start();
    if (other.status !== 'completed') throw new Error(other.status);
    const pagesOf = (each: Bench, key: string) =>
      each.manifest(key).pages.map((page) => ({ ...page, key: page.key.slice(-15) }));
    expect(pagesOf(bench, end.result.manifest)).toEqual(pagesOf(plain, other.result.manifest));
    expect(bench.service.requests).toHaveLength(5);
  });

  it('takes no more pages than it may, and says with which to go on', async () => {
    const bench = manyPages({}, 2);
    expect(await invoke(bench)).toMatchObject({ next: 'page', page: 3, iterations: 1 });
    expect(await loggedPages(bench)).toEqual([1, 2]);
    expect(bench.service.requests).toHaveLength(2);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it('begins no page that it has no time for', async () => {
    const bench = manyPages();
    let left = 2;
    expect(await invoke(bench, { hasTime: () => left-- > 0 })).toMatchObject({ next: 'page' });
    expect((await loggedPages(bench)).length).toBeLessThan(5);
    expect(bench.service.requests).toHaveLength((await loggedPages(bench)).length);
  });

  it('asks for the next page while the last one is being stored, and for no more than that', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const invoked = invoke(bench, { store: slow.store });
    await settled();
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2)]);
    // Page 2 may come whole; page 1 is the first to show.
    expect(slow.told.toSorted()).toEqual(['page 1 comes', 'page 1 is whole', 'page 2 comes', 'page 2 is whole']);
    expect([...bench.store.objects.keys()]).toEqual([]);

    slow.release(1);
    await settled();
    expect(await loggedPages(bench)).toEqual([1]);
    expect(bench.service.requests).toHaveLength(3);
    for (const page of [5, 4, 3, 2]) slow.release(page);
    expect(await invoked).toMatchObject({ next: 'finish' });
    expect(slow.told.filter((fact) => fact.endsWith('is stored'))).toEqual(
      [1, 2, 3, 4, 5].map((page) => `page ${page} is stored`),
    );
  });

  it('stores nothing of a page behind one that cannot be stored', async () => {
    const bench = manyPages();
    const full: PageStore = {
      ...bench.store,
      async put(identity, page) {
        if (identity.page !== 2) return await bench.store.put(identity, page);
        for await (const _ of page.body);
        throw new Error('the disk is full');
      },
    };
    await expect(invoke(bench, { store: full })).rejects.toThrow('the disk is full');
    expect(await loggedPages(bench)).toEqual([1]);
    expect([...bench.store.objects.keys()]).toHaveLength(1);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it.each([
    ['fails', () => new ExportError('ServiceUnavailableError', 'no'), { name: 'ServiceUnavailableError' }],
    ['breaks the contract', () => new ExportError('ContractError', 'no'), { name: 'ContractError' }],
  ])('whose third page %s commits the two before it, and then says so', async (_, error, expected) => {
    const bench = manyPages({
      script: (_, nth) => {
        if (nth === 3) throw error();
        return undefined;
      },
    });
    await expect(invoke(bench)).rejects.toMatchObject(expected);
    expect(await loggedPages(bench)).toEqual([1, 2]);
  });

  it('hands a long Retry-After of a later page to the Wait state, as the first wait in a row', async () => {
    const bench = manyPages({
      script: (_, nth) => {
        if (nth === 3) throw new ExportError('ServiceThrottledError', 'later', { retryAfterSeconds: 600 });
        return undefined;
      },
    });
    expect(await invoke(bench)).toMatchObject({ next: 'wait', waitSeconds: 600, page: 3, waits: 1 });
    expect(await loggedPages(bench)).toEqual([1, 2]);
  });

  it('begins its walk afresh where the service drops the cursor of a later page', async () => {
    const bench = manyPages({
      script: (_, nth) => {
        if (nth === 3) throw new ExportError('CursorRejectedError', 'gone');
        return undefined;
      },
    });
    const end = await bench.start();
    expect(end).toMatchObject({ status: 'completed', result: { pages: 5, reports: 9 } });
    expect(bench.events.filter(({ event }) => event === 'run-restarted')).toHaveLength(1);
  });

  it('keeps to maxPages, and asks for none beyond', async () => {
    const bench = manyPages({ limits: { maxPages: 3 } });
    expect(await bench.start()).toMatchObject({ status: 'failed', failed: { error: 'ConfigurationError', pages: 3 } });
    expect(bench.service.requests).toHaveLength(3);
  });

  it('notices a walk in circles, and publishes nothing', async () => {
    const bench = manyPages({ script: () => aFetchedPage({ nextCursor: cursorAt(2) }) });
    expect(await bench.start()).toMatchObject({
      status: 'failed',
      failed: { error: 'ContractError', resumable: false },
    });
  });

  it('stores nothing behind the page at which a walk in circles is noticed, and so cannot miss it', async () => {
    const circle = (plain: PageRequest) => {
      const at = Number.parseInt(plain.cursor?.slice(-12) ?? '0', 16);
      return aFetchedPage({ nextCursor: cursorAt(at === 6 ? 2 : at + 2) });
    };
    const [bench, plain] = [25, 1].map((pages) => manyPages({ script: circle, limits: { maxPages: 50 } }, pages));
    for (const each of [bench, plain]) {
      expect(await each?.start()).toMatchObject({ status: 'failed', failed: { error: 'ContractError', pages: 7 } });
      expect([...(each?.store.objects.keys() ?? [])]).toHaveLength(7);
    }
  });

  it('asks for nothing behind a page ahead that has failed before its turn', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const service = spoiling(bench, cursorAt(2), async () => {
      throw new ExportError('ServiceUnavailableError', 'broke off');
    });
    const invoked = invoke(bench, { store: slow.store, service });
    invoked.catch(() => {});
    await settled();
    slow.release(1);
    await expect(invoked).rejects.toThrow('broke off');
    expect(await loggedPages(bench)).toEqual([1]);
    expect(bench.service.requests).toHaveLength(2);
  });

  it.each([600, 5])(
    'keeps to a Retry-After of %d s that a page ahead met, also where the one before breaks off',
    async (seconds) => {
      const gate = Promise.withResolvers<void>();
      const bench = manyPages({
        script: (_, nth) => {
          if (nth === 2) throw new ExportError('ServiceThrottledError', 'later', { retryAfterSeconds: seconds });
          return undefined;
        },
      });
      const service = spoiling(bench, null, async () => {
        await gate.promise;
        throw new ExportError('ServiceUnavailableError', 'broke off');
      });
      const invoked = invoke(bench, { service, retryAfterDeadline: Number.POSITIVE_INFINITY, sleep: untilAborted });
      await settled();
      gate.resolve();
      expect(await invoked).toMatchObject({ next: 'wait', waitSeconds: seconds, page: 1, waits: 1 });
    },
  );

  it('adopts all that the store has and the log has not, and asks for none of it', async () => {
    const bench = manyPages();
    expect(await invoke(bench)).toMatchObject({ next: 'finish' });
    const { length: asked } = bench.service.requests;
    // Put back as it was before the first page.
    const log = createMemoryLog();
    await log.replaceState({ ...(await bench.head()), version: 1 });
    expect(await invoke(bench, { log })).toMatchObject({ next: 'finish' });
    expect(bench.service.requests).toHaveLength(asked);
  });

  it('goes on from what a former attempt has stored, and asks for it no more', async () => {
    const crashed = { is: true };
    const bench = manyPages({
      crash: (moment) => {
        if (crashed.is && moment === 'before the page is logged') throw new Error('killed');
      },
    });
    await invoke(bench).catch(() => {});
    crashed.is = false;
    // The second page was stored while the first was to be logged.
    expect([...bench.store.objects.keys()]).toHaveLength(2);
    expect(await loggedPages(bench)).toEqual([]);
    const asked = bench.service.requests.length;
    expect(await invoke(bench)).toMatchObject({ next: 'finish' });
    const behind = bench.service.requests.slice(asked).map(({ cursor }: PageRequest) => cursor);
    expect(behind).toEqual([4, 6, 8].map(cursorAt));
  });

  it('stores a page while the one before is being logged, and logs it only behind that', async () => {
    const bench = manyPages();
    const gates = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
    const asked: number[] = [];
    const log: PageLog = {
      ...bench.log,
      async append(entry) {
        asked.push(entry.page);
        await gates[entry.page]?.promise;
        return await bench.log.append(entry);
      },
    };
    const invoked = invoke(bench, { log });
    await settled();
    // Two are in hand, so the third is not even asked for.
    expect([...bench.store.objects.keys()]).toHaveLength(2);
    expect(bench.service.requests).toHaveLength(2);
    expect(asked).toEqual([1]);
    for (const gate of gates) gate.resolve();
    expect(await invoked).toMatchObject({ next: 'finish' });
    expect(asked).toEqual([1, 2, 3, 4, 5]);
    expect(await loggedPages(bench)).toEqual([1, 2, 3, 4, 5]);
  });

  it('logs nothing behind a page that cannot be logged, and has nothing under way when it says so', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const log: PageLog = {
      ...bench.log,
      async append({ page }) {
        if (page === 1) throw new ExportError('ServiceUnavailableError', 'the log is away');
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
    slow.release(2);
    await expect(invoked).rejects.toThrow('the log is away');
    expect(await loggedPages(bench)).toEqual([]);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
  });

  it('takes the page that another attempt has stored for the truth, also about where the run goes', async () => {
    const bench = manyPages({ reports: someReports(4) });
    let others = 0;
    const conflicting: PageStore = {
      ...bench.store,
      async put(identity, page) {
        if (identity.page === 1 && others++ === 0) {
          // Another attempt is quicker, and was given another cursor: to the last page.
          const body = '<reports><report id="r1"/><report id="r2"/></reports>';
          await bench.store.put(identity, aFetchedPage({ body, reports: 2, nextCursor: cursorAt(3) }));
        }
        return await bench.store.put(identity, page);
      },
    };
    expect(await invoke(bench, { store: conflicting })).toMatchObject({ next: 'finish' });
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(3)]);
    const { active } = await bench.head();
    const entries = active === undefined ? [] : await collect(bench.log.entries(active));
    expect(entries.map(({ cursor }) => cursor)).toEqual([null, cursorAt(3)]);
  });

  it('ends at the next page where its run is given up meanwhile', async () => {
    const bench = manyPages();
    const slow = slowStore(bench);
    const invoked = invoke(bench, { store: slow.store });
    await settled();
    const { active, ...idle } = await bench.head();
    await bench.log.replaceState({ ...idle, version: idle.version + 1 });
    for (const page of [1, 2, 3, 4, 5]) slow.release(page);
    await expect(invoked).rejects.toMatchObject({ name: 'RunSupersededError' });
    const logged = active === undefined ? [] : await collect(bench.log.entries(active));
    expect(logged.length).toBeLessThanOrEqual(2);
  });
});
