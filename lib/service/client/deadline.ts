/** Ends a request when its time is up, or when its caller aborts it. */

import type { Clock } from '../../core/ports.ts';

/** Shared, because creating an error costs more than most work for a request. It is never shown. */
const released = new Error('The request is over');

interface Deadline {
  readonly signal: AbortSignal;
  /** What ended the request; undefined while nothing has. */
  readonly endedBy: 'time' | 'caller' | undefined;
  /** Settles like `promise`, or rejects when the request ends: undici ignores the signal until it is connected. */
  race<Value>(promise: Promise<Value>): Promise<Value>;
  /** Awaits `action`, during which no time counts. Afterwards the request has its total time again. */
  restartAfter(action: () => Promise<void>): Promise<void>;
  release(): void;
}

/**
 * Ends a request when its total time is up or its caller aborts, whichever comes first. Each of undici's timeouts
 * covers one phase only, so a body that trickles in steadily would never time out.
 */
export function startDeadline(
  totalMs: number,
  callerSignal: AbortSignal | undefined,
  { sleep }: Pick<Clock, 'sleep'>,
): Deadline {
  const controller = new AbortController();
  // One for all races: listeners of a signal cost more than most work for a request.
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  let endedBy: 'time' | 'caller' | undefined;
  const end = (by: 'time' | 'caller') => {
    endedBy ??= by;
    // Always an Error, whatever the caller's reason: streams accept nothing else.
    const reason = new Error(by === 'time' ? 'The total time is up' : 'The caller aborted the request');
    controller.abort(reason);
    reject(reason);
  };
  const onAbort = () => end('caller');
  let timer: AbortController;
  const startTimer = () => {
    timer = new AbortController();
    sleep(totalMs, timer.signal).then(
      () => end('time'),
      () => {},
    );
  };
  const stopTimer = () => timer.abort(released);
  startTimer();
  callerSignal?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    get endedBy() {
      return endedBy;
    },
    race: <Value>(promise: Promise<Value>): Promise<Value> => Promise.race([promise, ended]),
    async restartAfter(action) {
      stopTimer();
      try {
        await action();
      } finally {
        startTimer();
      }
    },
    release() {
      stopTimer();
      callerSignal?.removeEventListener('abort', onAbort);
    },
  };
}
