import { describe, expect, it } from 'vitest';
import { mapConcurrently } from '../../lib/core/concurrency.ts';

/** Operations that end when the test says so. */
function someOperations() {
  const begun: number[] = [];
  const ends = new Map<number, PromiseWithResolvers<string>>();
  const settle = async () => {
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  };
  return {
    begun,
    settle,
    operation: (item: number) => {
      begun.push(item);
      const end = Promise.withResolvers<string>();
      ends.set(item, end);
      return end.promise;
    },
    end: async (item: number) => {
      ends.get(item)?.resolve(`result ${item}`);
      await settle();
    },
    fail: async (item: number, error: Error) => {
      ends.get(item)?.reject(error);
      await settle();
    },
  };
}

describe('mapConcurrently', () => {
  it('runs as many operations at the same time as allowed, and returns their results in the order of the items', async () => {
    const { begun, operation, end, settle } = someOperations();
    const results = mapConcurrently([1, 2, 3, 4], 2, operation);
    await settle();
    expect(begun).toEqual([1, 2]);
    await end(2);
    expect(begun).toEqual([1, 2, 3]);
    await end(3);
    await end(4);
    await end(1);
    expect(await results).toEqual(['result 1', 'result 2', 'result 3', 'result 4']);
  });

  it('begins the next operation when one releases its slot, and counts that slot once', async () => {
    const { begun, operation, end, settle } = someOperations();
    const releases: (() => void)[] = [];
    const results = mapConcurrently([1, 2, 3], 1, (item, release) => {
      releases.push(release);
      return operation(item);
    });
    await settle();
    expect(begun).toEqual([1]);
    releases[0]?.();
    releases[0]?.();
    await settle();
    expect(begun).toEqual([1, 2]);
    await end(1);
    expect(begun).toEqual([1, 2]);
    await end(2);
    expect(begun).toEqual([1, 2, 3]);
    await end(3);
    expect(await results).toHaveLength(3);
  });

  it('begins no further operation after an error, which it throws', async () => {
    const { begun, operation, end, fail, settle } = someOperations();
    const results = mapConcurrently([1, 2, 3, 4], 2, operation);
    results.catch(() => {});
    await settle();
    const error = new Error('no');
    await fail(1, error);
    await end(2);
    await expect(results).rejects.toBe(error);
    expect(begun).toEqual([1, 2]);
  });

  it('has nothing to do without items', async () => {
    expect(await mapConcurrently([], 8, () => Promise.reject(new Error('never')))).toEqual([]);
  });
});
