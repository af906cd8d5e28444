import { describe, expect, it } from 'vitest';
import { runHistory } from './histories/history.ts';
import { shrink } from './histories/shrink.ts';
import { faultName } from './world/world.ts';

const seeds = (count: number, first = 1) => Array.from({ length: count }, (_, index) => String(first + index));

describe('a simulated history', () => {
  it('has only the faults that are allowed', async () => {
    const { injectedFaults } = await runHistory({ seed: '7', pages: 4 });
    const names = injectedFaults.map(faultName);
    expect(names.length).toBeGreaterThan(3);
    const withoutFaults = await runHistory({ seed: '7', pages: 4, allowedFaults: new Set() });
    expect(withoutFaults.injectedFaults).toEqual([]);
    expect(withoutFaults.violation).toBeUndefined();
    const [first = ''] = names;
    const withOneFault = await runHistory({ seed: '7', pages: 4, allowedFaults: new Set([first]) });
    expect(withOneFault.injectedFaults.map(faultName)).toEqual([first]);
  });

  it.each(seeds(2, 1_001))('violates no invariant (seed %s)', async (seed) => {
    const { violation, stats } = await runHistory({ seed, pages: 4 });
    expect(violation).toBeUndefined();
    expect(stats.runsPublished).toBeGreaterThan(0);
  });
});

describe('a history with slices', () => {
  it('publishes sliced and bounded runs, and violates no invariant', async () => {
    const { violation, stats } = await runHistory({ seed: '2', pages: 4 });
    expect(violation).toBeUndefined();
    expect(stats.slicedRunsPublished).toBeGreaterThan(0);
    expect(stats.boundedRunsPublished).toBeGreaterThan(0);
    expect(stats.runsPublished).toBeGreaterThan(stats.boundedRunsPublished);
  });
});

describe('a history of days', () => {
  it.each(seeds(2))('exports what its settings and its operators ask for (seed %s)', async (seed) => {
    const { violation, stats } = await runHistory({ seed, pages: 4, days: true });
    expect(violation).toBeUndefined();
    expect(stats.runsPublished).toBeGreaterThan(5);
  });
});

describe('shrinking', () => {
  it('leaves a history without a violation as it is', async () => {
    const plan = { seed: '7', pages: 2 };
    const { history } = await shrink(plan, await runHistory(plan));
    expect(history.violation).toBeUndefined();
  });
});
