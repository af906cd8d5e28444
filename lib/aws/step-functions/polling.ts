/** Observes something in AWS until it ends: at first often, and through temporary failures of AWS's APIs. */

import type { Clock } from '../../core/ports.ts';
import { isThrottling, isTransient } from './retryable.ts';

/** After this many failed polls in a row the error is thrown. Each includes the SDK's own retries; throttled ones do not count. */
const maxFailures = 20;

interface PollOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How long at least to wait between two polls, at the moment. */
  readonly minIntervalMs: () => number;
  /** Called before the error is thrown that ends the polling. */
  readonly onGiveUp: () => void;
}

/** `again`: poll again at once. Undefined: it has not ended. */
export type Poll<Result> = () => Promise<{ readonly result: Result } | 'again' | undefined>;

/** The result of the first poll that has one; undefined if `signal` aborts before. */
export async function pollUntilEnd<Result>(poll: Poll<Result>, options: PollOptions): Promise<Result | undefined> {
  const { clock, signal, minIntervalMs, onGiveUp } = options;
  const startedAt = clock.now();
  /** Failed polls in a row, with and without those that were throttled. */
  let misses = 0;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const polled = await poll();
      misses = 0;
      failures = 0;
      if (polled === 'again') continue;
      if (polled !== undefined) return polled.result;
    } catch (error) {
      misses += 1;
      if (!isThrottling(error)) failures += 1;
      if (!isTransient(error) || failures > maxFailures) {
        onGiveUp();
        throw error;
      }
    }
    await sleepUnlessAborted(clock, pollDelayMs(clock.now() - startedAt, misses, minIntervalMs()), signal);
  }
  return undefined;
}

const maxPollDelayMs = 30_000;

/** Frequent at first, less frequent later, and after failed polls. */
function pollDelayMs(followedMs: number, misses: number, minIntervalMs: number): number {
  const singleMs = followedMs < 60_000 ? 1_000 : followedMs < 600_000 ? 2_000 : 5_000;
  const usualMs = Math.max(singleMs, minIntervalMs);
  return Math.max(usualMs, Math.min(maxPollDelayMs, usualMs * (1 + misses)));
}

async function sleepUnlessAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
