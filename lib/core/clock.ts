/** The process's clock, timers and random numbers. Everything else takes a `Runtime`, which tests can replace. */

import { randomBytes } from 'node:crypto';
import type { Runtime } from './ports.ts';

export const systemRuntime: Runtime = {
  now: Date.now,
  monotonicNow: () => performance.now(),
  sleep,
  randomHex: (length) => randomBytes(length).toString('hex').slice(0, length),
};

/** The maximum delay of a timer in Node.js. A longer one would fire immediately. */
const maxTimerMs = 2 ** 31 - 1;

/** Resolves after `ms`, or rejects with the signal's reason when it aborts. Leaves no timer and no listener. */
async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  for (let remaining = ms; ; remaining -= maxTimerMs) {
    await sleepAtMost(Math.min(remaining, maxTimerMs), signal);
    if (remaining <= maxTimerMs) return;
  }
}

function sleepAtMost(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}
