/** A function's own clock, timers and chance. */

import { randomBytes } from 'node:crypto';
import type { Surroundings } from '../core/ports.ts';
import { sleep } from '../core/sleep.ts';

export const lambdaSurroundings: Surroundings = {
  now: Date.now,
  sleep,
  randomHex: (length) => randomBytes(length).toString('hex').slice(0, length),
};
