/** A function's own clock, timers and chance. */

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Surroundings } from '../core/ports.ts';

export const lambdaSurroundings: Surroundings = {
  now: Date.now,
  async sleep(ms, signal) {
    try {
      await sleep(ms, undefined, signal === undefined ? {} : { signal });
    } catch (error) {
      // The reason says why, and by its name what is to be done; Node's AbortError says neither.
      signal?.throwIfAborted();
      throw error;
    }
  },
  randomHex: (length) => randomBytes(length).toString('hex').slice(0, length),
};
