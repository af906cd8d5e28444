/** A function's own clock, timers and chance. */

import { randomBytes } from 'node:crypto';
import { sleep } from '../../core/clock.ts';
import type { Surroundings } from '../../core/ports.ts';

export const lambdaSurroundings: Surroundings = {
  now: Date.now,
  sleep,
  randomHex: (length) => randomBytes(length).toString('hex').slice(0, length),
};
