/** A slot allows one request at a time: the service within a slot, alone and in the page pipeline. */

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { LoopState } from '../../../lib/core/model.ts';
import type { PageRequest, ReceivedPage, ReportService, StepDependencies } from '../../../lib/core/ports.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import type { ExportPageOutcome } from '../../../lib/core/steps/loop-outcome.ts';
import { type HeldSlot, withinSlot } from '../../../lib/core/slots/held-slot.ts';
import { discard } from '../../../lib/core/steps/upper-bound.ts';
import { createPageSlots } from '../../../lib/core/slots/page-slots.ts';
import { aFetchedPage, anExportRequest, at, collect, withSpools } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export/export-bench.ts';
import { createMemorySlotStore } from '../../support/export/memory-adapters.ts';
import { cursorAt, someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, test } from '../../support/property.ts';
import { type RawReply, rawResponse, startRawServer } from '../../support/service/raw-server.ts';
import { clientFor } from '../../support/service/service-client.ts';

const aRequest = (label: string): PageRequest => ({
  request: anExportRequest(),
  since: at('2026-11-01T00:00:00Z'),
  begunAt: at('2026-11-20T02:00:00Z'),
  cursor: null,
  label,
});

/** Lets every promise settle that does not wait for the test. */
async function settled(): Promise<void> {
  for (let round = 0; round < 10; round += 1) await new Promise(setImmediate);
}

describe('the service within a slot', () => {
  /** A service whose pages are complete only when the test says so, and that ignores signals. */
  function aService() {
    const sent: string[] = [];
    const responses = new Map<string, PromiseWithResolvers<ReceivedPage>>();
    const send: ReportService['fetch'] = async ({ label }) => {
      sent.push(label);
      const response = Promise.withResolvers<ReceivedPage>();
      responses.set(label, response);
      return await response.promise;
    };
    const slot: HeldSlot = { take: async () => {}, release: async () => {} };
    const fetchWithin = withinSlot(send, slot);
    const fetch = (label: string, signal?: AbortSignal) => {
      const fetched = fetchWithin(aRequest(label), { sink: discard, signal });
      fetched.catch(() => {});
      return fetched;
    };
    const respond = (label: string, page: ReceivedPage = aFetchedPage()) => responses.get(label)?.resolve(page);
    const fail = (label: string, error: Error) => responses.get(label)?.reject(error);
    return { sent, fetch, respond, fail };
  }

  it('sends requests in the order of their calls, each once the page before it is complete', async () => {
    const { sent, fetch, respond } = aService();
    const labels = ['one', 'two', 'three', 'four'];
    const pages = labels.map((label) => fetch(label));
    for (const [index, label] of labels.entries()) {
      await settled();
      expect(sent).toEqual(labels.slice(0, index + 1));
      const page = aFetchedPage();
      respond(label, page);
      expect(await pages[index]).toBe(page);
    }
  });

  it('sends the next request if a request fails', async () => {
    const { sent, fetch, fail } = aService();
    const one = fetch('one');
    void fetch('two');
    await settled();
    const refused = new Error('connection refused');
    fail('one', refused);
    await expect(one).rejects.toBe(refused);
    await settled();
    expect(sent).toEqual(['one', 'two']);
  });

  it('does not send a request that is aborted while it waits, and sends those after it in order', async () => {
    const { sent, fetch, respond } = aService();
    const cancellation = new AbortController();
    void fetch('one');
    const two = fetch('two', cancellation.signal);
    void fetch('three');
    await settled();
    const reason = new Error('no longer needed');
    cancellation.abort(reason);
    await expect(unlessStuck(two)).rejects.toBe(reason);
    await settled();
    expect(sent).toEqual(['one']);
    respond('one');
    await settled();
    expect(sent).toEqual(['one', 'three']);
    const ignored = fetch('four', cancellation.signal);
    await expect(ignored).rejects.toBe(reason);
  });
});

/** Where the pipeline fails or is interrupted. */
const stages = [
  'the request',
  'the request, with a Retry-After of a second',
  'the first chunk of the body',
  'the end of the body',
  'the store, before it reads the body',
  'the store, after a chunk of the body',
  'the store, after the body',
  'the log',
] as const;

interface Failure {
  readonly stage: (typeof stages)[number];
  /** The page at which it happens, counted from 1. */
  readonly page: number;
  /** The invocation is aborted instead. */
  readonly interrupts: boolean;
}

const pages = 8;

