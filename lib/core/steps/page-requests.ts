/**
 * How an invocation of ExportPage requests pages: everything that is between the page pipeline and the service.
 *
 * Retry-After is a minimum, so a wait is never shortened. A short one is waited out here, where it costs no state
 * transition. A long one is left to the Wait state (`export-page.ts`), where it costs no Lambda time.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Cursor, Invocation, Run } from '../model.ts';
import type { FetchOptions, ReceivedPage, ReportService, StepDependencies } from '../ports.ts';
import type { Slice } from '../slices.ts';
import { type HeldSlot, holdSlot, withinSlot } from '../slots/held-slot.ts';
import { describePage } from '../storage/keys.ts';

export type PageRequestsDependencies = Pick<StepDependencies, 'definition' | 'service' | 'runtime' | 'emit' | 'slots'>;

export interface PageRequests extends AsyncDisposable {
  /** The slot, for other requests to continue with, instead of disposing this. */
  readonly slot: HeldSlot | undefined;
  /**
   * Fetches a page of the slice, no sooner than any Retry-After of the run ends. After a Retry-After of at most `maxInlineWaitSeconds` that ends before `retryAfterDeadline`, the
   * request is repeated. `onWaited` is called after each wait.
   * @throws what `ReportService.fetch` throws; ServiceThrottledError with `retryAfterSeconds` if the wait is too long for this invocation; NoFreeSlot if
   *   there is no slot for the request
   */
  fetch(
    page: { readonly page: number; readonly cursor: Cursor | null; readonly label?: string },
    options: FetchOptions & { readonly signal: AbortSignal; readonly onWaited?: (seconds: number) => void },
  ): Promise<ReceivedPage>;
  /**
   * An error that carries what is left of the longest Retry-After of all requests, for a caller whose own request failed
   * for another reason or was cancelled.
   */
  pendingBackoff(cause?: unknown): ExportError | undefined;
}

/** A Retry-After applies to every request of the run. When the longest one ends, on the monotonic clock. */
export interface Backoff {
  until: number;
}

/** Lambda's own limit. */
const maxInvocationMs = 900_000;

/**
 * Composes what a request passes, from the service outwards:
 *
 * 1. `fetchNoted` records every Retry-After for the other requests of the run, also that of a request which is cancelled meanwhile.
 * 2. `withinSlot` takes a slot for each request, also for a repeated one, and returns it before anything waits.
 * 3. `fetch` waits or throws. It is outermost, because it repeats the request through the others.
 *
 * Disposing returns the slot.
 */
export function createPageRequests(
  { definition, service, runtime, emit, slots }: PageRequestsDependencies,
  run: Run,
  slice: Slice,
  { leaseMs = maxInvocationMs, retryAfterDeadline = 0 }: Invocation,
  backoff: Backoff = { until: 0 },
  held?: HeldSlot,
): PageRequests {
  const { monotonicNow } = runtime;
  const slot = held ?? (slots === undefined ? undefined : holdSlot(slots, leaseMs, runtime));
  const pendingBackoff = (cause?: unknown): ExportError | undefined => {
    const retryAfterSeconds = (backoff.until - monotonicNow()) / 1_000;
    if (retryAfterSeconds <= 0) return undefined;
    const message = 'Report service sent a Retry-After for another page. It applies to every request of the run';
    return new ExportError('ServiceThrottledError', message, { retryAfterSeconds, cause });
  };
  // Another request may receive a Retry-After while this one waits for its slot, or reads its credentials.
  const assertMaySend = (): void => {
    const pending = pendingBackoff();
    if (pending !== undefined) throw pending;
  };
  /** Inside the slot, which takes time to return: the other slices observe the Retry-After at once. */
  const fetchNoted: ReportService['fetch'] = async (request, options) => {
    assertMaySend();
    try {
      return await service.fetch({ ...request, assertMaySend }, options);
    } catch (error) {
      const seconds = isExportError(error, 'ServiceThrottledError') ? error.retryAfterSeconds : undefined;
      if (seconds !== undefined) backoff.until = Math.max(backoff.until, monotonicNow() + seconds * 1_000);
      throw error;
    }
  };
  const fetchPage = slot === undefined ? fetchNoted : withinSlot(fetchNoted, slot);
  /** Waits out `seconds` if this invocation may. */
  const waitOrThrow = async (
    seconds: number,
    error: ExportError,
    signal: AbortSignal,
    onWait: () => void = () => {},
  ): Promise<void> => {
    // `Retry-After: 0` must not busy-loop.
    const waitMs = Math.max(1, seconds) * 1_000;
    const isTooLong = seconds > definition.limits.maxInlineWaitSeconds;
    if (isTooLong || monotonicNow() + waitMs > retryAfterDeadline) throw error;
    onWait();
    await runtime.sleep(waitMs, signal);
  };
  const labelOf = (page: number) => `${describePage({ page, slice: slice.slice })} of run ${run.run}`;

  return {
    async fetch({ page, cursor, label = labelOf(page) }, options) {
      const { signal, onWaited } = options;
      const { request, startedAt: begunAt } = run;
      const { since, until } = slice;
      for (;;) {
        try {
          return await fetchPage({ request, since, until, begunAt, cursor, label }, options);
        } catch (error) {
          if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
          const seconds = error.retryAfterSeconds;
          signal.throwIfAborted();
          const about = { export: run.export, run: run.run, page, ...(slice.slice && { slice: slice.slice }), seconds };
          await waitOrThrow(seconds, error, signal, () =>
            emit({ event: 'service-asked-to-wait', ...about, inside: true }),
          );
          onWaited?.(Math.max(1, Math.floor(seconds)));
        }
      }
    },
    slot,
    pendingBackoff,
    async [Symbol.asyncDispose]() {
      await slot?.release();
    },
  };
}
