/** The slots of a service: a crowd of exports whose clocks differ and whose store fails, and what one of them does. */

import { describe, expect, it } from 'vitest';
import type { PageSlot, PageSlots, SharedRecord } from '../../../lib/core/ports.ts';
import { createPageSlots, type SlotHolder, type SlotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { createRng, type Rng } from '../../simulation/world/rng.ts';
import { createTimeline, type Timeline } from '../../simulation/world/virtual-time.ts';
import { cases, fc, test } from '../../support/property.ts';

const leaseMs = 60_000;
const startedAt = Date.UTC(2026, 10, 20, 2);
type Store = SharedRecord<SlotsRecord>;

const holdersOf = async (store: Store): Promise<readonly SlotHolder[]> => (await store.read()).content?.holders ?? [];

/** The store over a network: slow, with errors before and after a write, and writes that are reported as refused. */
function overNetwork(store: Store, timeline: Timeline, rng: Rng, { errorRate = 0, refusalRate = 0 } = {}): Store {
  const fail = () => {
    if (rng.chance(errorRate)) throw new Error('DynamoDB is unavailable');
  };
  return {
    async read() {
      await timeline.sleep(rng.between(1, 20));
      fail();
      return await store.read();
    },
    async replace(...write) {
      await timeline.sleep(rng.between(1, 20));
      fail();
      const written = await store.replace(...write);
      await timeline.sleep(rng.between(1, 20));
      fail();
      return rng.chance(refusalRate) ? undefined : written;
    },
  };
}

const crowds = fc.record({
  limit: fc.integer({ min: 1, max: 3 }),
  exports: fc.integer({ min: 1, max: 6 }),
  errorRate: fc.constantFrom(0, 0, 0.1),
  refusalRate: fc.constantFrom(0, 0.3),
  killRate: fc.constantFrom(0, 0.2),
  abortRate: fc.constantFrom(0, 0.2),
  skewMs: fc.constantFrom(0, 25_000),
  seed: fc.nat(),
});

describe('a crowd of exports', () => {
  test.prop([crowds], { numRuns: cases(400) })(
    'holds no more slots than the limit, gets each answer soon, and leaves no slot in use',
    async ({ limit, exports, errorRate, refusalRate, killRate, abortRate, skewMs, seed }) => {
      const timeline = createTimeline(startedAt);
      const rng = createRng(String(seed), 'slots');
      const store = createMemoryRecord<SlotsRecord>();
      /** When each slot that is not returned yet is no longer used. */
      const held = new Map<PageSlot, number>();
      let longestMs = 0;
      let kills = 0;
      const exportPages = async () => {
        const ownSkewMs = rng.between(-skewMs, skewMs);
        const randomHex = (length: number) => Array.from({ length }, () => rng.integerBelow(16).toString(16)).join('');
        const now = () => Math.floor(timeline.now() + ownSkewMs);
        const sleep = async (ms: number, signal?: AbortSignal) => {
          await timeline.sleep(ms);
          signal?.throwIfAborted();
        };
        const runtime = { now, monotonicNow: () => timeline.now(), sleep, randomHex };
        const slots = createPageSlots({
          record: overNetwork(store, timeline, rng, { errorRate, refusalRate }),
          limit,
          runtime,
        });
        for (let page = 1; page <= 4; page += 1) {
          const invocation = new AbortController();
          if (rng.chance(abortRate))
            timeline.after(rng.between(0, 3_000), () => invocation.abort(new Error('aborted')));
          const askedAt = timeline.now();
          const slot = await slots.acquire({ leaseMs, signal: invocation.signal }).catch(() => undefined);
          longestMs = Math.max(longestMs, timeline.now() - askedAt);
          if (slot === undefined) {
            await timeline.sleep(rng.between(10_000, 30_000));
            continue;
          }
          held.set(slot, slot.grantedAt - ownSkewMs + leaseMs);
          expect([...held.values()].filter((until) => until > timeline.now()).length).toBeLessThanOrEqual(limit);
          await timeline.sleep(rng.between(0, leaseMs / 2));
          if (rng.chance(killRate)) {
            kills += 1;
            return;
          }
          held.delete(slot);
          await slot.release();
          await slot.release();
        }
      };
      const all = Promise.all(Array.from({ length: exports }, exportPages));
      await timeline.run({ until: Number.POSITIVE_INFINITY });
      await all;
      expect(longestMs).toBeLessThan(30_000);
      // Nothing but a killed export and a store that fails leaves a slot in use, until its lease ends.
      const left = await holdersOf(store);
      if (kills === 0 && errorRate === 0) expect(left).toEqual([]);
      const latest = (timeline.now() + skewMs + leaseMs) / 1_000 + 61;
      expect(left.every(({ expiresAt }) => expiresAt <= latest)).toBe(true);
    },
  );

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
