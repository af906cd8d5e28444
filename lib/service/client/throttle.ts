/** Holds back the requests of a client while a Retry-After lasts, which is a minimum for all of them. */

import type { Clock } from '../../core/ports.ts';
import { type ErrorContext, failure } from './errors.ts';

/** A shorter rest is waited out: timers are no more exact than that. */
const maxRestMs = 1_000;

export function createThrottle({ now, monotonicNow, sleep }: Clock) {
  let openAt: { readonly wall: number; readonly monotonic: number } | undefined;
  // The wall clock may be set, and the monotonic one rests while a function is frozen: the first of them counts.
  const restMs = () => (openAt === undefined ? 0 : Math.min(openAt.wall - now(), openAt.monotonic - monotonicNow()));
  return {
    /** No request is sent for so long. */
    close(seconds: number): void {
      const ms = seconds * 1_000;
      if (ms > restMs()) openAt = { wall: now() + ms, monotonic: monotonicNow() + ms };
    },
    /** Returns once requests may be sent. @throws ServiceThrottledError if that takes longer than a moment */
    async pass(context: ErrorContext, signal: AbortSignal | undefined): Promise<void> {
      const rest = restMs();
      if (rest <= 0) return;
      if (rest <= maxRestMs) return await sleep(rest, signal);
      const seconds = Math.ceil(rest / 1_000);
      const message = `${context.server.name} has asked to wait for another ${seconds} s, so ${context.label} was not requested yet`;
      throw failure(context, 'ServiceThrottledError', message, { retryAfterSeconds: seconds });
    },
  };
}
