/**
 * Divides the remaining time of an invocation: most of it to fetch the page, the end of it to store and log the page.
 * A function that times out reports nothing; one that stops in time says why, and the state machine retries it.
 */

import { ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import { minUploadBytesPerSecond } from '../../settings/deployed-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { maxHoldMs, maxPlaceWaitMs, maxSendDelayMs } from '../../core/slots/held-slot.ts';

export interface InvocationDeadline extends Disposable {
  /** Aborts with a ServiceUnavailableError when only the time to store is left. */
  readonly signal: AbortSignal;
  /** Until when a Retry-After may be waited out: a whole request still fits in after it. By the monotonic clock. */
  readonly retryAfterDeadline: number;
  /** Whether a request, and storing two pages of each slice, fit in: a page is stored after its predecessor. */
  readonly hasTime: () => boolean;
  /** The lease of a slot, in milliseconds: until a request that begins with the slot in use has ended. */
  readonly leaseMs: number;
}

interface Invocation {
  readonly remainingMs: number;
  /** The page, for the error. */
  readonly label: string;
  /** How many slices are walked at the same time: the last pages of so many share the upload. */
  readonly slices: number;
}

/** Dispose of it once the page is stored, or its timer outlives the page. */
export function startInvocationDeadline(
  { remainingMs, label, slices }: Invocation,
  { totalTimeout, maxPageBytes, rate }: Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes' | 'rate'>,
  { monotonicNow, sleep }: Clock,
): InvocationDeadline {
  const startedAt = monotonicNow();
  // The upload, and half a minute for logging the page and for retries of the SDK.
  const storeMs = 30_000 + ((slices * maxPageBytes) / minUploadBytesPerSecond) * 1_000;
  const fetchMs = remainingMs - Math.min(storeMs, remainingMs / 2);
  const deadline = new AbortController();
  const timer = new AbortController();
  const abort = () =>
    deadline.abort(
      new ExportError(
        'ServiceUnavailableError',
        `Report service did not finish ${label} within the ${Math.round(fetchMs)} ms that this invocation has to fetch it. ` +
          'The attempt is retried',
      ),
    );
  sleep(fetchMs, timer.signal).then(abort, () => {});
  return {
    signal: deadline.signal,
    retryAfterDeadline: startedAt + Math.max(0, fetchMs - totalTimeout),
    hasTime: () => monotonicNow() <= startedAt + fetchMs - totalTimeout - storeMs,
    leaseMs: Math.min(
      remainingMs,
      maxHoldMs + maxSendDelayMs + (rate === undefined ? 0 : maxPlaceWaitMs) + totalTimeout,
    ),
    [Symbol.dispose]: () => timer.abort(),
  };
}