/** An export of eight pages whose service counts the requests that are open at the same time, and honors signals. */
function aCountedExport(failure: Failure | undefined) {
  const bench = anExportBench({ reports: someReports(pages * 2), size: 2, limits: { pagesPerInvocation: 25 } });
  const invocation = new AbortController();
  const open = new Set<PageRequest>();
  const stats = { mostOpen: 0, hasFailed: false };

  /** Fails or interrupts once. */
  const reach = (stage: Failure['stage'], page: number) => {
    if (stats.hasFailed || failure?.stage !== stage || failure.page !== page) return;
    stats.hasFailed = true;
    if (failure.interrupts) invocation.abort(new ExportError('ServiceUnavailableError', 'the time is up'));
    else if (stage.includes('Retry-After'))
      throw new ExportError('ServiceThrottledError', 'later', { retryAfterSeconds: 1 });
    else if (/store|log/.test(stage)) throw new Error(`${stage} fails`);
    else throw new ExportError('ServiceUnavailableError', `${stage} fails`);
  };
  const pageOf = ({ label }: PageRequest) => Number(/^page (\d+) /.exec(label)?.[1]);

  const service: ReportService = {
    async fetch(request, options) {
      const { signal, sink } = options;
      signal?.throwIfAborted();
      open.add(request);
      stats.mostOpen = Math.max(stats.mostOpen, open.size);
      const close = () => open.delete(request);
      signal?.addEventListener('abort', close);
      async function* counted(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
        for await (const chunk of body) {
          await settledSoon();
          reach('the first chunk of the body', pageOf(request));
          signal?.throwIfAborted();
          yield chunk;
        }
        await settledSoon();
        reach('the end of the body', pageOf(request));
        signal?.throwIfAborted();
      }
      try {
        await settledSoon();
        reach('the request', pageOf(request));
        reach('the request, with a Retry-After of a second', pageOf(request));
        signal?.throwIfAborted();
        return await bench.service.fetch(request, { ...options, sink: (body) => sink(counted(body)) });
      } finally {
        close();
      }
    },
  };

  const store = withSpools(bench.store, ({ fill, put }, { page }) => ({
    async fill(body) {
      reach('the store, before it reads the body', page);
      async function* chunks() {
        for await (const chunk of body) {
          reach('the store, after a chunk of the body', page);
          yield chunk;
        }
      }
      await fill(chunks());
    },
    async put(received) {
      const result = await put(received);
      await settledSoon();
      reach('the store, after the body', page);
      return result;
    },
  }));
  const log: StepDependencies['log'] = {
    ...bench.log,
    async append(entry) {
      await settledSoon();
      reach('the log', entry.page);
      return await bench.log.append(entry);
    },
  };
  const slotStore = createMemorySlotStore();
  const { runtime } = bench.deps;
  const slots = createPageSlots({ store: slotStore, limit: 1, runtime });
  return { deps: { ...bench.deps, service, store, log, slots }, bench, stats, open, slotStore, invocation };
}

const settledSoon = () => new Promise(setImmediate);

interface Settings {
  readonly maxInFlight: number;
  readonly signal: AbortSignal;
}

async function invoke(deps: StepDependencies, { maxInFlight, signal }: Settings): Promise<ExportPageOutcome> {
  const begun = await beginRun(deps, { input: {}, execution: 'one' });
  if (begun.next === 'skip') throw new Error(begun.reason);
  const retryAfterDeadline = Number.POSITIVE_INFINITY;
  return await exportPage(deps, {
    loop: begun satisfies LoopState,
    execution: 'one',
    maxInFlight,
    signal,
    retryAfterDeadline,
  });
}

/** Everything is in memory, so whatever has not ended after so many rounds of the event loop never does. */
async function unlessStuck<Value>(promise: Promise<Value>): Promise<Value> {
  let isOver = false;
  const result = promise.finally(() => {
    isOver = true;
  });
  result.catch(() => {});
  for (let round = 0; round < 5_000 && !isOver; round += 1) await settledSoon();
  if (!isOver) throw new Error('the pipeline is stuck');
  return await result;
}

const loggedPages = async (bench: Bench): Promise<number[]> => {
  const { active } = await bench.state();
  return active === undefined ? [] : (await collect(bench.log.entries(active))).map(({ page }) => page);
};
const allPages = Array.from({ length: pages }, (_, index) => index + 1);

