/** The slots of a service, call by call. The simulation tests many exports at once, with faults. */

import { describe, expect, it } from 'vitest';
import type { PageSlot, PageSlots } from '../../../lib/core/ports.ts';
import { createPageSlots, type SlotHolder, type SlotsRecord } from '../../../lib/core/slots/page-slots.ts';
import type { SharedRecord } from '../../../lib/core/slots/shared-record.ts';
import { createRng } from '../../simulation/world/rng.ts';
import { createTimeline } from '../../simulation/world/virtual-time.ts';
import { createMemorySlotStore } from '../../support/export/memory-adapters.ts';

const leaseMs = 300_000;
const startedAt = Date.UTC(2026, 10, 20, 2);

type Store = SharedRecord<SlotsRecord>;

/** Slots in memory, and a clock that sleeps advance. */
function aBench(limit = 1, storeOverrides: (store: Store) => Partial<Store> = () => ({})) {
  const memory = createMemorySlotStore();
  const clock = { now: startedAt };
  /** Called before each sleep ends. */
  const during: { sleep: (signal: AbortSignal | undefined) => unknown } = { sleep: () => {} };
  const slept: number[] = [];
  let random = 0;
  const slots = createPageSlots({
    record: { ...memory, ...storeOverrides(memory) },
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
  const stored = (): readonly SlotHolder[] => memory.current() ?? [];
  return { slots, memory, clock, during, slept, stored };
}

async function acquired(slots: PageSlots): Promise<PageSlot> {
  const slot = await slots.acquire({ leaseMs });
  if (slot === undefined) throw new Error('There is no slot');
  return slot;
}

async function refused(slots: PageSlots): Promise<void> {
  expect(await slots.acquire({ leaseMs })).toBeUndefined();
}

const heldSlots = (count: number, expiresAt = startedAt / 1_000 + 600): readonly SlotHolder[] =>
  Array.from({ length: count }, (_, index) => ({ id: `held ${index}`, expiresAt }));

describe('a slot', () => {
  it('that is not returned becomes free a minute after its lease, as clocks may differ', async () => {
    const { slots, clock } = aBench();
    const { grantedAt } = await acquired(slots);
    while (clock.now < grantedAt + leaseMs + 45_000) {
      await refused(slots);
      clock.now += 1_000;
    }
    clock.now = grantedAt + leaseMs + 61_000;
    expect(await slots.acquire({ leaseMs })).toBeDefined();
  });

  it('has its whole lease from the moment when it is free, however long its holder has polled', async () => {
    const { slots, clock, during, stored } = aBench();
    const first = await acquired(slots);
    const calledAt = clock.now;
    during.sleep = () => (clock.now > calledAt + 5_000 ? first.release() : undefined);
    const { grantedAt } = await acquired(slots);
    expect(grantedAt).toBe(clock.now);
    expect(grantedAt).toBeGreaterThan(calledAt + 5_000);
    expect((stored()[0]?.expiresAt ?? 0) * 1_000).toBeGreaterThanOrEqual(grantedAt + leaseMs + 60_000);
  });

  it('has its lease from before the write that takes it, however slow the table is', async () => {
    const { slots, clock, stored } = aBench(1, (store) => ({
      async replace(...write) {
        const written = await store.replace(...write);
        clock.now += 100_000;
        return written;
      },
    }));
    expect((await acquired(slots)).grantedAt).toBe(startedAt);
    expect(stored()[0]?.expiresAt).toBe((startedAt + leaseMs) / 1_000 + 60);
  });

  it('is given as often as the limit allows', async () => {
    const { slots, stored } = aBench(3);
    for (let held = 0; held < 3; held += 1) await acquired(slots);
    await refused(slots);
    expect(stored()).toHaveLength(3);
  });

  it('is given to no export while more are held than a lowered limit allows', async () => {
    const { slots, memory, stored } = aBench(1);
    memory.set(heldSlots(3));
    await refused(slots);
    expect(stored()).toHaveLength(3);
  });

  it('is returned once', async () => {
    const { slots, stored } = aBench(2);
    const [one, other] = [await acquired(slots), await acquired(slots)];
    expect(new Set(stored().map(({ id }) => id)).size).toBe(2);
    await one.release();
    await one.release();
    expect(stored()).toHaveLength(1);
    await other.release();
    expect(stored()).toHaveLength(0);
  });
});

describe('an export without a slot', () => {
  it.each([
    { lease: leaseMs, polledMs: 10_000 },
    { lease: 8_000, polledMs: 2_000 },
  ])('polls for up to ten seconds, or for a quarter of its lease: $lease ms', async ({ lease, polledMs }) => {
    const { slots, clock } = aBench();
    await acquired(slots);
    expect(await slots.acquire({ leaseMs: lease })).toBeUndefined();
    expect(clock.now - startedAt).toBeGreaterThanOrEqual(polledMs);
    expect(clock.now - startedAt).toBeLessThan(polledMs + 300);
  });

  it('leaves when others have been faster twice', async () => {
    const { slots, memory, during, slept } = aBench();
    memory.set(heldSlots(1));
    during.sleep = () => {
      memory.set([{ id: `held after ${slept.length} sleeps`, expiresAt: startedAt / 1_000 + 600 }]);
    };
    await refused(slots);
    expect(slept).toHaveLength(2);
  });

  it('lets those that poll go first if it has just returned a slot', async () => {
    const { slots, memory, during, slept } = aBench();
    memory.set([]);
    during.sleep = () => (slept.length === 1 ? memory.set(heldSlots(1)) : undefined);
    expect(await slots.acquire({ leaseMs, isRenewal: true })).toBeUndefined();
    expect(slept.length).toBeGreaterThan(1);
  });

  it('stops polling when its invocation ends', async () => {
    const { slots, during } = aBench();
    await acquired(slots);
    const invocation = new AbortController();
    const reason = new Error('the time of the invocation is up');
    during.sleep = (signal) => {
      // Otherwise the sleep would continue.
      expect(signal).toBe(invocation.signal);
      invocation.abort(reason);
    };
    await expect(slots.acquire({ leaseMs, signal: invocation.signal })).rejects.toBe(reason);
  });

  it('takes none after its invocation has ended', async () => {
    const { slots, stored } = aBench();
    const reason = new Error('the time of the invocation is up');
    await expect(slots.acquire({ leaseMs, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(stored()).toEqual([]);
  });
});

describe('if the record changes between read and write', () => {
  it('a call tries again, and leaves after ten seconds', async () => {
    const { slots, clock } = aBench(1, () => ({ replace: async () => undefined }));
    await refused(slots);
    expect(clock.now - startedAt).toBeLessThan(10_500);
  });

  it('a slot is returned nevertheless', async () => {
    let conflicts = 0;
    const { slots, stored } = aBench(1, (store) => ({
      async replace(read, content) {
        if (content.holders.length === 0 && conflicts < 50) {
          conflicts += 1;
          return undefined;
        }
        return await store.replace(read, content);
      },
    }));
    await (await acquired(slots)).release();
    expect(stored()).toEqual([]);
    expect(conflicts).toBe(50);
  });

  it('a slot that can never be returned is left to its lease', async () => {
    const { slots, stored, slept } = aBench(1, (store) => ({
      replace: async (read, content) => (content.holders.length > 0 ? await store.replace(read, content) : undefined),
    }));
    await (await acquired(slots)).release();
    expect(stored()).toHaveLength(1);
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(10_000);
  });
});

describe('a write that took effect, although it was reported as refused', () => {
  /** The first write is followed by that of another export, before its response arrives. */
  const withSuccessor = (store: Store, isReported: () => void = () => {}): Partial<Store> => {
    let isFirst = true;
    return {
      async replace(read, content) {
        const written = await store.replace(read, content);
        if (!isFirst || written === undefined) return written;
        isFirst = false;
        await store.replace(await store.read(), content);
        isReported();
        return undefined;
      },
    };
  };

  it('gives the slot that it took', async () => {
    const { slots, stored } = aBench(2, withSuccessor);
    const slot = await acquired(slots);
    expect(stored()).toHaveLength(1);
    await slot.release();
    expect(stored()).toEqual([]);
  });

  it('leaves no slot in use if the invocation ends before it knows', async () => {
    const { slots, stored, during } = aBench(2, withSuccessor);
    const invocation = new AbortController();
    const reason = new Error('the time of the invocation is up');
    during.sleep = () => invocation.abort(reason);
    await expect(slots.acquire({ leaseMs, signal: invocation.signal })).rejects.toBe(reason);
    expect(stored()).toEqual([]);
  });

  it('leaves no slot in use if it was the last attempt', async () => {
    const clock = { advance: () => {} };
    const bench = aBench(1, (store) => withSuccessor(store, () => clock.advance()));
    // The response arrives once the time to poll is over.
    clock.advance = () => (bench.clock.now += 10_000);
    await refused(bench.slots);
    expect(bench.stored()).toEqual([]);
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
      await expect(slots.acquire({ leaseMs })).rejects.toBe(outage);
    }
  });

  it('a slot whose write took effect is returned, as nothing holds it', async () => {
    let isLost = false;
    const { slots, stored } = aBench(1, (store) => ({
      async replace(...write) {
        const written = await store.replace(...write);
        if (isLost) return written;
        isLost = true;
        throw outage;
      },
    }));
    await expect(slots.acquire({ leaseMs })).rejects.toBe(outage);
    expect(stored()).toEqual([]);
    await acquired(slots);
  });

  it('release resolves all the same, and the lease ends by itself', async () => {
    for (const failing of ['read', 'replace'] as const) {
      let isFailing = false;
      const { slots, clock } = aBench(1, (store) => ({
        [failing]: async (...write: Parameters<Store['replace']>) => {
          if (isFailing) throw outage;
          return await store[failing](...write);
        },
      }));
      const slot = await acquired(slots);
      isFailing = true;
      await slot.release();
      isFailing = false;
      clock.now = slot.grantedAt + leaseMs + 61_000;
      expect(await slots.acquire({ leaseMs })).toBeDefined();
    }
  });
});

describe('a record that was edited or deleted', () => {
  const now = startedAt / 1_000;
  it.each<[string, readonly SlotHolder[]]>([
    ['slots that are held for years', [{ id: 'x', expiresAt: now + 100_000_000 }]],
    ['slots that were held long ago', [{ id: 'x', expiresAt: 0 }]],
  ])('with %s blocks no export', async (_, holders) => {
    const { slots, memory, stored } = aBench();
    memory.set(holders);
    await (await acquired(slots)).release();
    expect(stored()).toEqual([]);
  });

  it('takes slots from their holders, whose releases change nothing', async () => {
    const { slots, memory, stored } = aBench();
    const slot = await acquired(slots);
    memory.set(undefined);
    await slot.release();
    expect(memory.current()).toBeUndefined();
    await acquired(slots);
    await slot.release();
    expect(stored()).toHaveLength(1);
  });
});

it('a hundred exports that share two slots use them for most of the time', async () => {
  const timeline = createTimeline(startedAt);
  const rng = createRng('a hundred exports', 'slots');
  const memory = createMemorySlotStore();
  const store: Store = {
    async read() {
      await timeline.sleep(rng.between(2, 8));
      return await memory.read();
    },
    async replace(...write) {
      await timeline.sleep(rng.between(2, 8));
      return await memory.replace(...write);
    },
  };
  const randomHex = (length: number) => Array.from({ length }, () => rng.integerBelow(16).toString(16)).join('');
  const now = () => timeline.now();
  const runtime = { now, monotonicNow: now, sleep: async (ms: number) => await timeline.sleep(ms), randomHex };
  const held = { now: 0, most: 0 };
  const finishedAt: number[] = [];
  const exportPages = async () => {
    for (let page = 1; page <= 5;) {
      const slot = await createPageSlots({ record: store, limit: 2, runtime }).acquire({ leaseMs });
      if (slot === undefined) {
        await timeline.sleep(rng.between(10_000, 30_000));
        continue;
      }
      held.now += 1;
      held.most = Math.max(held.most, held.now);
      await timeline.sleep(1_000);
      held.now -= 1;
      await slot.release();
      page += 1;
    }
    finishedAt.push(timeline.now() - startedAt);
  };
  for (let count = 0; count < 100; count += 1) void exportPages();
  await timeline.run({ until: Number.POSITIVE_INFINITY, stop: () => finishedAt.length === 100 });
  expect(held.most).toBe(2);
  // Five hundred pages of a second, two at a time.
  expect(finishedAt.at(-1)).toBeLessThan(250_000 / 0.7);
});
