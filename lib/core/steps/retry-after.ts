/**
 * Honors the service's Retry-After. It is a minimum, so a wait is never shortened: a short one is waited out inside the
 * invocation, where it costs no state transition; a long one is left to the Wait state, where it costs no Lambda time; one
 * beyond the settings fails the run.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Invocation, LoopState, PageTiming, Run } from '../model.ts';
import type { FetchedPage, PageIdentity, ReportService, StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';

/** A page whose response headers have arrived, and how long the service took to send them. */
export interface TimedPage {
  readonly page: FetchedPage;
  readonly timing: PageTiming;
}

/**
 * Requests the page. A Retry-After of at most `maxInlineWaitSeconds` that ends before `retryAfterDeadline` is waited out
 * here, and the request repeated.
 * @throws ServiceThrottledError with `retryAfterSeconds` if the wait is too long for this invocation
 */
export async function fetchWithRetryAfter(
  { definition, service, runtime, emit }: Pick<StepDependencies, 'definition' | 'service' | 'runtime' | 'emit'>,
  run: Run,
  { page, cursor }: PageIdentity,
  { signal, retryAfterDeadline = 0 }: Invocation,
): Promise<TimedPage> {
  const request = { request: run.request, since: run.since, cursor, label: `page ${page} of run ${run.run}` };
  for (;;) {
    const calledAt = runtime.now();
    try {
      const fetched = await service.fetchPage(request, signal);
      const { requestedAt = calledAt } = fetched;
      // Clocks can be set back; a latency is never negative.
      const latencyMs = Math.max(0, Math.round(runtime.now() - requestedAt));
      return { page: fetched, timing: { requestedAt: instantOf(requestedAt), latencyMs } };
    } catch (error) {
      if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
      const seconds = error.retryAfterSeconds;
      // `Retry-After: 0` must not busy-loop.
      const waitMs = Math.max(1, seconds) * 1_000;
      const isTooLong = seconds > definition.limits.maxInlineWaitSeconds;
      if (isTooLong || runtime.monotonicNow() + waitMs > retryAfterDeadline) throw error;
      emit({ event: 'service-asked-to-wait', export: run.export, run: run.run, page, seconds, inside: true });
      await runtime.sleep(waitMs, signal);
    }
  }
}

/**
 * Shares each Retry-After between all requests made through the returned service: `pendingBackoff` returns an error that
 * carries what is left of the longest one, for a caller whose own request failed for another reason or was cancelled.
 */
export function withSharedBackoff({
  service: inner,
  runtime: { monotonicNow },
}: Pick<StepDependencies, 'service' | 'runtime'>): {
  readonly service: ReportService;
  readonly pendingBackoff: (cause?: unknown) => ExportError | undefined;
} {
  let until = 0;
  return {
    service: {
      async fetchPage(request, signal) {
        try {
          return await inner.fetchPage(request, signal);
        } catch (error) {
          if (isExportError(error) && error.retryAfterSeconds !== undefined) {
            until = Math.max(until, monotonicNow() + error.retryAfterSeconds * 1_000);
          }
          throw error;
        }
      },
    },
    pendingBackoff(cause) {
      const retryAfterSeconds = (until - monotonicNow()) / 1_000;
      if (retryAfterSeconds <= 0) return undefined;
      const message = 'Report service sent a Retry-After for a prefetched page. It applies to every request of the run';
      return new ExportError('ServiceThrottledError', message, { retryAfterSeconds, cause });
    },
  };
}

/**
 * The outcome of an iteration that ends in a long Retry-After: the Wait state, then the same page.
 * @throws RequestRejectedError if the wait, or the number of consecutive waits, exceeds the settings
 */
export function nextWait(
  { definition: { limits }, emit }: Pick<StepDependencies, 'definition' | 'emit'>,
  run: Run,
  loop: LoopState,
  error: ExportError,
  retryAfterSeconds: number,
): { readonly next: 'wait'; readonly waitSeconds: number } & LoopState {
  const waitSeconds = Math.max(1, Math.ceil(retryAfterSeconds));
  const tooLong = waitSeconds > limits.maxRetryAfterSeconds;
  if (tooLong || loop.waits >= limits.maxConsecutiveWaits) {
    const reason = tooLong
      ? `which exceeds maxRetryAfter (${limits.maxRetryAfterSeconds} s)`
      : `after ${loop.waits} consecutive waits without a page in between (maxConsecutiveWaits)`;
    throw new ExportError(
      'RequestRejectedError',
      `Report service requested a wait of ${waitSeconds} s before page ${loop.page} of run ${run.run}, ${reason}. ` +
        'The run stops here. The next start resumes it',
      { cause: error },
    );
  }
  emit({
    event: 'service-asked-to-wait',
    export: run.export,
    run: run.run,
    page: loop.page,
    seconds: waitSeconds,
    inside: false,
  });
  // Counts as two iterations: the Wait state adds two events to an execution history of limited length.
  return { next: 'wait', ...loop, iterations: loop.iterations + 2, waits: loop.waits + 1, waitSeconds };
}