describe('the page pipeline within a slot', () => {
  it('exports all pages of one invocation, one request after the other, and returns the slot', async () => {
    const { deps, bench, stats, slotStore, invocation } = aCountedExport(undefined);
    expect(await unlessStuck(invoke(deps, { maxInFlight: 2, signal: invocation.signal }))).toMatchObject({
      next: 'finish',
    });
    expect(await loggedPages(bench)).toEqual(allPages);
    expect(bench.service.requests).toHaveLength(pages);
    expect(stats.mostOpen).toBe(1);
    expect(slotStore.current()).toMatchObject({ holders: [] });
  });

  it('requests the next page while the one before is being stored, but not while it is being received', async () => {
    const { deps, bench, invocation } = aCountedExport(undefined);
    const gates = { body: Promise.withResolvers<void>(), store: Promise.withResolvers<void>() };
    const store = withSpools(deps.store, ({ fill, put }, { page }) => ({
      async fill(body) {
        if (page === 1) await gates.body.promise;
        await fill(body);
      },
      async put(received) {
        if (page === 1) await gates.store.promise;
        return await put(received);
      },
    }));
    const invoked = invoke({ ...deps, store }, { maxInFlight: 2, signal: invocation.signal });
    await settled();
    expect(bench.service.requests).toHaveLength(1);
    gates.body.resolve();
    await settled();
    expect(bench.service.requests).toHaveLength(2);
    expect(await loggedPages(bench)).toEqual([]);
    gates.store.resolve();
    await unlessStuck(invoked);
    expect(await loggedPages(bench)).toEqual(allPages);
  });

  it('would have two requests open without a slot', async () => {
    const { deps, stats, invocation } = aCountedExport(undefined);
    await unlessStuck(invoke({ ...deps, slots: undefined }, { maxInFlight: 2, signal: invocation.signal }));
    expect(stats.mostOpen).toBe(2);
  });

  it('sends one request at a time over HTTP, also after a response that breaks off', async () => {
    const answering = { now: 0, most: 0 };
    /** A response whose body takes a moment longer than its headers. The third breaks off once. */
    const reply =
      (page: number, breaksOff = false): RawReply =>
      async (socket) => {
        answering.now += 1;
        answering.most = Math.max(answering.most, answering.now);
        const headers: Record<string, string> = page < pages ? { 'x-service-cursor': cursorAt(page) } : {};
        const response = rawResponse({ headers });
        socket.write(response.subarray(0, -20));
        await sleep(10);
        answering.now -= 1;
        if (breaksOff) socket.destroy();
        else socket.write(response.subarray(-20));
      };
    await using server = await startRawServer(
      reply(1),
      reply(2),
      reply(3, true),
      ...([3, 4, 5, 6, 7, 8].map((page) => reply(page)) as [RawReply, ...RawReply[]]),
    );
    await using client = clientFor(server);
    const { deps, bench, invocation } = aCountedExport(undefined);
    const overHttp = { ...deps, service: client };
    const settings = { maxInFlight: 2, signal: invocation.signal };
    await expect(invoke(overHttp, settings)).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
    expect(await loggedPages(bench)).toEqual([1, 2]);
    expect(await invoke(overHttp, settings)).toMatchObject({ next: 'finish' });
    expect(await loggedPages(bench)).toEqual(allPages);
    expect(server.requests).toHaveLength(pages + 1);
    expect(answering.most).toBe(1);
  });

  const failures = fc.record({
    stage: fc.constantFrom(...stages),
    page: fc.integer({ min: 1, max: pages }),
    interrupts: fc.boolean(),
  });
  test.prop([failures, fc.integer({ min: 1, max: 4 })], { numRuns: cases(600) })(
    'never gets stuck, whatever fails or is interrupted at any stage, and the next attempt exports the rest',
    async (failure, maxInFlight) => {
      const { deps, bench, stats, open, slotStore, invocation } = aCountedExport(failure);
      const first = unlessStuck(invoke(deps, { maxInFlight, signal: invocation.signal }));
      const outcome = await first.catch((error: unknown) => error);
      expect(stats.hasFailed).toBe(true);
      if (failure.interrupts) {
        // The last page may be stored already.
        if (!(outcome instanceof ExportError)) expect(outcome).toMatchObject({ next: 'finish' });
      } else if (failure.stage.includes('Retry-After')) expect(outcome).toMatchObject({ next: 'finish' });
      else expect(outcome).toMatchObject({ message: `${failure.stage} fails` });
      expect(open.size).toBe(0);
      expect(slotStore.current()?.holders).toEqual([]);

      const again = { maxInFlight, signal: new AbortController().signal };
      expect(await unlessStuck(invoke(deps, again))).toMatchObject({ next: 'finish' });
      expect(await loggedPages(bench)).toEqual(allPages);
      expect(stats.mostOpen).toBe(1);
      expect(slotStore.current()?.holders).toEqual([]);
    },
  );
});
