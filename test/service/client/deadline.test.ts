/** One deadline for a whole request, and nothing left of it afterwards. */

import { getEventListeners } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { startDeadline } from '../../../lib/service/client/deadline.ts';
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts';

let clock: VirtualClock;
beforeEach(() => {
  clock = createVirtualClock();
});

describe('a deadline', () => {
  it('ends the request when its time is up', async () => {
    const deadline = startDeadline(1_000, undefined, clock);
    await clock.advance(999);
    expect(deadline.endedBy).toBeUndefined();
    await clock.advance(1);
    expect(deadline.endedBy).toBe('time');
    expect(deadline.signal.aborted).toBe(true);
  });

  it('reports what ended the request first', async () => {
    const caller = new AbortController();
    const deadline = startDeadline(1_000, caller.signal, clock);
    caller.abort();
    await clock.advance(1_000);
    expect(deadline.endedBy).toBe('caller');
  });

  it('leaves neither a timer nor a listener once released', async () => {
    const { signal } = new AbortController();
    const deadline = startDeadline(1_000, signal, clock);
    deadline.release();
    deadline.release();
    expect(clock.sleepers()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('races a promise against its end, and then removes its listener', async () => {
    const deadline = startDeadline(1_000, undefined, clock);
    await expect(deadline.race(Promise.resolve('page'))).resolves.toBe('page');
    await expect(deadline.race(Promise.reject(new Error('no page')))).rejects.toThrow('no page');
    expect(getEventListeners(deadline.signal, 'abort')).toEqual([]);
    const [outcome] = await Promise.allSettled([deadline.race(new Promise(() => {})), clock.advance(1_000)]);
    expect(outcome).toMatchObject({ reason: { message: 'The total time is up' } });
  });
});
