/** Many exports that share the slots of a service, in virtual time, with faults: the limit holds, and every export advances. */

import { describe, expect, it } from 'vitest';
import type { SlotState } from '../../../lib/core/slots/page-slots.ts';
import {
  mostSlotsHeld,
  type SimulatedExport,
  type SlotFaults,
  type SlotHistory,
  simulateSlots,
  simulationStart,
} from '../../support/export/slot-simulation.ts';
import type { MemorySlotStore } from '../../support/export/memory-adapters.ts';
import { cases, fc, test } from '../../support/property.ts';
import type { Rng } from '../../simulation/world/rng.ts';

/** How long a slot is held, for a mean in milliseconds. */
const distributions = {
  constant: (mean: number) => () => mean,
  exponential: (mean: number) => (rng: Rng) => -Math.log(1 - rng.next()) * mean,
  'mostly short, sometimes long': (mean: number) => (rng: Rng) => (rng.chance(0.1) ? 5 * mean : mean / 2),
} as const;

const seed = fc.integer({ min: 0 }).map(String);
const limit = fc.integer({ min: 1, max: 10 });
const holdMs = fc
  .record({
    distribution: fc.constantFrom(...(Object.keys(distributions) as (keyof typeof distributions)[])),
    mean: fc.constantFrom(20, 200, 1_000, 5_000, 20_000),
  })
  .map(({ distribution, mean }) =>
    Object.assign(distributions[distribution](mean), { toString: () => `${distribution}, ${mean} ms` }),
  );

const exportsWith = (count: number, each: Pick<SimulatedExport, 'pages' | 'holdMs'>, withinMs = 0): SimulatedExport[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `export-${index}`,
    startAfterMs: (withinMs * index) / count,
    ...each,
  }));

const someExports = fc
  .record({
    count: fc.integer({ min: 1, max: 100 }),
    pages: fc.integer({ min: 1, max: 4 }),
    withinMs: fc.constantFrom(0, 1_000, 60_000),
    holdMs,
  })
  .map(({ count, pages, withinMs, holdMs: each }) => exportsWith(count, { pages, holdMs: each }, withinMs));

const chance = (most: number) => fc.oneof(fc.constant(0), fc.double({ min: 0, max: most, noNaN: true }));
const faults: fc.Arbitrary<SlotFaults> = fc.record({
  conflict: chance(0.5),
  lostResponse: chance(0.05),
  replacedWrite: chance(0.2),
  storeError: chance(0.05),
  crash: chance(0.05),
  vanish: chance(0.05),
  late: chance(0.05),
  duplicate: chance(0.1),
  maxClockOffsetMs: fc.constantFrom(0, 1_000, 25_000),
});

function expectAllFinished({ finishedAt, vanished }: SlotHistory, exports: readonly SimulatedExport[]): void {
  const missing = exports.filter(({ name }) => !finishedAt.has(name) && !vanished.has(name));
  expect(missing.map(({ name }) => name)).toEqual([]);
}

const options = { numRuns: cases(60) };

describe('with conflicts, errors, lost responses, crashes, late and stopped waiters, and wrong clocks', () => {
  test.prop([seed, limit, someExports, faults], options)(
    'never more slots are held than the limit allows, and every export gets all that it needs',
    async (...[theSeed, theLimit, exports, theFaults]) => {
      const history = await simulateSlots({ seed: theSeed, limit: theLimit, exports, faults: theFaults });
      expect(mostSlotsHeld(history)).toBeLessThanOrEqual(theLimit);
      expectAllFinished(history, exports);
      // The record stays small.
      expect(history.endState?.holders.length).toBeLessThanOrEqual(theLimit);
    },
    600_000,
  );
});

describe('if the record is damaged or deleted', () => {
  const damagedStates: fc.Arbitrary<SlotState | undefined> = fc.option(
    fc.record({
      version: fc.integer({ min: 1, max: 1_000_000 }),
      holders: fc.array(fc.record({ id: fc.string(), expiresAt: fc.oneof(aroundNow(), fc.maxSafeInteger()) }), {
        maxLength: 20,
      }),
    }),
    { nil: undefined },
  );
  function aroundNow() {
    const now = simulationStart / 1_000;
    return fc.integer({ min: now - 1_000, max: now + 5_000 });
  }
  const leaseMs = 120_000;

  test.prop([seed, limit, someExports, damagedStates, fc.nat(30_000)], options)(
    'every export gets what it needs, and the limit holds again after one lease',
    async (...[theSeed, theLimit, exports, damaged, afterMs]) => {
      const intervene = { afterMs, act: (store: MemorySlotStore) => store.set(damaged) };
      const history = await simulateSlots({ seed: theSeed, limit: theLimit, exports, leaseMs, intervene });
      expectAllFinished(history, exports);
      expect(mostSlotsHeld(history, simulationStart + afterMs + leaseMs)).toBeLessThanOrEqual(theLimit);
    },
    600_000,
  );
});

describe('a hundred exports of ten pages of a second, due in the same moment, with two slots', () => {
  it('use the slots for most of the time', async () => {
    const exports = exportsWith(100, { pages: 10, holdMs: distributions.constant(1_000) });
    const history = await simulateSlots({ seed: 'a hundred exports', limit: 2, exports });
    const { grants, counts, finishedAt } = history;
    expectAllFinished(history, exports);
    expect(grants).toHaveLength(1_000);
    const heldMs = grants.reduce((sum, { at, until }) => sum + until - at, 0);
    expect(heldMs / (2 * Math.max(...finishedAt.values()))).toBeGreaterThan(0.9);
    // Per page.
    expect(counts.acquires / 1_000).toBeLessThan(4);
    expect(counts.reads / 1_000).toBeLessThan(25);
    expect(counts.writes / 1_000).toBeLessThan(5);
    // Chance decides who waits. On average, an export waits for the 98 pages of the others.
    expect(history.longestWaitMs).toBeLessThan(600_000);
  });
});
