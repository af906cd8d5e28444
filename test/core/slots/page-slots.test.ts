/** The slots of a service, call by call. `page-slots.property.slow.test.ts` tests many exports at once. */

import { describe, expect, it } from 'vitest';
import type { PageSlot, PageSlots } from '../../../lib/core/ports.ts';
import { createPageSlots, type SlotState, type SlotStore } from '../../../lib/core/slots/page-slots.ts';
import { createMemorySlotStore } from '../../support/export/memory-adapters.ts';

const leaseMs = 300_000;
const startedAt = Date.UTC(2026, 10, 20, 2);

/** A memory store that counts its calls, and a clock that sleeps advance. */
function aBench(limit = 1, storeOverrides: (store: SlotStore) => Partial<SlotStore> = () => ({})) {
  const memory = createMemorySlotStore();
  const calls = { reads: 0, writes: 0 };
  const clock = { now: startedAt };
  /** Called before each sleep ends. */
  const during: { sleep: (signal: AbortSignal | undefined) => unknown } = { sleep: () => {} };
  const slept: number[] = [];
  let random = 0;
  const inner = { ...memory, ...storeOverrides(memory) };
  const store: SlotStore = {
    read() {
      calls.reads += 1;
      return inner.read();
    },
    replace(state) {
      calls.writes += 1;
      return inner.replace(state);
    },
  };
  const slots = createPageSlots({
    store,
    limit,
    runtime: {
      now: () => clock.now,
      monotonicNow: () => clock.now,
      async sleep(ms, signal) {
        signal?.throwIfAborted();
        slept.push(ms);
        clock.now += ms;
        await during.sleep(signal);
        signal?.throwIfAborted();
      },
      randomHex(length) {
        random += 1;
        return random.toString(16).padStart(length, '0').slice(-length);
      },
    },
  });
  const stored = (): SlotState =>
    memory.current() ?? { version: 0, holders: [], queue: [], averageHoldMs: 0, lastGrantAt: startedAt / 1_000 };
  const queue = () => stored().queue.map((waiter) => waiter.export);
  return { slots, memory, calls, clock, during, slept, stored, queue };
}

async function acquired(slots: PageSlots, exportName: string): Promise<PageSlot> {
  const slot = await slots.acquire(exportName, { leaseMs });
  if (!slot.granted) throw new Error(`${exportName} has to wait for ${slot.waitSeconds} s`);
  return slot;
}

async function refused(slots: PageSlots, exportName: string): Promise<number> {
  const slot = await slots.acquire(exportName, { leaseMs });
  if (slot.granted) throw new Error(`${exportName} got a slot`);
  return slot.waitSeconds;
}

describe('a slot', () => {
  it('takes one read and one write to get, and as many to return, if no other export asks', async () => {
    const { slots, calls, stored, slept } = aBench();
    const slot = await acquired(slots, 'orders');
    expect(calls).toEqual({ reads: 1, writes: 1 });
    await slot.release();
    expect(calls).toEqual({ reads: 2, writes: 2 });
    expect(stored()).toMatchObject({ holders: [], queue: [] });
    expect(slept).toEqual([]);
  });

  it('that is not returned becomes free a minute after its lease, as clocks may differ', async () => {
    const { slots, clock } = aBench();
    const { grantedAt } = await acquired(slots, 'orders');
    while (clock.now < grantedAt + leaseMs + 45_000) {
      await refused(slots, 'invoices');
      clock.now += 1_000;
    }
    clock.now = grantedAt + leaseMs + 61_000;
    expect((await acquired(slots, 'invoices')).granted).toBe(true);
  });

  it('has its whole lease from the moment when it is free, however long its holder has polled', async () => {
    const { slots, clock, during, stored } = aBench();
    const first = await acquired(slots, 'orders');
    const calledAt = clock.now;
    during.sleep = () => (clock.now > calledAt + 5_000 ? first.release() : undefined);
    const { grantedAt } = await acquired(slots, 'invoices');
    expect(grantedAt).toBe(clock.now);
    expect(grantedAt).toBeGreaterThan(calledAt + 5_000);
    expect((stored().holders[0]?.expiresAt ?? 0) * 1_000).toBeGreaterThanOrEqual(grantedAt + leaseMs + 60_000);
  });

  it('has its lease from before the write that takes it, however slow the table is', async () => {
    const { slots, clock, stored } = aBench(1, (store) => ({
      async replace(state) {
        const written = await store.replace(state);
        clock.now += 100_000;
        return written;
      },
    }));
    expect((await acquired(slots, 'orders')).grantedAt).toBe(startedAt);
    expect(stored().holders[0]?.expiresAt).toBe((startedAt + leaseMs) / 1_000 + 60);
  });

  it('is given as often as the limit allows', async () => {
    const { slots, stored } = aBench(3);
    for (const name of ['a', 'b', 'c']) await acquired(slots, name);
    await refused(slots, 'd');
    expect(stored().holders).toHaveLength(3);
  });

  it('is given to no export while more are held than a lowered limit allows', async () => {
    const { slots, memory, stored } = aBench(1);
    const expiresAt = startedAt / 1_000 + 600;
    memory.set({ ...stored(), version: 1, holders: ['x', 'y', 'z'].map((id) => ({ id, expiresAt })) });
    await refused(slots, 'orders');
    expect(stored().holders).toHaveLength(3);
  });

  it('of a duplicate invocation is one of its own; both wait at the same place', async () => {
    const { slots, stored, queue } = aBench(2);
    const [one, other] = [await acquired(slots, 'orders'), await acquired(slots, 'orders')];
    expect(new Set(stored().holders.map(({ id }) => id)).size).toBe(2);
    await refused(slots, 'invoices');
    await refused(slots, 'invoices');
    expect(queue()).toEqual(['invoices']);
    await one.release();
    await one.release();
    expect(stored().holders).toHaveLength(1);
    await other.release();
    expect(stored().holders).toHaveLength(0);
  });
});

