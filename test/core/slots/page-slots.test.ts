/** The slots of a service. That a crowd of exports holds no more than there are is an invariant of test/simulation. */

import { describe, expect, it } from 'vitest';
import type { PageSlot, PageSlots, SharedRecord } from '../../../lib/core/ports.ts';
import { createPageSlots, type SlotHolder, type SlotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { createRng, type Rng } from '../../simulation/world/rng.ts';
import { createTimeline, type Timeline } from '../../simulation/world/virtual-time.ts';

const leaseMs = 60_000;
const startedAt = Date.UTC(2026, 10, 20, 2);
type Store = SharedRecord<SlotsRecord>;

const holdersOf = async (store: Store): Promise<readonly SlotHolder[]> => (await store.read()).content?.holders ?? [];

/** The store over a network. */
function overNetwork(store: Store, timeline: Timeline, rng: Rng): Store {
  return {
    async read() {
      await timeline.sleep(rng.between(1, 20));
      return await store.read();
    },
    async replace(...write) {
      await timeline.sleep(rng.between(1, 20));
      const written = await store.replace(...write);
      await timeline.sleep(rng.between(1, 20));
      return written;
    },
  };
}

describe('a crowd of exports', () => {
  it('of a hundred uses two slots for most of the time', async () => {
    const timeline = createTimeline(startedAt);
    const rng = createRng('a hundred exports', 'slots');
    const record = overNetwork(createMemoryRecord(), timeline, rng);
    const randomHex = (length: number) => Array.from({ length }, () => rng.integerBelow(16).toString(16)).join('');
    const now = () => timeline.now();
    const runtime = { now, monotonicNow: now, sleep: async (ms: number) => await timeline.sleep(ms), randomHex };
    const exportPages = async () => {
      for (let page = 1; page <= 5;) {
        const slot = await createPageSlots({ record, limit: 2, runtime }).acquire({ leaseMs });
        await timeline.sleep(slot === undefined ? rng.between(10_000, 30_000) : 1_000);
        await slot?.release();
        if (slot !== undefined) page += 1;
      }
      return timeline.now() - startedAt;
    };
    const all = Promise.all(Array.from({ length: 100 }, exportPages));
    await timeline.run({ until: Number.POSITIVE_INFINITY });
    // Five hundred pages of a second, two at a time.
    expect(Math.max(...(await all))).toBeLessThan(250_000 / 0.7);
  });
});

/** Slots in memory, and a clock that sleeps advance. `during` is called before each sleep ends. */
function aBench(limit = 1, change: (store: Store) => Partial<Store> = () => ({}), during: () => unknown = () => {}) {
  const store = createMemoryRecord<SlotsRecord>();
  const clock = { now: startedAt, sleeps: 0 };
  let random = 0;
  const slots = createPageSlots({
    record: { ...store, ...change(store) },
    limit,
    runtime: {
      now: () => clock.now,
      monotonicNow: () => clock.now,
      async sleep(ms, signal) {
        clock.now += ms;
        clock.sleeps += 1;
        await during();
        signal?.throwIfAborted();
      },
      randomHex: (length) => String((random += 1)).padStart(length, '0'),
    },
  });
  const set = async (...holders: readonly SlotHolder[]) => void (await store.replace(await store.read(), { holders }));
  return { slots, store, clock, set };
}

const other = (id = 'another', expiresAt = startedAt / 1_000 + 600): SlotHolder => ({ id, expiresAt });
const acquired = async (slots: PageSlots): Promise<PageSlot> => {
  const slot = await slots.acquire({ leaseMs });
  if (slot === undefined) throw new Error('There is no slot');
  return slot;
};

describe('a slot', () => {
  it('has its lease from before the write that takes it, and becomes free a minute after it, as clocks may differ', async () => {
    const { slots, store, clock } = aBench(1, (memory) => ({
      async replace(...write) {
        clock.now += 10_000;
        return await memory.replace(...write);
      },
    }));
    expect((await acquired(slots)).grantedAt).toBe(startedAt);
    expect(await holdersOf(store)).toMatchObject([{ expiresAt: (startedAt + leaseMs) / 1_000 + 60 }]);
    clock.now = startedAt + leaseMs + 45_000;
    expect(await slots.acquire({ leaseMs: 4_000 })).toBeUndefined();
    clock.now = startedAt + leaseMs + 61_000;
    expect((await acquired(slots)).grantedAt).toBe(clock.now - 10_000);
  });

  it.each([
    { lease: 300_000, polledMs: 10_000 },
    { lease: 8_000, polledMs: 2_000 },
  ])('is polled for up to ten seconds, or for a quarter of its lease: $lease ms', async ({ lease, polledMs }) => {
    const { slots, clock, set } = aBench();
    await set(other());
    expect(await slots.acquire({ leaseMs: lease })).toBeUndefined();
    expect(clock.now - startedAt).toBeGreaterThanOrEqual(polledMs);
    expect(clock.now - startedAt).toBeLessThan(polledMs + 300);
  });

  it('is no longer polled once others have been faster twice', async () => {
    const { slots, clock, set } = aBench(1, undefined, async () => await set(other(`after ${clock.sleeps} sleeps`)));
    await set(other());
    expect(await slots.acquire({ leaseMs })).toBeUndefined();
    expect(clock.sleeps).toBe(2);
  });

  it('is left to those that poll by one that has just returned it', async () => {
    const { slots, clock, set } = aBench(1, undefined, async () =>
      clock.sleeps === 1 ? await set(other()) : undefined,
    );
    expect(await slots.acquire({ leaseMs, isRenewal: true })).toBeUndefined();
  });

  it('is not taken, and no longer polled, once the invocation has ended', async () => {
    const reason = new Error('the time of the invocation is up');
    const invocation = new AbortController();
    const { slots, store, set } = aBench(1, undefined, () => invocation.abort(reason));
    await expect(slots.acquire({ leaseMs, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(await holdersOf(store)).toEqual([]);
    await set(other());
    await expect(slots.acquire({ leaseMs, signal: invocation.signal })).rejects.toBe(reason);
  });

  it('is not left in use if its write was reported as refused, and the invocation ends before it knows', async () => {
    const invocation = new AbortController();
    const reason = new Error('the time of the invocation is up');
    const reportedAsRefused = (memory: Store) => ({
      replace: async (...write: Parameters<Store['replace']>) => void (await memory.replace(...write)),
    });
    const { slots, store } = aBench(2, reportedAsRefused, () => invocation.abort(reason));
    await expect(slots.acquire({ leaseMs, signal: invocation.signal })).rejects.toBe(reason);
    expect(await holdersOf(store)).toEqual([]);
  });

  it.each(['read', 'replace'] as const)(
    'is not acquired, but returned without an error, if %s fails',
    async (failing) => {
      const outage = { error: undefined as Error | undefined };
      const { slots } = aBench(1, (store) => ({
        [failing]: async (...write: Parameters<Store['replace']>) => {
          if (outage.error !== undefined) throw outage.error;
          return await store[failing](...write);
        },
      }));
      const slot = await acquired(slots);
      outage.error = new Error('DynamoDB is unavailable');
      await slot.release();
      await expect(
        aBench(1, () => ({ [failing]: async () => await Promise.reject(outage.error) })).slots.acquire({ leaseMs }),
      ).rejects.toBe(outage.error);
    },
  );

  it.each([
    ['are held for years', other('x', startedAt / 1_000 + 100_000_000)],
    ['were held long ago', other('x', 0)],
  ])('is free in a record that says that slots %s', async (_, holder) => {
    const { slots, store, set } = aBench();
    await set(holder);
    await (await acquired(slots)).release();
    expect(await holdersOf(store)).toEqual([]);
  });

  it('is given to no export while more are held than a lowered limit allows, and no longer held once it is deleted', async () => {
    const { slots, store, set } = aBench();
    const slot = await acquired(slots);
    await set(other('1'), other('2'), other('3'));
    expect(await slots.acquire({ leaseMs })).toBeUndefined();
    await slot.release();
    expect(await holdersOf(store)).toHaveLength(3);
  });
});
