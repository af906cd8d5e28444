/** One clock over the whole of a request, and nothing left of it afterwards. */

import { getEventListeners } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { startDeadline } from '../../../lib/report-service/client/deadline.ts';
import { aVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts';

let clock: VirtualClock;
beforeEach(() => {
  clock = aVirtualClock();
});

describe('a deadline', () => {
  it('ends the request when its time is up, and says so', async () => {
    const deadline = startDeadline(1_000, undefined, clock);
    await clock.pass(999);
    expect(deadline.endedBy).toBeUndefined();
    await clock.pass(1);
    expect(deadline.endedBy).toBe('time');
    expect(deadline.signal.aborted).toBe(true);
  });

  it('remembers what came first', async () => {
    const caller = new AbortController();
    const deadline = startDeadline(1_000, caller.signal, clock);
    caller.abort();
    await clock.pass(1_000);
    expect(deadline.endedBy).toBe('caller');
  });

  it('released, leaves neither timer nor listener behind', async () => {
    const { signal } = new AbortController();
    const deadline = startDeadline(1_000, signal, clock);
    deadline.release();
    deadline.release();
    expect(clock.sleepers()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('longer than a timer can be is a long one, not none', async () => {
    const deadline = startDeadline(2 ** 40, undefined, clock);
    await clock.pass(1_000_000);
    expect(deadline.endedBy).toBeUndefined();
    deadline.release();
  });

  it('lets a race go to whoever is first, and then listens no more', async () => {
    const deadline = startDeadline(1_000, undefined, clock);
    await expect(deadline.race(Promise.resolve('page'))).resolves.toBe('page');
    await expect(deadline.race(Promise.reject(new Error('no page')))).rejects.toThrow('no page');
    expect(getEventListeners(deadline.signal, 'abort')).toEqual([]);
    const [outcome] = await Promise.allSettled([deadline.race(new Promise(() => {})), clock.pass(1_000)]);
    expect(outcome).toMatchObject({ reason: { message: 'The total time is up' } });
  });
});