describe('the queue', () => {
  it('gives slots in the order in which they were first requested', async () => {
    const { slots, queue } = aBench();
    let slot = await acquired(slots, 'a');
    for (const name of ['b', 'c', 'd']) await refused(slots, name);
    expect(queue()).toEqual(['b', 'c', 'd']);
    await slot.release();
    for (const name of ['d', 'c', 'a']) await refused(slots, name);
    slot = await acquired(slots, 'b');
    expect(queue()).toEqual(['c', 'd', 'a']);
  });

  it('keeps a slot free for a waiter that sleeps, but uses the others', async () => {
    const { slots, queue } = aBench(2);
    const [first, second] = [await acquired(slots, 'a'), await acquired(slots, 'b')];
    await refused(slots, 'c');
    await first.release();
    await second.release();
    // One of the two free slots is for c.
    await acquired(slots, 'd');
    await refused(slots, 'e');
    await acquired(slots, 'c');
    expect(queue()).toEqual(['e']);
  });

  it('does not wait for long if a slot is free: only for the waiter that it is kept for', async () => {
    const { slots, memory, stored } = aBench();
    const now = startedAt / 1_000;
    // The last page was an hour ago.
    memory.set({ ...stored(), version: 1, queue: [{ export: 'stopped', checkAt: now }], lastGrantAt: now - 3_600 });
    expect(await slots.acquire('a', { leaseMs: 0 })).toEqual({ granted: false, waitSeconds: 1 });
  });

  it('passes over a waiter that is late, which keeps its place', async () => {
    const { slots, clock, queue } = aBench();
    const first = await acquired(slots, 'a');
    const checkIn = await refused(slots, 'late');
    await first.release();
    clock.now += checkIn * 1_000 + 13_000;
    await refused(slots, 'b');
    clock.now += 5_000;
    const second = await acquired(slots, 'b');
    expect(queue()).toEqual(['late']);
    await refused(slots, 'late');
    await second.release();
    await refused(slots, 'c');
    await acquired(slots, 'late');
  });

  it('forgets a waiter that is more than ten minutes late', async () => {
    const { slots, memory, clock, stored, queue } = aBench();
    const holders = [{ id: 'x', expiresAt: startedAt / 1_000 + 900 }];
    memory.set({ ...stored(), version: 1, holders });
    await refused(slots, 'stopped');
    clock.now += 590_000;
    await refused(slots, 'b');
    expect(queue()).toEqual(['stopped', 'b']);
    clock.now += 60_000;
    await refused(slots, 'b');
    expect(queue()).toEqual(['b']);
  });
});

