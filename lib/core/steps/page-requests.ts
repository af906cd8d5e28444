/**
 * How an invocation of ExportPage requests pages: everything that is between the page pipeline and the service.
 *
 * Retry-After is a minimum, so a wait is never shortened. A short one is waited out here, where it costs no state
 * transition. A long one is left to the Wait state (`export-page.ts`), where it costs no Lambda time.
 */

import { ExportError, isExportError } from '../errors.ts';
import { type Cursor, type Invocation, refOf, type Run } from '../model.ts';
import type { FetchOptions, ReceivedPage, ReportService, StepDependencies } from '../ports.ts';
import type { Slice } from '../slices.ts';
import { type HeldSlot, withinSlot } from '../slots/held-slot.ts';

export type PageRequestsDependencies = Pick<StepDependencies, 'definition' | 'service' | 'runtime' | 'emit'>;

/** A Retry-After applies to every request of the run. When the longest one ends, on the monotonic clock. */
export interface Backoff {
  until: number;
}

export interface RequestLimits extends Pick<Invocation, 'retryAfterDeadline'> {
  readonly backoff: Backoff;
  /** Taken for each request. Absent: any number of pages may be requested. */
  readonly slot?: HeldSlot | undefined;
}

/**
 * Returns what fetches a page of the slice, no sooner than any Retry-After of the run ends. After a Retry-After of at most
 * `maxInlineWaitSeconds` that ends before `retryAfterDeadline`, the request is repeated. `onWaited` is called after each wait. It throws
 * what `ReportService.fetch` throws; ServiceThrottledError if a wait is too long for this invocation; NoFreeSlot if there is no slot.
 *
 * Composes what a request passes, from the service outwards:
 *
 * 1. `fetchNoted` records every Retry-After for the other requests of the run, also that of a request which is cancelled meanwhile.
 * 2. `withinSlot` takes a slot for each request, also for a repeated one, and returns it before anything waits.
 * 3. The result waits or throws. It is outermost, because it repeats the request through the others.
 */
export function pageFetcher(
  { definition, service, runtime, emit }: PageRequestsDependencies,
  run: Run,
  slice: Slice,
  { retryAfterDeadline = 0, backoff, slot }: RequestLimits,
) {
  const { monotonicNow } = runtime;
  // Another request may receive a Retry-After while this one waits for its slot, or reads its credentials.
  const assertMaySend = (): void => {
    const retryAfterSeconds = (backoff.until - monotonicNow()) / 1_000;
    if (retryAfterSeconds <= 0) return;
    const message = 'Report service sent a Retry-After for another page. It applies to every request of the run';
    throw new ExportError('ServiceThrottledError', message, { retryAfterSeconds });
  };
  /** Inside the slot, which takes time to return: the other slices observe the Retry-After at once. */
  const fetchNoted: ReportService['fetch'] = async (request, options) => {
    assertMaySend();
    try {
      return await service.fetch({ ...request, assertMaySend }, options);
    } catch (error) {
      const seconds = isExportError(error, 'ServiceThrottledError') ? error.retryAfterSeconds : undefined;
      // `Retry-After: 0` must not busy-loop.
      if (seconds !== undefined) backoff.until = Math.max(backoff.until, monotonicNow() + Math.max(1, seconds) * 1_000);
      throw error;
    }
  };
  const fetch = slot === undefined ? fetchNoted : withinSlot(fetchNoted, slot);

  return async (
    { page, cursor, label }: { readonly page: number; readonly cursor: Cursor | null; readonly label: string },
    options: FetchOptions & { readonly signal: AbortSignal; readonly onWaited?: (seconds: number) => void },
  ): Promise<ReceivedPage> => {
    const { request, startedAt: begunAt } = run;
    const { since, until } = slice;
    for (;;) {
      try {
        return await fetch({ request, since, until, begunAt, cursor, label }, options);
      } catch (error) {
        if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
        options.signal.throwIfAborted();
        await waitOrThrow(error, error.retryAfterSeconds, page, options.signal);
        options.onWaited?.(Math.max(1, Math.floor(error.retryAfterSeconds)));
      }
    }
  };

  async function waitOrThrow(error: ExportError, seconds: number, page: number, signal: AbortSignal): Promise<void> {
    const waitMs = Math.max(1, seconds) * 1_000;
    const isTooLong = seconds > definition.limits.maxInlineWaitSeconds;
    if (isTooLong || monotonicNow() + waitMs > retryAfterDeadline) throw error;
    emit({ event: 'service-asked-to-wait', ...refOf(run), page, slice: slice.slice, seconds, inside: true });
    await runtime.sleep(waitMs, signal);
  }
}
