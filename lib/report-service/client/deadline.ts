/**
 * Ends a request when its time is up or its caller has lost interest, whichever comes first. undici's own timeouts
 * each watch one phase; a body that drips in steadily defeats them all, so one clock must run over the whole request.
 */

import type { Clock } from '../../core/ports.ts';

/** Timers take no more: a longer time would be none at all. */
const maxTimerMs = 2 ** 31 - 1;

/** One for all, as making an error takes longer than most that is done for a request; nobody ever sees it. */
const isOver = new Error('the request is over');

export interface Deadline {
  readonly signal: AbortSignal;
  /** What ended the request; undefined while nothing has. */
  readonly endedBy: 'time' | 'caller' | undefined;
  /** Settles as `promise` does, or rejects as soon as the request is ended: undici waits until it is connected. */
  readonly race: <Value>(promise: Promise<Value>) => Promise<Value>;
  /** To be called once the request is over, or its timer and listener would outlive it. Repeating it does nothing. */
  readonly release: () => void;
}

export function startDeadline(
  totalMs: number,
  caller: AbortSignal | undefined,
  { sleep }: Pick<Clock, 'sleep'>,
): Deadline {
  const controller = new AbortController();
  const released = new AbortController();
  let endedBy: Deadline['endedBy'];
  const end = (by: 'time' | 'caller') => {
    endedBy ??= by;
    // Always an Error, whatever the caller's reason is: streams choke on others.
    controller.abort(new Error(by === 'time' ? 'the total time is up' : 'the caller ended the request'));
  };
  const onAbort = () => end('caller');
  sleep(Math.min(totalMs, maxTimerMs), released.signal).then(
    () => end('time'),
    () => {},
  );
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener('abort', onAbort, { once: true });

  return {
    signal: controller.signal,
    get endedBy() {
      return endedBy;
    },
    race(promise) {
      const { promise: ended, reject } = Promise.withResolvers<never>();
      const onEnd = () => reject(controller.signal.reason);
      if (controller.signal.aborted) onEnd();
      controller.signal.addEventListener('abort', onEnd, { once: true });
      return Promise.race([promise, ended]).finally(() => controller.signal.removeEventListener('abort', onEnd));
    },
    release() {
      released.abort(isOver);
      caller?.removeEventListener('abort', onAbort);
    },
  };
}
