import { describe, expect, it } from 'vitest';
import { mapConcurrently, sharedRuns } from '../../lib/core/concurrency.ts';

const aMoment = () => new Promise((resolve) => setTimeout(resolve, 1));

describe('mapConcurrently', () => {
  it('runs as many operations at the same time as allowed, and returns their results in the order of the items', async () => {
    const running = { now: 0, most: 0 };
    const results = await mapConcurrently([4, 3, 2, 1], 2, async (item) => {
      running.now += 1;
      running.most = Math.max(running.most, running.now);
      for (let turn = 0; turn < item; turn += 1) await aMoment();
      running.now -= 1;
      return `result ${item}`;
    });
    expect(running.most).toBe(2);
    expect(results).toEqual(['result 4', 'result 3', 'result 2', 'result 1']);
  });

  it('begins the next operation when one releases its slot, and counts that slot once', async () => {
    const begun: number[] = [];
    const hasSecondEnded = Promise.withResolvers<readonly number[]>();
    const results = await mapConcurrently([1, 2, 3], 1, async (item, release) => {
      begun.push(item);
      if (item === 1) {
        release();
        release();
        return await hasSecondEnded.promise;
      }
      await aMoment();
      if (item === 2) hasSecondEnded.resolve([...begun]);
      return [];
    });
    expect(results).toEqual([[1, 2], [], []]);
  });

  it('begins no further operation after an error, which it throws', async () => {
    const begun: number[] = [];
    const error = new Error('no');
    const results = mapConcurrently([1, 2, 3, 4], 2, async (item) => {
      begun.push(item);
      if (item === 1) throw error;
      await aMoment();
    });
    await expect(results).rejects.toBe(error);
    await aMoment();
    expect(begun).toEqual([1, 2]);
  });

  it('has nothing to do without items', async () => {
    expect(await mapConcurrently([], 8, () => Promise.reject(new Error('never')))).toEqual([]);
  });
});

describe('sharedRuns', () => {
  function anOperation() {
    const runs: PromiseWithResolvers<void>[] = [];
    const call = sharedRuns(() => {
      const run = Promise.withResolvers<void>();
      runs.push(run);
      return run.promise;
    });
    return { call, runs };
  }

  it('answers each call by a run that begins after it, and the calls during a run by one', async () => {
    const { call, runs } = anOperation();
    const ended: string[] = [];
    const callAs = async (name: string) => void (await call().then(() => ended.push(name)));
    const calls = [callAs('first'), callAs('second'), callAs('third')];
    expect(runs).toHaveLength(1);
    runs[0]?.resolve();
    await aMoment();
    expect(ended).toEqual(['first']);
    expect(runs).toHaveLength(2);
    calls.push(callAs('fourth'));
    runs[1]?.resolve();
    await aMoment();
    expect(ended).toEqual(['first', 'second', 'third']);
    runs[2]?.resolve();
    await Promise.all(calls);
    void callAs('fifth');
    expect(runs).toHaveLength(4);
  });

  it('rejects the calls that share a run that fails, and no others', async () => {
    const { call, runs } = anOperation();
    const calls = Promise.allSettled([call(), call(), call()]);
    runs[0]?.reject(new Error('the first run failed'));
    await aMoment();
    const later = call();
    runs[1]?.resolve();
    await aMoment();
    runs[2]?.resolve();
    expect((await calls).map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    await later;
  });
});
