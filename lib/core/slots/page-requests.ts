/**
 * Requests pages within one invocation of ExportPage: what is between the page pipeline and the service.
 *
 * Retry-After is a minimum, so a wait is never shortened. A short one is waited out here, where it costs no state
 * transition. A long one is left to the Wait state (`export-page.ts`), where it costs no Lambda time.
 */

import { createSlots } from '../concurrency.ts';
import { ExportError, isExportError } from '../errors.ts';
import { type Instant, type Invocation, refOf, type Run } from '../model.ts';
import type { FetchOptions, PageRequest, Received, RequestRate, Runtime, StepDependencies } from '../ports.ts';
import type { Parent } from '../parents/plan.ts';
import { shownNumber, type Slice } from '../slices.ts';
import { type HeldSlot, maxPlaceWaitMs } from './held-slot.ts';

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

export interface RequestLimits extends Pick<Invocation, 'retryAfterDeadline'>, Pick<Gate, 'slot'> {
  readonly backoff: Backoff;
}

export interface PageResponse {
  readonly received: Received;
  /** How long the request waited for Retry-Afters. */
  readonly waitedSeconds: number;
}

export type SendRequest<Options, Result> = (request: PageRequest, options: Options) => Promise<Result>;
type PageOptions = FetchOptions & { readonly signal: AbortSignal };

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
 * A request is repeated after a Retry-After of at most `maxInlineWaitSeconds` that ends before `retryAfterDeadline`.
 * The repeated request waits for its turn again. A Retry-After is recorded even if the request is cancelled meanwhile.
 */
export function withLimits<Options extends { readonly signal: AbortSignal }, Result>(
  { definition, runtime, emit, rate }: PageRequestsDependencies,
  chain: Chain,
  { retryAfterDeadline, backoff, slot }: RequestLimits,
  send: SendRequest<Options, Result>,
) {
  const runBackoff = backoffOfRun(backoff, runtime);
  const sendLimited = throughGate(send, { slot, rate, backoff: runBackoff, waitUntil: retryAfterDeadline });

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
    const endsInTime = retryAfterDeadline !== undefined && runtime.monotonicNow() + waitMs <= retryAfterDeadline;
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

interface Gate {
  /** Taken for each request. Absent: any number of requests may be in progress at the same time. */
  readonly slot?: HeldSlot | undefined;
  /** Absent: any number of requests may be sent in a period. */
  readonly rate?: RequestRate | undefined;
  /** Absent: the caller sends one request at a time, and waits itself. */
  readonly backoff?: RunBackoff | undefined;
  /** The latest time to send a request that waits for its place in the rate, by the monotonic clock. */
  readonly waitUntil?: number | undefined;
}

/**
 * Sends each request, and each repetition of it, as everything that limits requests allows, in one order.
 *
 * 1. The request waits for the previous one of the same slot, and takes the slot. It fails while a Retry-After lasts.
 * 2. The client reads credentials and opens a connection.
 * 3. Right before sending (`beforeSend`): the request takes a place in the rate. The lease of the slot must cover the
 *    request. The caller's `beforeSend` runs. No other request may have received a Retry-After meanwhile.
 *
 * A Retry-After is made known to the other requests of this process first, then to other processes. Then the slot is
 * returned: other exports can use it while this one waits for the service.
 */
export function throughGate<Options extends { readonly signal?: AbortSignal }, Result>(
  send: SendRequest<Options, Result>,
  { slot, rate, backoff, waitUntil }: Gate,
): SendRequest<Options, Result> {
  const turns = createSlots(1);
  const noteRetryAfter = async (error: unknown): Promise<never> => {
    const seconds = isExportError(error, 'ServiceThrottledError') ? error.retryAfterSeconds : undefined;
    if (seconds !== undefined) {
      backoff?.extend(seconds);
      // The error of the service is the one to report.
      await rate?.holdBack(seconds).catch(() => {});
    }
    throw error;
  };
  return async (request, options) => {
    const { signal } = options;
    const beforeSend = async (): Promise<void> => {
      await rate?.take({ waitUntil, signal });
      slot?.assertCovers(rate === undefined ? 0 : maxPlaceWaitMs);
      await request.beforeSend?.();
      backoff?.assertOver();
    };
    const endTurn = slot && (await turns.acquire(signal));
    try {
      await slot?.take(signal);
      backoff?.assertOver();
      return await send({ ...request, beforeSend }, options).catch(noteRetryAfter);
    } catch (error) {
      if (isExportError(error, 'ServiceThrottledError')) await slot?.release();
      throw error;
    } finally {
      endTurn?.();
    }
  };
}

type RunBackoff = ReturnType<typeof backoffOfRun>;

function backoffOfRun(backoff: Backoff, { monotonicNow }: Pick<Runtime, 'monotonicNow'>) {
  return {
    /** @throws ServiceThrottledError while a Retry-After lasts */
    assertOver(): void {
      const retryAfterSeconds = (backoff.until - monotonicNow()) / 1_000;
      if (retryAfterSeconds <= 0) return;
      const message = 'Report service sent a Retry-After for another page. It applies to every request of the run';
      throw new ExportError('ServiceThrottledError', message, { retryAfterSeconds });
    },
    /** `Retry-After: 0` must not busy-loop. */
    extend(seconds: number): void {
      backoff.until = Math.max(backoff.until, monotonicNow() + Math.max(1, seconds) * 1_000);
    },
  };
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
