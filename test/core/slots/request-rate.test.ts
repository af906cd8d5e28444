/** The rate of a service: many processes, whose clocks differ, and what one of them does. */

import { describe, expect, it } from 'vitest';
import type { RequestRate, Runtime, SharedRecord } from '../../../lib/core/ports.ts';
import { NotYet } from '../../../lib/core/slots/held-slot.ts';
import { atRate, createRequestRate, type RateLimit, type RateRecord } from '../../../lib/core/slots/request-rate.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { ExportError } from '../../../lib/core/errors.ts';
import { createRng, type Rng } from '../../simulation/world/rng.ts';
import { createTimeline, type Timeline } from '../../simulation/world/virtual-time.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { cases, fc } from '../../support/property.ts';

const startedAt = Date.UTC(2026, 10, 20, 2);

/** A clock that is `skewMs` ahead. */
const clockOf = (timeline: Timeline, rng: Rng, skewMs = 0): Runtime => ({
  now: () => timeline.now() + skewMs,
  monotonicNow: () => timeline.now(),
  sleep: (ms) => timeline.sleep(ms),
  randomHex: (length) => Array.from({ length }, () => rng.integerBelow(16).toString(16)).join(''),
});

const slowly = <Content>(
  record: SharedRecord<Content>,
  timeline: Timeline,
  delayMs: () => number,
): SharedRecord<Content> => ({
  async read() {
    await timeline.sleep(delayMs());
    return await record.read();
  },
  async replace(...write) {
    await timeline.sleep(delayMs());
    return await record.replace(...write);
  },
});

interface Crowd {
  readonly limit: RateLimit;
  readonly processes: number;
  readonly chains: number;
  /** How much the clocks differ at most, as a fraction of the period. */
  readonly skew: number;
  readonly seed: number;
}

/** When requests were sent, over three periods and more, by processes that always have another one. */
async function sendRequests({ limit, processes, chains, skew, seed }: Crowd): Promise<readonly number[]> {
  const timeline = createTimeline(startedAt);
  const rng = createRng(String(seed), 'rate');
  const memory = createMemoryRecord<RateRecord>();
  const sentAt: number[] = [];
  const end = startedAt + 3 * limit.perMs;
  const send = async (rate: RequestRate) => {
    while (timeline.now() < end) {
      try {
        await rate.take();
        sentAt.push(timeline.now());
        await timeline.sleep(rng.between(1, limit.perMs / 100));
      } catch (error) {
        if (!(error instanceof NotYet)) throw error;
        await timeline.sleep(((error.seconds ?? 0) + rng.between(0, 2)) * 1_000);
      }
    }
  };
  for (let process = 0; process < processes; process += 1) {
    const runtime = clockOf(timeline, rng, rng.between(-skew / 2, skew / 2) * limit.perMs);
    const record = slowly(memory, timeline, () => rng.between(1, 5));
    const rate = createRequestRate({ record, limit, runtime });
    for (let chain = 0; chain < chains; chain += 1) void send(rate);
  }
  await timeline.run({ until: end });
  return sentAt.toSorted((one, other) => one - other);
}

/** The most requests in any period. */
function mostIn(sentAt: readonly number[], perMs: number): number {
  let from = 0;
  return sentAt.reduce((most, at, to) => {
    while (at - (sentAt[from] ?? at) >= perMs) from += 1;
    return Math.max(most, to - from + 1);
  }, 0);
}

const crowds = fc.record({
  limit: fc
    .record({
      requests: fc.integer({ min: 1, max: 60 }),
      perMs: fc.constantFrom(1_000, 10_000, 60_000, 3_600_000),
      burst: fc.integer({ min: 1, max: 10 }),
    })
    .map((limit) => ({ ...limit, burst: Math.min(limit.burst, limit.requests) })),
  processes: fc.integer({ min: 1, max: 8 }),
  chains: fc.integer({ min: 1, max: 4 }),
  skew: fc.constantFrom(0, 0.005, 0.01),
  seed: fc.nat(),
});

describe('the rate of a service', () => {
  it('is never exceeded in any period, by any number of processes with clocks that differ', async () => {
    const property = fc.asyncProperty(crowds, async (crowd) => {
      const sentAt = await sendRequests(crowd);
      expect(mostIn(sentAt, crowd.limit.perMs)).toBeLessThanOrEqual(crowd.limit.requests);
    });
    await fc.assert(property, { numRuns: cases(200) });
  });

  it('is used to at least 97 % by eight processes', async () => {
    const limit = { requests: 600, perMs: 60_000, burst: 1 };
    const sentAt = await sendRequests({ limit, processes: 8, chains: 2, skew: 0.01, seed: 1 });
    expect(sentAt.length / (3 * limit.requests)).toBeGreaterThanOrEqual(0.97);
  });
});

/** One process, whose sleeps advance the clock. */
function aProcess(limit: RateLimit, record = createMemoryRecord<RateRecord>()) {
  const clock = { now: startedAt };
  const slept: number[] = [];
  const runtime: Runtime = {
    now: () => clock.now,
    monotonicNow: () => clock.now,
    async sleep(ms) {
      slept.push(ms);
      clock.now += ms;
    },
    randomHex: (length) => '0'.repeat(length),
  };
  return { clock, slept, record, rate: createRequestRate({ record, limit, runtime }) };
}

const minutely = { requests: 6, perMs: 60_000, burst: 1 };

