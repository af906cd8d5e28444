/** An invocation holds its slot only while it requests pages, and not for long. */

import { describe, expect, it } from 'vitest';
import type { PageSlots, ReportService } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { holdSlot, NotYet } from '../../../lib/core/slots/held-slot.ts';
import { withSpools } from '../../support/builders.ts';
import { anExportBench, begin, type BenchOptions, loggedPages } from '../../support/export/export-bench.ts';
import { failsAt, someReports } from '../../support/export/scripted-service.ts';

/** Slots that record what happens to them. `refuseFrom`: the acquisition, from 1, from which on none is free. */
function someSlots(refuseFrom = Number.POSITIVE_INFINITY, now = () => Number.POSITIVE_INFINITY) {
  const events: string[] = [];
  let count = 0;
  const slots: PageSlots = {
    async acquire() {
      count += 1;
      if (count >= refuseFrom) return undefined;
      events.push('taken');
      return {
        grantedAt: now(),
        async release() {
          events.push('returned');
        },
      };
    },
  };
  return { slots, events };
}

async function exportInSlots(options: BenchOptions, { slots, events }: ReturnType<typeof someSlots>) {
  const bench = anExportBench({ reports: someReports(6), size: 2, ...options });
  const runtime = {
    ...bench.deps.runtime,
    sleep: async (ms: number) => {
      events.push(`sleeps ${ms} ms`);
      await bench.deps.runtime.sleep(ms);
    },
  };
  const deps = { ...bench.deps, runtime, slots };
  const loop = await begin(deps, 'first');
  const retryAfterDeadline = runtime.monotonicNow() + 60_000;
  const outcome = await exportPage(deps, { loop, execution: 'first', retryAfterDeadline });
  return { bench, outcome };
}

describe('the slot of an invocation', () => {
  it('is taken once for several pages, for one request at a time: the next begins while the page before it is stored, not while it is received', async () => {
    const bench = anExportBench({ reports: someReports(6), size: 2, limits: { pagesPerInvocation: 3 } });
    const isRequestedAhead = Promise.withResolvers<void>();
    let requestedWhileReceived = 0;
    const service: ReportService = {
      async fetch(request, options) {
        if (request.cursor !== null) isRequestedAhead.resolve();
        return await bench.service.fetch(request, options);
      },
    };
    const store = withSpools(bench.store, ({ fill, put }, { page }) => ({
      async fill(body) {
        await fill(body);
        if (page === 1) requestedWhileReceived = bench.service.requests.length;
      },
      async put(received) {
        // Never resolves if the next page is requested only once this one is stored.
        if (page === 1) await isRequestedAhead.promise;
        return await put(received);
      },
    }));
    const { slots, events } = someSlots();
    const deps = { ...bench.deps, service, store, slots };
    const outcome = await exportPage(deps, { loop: await begin(deps, 'first'), execution: 'first' });
    expect(outcome).toMatchObject({ next: 'finish' });
    expect(requestedWhileReceived).toBe(1);
    expect(await loggedPages(bench)).toEqual([1, 2, 3]);
    expect(events).toEqual(['taken', 'returned']);
  });

  it('is returned while the invocation waits for a short Retry-After', async () => {
    const given = someSlots();
    const { outcome } = await exportInSlots({ script: failsAt({ 1: 5 }) }, given);
    expect(outcome).toMatchObject({ next: 'page', page: 2 });
    expect(given.events).toEqual(['taken', 'returned', 'sleeps 5000 ms', 'taken', 'returned']);
  });

  it('is returned when the run waits for a long Retry-After in the state machine', async () => {
    const given = someSlots();
    const { outcome } = await exportInSlots({ script: failsAt({ 1: 3_600 }) }, given);
    expect(outcome).toMatchObject({ next: 'wait', waitSeconds: 3_600 });
    expect(given.events).toEqual(['taken', 'returned']);
  });

  it('is returned after 15 s, and taken again for the next page', async () => {
    let now = 0;
    const given = someSlots(Number.POSITIVE_INFINITY, () => now);
    const held = holdSlot(given.slots, { now: () => now });
    for (let page = 1; page <= 5; page += 1) {
      await held.take();
      now += 8_000;
    }
    await held.release();
    expect(given.events).toEqual(['taken', 'returned', 'taken', 'returned', 'taken', 'returned']);
  });

  it('is not used if its lease began 15 s before it could be: the request might outlive the lease', async () => {
    let now = 0;
    const given = someSlots(Number.POSITIVE_INFINITY, () => now);
    const slow: PageSlots = {
      async acquire(options) {
        const slot = await given.slots.acquire(options);
        now += 15_000;
        return slot;
      },
    };
    const held = holdSlot(slow, { now: () => now });
    await expect(held.take()).rejects.toBeInstanceOf(NotYet);
    expect(given.events).toEqual(['taken', 'returned']);
  });

  it('is not used if the invocation was suspended before the request is sent: the lease may end first', async () => {
    const given = someSlots();
    const bench = anExportBench({ reports: someReports(6), size: 2 });
    const { now } = bench.deps.runtime;
    const slots: PageSlots = {
      acquire: async (options) => {
        const slot = await given.slots.acquire(options);
        return slot && { ...slot, grantedAt: now() };
      },
    };
    let sent = 0;
    const service: ReportService = {
      async fetch(request, options) {
        if (sent === 0) bench.advance(25_000);
        await request.beforeSend?.();
        sent += 1;
        return await bench.service.fetch(request, options);
      },
    };
    const loop = await begin(bench.deps, 'first');
    const outcome = await exportPage({ ...bench.deps, service, slots }, { loop, execution: 'first' });
    expect(outcome.next).toBe('queue');
    expect(given.events).toEqual(['taken', 'returned']);
    expect(sent).toBe(0);
  });

  it('leads to a wait in the queue if there is none, after the pages that were exported before', async () => {
    const given = someSlots(2);
    const options = { script: failsAt({ 2: 1 }), limits: { pagesPerInvocation: 3 } };
    const { bench, outcome } = await exportInSlots(options, given);
    expect(outcome).toMatchObject({ next: 'queue', page: 2, iterations: 2, waits: 0 });
    expect((outcome as { waitSeconds: number }).waitSeconds).toBeGreaterThanOrEqual(10);
    expect((await bench.state()).active).toBeDefined();
    expect(bench.events.map(({ event }) => event)).toContain('waiting-for-turn');
  });
});
