/** A slot allows one request at a time: the service within a slot, alone and in the page pipeline. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { PageRequest, ReportService, StepDependencies } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import type { ExportPageOutcome } from '../../../lib/core/steps/loop-outcome.ts';
import { createPageSlots, type SlotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { withSpools } from '../../support/builders.ts';
import { anExportBench, begin, loggedPages } from '../../support/export/export-bench.ts';
import { positionOf, someReports } from '../../support/export/scripted-service.ts';
import { cases, fc, test } from '../../support/property.ts';

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
  const pageOf = ({ cursor }: PageRequest) => 1 + positionOf(cursor) / 2;

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
  const slotStore = createMemoryRecord<SlotsRecord>();
  const { runtime } = bench.deps;
  const slots = createPageSlots({ record: slotStore, limit: 1, runtime });
  return { deps: { ...bench.deps, service, store, log, slots }, bench, stats, open, slotStore, invocation };
}

const settledSoon = () => new Promise(setImmediate);

interface Settings {
  readonly maxInFlight: number;
  readonly signal: AbortSignal;
}

async function invoke(deps: StepDependencies, settings: Settings): Promise<ExportPageOutcome> {
  const loop = await begin(deps, 'one');
  return await exportPage(deps, { loop, execution: 'one', ...settings, retryAfterDeadline: Number.POSITIVE_INFINITY });
}

const allPages = Array.from({ length: pages }, (_, index) => index + 1);

describe('the page pipeline within a slot', () => {
  it('exports all pages of one invocation, one request after the other, and returns the slot', async () => {
    const { deps, bench, stats, slotStore, invocation } = aCountedExport(undefined);
    expect(await invoke(deps, { maxInFlight: 2, signal: invocation.signal })).toMatchObject({ next: 'finish' });
    expect(await loggedPages(bench)).toEqual(allPages);
    expect(bench.service.requests).toHaveLength(pages);
    expect(stats.mostOpen).toBe(1);
    expect((await slotStore.read()).content).toEqual({ holders: [] });
  });

  it('requests the next page while the one before is being stored, but not while it is being received', async () => {
    const { deps, bench, invocation } = aCountedExport(undefined);
    const isRequested = Promise.withResolvers<void>();
    let requestedWhileReceived = 0;
    const service: ReportService = {
      fetch(request, options) {
        if (request.cursor !== null) isRequested.resolve();
        return deps.service.fetch(request, options);
      },
    };
    const store = withSpools(deps.store, ({ fill, put }, { page }) => ({
      async fill(body) {
        await fill(body);
        if (page === 1) requestedWhileReceived = bench.service.requests.length;
      },
      async put(received) {
        // Never resolves if the next page is requested only once this one is stored.
        if (page === 1) await isRequested.promise;
        return await put(received);
      },
    }));
    await invoke({ ...deps, service, store }, { maxInFlight: 2, signal: invocation.signal });
    expect(requestedWhileReceived).toBe(1);
    expect(await loggedPages(bench)).toEqual(allPages);
  });

  const failures = fc.record({
    stage: fc.constantFrom(...stages),
    page: fc.integer({ min: 1, max: pages }),
    interrupts: fc.boolean(),
  });
  test.prop([failures, fc.integer({ min: 1, max: 4 })], { numRuns: cases(600), timeout: 30_000 })(
    'never gets stuck, whatever fails or is interrupted at any stage, and the next attempt exports the rest',
    async (failure, maxInFlight) => {
      const { deps, bench, stats, open, slotStore, invocation } = aCountedExport(failure);
      const first = invoke(deps, { maxInFlight, signal: invocation.signal });
      const outcome = await first.catch((error: unknown) => error);
      expect(stats.hasFailed).toBe(true);
      if (failure.interrupts) {
        // The last page may be stored already.
        if (!(outcome instanceof ExportError)) expect(outcome).toMatchObject({ next: 'finish' });
      } else if (failure.stage.includes('Retry-After')) expect(outcome).toMatchObject({ next: 'finish' });
      else expect(outcome).toMatchObject({ message: `${failure.stage} fails` });
      expect(open.size).toBe(0);
      expect((await slotStore.read()).content).toEqual({ holders: [] });

      const again = { maxInFlight, signal: new AbortController().signal };
      expect(await invoke(deps, again)).toMatchObject({ next: 'finish' });
      expect(await loggedPages(bench)).toEqual(allPages);
      expect(stats.mostOpen).toBe(1);
      expect((await slotStore.read()).content).toEqual({ holders: [] });
    },
  );
});
