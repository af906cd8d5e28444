/**
 * How an invocation of ExportPage requests pages: everything that is between the page pipeline and the service.
 *
 * Retry-After is a minimum, so a wait is never shortened. A short one is waited out here, where it costs no state
 * transition. A long one is left to the Wait state (`export-page.ts`), where it costs no Lambda time.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Invocation, PageTiming, Run } from '../model.ts';
import type { FetchedPage, PageIdentity, PageRequest, ReportService, Runtime, StepDependencies } from '../ports.ts';
import { holdSlot, withinSlot } from '../slots/held-slot.ts';
import { instantOf } from '../timestamps.ts';

/** A page whose response headers have arrived, and how long the service took to send them. */
export interface TimedPage extends FetchedPage {
  readonly timing: PageTiming;
}

export type PageRequestsDependencies = Pick<
  StepDependencies,
  'definition' | 'service' | 'runtime' | 'emit' | 'slots' | 'onLatency'
>;

export interface PageRequests extends AsyncDisposable {
  /**
   * Requests the page. After a Retry-After of at most `maxInlineWaitSeconds` that ends before `retryAfterDeadline`, the
   * request is repeated.
   * @throws ServiceThrottledError with `retryAfterSeconds` if the wait is too long for this invocation; NoFreeSlot if
   *   there is no slot for the request
   */
  request(identity: PageIdentity, signal: AbortSignal): Promise<TimedPage>;
  /**
   * An error that carries what is left of the longest Retry-After of all requests, for a caller whose own request failed
   * for another reason or was cancelled.
   */
  pendingBackoff(cause?: unknown): ExportError | undefined;
}

/** Lambda's own limit. */
const maxInvocationMs = 900_000;

/**
 * Composes what a request passes, from the service outwards:
 *
 * 1. `timed` measures the request alone: neither the wait for a slot nor a Retry-After is latency of the service.
 * 2. `withinSlot` takes a slot for each request, also for a repeated one. It is the first to see a Retry-After, so that
 *    the slot is free again before anything waits.
 * 3. `request` sees every Retry-After, also that of a request which is cancelled meanwhile, and records it for the other
 *    requests of the run before it waits or throws. It is outermost, because it repeats the request through all others.
 *
 * Disposing returns the slot.
 */
export function createPageRequests(
  { definition, service, runtime, emit, slots, onLatency }: PageRequestsDependencies,
  run: Run,
  { leaseMs = maxInvocationMs, retryAfterDeadline = 0 }: Invocation,
): PageRequests {
  const { monotonicNow } = runtime;
  const slot = slots === undefined ? undefined : holdSlot(slots, definition.stateName, leaseMs, runtime);
  const requestTimed = timed(service, runtime, onLatency);
  const requestPage = slot === undefined ? requestTimed : withinSlot(requestTimed, slot);
  /** When the longest Retry-After ends, on the monotonic clock. */
  let backoffUntil = 0;

  return {
    async request({ page, cursor }, signal) {
      const { request, since, until = run.startedAt } = run;
      const label = `page ${page} of run ${run.run}`;
      for (;;) {
        try {
          return await requestPage({ request, since, until, cursor, label }, signal);
        } catch (error) {
          if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
          const seconds = error.retryAfterSeconds;
          backoffUntil = Math.max(backoffUntil, monotonicNow() + seconds * 1_000);
          signal.throwIfAborted();
          // `Retry-After: 0` must not busy-loop.
          const waitMs = Math.max(1, seconds) * 1_000;
          const isTooLong = seconds > definition.limits.maxInlineWaitSeconds;
          if (isTooLong || monotonicNow() + waitMs > retryAfterDeadline) throw error;
          emit({ event: 'service-asked-to-wait', export: run.export, run: run.run, page, seconds, inside: true });
          await runtime.sleep(waitMs, signal);
        }
      }
    },
    pendingBackoff(cause) {
      const retryAfterSeconds = (backoffUntil - monotonicNow()) / 1_000;
      if (retryAfterSeconds <= 0) return undefined;
      const message = 'Report service sent a Retry-After for a prefetched page. It applies to every request of the run';
      return new ExportError('ServiceThrottledError', message, { retryAfterSeconds, cause });
    },
    async [Symbol.asyncDispose]() {
      await slot?.release();
    },
  };
}

function timed(service: ReportService, { now }: Pick<Runtime, 'now'>, onLatency: StepDependencies['onLatency']) {
  return async (request: PageRequest, signal?: AbortSignal): Promise<TimedPage> => {
    const requestedAt = now();
    const page = await service.fetchPage(request, signal);
    // Clocks can be set back; a latency is never negative.
    const latencyMs = Math.max(0, Math.round(now() - requestedAt));
    onLatency?.(latencyMs);
    return { ...page, timing: { requestedAt: instantOf(requestedAt), latencyMs } };
  };
}
