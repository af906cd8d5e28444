/** A clock that stands still until a test moves it. */

import type { Clock } from '../../lib/core/ports.ts';

export interface VirtualClock extends Clock {
  /** Moves on, wakes whoever slept until then, and lets them act. */
  pass(ms: number): Promise<void>;
  /** How many sleep. */
  sleepers(): number;
}

/** The longest that a timer of Node's can run. */
const maxTimerMs = 2 ** 31 - 1;

export function aVirtualClock(): VirtualClock {
  let now = 0;
  const sleepers = new Set<{ readonly due: number; wake(): void }>();
  return {
    now: () => now,
    sleep(ms, signal) {
      if (ms > maxTimerMs) throw new RangeError(`no timer runs for ${ms} ms`);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper = { due: now + ms, wake: resolve };
      sleepers.add(sleeper);
      signal?.addEventListener('abort', () => {
        sleepers.delete(sleeper);
        reject(signal.reason);
      });
      return promise;
    },
    async pass(ms) {
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
