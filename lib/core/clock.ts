/** Waiting that is cheap to give up: every request has a deadline, and nearly all of them are over before it. */

import { randomBytes } from 'node:crypto';
import type { Runtime } from './ports.ts';

/** Resolves after `ms`, or rejects with the signal's own reason as soon as it aborts. */
function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const giveUp = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', giveUp);
      resolve();
    }, ms);
    signal?.addEventListener('abort', giveUp, { once: true });
  });
}

/** The process's own clock, timers and random numbers. */
export const systemRuntime: Runtime = {
  now: Date.now,
  sleep,
  randomHex: (length) => randomBytes(length).toString('hex').slice(0, length),
};
