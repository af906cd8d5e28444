/**
 * Divides what is left of an invocation's time: so much to fetch a page, with a short Retry-After waited out before it
 * where there is time for that too, and at its end so much to store and log it. A function that is cut off says nothing;
 * one that stops by itself says why, and the state machine knows that it may try again.
 */

import { ExportError } from '../core/errors.ts';
import type { Clock } from '../core/ports.ts';
import type { ServiceSettings } from '../core/settings.ts';

export interface FetchTime extends Disposable {
  /** Aborts when only the time to store is left; its reason is a ServiceUnavailableError. */
  readonly signal: AbortSignal;
  /** How long Retry-Afters may be waited out, so that a whole request still fits in behind. */
  readonly patienceMs: number;
}

/** Allows for S3 taking no more than 20 MiB a second; half a minute on top, also where the SDK has to repeat some of it. */
const storingMs = (bytes: number): number => 30_000 + (bytes / (20 * 1024 * 1024)) * 1_000;

/** To be disposed of when the page is fetched and stored, or its timer would outlive it. */
export function fetchTime(
  remainingMs: number,
  { totalTimeout, maxPageBytes }: Pick<ServiceSettings, 'totalTimeout' | 'maxPageBytes'>,
  label: string,
  { sleep }: Pick<Clock, 'sleep'>,
): FetchTime {
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
    patienceMs: Math.max(0, fetchingMs - totalTimeout),
    [Symbol.dispose]: () => done.abort(),
  };
}
