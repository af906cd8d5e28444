/**
 * Requests pages within one invocation of ExportPage: what is between the page pipeline and the service.
 *
 * Retry-After is a minimum, so a wait is never shortened. A short one is waited out here, where it costs no state
 * transition. A long one is left to the Wait state (`export-page.ts`), where it costs no Lambda time.
 */

import { ExportError, isExportError } from '../errors.ts';
import { type Instant, type Invocation, refOf, type Run } from '../model.ts';
import type { FetchOptions, PageRequest, Received, Runtime, StepDependencies } from '../ports.ts';
import type { Parent } from '../parents/plan.ts';
import { shownNumber, type Slice } from '../slices.ts';
import { type HeldSlot, withinSlot } from '../slots/held-slot.ts';
import { atRate, maxPlaceWaitMs } from '../slots/request-rate.ts';

export type PageRequestsDependencies = Pick<StepDependencies, 'definition' | 'service' | 'runtime' | 'emit' | 'rate'>;

/** The pages of a slice, from the first to the last. Run and slice say what is requested, and where the pages are. */
export interface Chain {
  readonly run: Run;
  readonly slice: Slice;
  /** The parent of its reports. Undefined: the export has no parents. */
  readonly parent?: Parent | undefined;
  /** The job whose result it is. Undefined: the export has no jobs, or the job is not over. */
  readonly job?: ReadyJob | undefined;
}

/** A job with a result. */
export interface ReadyJob {
  readonly id: string;
  /** The result has no report that appeared after this instant. */
  readonly asOf: Instant;
}

/** When the longest Retry-After ends, on the monotonic clock. It applies to every request of the run. */
export interface Backoff {
  until: number;
}

export interface RequestLimits extends Pick<Invocation, 'retryAfterDeadline'> {
  readonly backoff: Backoff;
  /** Taken for each request. Absent: any number of pages may be requested at the same time. */
  readonly slot?: HeldSlot | undefined;
}

export interface PageResponse {
  readonly received: Received;
  /** How long the request waited for Retry-Afters. */
  readonly waitedSeconds: number;
}

type PageOptions = FetchOptions & { readonly signal: AbortSignal };
type Send<Request, Options, Result> = (request: Request, options: Options) => Promise<Result>;

/**
 * Returns a function that fetches a page of the chain. It throws what `ReportService.fetch` throws, and what
 * `withLimits` does.
 */
export function pageFetcher(deps: PageRequestsDependencies, chain: Chain, limits: RequestLimits) {
  const fetch = withLimits<PageOptions, Received>(deps, chain, limits, deps.service.fetch);
  return async (
    { page, cursor, label }: Pick<PageRequest, 'cursor' | 'label'> & { readonly page: number },
    options: PageOptions,
  ): Promise<PageResponse> => {
    const { result, waitedSeconds } = await fetch(requestOf(chain, { cursor, label }), options, page);
    // Reports that have appeared since the job was created are not in its result.
    const { asOf } = chain.job ?? {};
    const received = asOf === undefined || result.kind === 'end' ? result : { ...result, serviceTime: asOf };
    return { received, waitedSeconds };
  };
}

/**
 * Sends requests of the chain as the settings and the service allow. The function throws what `send` throws;
 * ServiceThrottledError if a wait is too long for this invocation; NotYet if the request has to wait for its turn.
 *
 * A request needs a slot, and then the Retry-After of the run must have passed. The slot is returned before any wait,
 * and taken again when the request is repeated. That is after a Retry-After of at most `maxInlineWaitSeconds` that ends
 * before `retryAfterDeadline`. A Retry-After is recorded even if the request is cancelled meanwhile.
 */
export function withLimits<Options extends { readonly signal: AbortSignal }, Result>(
  { definition, runtime, emit, rate }: PageRequestsDependencies,
  chain: Chain,
  { retryAfterDeadline, backoff, slot }: RequestLimits,
  send: Send<PageRequest, Options, Result>,
) {
  const { monotonicNow } = runtime;
  // Innermost, so that the other requests of this process learn of a Retry-After before other processes do.
  const sendAtRate = atRate(withBackoff(send, backoff, runtime), rate, retryAfterDeadline);
  const sendLimited =
    slot === undefined ? sendAtRate : withinSlot(sendAtRate, slot, rate === undefined ? 0 : maxPlaceWaitMs);

  return async (request: PageRequest, options: Options, page: number) => {
    let waitedSeconds = 0;
    for (;;) {
      try {
        return { result: await sendLimited(request, options), waitedSeconds };
      } catch (error) {
        if (!isExportError(error, 'ServiceThrottledError') || error.retryAfterSeconds === undefined) throw error;
        options.signal.throwIfAborted();
        await waitOrThrow(error, error.retryAfterSeconds, page, options.signal);
        waitedSeconds += Math.max(1, Math.floor(error.retryAfterSeconds));
      }
    }
  };

  async function waitOrThrow(error: ExportError, seconds: number, page: number, signal: AbortSignal): Promise<void> {
    const waitMs = Math.max(1, seconds) * 1_000;
    const isShort = seconds <= definition.limits.maxInlineWaitSeconds;
    const endsInTime = retryAfterDeadline !== undefined && monotonicNow() + waitMs <= retryAfterDeadline;
    if (!isShort || !endsInTime) throw error;
    const { run, slice } = chain;
    emit({
      event: 'service-asked-to-wait',
      ...refOf(run),
      page,
      slice: shownNumber(run, slice),
      seconds,
      inside: true,
    });
    await runtime.sleep(waitMs, signal);
  }
}

/** The request of a page: the same for the whole chain, except for the cursor. The first page has none. */
export const requestOf = (
  { run, slice, parent, job }: Chain,
  { cursor, label }: Pick<PageRequest, 'cursor' | 'label'>,
): PageRequest => ({
  request: run.request,
  since: slice.since,
  until: slice.until,
  begunAt: run.startedAt,
  ...(parent !== undefined && { parent: parent.id, parentAlso: parent.also }),
  ...(job !== undefined && { job: job.id }),
  cursor,
  label,
});

/**
 * Sends no request before the Retry-After of the run has passed, and records a new Retry-After at once, for the other
 * requests.
 */
function withBackoff<Options, Result>(
  send: Send<PageRequest, Options, Result>,
  backoff: Backoff,
  { monotonicNow }: Pick<Runtime, 'monotonicNow'>,
): Send<PageRequest, Options, Result> {
  const assertMaySend = (): void => {
    const retryAfterSeconds = (backoff.until - monotonicNow()) / 1_000;
    if (retryAfterSeconds <= 0) return;
    const message = 'Report service sent a Retry-After for another page. It applies to every request of the run';
    throw new ExportError('ServiceThrottledError', message, { retryAfterSeconds });
  };
  return async (request, options) => {
    assertMaySend();
    // Another request may receive a Retry-After while this one waits for its turn, or reads its credentials.
    const beforeSend = async () => {
      await request.beforeSend?.();
      assertMaySend();
    };
    try {
      return await send({ ...request, beforeSend }, options);
    } catch (error) {
      const seconds = isExportError(error, 'ServiceThrottledError') ? error.retryAfterSeconds : undefined;
      // `Retry-After: 0` must not busy-loop.
      if (seconds !== undefined) backoff.until = Math.max(backoff.until, monotonicNow() + Math.max(1, seconds) * 1_000);
      throw error;
    }
  };
}
