/**
 * Divides what is left of an invocation's time: so much to fetch a page, with a short Retry-After waited out before it
 * where there is time for that too, and at its end so much to store and log it. A function that is cut off says nothing;
 * one that stops by itself says why, and the state machine knows that it may try again.
 */

import { ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import type { ServiceSettings } from '../../core/settings/settings.ts';

export interface InvocationDeadline extends Disposable {
  /** Aborts when only the time to store is left; its reason is a ServiceUnavailableError. */
  readonly signal: AbortSignal;
  /** Until when Retry-Afters may be waited out, so that a whole request still fits in behind; since the epoch. */
  readonly retryAfterDeadline: number;
  /** Whether a whole request still fits in, and the storing of two pages: its own waits for that of the one before. */
  readonly hasTime: () => boolean;
}

/** Allows for S3 taking no more than 20 MiB a second; half a minute on top, also where the SDK has to repeat some of it. */
const storingMs = (bytes: number): number => 30_000 + (bytes / (20 * 1024 * 1024)) * 1_000;

/** To be disposed of when the page is fetched and stored, or its timer would outlive it. */
export function startInvocationDeadline(
  remainingMs: number,
  { totalTimeout, maxPageBytes }: Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes'>,
  label: string,
  { now, sleep }: Clock,
): InvocationDeadline {
  const startedAt = now();
  const fetchingMs = remainingMs - Math.min(storingMs(maxPageBytes), remainingMs / 2);
  const controller = new AbortController();
  const done = new AbortController();
  const runOut = () =>
    controller.abort(
      new ExportError(
        'ServiceUnavailableError',
        `Report service took so long for ${label} that the function's own time was nearly up (${Math.round(fetchingMs)} ms): ` +
          'it is tried again for a while',
      ),
    );
  sleep(fetchingMs, done.signal).then(runOut, () => {});
  return {
    signal: controller.signal,
    retryAfterDeadline: startedAt + Math.max(0, fetchingMs - totalTimeout),
    hasTime: () => now() <= startedAt + fetchingMs - totalTimeout - storingMs(maxPageBytes),
    [Symbol.dispose]: () => done.abort(),
  };
}
