/** One clock over the whole of a request, and nothing left of it afterwards. */

import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startDeadline } from '../../lib/report-service/deadline.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a deadline', () => {
  it('ends the request when its time is up, and says so', () => {
    const deadline = startDeadline(1_000, undefined);
    vi.advanceTimersByTime(999);
    expect(deadline.endedBy).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(deadline.endedBy).toBe('time');
    expect(deadline.signal.aborted).toBe(true);
  });

  it('remembers what came first', () => {
    const caller = new AbortController();
    const deadline = startDeadline(1_000, caller.signal);
    caller.abort();
    vi.advanceTimersByTime(1_000);
    expect(deadline.endedBy).toBe('caller');
  });

  it('released, leaves neither timer nor listener behind', () => {
    const { signal } = new AbortController();
    const deadline = startDeadline(1_000, signal);
    deadline.release();
    deadline.release();
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('longer than a timer can be is a long one, not none', () => {
    const deadline = startDeadline(2 ** 40, undefined);
    vi.advanceTimersByTime(1_000_000);
    expect(deadline.endedBy).toBeUndefined();
    deadline.release();
  });

  it('lets a race go to whoever is first, and then listens no more', async () => {
    const deadline = startDeadline(1_000, undefined);
    await expect(deadline.race(Promise.resolve('page'))).resolves.toBe('page');
    await expect(deadline.race(Promise.reject(new Error('no page')))).rejects.toThrow('no page');
    expect(getEventListeners(deadline.signal, 'abort')).toEqual([]);
    const [outcome] = await Promise.allSettled([
      deadline.race(new Promise(() => {})),
      Promise.try(() => vi.advanceTimersByTime(1_000)),
    ]);
    expect(outcome).toMatchObject({ reason: { message: 'the total time is up' } });
  });
});
