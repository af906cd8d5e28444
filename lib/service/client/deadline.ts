/**
 * Ends a request when its total time is up or its caller aborts, whichever comes first. Each of undici's timeouts covers
 * one phase only, so a body that trickles in steadily would never time out.
 */

import type { Clock } from '../../core/ports.ts';
import type { ServiceSettings } from '../../settings/settings.ts';

/** In milliseconds. */
export type Timeouts = Pick<ServiceSettings, 'connectTimeout' | 'headersTimeout' | 'bodyTimeout' | 'totalTimeout'>;

/** Shared, because creating an error costs more than most work for a request. It is never shown. */
const released = new Error('The request is over');

export interface Deadline {
  readonly signal: AbortSignal;
  /** What ended the request; undefined while nothing has. */
  readonly endedBy: 'time' | 'caller' | undefined;
  /** Settles like `promise`, or rejects when the request ends: undici ignores the signal until it is connected. */
  readonly race: <Value>(promise: Promise<Value>) => Promise<Value>;
  /** Stops the timer and removes the listener. Must be called when the request is over; idempotent. */
  readonly release: () => void;
}

export function startDeadline(
  totalMs: number,
  callerSignal: AbortSignal | undefined,
  { sleep }: Pick<Clock, 'sleep'>,
): Deadline {
  const controller = new AbortController();
  const timer = new AbortController();
  // One for all races: listeners of a signal cost more than most work for a request.
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  let endedBy: Deadline['endedBy'];
  const end = (by: 'time' | 'caller') => {
    endedBy ??= by;
    // Always an Error, whatever the caller's reason: streams accept nothing else.
    const reason = new Error(by === 'time' ? 'The total time is up' : 'The caller aborted the request');
    controller.abort(reason);
    reject(reason);
  };
  const onAbort = () => end('caller');
  sleep(totalMs, timer.signal).then(
    () => end('time'),
    () => {},
  );
  if (callerSignal?.aborted === true) onAbort();
  callerSignal?.addEventListener('abort', onAbort, { once: true });

  return {
    signal: controller.signal,
    get endedBy() {
      return endedBy;
    },
    race: (promise) => Promise.race([promise, ended]),
    release() {
      timer.abort(released);
      callerSignal?.removeEventListener('abort', onAbort);
    },
  };
}
