/**
 * Waits as long as the service asks, and no longer than the settings allow.
 *
 * A Retry-After is a floor, so a wait is never cut short: a short one is sat out in the invocation, where it costs no
 * turn; a long one is left to the Wait state, where it costs no computing; one beyond the limits fails the run.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { Invocation, LoopState, PageTiming, Run } from '../model.ts';
import type { FetchedPage, PageIdentity, ReportService, StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';

/** A page that is being answered, and how long that took to begin. */
export interface TimedPage {
  readonly page: FetchedPage;
  readonly timing: PageTiming;
}

/** Fetches the page, sitting out every Retry-After that is short and within the invocation's patience. */
export async function fetchWithRetryAfter(
  { definition, service, runtime, emit }: Pick<StepDependencies, 'definition' | 'service' | 'runtime' | 'emit'>,
  run: Run,
  { page, cursor }: PageIdentity,
  { signal, retryAfterDeadline = 0 }: Invocation,
): Promise<TimedPage> {
  const request = { request: run.request, since: run.since, cursor, label: `page ${page} of run ${run.run}` };
  for (;;) {
    const requestedAt = runtime.now();
    try {
      const fetched = await service.fetchPage(request, signal);
      // Clocks may be set back, and a latency is never less than nothing.
      const latencyMs = Math.max(0, Math.round(runtime.now() - requestedAt));
      return { page: fetched, timing: { requestedAt: instantOf(requestedAt), latencyMs } };
    } catch (error) {
      if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
      const seconds = error.retryAfterSeconds;
      // At least a second: a Retry-After of nought must not become a tight loop.
      const waitMs = Math.max(1, seconds) * 1_000;
      if (seconds > definition.limits.maxInlineWaitSeconds || runtime.now() + waitMs > retryAfterDeadline) throw error;
      emit({ event: 'service-asked-to-wait', export: run.export, run: run.run, page, seconds, inside: true });
      await runtime.sleep(waitMs, signal);
    }
  }
}

/** The next turn after a long Retry-After. @throws RequestRejectedError where it is beyond what the settings allow. */
export function nextWait(
  { definition: { limits }, emit }: Pick<StepDependencies, 'definition' | 'emit'>,
  run: Run,
  loop: LoopState,
  error: ExportError,
  retryAfterSeconds: number,
): { readonly next: 'wait'; readonly waitSeconds: number } & LoopState {
  const waitSeconds = Math.max(1, Math.ceil(retryAfterSeconds));
  if (waitSeconds > limits.maxRetryAfterSeconds || loop.waits >= limits.maxConsecutiveWaits) {
    const why =
      waitSeconds > limits.maxRetryAfterSeconds
        ? `longer than the ${limits.maxRetryAfterSeconds} s allowed`
        : `after ${loop.waits} waits in a row without a page between them`;
    throw new ExportError(
      'RequestRejectedError',
      `Report service asks to wait ${waitSeconds} s before page ${loop.page} of run ${run.run}, ${why}. ` +
        'The run stops here; the next start resumes it',
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
  // Two turns: the Wait state takes two events more, and a history must never overflow.
  return { next: 'wait', ...loop, iterations: loop.iterations + 2, waits: loop.waits + 1, waitSeconds };
}

/**
 * A Retry-After is a floor for whoever asks next. Where it was told to a page that is let go of, `heldBack` is the error
 * that keeps to it, as long as there is something left to wait.
 */
export function withSharedBackoff({ service: asked, runtime: { now } }: Pick<StepDependencies, 'service' | 'runtime'>) {
  let until = 0;
  const service: ReportService = {
    async fetchPage(request, signal) {
      try {
        return await asked.fetchPage(request, signal);
      } catch (error) {
        if (isExportError(error) && error.retryAfterSeconds !== undefined) {
          until = Math.max(until, now() + error.retryAfterSeconds * 1_000);
        }
        throw error;
      }
    },
  };
  const pendingBackoff = (cause?: unknown): ExportError | undefined => {
    const retryAfterSeconds = (until - now()) / 1_000;
    if (retryAfterSeconds <= 0) return undefined;
    const message = 'Report service asked to wait, for a page that was asked for ahead: all requests keep to it';
    return new ExportError('ServiceThrottledError', message, { retryAfterSeconds, cause });
  };
  return { service, pendingBackoff };
}