describe('a waiter', () => {
  it('that is next polls inside its invocation, without writing', async () => {
    const { slots, calls, during, slept } = aBench();
    const first = await acquired(slots, 'a');
    let sleeps = 0;
    during.sleep = () => {
      sleeps += 1;
      if (sleeps === 10) return first.release();
      return undefined;
    };
    const before = { ...calls };
    await acquired(slots, 'b');
    // It joins the queue, reads ten times, and takes the slot, which `a` returns in between.
    expect(calls).toEqual({ reads: before.reads + 12, writes: before.writes + 3 });
    expect(slept).toHaveLength(10);
    for (const ms of slept) expect(ms).toBeLessThanOrEqual(500);
  });

  it('polls every 100 to 500 ms: at first as often as slots are returned, and then less', async () => {
    for (const [averageHoldMs, min, max] of [
      [10, 66, 100],
      [2_000, 133, 200],
      [60_000, 333, 500],
    ] as const) {
      const { slots, memory, slept, stored } = aBench();
      const holder = { id: 'x', expiresAt: startedAt / 1_000 + 600 };
      memory.set({ ...stored(), version: 1, averageHoldMs, holders: [holder] });
      await refused(slots, 'a');
      expect(slept[0]).toBeGreaterThanOrEqual(min);
      expect(slept[0]).toBeLessThanOrEqual(max);
      expect(Math.max(...slept)).toBeLessThanOrEqual(500);
    }
  });

  it('polls for up to ten seconds, or for a quarter of its lease', async () => {
    for (const [lease, polled] of [
      [leaseMs, 10_000],
      [8_000, 2_000],
    ] as const) {
      const { slots, clock } = aBench();
      await acquired(slots, 'a');
      expect(await slots.acquire('b', { leaseMs: lease })).toMatchObject({ granted: false });
      expect(clock.now - startedAt).toBeGreaterThanOrEqual(polled);
      expect(clock.now - startedAt).toBeLessThan(polled + 500);
    }
  });

  it('does not poll if it is far from its turn', async () => {
    const { slots, calls, slept, stored, memory } = aBench();
    await acquired(slots, 'a');
    const checkAt = startedAt / 1_000;
    memory.set({ ...stored(), queue: ['b', 'c', 'd'].map((name) => ({ export: name, checkAt })) });
    const before = { ...calls };
    await refused(slots, 'e');
    expect(calls).toEqual({ reads: before.reads + 1, writes: before.writes + 1 });
    expect(slept).toEqual([]);
  });

  it.each([
    { waiters: 3, averageHoldMs: 0, limit: 1, waitSeconds: 1 },
    { waiters: 99, averageHoldMs: 0, limit: 1, waitSeconds: 60 },
    { waiters: 99, averageHoldMs: 1_000, limit: 2, waitSeconds: 42 },
    { waiters: 49, averageHoldMs: 1_000, limit: 1, waitSeconds: 39 },
    { waiters: 99, averageHoldMs: 1_000, limit: 10, waitSeconds: 8 },
    { waiters: 19, averageHoldMs: 1_000, limit: 10, waitSeconds: 1 },
    { waiters: 99, averageHoldMs: 30_000, limit: 2, waitSeconds: 120 },
    { waiters: 99, averageHoldMs: 900_000, limit: 2, waitSeconds: 300 },
    { waiters: 0, averageHoldMs: 60_000, limit: 1, waitSeconds: 15 },
  ])(
    'after $waiters others waits a little less than its turn takes: $averageHoldMs ms, limit $limit',
    async ({ waiters, averageHoldMs, limit, waitSeconds }) => {
      const { slots, memory } = aBench(limit);
      const [now, expiresAt] = [startedAt / 1_000, startedAt / 1_000 + 600];
      const holders = Array.from({ length: limit }, (_, index) => ({ id: `${index}`, expiresAt }));
      const queue = Array.from({ length: waiters }, (_, index) => ({ export: `${index}`, checkAt: now }));
      memory.set({ version: 1, holders, queue, averageHoldMs, lastGrantAt: now });
      // No time to poll.
      expect(await slots.acquire('orders', { leaseMs: 0 })).toEqual({ granted: false, waitSeconds });
    },
  );

  it.each([
    { sinceLastGrant: 0, waitSeconds: 3 },
    { sinceLastGrant: 40, waitSeconds: 37 },
    { sinceLastGrant: 600, waitSeconds: 60 },
  ])(
    'waits longer if no slot was given for $sinceLastGrant s: a holder may have died',
    async ({ sinceLastGrant, waitSeconds }) => {
      const { slots, memory, calls } = aBench();
      const now = startedAt / 1_000;
      memory.set({
        version: 1,
        holders: [{ id: 'x', expiresAt: now + 600 }],
        queue: ['b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => ({ export: name, checkAt: now })),
        averageHoldMs: 1_000,
        lastGrantAt: now - sinceLastGrant,
      });
      expect(await refused(slots, 'i')).toBe(waitSeconds);
      expect(calls.reads).toBe(1);
    },
  );

  it('learns from each returned slot how long slots are held', async () => {
    const { slots, clock, stored } = aBench();
    const hold = async (ms: number) => {
      const slot = await acquired(slots, 'a');
      clock.now += ms;
      await slot.release();
      return stored().averageHoldMs;
    };
    expect(await hold(5_000)).toBe(5_000);
    expect(await hold(5_000)).toBe(5_000);
    expect(await hold(21_000)).toBe(6_000);
    for (let page = 0; page < 100; page += 1) await hold(1_000);
    expect(stored().averageHoldMs).toBeLessThan(1_100);
    // A clock was set back.
    expect(await hold(-60_000)).toBeGreaterThan(0);
  });

  it('whose invocation ends stops polling, and keeps its place', async () => {
    const { slots, during, queue } = aBench();
    await acquired(slots, 'a');
    const invocation = new AbortController();
    const reason = new Error('the time of the invocation is up');
    during.sleep = (signal) => {
      // Otherwise the sleep would continue.
      expect(signal).toBe(invocation.signal);
      invocation.abort(reason);
    };
    await expect(slots.acquire('b', { leaseMs, signal: invocation.signal })).rejects.toBe(reason);
    expect(queue()).toEqual(['b']);
  });

  it('whose invocation has ended takes no slot', async () => {
    const { slots, calls } = aBench();
    const reason = new Error('the time of the invocation is up');
    await expect(slots.acquire('b', { leaseMs, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(calls.writes).toBe(0);
  });
});

describe('if the record changes between read and write', () => {
  it('a call tries again, after growing sleeps, and then gives up for a second or two', async () => {
    const { slots, calls, slept } = aBench(1, () => ({ replace: async () => false }));
    const { granted, ...rest } = await slots.acquire('a', { leaseMs });
    expect(granted).toBe(false);
    expect([1, 2]).toContain((rest as { waitSeconds: number }).waitSeconds);
    expect(calls.writes).toBe(21);
    for (const [index, ms] of slept.entries()) expect(ms).toBeLessThanOrEqual(5 + Math.min(500, 10 * 2 ** index));
  });

  it('a slot is returned nevertheless', async () => {
    let conflicts = 0;
    const { slots, stored } = aBench(1, (store) => ({
      async replace(state) {
        if (state.holders.length === 0 && conflicts < 50) {
          conflicts += 1;
          return false;
        }
        return await store.replace(state);
      },
    }));
    await (await acquired(slots, 'a')).release();
    expect(stored().holders).toEqual([]);
    expect(conflicts).toBe(50);
  });

  it('a slot that can never be returned is left to its lease', async () => {
    const { slots, stored, slept } = aBench(1, (store) => ({
      replace: async (state) => state.holders.length > 0 && (await store.replace(state)),
    }));
    await (await acquired(slots, 'a')).release();
    expect(stored().holders).toHaveLength(1);
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(10_000);
  });
});

describe('a write that took effect, although it was reported as refused', () => {
  /** Every write is followed by that of another export, before its response arrives. */
  const withSuccessor = (store: SlotStore): Partial<SlotStore> => ({
    async replace(state) {
      if (!(await store.replace(state))) return false;
      await store.replace({ ...state, version: state.version + 1 });
      return false;
    },
  });

  it('gives the slot that it took', async () => {
    const { slots, stored } = aBench(2, withSuccessor);
    const slot = await acquired(slots, 'a');
    expect(stored().holders).toHaveLength(1);
    await slot.release();
    expect(stored().holders).toEqual([]);
  });

  it('leaves no slot in use if the invocation ends before it knows', async () => {
    const { slots, stored, during } = aBench(2, (store) => ({
      replace: (state) => (state.holders.length > 0 ? { ...store, ...withSuccessor(store) } : store).replace(state),
    }));
    const invocation = new AbortController();
    const reason = new Error('the time of the invocation is up');
    during.sleep = () => invocation.abort(reason);
    await expect(slots.acquire('a', { leaseMs, signal: invocation.signal })).rejects.toBe(reason);
    expect(stored().holders).toEqual([]);
  });

  it('leaves no slot in use if it was the last attempt', async () => {
    let writes = 0;
    const { slots, stored } = aBench(1, (store) => ({
      async replace(state) {
        writes += 1;
        if (writes < 21) return false;
        return writes === 21 ? await (withSuccessor(store).replace?.(state) ?? false) : await store.replace(state);
      },
    }));
    await refused(slots, 'a');
    expect(writes).toBe(22);
    expect(stored().holders).toEqual([]);
  });
});

describe('if the store fails', () => {
  const outage = new Error('DynamoDB is unavailable');

  it('acquire rejects with its error', async () => {
    for (const failing of ['read', 'replace'] as const) {
      const { slots } = aBench(1, () => ({
        [failing]: async () => {
          throw outage;
        },
      }));
      await expect(slots.acquire('a', { leaseMs })).rejects.toBe(outage);
    }
  });

  it('a slot whose write took effect is returned, as nothing holds it', async () => {
    let isLost = false;
    const { slots, stored } = aBench(1, (store) => ({
      async replace(state) {
        const written = await store.replace(state);
        if (isLost) return written;
        isLost = true;
        throw outage;
      },
    }));
    await expect(slots.acquire('a', { leaseMs })).rejects.toBe(outage);
    expect(stored().holders).toEqual([]);
    await acquired(slots, 'b');
  });

  it('release resolves after one more attempt, and the lease ends by itself', async () => {
    for (const failing of ['read', 'replace'] as const) {
      let isFailing = false;
      const { slots, calls, clock } = aBench(1, (store) => ({
        [failing]: async (state: SlotState) => {
          if (isFailing) throw outage;
          return await store[failing](state);
        },
      }));
      const slot = await acquired(slots, 'a');
      isFailing = true;
      const before = calls.reads;
      await slot.release();
      expect(calls.reads).toBe(before + 2);
      isFailing = false;
      clock.now = slot.grantedAt + leaseMs + 61_000;
      await acquired(slots, 'b');
    }
  });
});

describe('a record that was edited or deleted', () => {
  const now = startedAt / 1_000;
  it.each<[string, Partial<SlotState>]>([
    ['slots that are held for years', { holders: [{ id: 'x', expiresAt: now + 100_000_000 }] }],
    ['slots that were held long ago', { holders: [{ id: 'x', expiresAt: 0 }] }],
    ['waiters that check in years', { queue: [{ export: 'x', checkAt: now + 100_000_000 }] }],
    ['waiters that checked long ago', { queue: [{ export: 'x', checkAt: 0 }] }],
  ])('with %s blocks no export', async (_, edit) => {
    const { slots, memory, stored } = aBench();
    memory.set({ ...stored(), version: 7, ...edit });
    await (await acquired(slots, 'a')).release();
    expect(stored()).toMatchObject({ version: 9, holders: [], queue: [] });
  });

  it('with slots that are held for years on average does not make a waiter sleep for minutes', async () => {
    const { slots, memory, stored } = aBench();
    await acquired(slots, 'a');
    memory.set({ ...stored(), averageHoldMs: 1e12 });
    expect(await refused(slots, 'b')).toBe(1);
  });

  it('with a newest slot that is given in years does not make waiters poll that are far from their turn', async () => {
    const { slots, memory, calls } = aBench();
    memory.set({
      version: 1,
      holders: [{ id: 'x', expiresAt: now + 600 }],
      queue: ['b', 'c', 'd'].map((name) => ({ export: name, checkAt: now })),
      averageHoldMs: 15,
      lastGrantAt: now + 100_000_000,
    });
    expect(await refused(slots, 'e')).toBe(60);
    expect(calls.reads).toBe(1);
  });

  it('with an export that waits twice gives it one slot', async () => {
    const { slots, memory, queue, stored } = aBench();
    const waiters = ['a', 'b', 'a'].map((name) => ({ export: name, checkAt: now }));
    memory.set({ ...stored(), version: 7, queue: waiters });
    await acquired(slots, 'a');
    expect(queue()).toEqual(['b']);
  });

  it('takes slots from their holders, whose releases change nothing', async () => {
    const { slots, memory, stored } = aBench();
    const slot = await acquired(slots, 'a');
    memory.set(undefined);
    await slot.release();
    expect(memory.current()).toBeUndefined();
    await acquired(slots, 'b');
    await slot.release();
    expect(stored().holders).toHaveLength(1);
  });
});
