/** A clock that only advances when a test advances it. */

import type { Clock } from '../../lib/core/ports.ts';

export interface VirtualClock extends Clock {
  /** Advances the time, ends the sleeps that are due, and lets their continuations run. */
  advance(ms: number): Promise<void>;
  /** The number of pending sleeps. */
  sleepers(): number;
}

export function createVirtualClock(): VirtualClock {
  let now = 0;
  const sleepers = new Set<{ readonly due: number; wake(): void }>();
  return {
    now: () => now,
    monotonicNow: () => now,
    sleep(ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper = { due: now + ms, wake: resolve };
      sleepers.add(sleeper);
      signal?.addEventListener('abort', () => {
        sleepers.delete(sleeper);
        reject(signal.reason);
      });
      return promise;
    },
    async advance(ms) {
      now += ms;
      for (const sleeper of sleepers) {
        if (sleeper.due > now) continue;
        sleepers.delete(sleeper);
        sleeper.wake();
      }
      await new Promise(setImmediate);
    },
    sleepers: () => sleepers.size,
  };
}