describe('a request', () => {
  it('is sent at once while the burst lasts, and then at even distances', async () => {
    const { rate, clock } = aProcess({ ...minutely, burst: 3 });
    const sentAt = [];
    for (let count = 0; count < 5; count += 1) {
      await rate.take();
      sentAt.push(Math.round((clock.now - startedAt) / 1_000));
    }
    expect(sentAt).toEqual([0, 0, 0, 15, 31]);
  });

  it('takes no place that it cannot wait for, and learns when to come back', async () => {
    const { rate, clock, record } = aProcess(minutely);
    await rate.take();
    const before = await record.read();
    const refusal = await rate.take({ waitUntil: clock.now + 4_000 }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ seconds: expect.closeTo(6.2, 1) });
    expect(await record.read()).toEqual(before);
  });

  it('takes a free place although no time is left to wait', async () => {
    const { rate, clock } = aProcess(minutely);
    await rate.take({ waitUntil: clock.now - 1_000 });
    await expect(rate.take({ waitUntil: clock.now - 1_000 })).rejects.toBeInstanceOf(NotYet);
  });

  it('waits for a place in an hour in the execution, not in the function', async () => {
    const { rate } = aProcess({ requests: 1, perMs: 3_600_000, burst: 1 });
    await rate.take();
    await expect(rate.take()).rejects.toBeInstanceOf(NotYet);
  });

  it('that came too late for its place takes another one', async () => {
    const memory = createMemoryRecord<RateRecord>();
    const { rate, clock } = aProcess(minutely, {
      read: () => memory.read(),
      async replace(...write) {
        // As if the function had been suspended.
        clock.now += clock.now < startedAt + 5_000 ? 5_000 : 0;
        return await memory.replace(...write);
      },
    });
    await rate.take();
    const { content } = await memory.read();
    expect((content?.usedUntil ?? 0) - clock.now).toBeLessThanOrEqual(10_200);
    expect(clock.now).toBeGreaterThan(startedAt + 10_000);
  });

  it('that came too late delays those after it for a while only', async () => {
    const memory = createMemoryRecord<RateRecord>();
    let suspendedMs = 2_000;
    const { rate, clock } = aProcess(
      { requests: 60_000, perMs: 60_000, burst: 1 },
      {
        read: () => memory.read(),
        async replace(...write) {
          clock.now += suspendedMs;
          suspendedMs = 0;
          return await memory.replace(...write);
        },
      },
    );
    const waits = [];
    for (let count = 0; count < 200; count += 1) {
      const from = clock.now;
      await rate.take();
      waits.push(clock.now - from);
    }
    expect(waits[1]).toBeGreaterThan(900);
    expect(waits.at(-1)).toBeLessThan(10);
  });

  it('does not wait for what a wrong clock has written', async () => {
    const { rate, slept, record } = aProcess(minutely);
    const tomorrow = startedAt + 86_400_000;
    await record.replace(await record.read(), { usedUntil: tomorrow, notBefore: tomorrow });
    await rate.take();
    expect(slept).toEqual([]);
  });
});

describe('a Retry-After', () => {
  const minute = { requests: 60, perMs: 60_000, burst: 1 };

  it('holds back the requests of other processes, for at most five minutes', async () => {
    const { rate, record } = aProcess(minute);
    const other = aProcess(minute, record);
    await rate.holdBack(30);
    // A shorter one does not end it.
    await aProcess(minute, record).rate.holdBack(5);
    await other.rate.take();
    expect(other.clock.now - startedAt).toBe(30_000);
    await rate.holdBack(3_600);
    await expect(aProcess(minute, record).rate.take()).rejects.toMatchObject({ seconds: 240 });
  });

  it('holds back a request that has its place already', async () => {
    const memory = createMemoryRecord<RateRecord>();
    const { rate, clock } = aProcess(minutely, memory);
    await rate.take();
    const other = aProcess(minutely, {
      replace: (...write) => memory.replace(...write),
      async read() {
        const read = await memory.read();
        // After the request has taken its place, another process receives the Retry-After.
        if (other.slept.length === 1 && read.content?.notBefore === 0) {
          clock.now = other.clock.now;
          await rate.holdBack(30);
        }
        return await memory.read();
      },
    });
    await other.rate.take();
    expect(other.clock.now - startedAt).toBeGreaterThanOrEqual(40_000);
  });

  it('that a request receives is shared, and its error is rethrown although it cannot be', async () => {
    const shared: number[] = [];
    const rate: RequestRate = {
      take: async () => {},
      async holdBack(seconds) {
        shared.push(seconds);
        throw new Error('the table is not available');
      },
    };
    const throttled = new ExportError('ServiceThrottledError', 'wait', { retryAfterSeconds: 7 });
    const fetch = atRate(async () => Promise.reject(throttled), rate);
    await expect(fetch({} as never, {} as never)).rejects.toBe(throttled);
    expect(shared).toEqual([7]);
  });
});

describe('a run', () => {
  it('waits in its execution for places that its function cannot wait for, however many follow each other', async () => {
    const bench = anExportBench({ size: 1, limits: { maxConsecutiveWaits: 1 } });
    const limit = { requests: 2, perMs: 3_600_000, burst: 1 };
    const rate = createRequestRate({ record: createMemoryRecord(), limit, runtime: bench.deps.runtime });
    Object.assign(bench.deps, { rate });
    const before = bench.deps.runtime.now();
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 5 } });
    const hours = (bench.deps.runtime.now() - before) / 3_600_000;
    expect(hours).toBeGreaterThanOrEqual(4 * 0.51);
    expect(hours).toBeLessThan(4 * 0.51 + 0.05);
    expect(bench.events.map(({ event }) => event)).toContain('waiting-for-turn');
  });
});
