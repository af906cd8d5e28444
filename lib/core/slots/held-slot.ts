/**
 * The slot of one invocation: taken when a request needs it, and returned while none does, so that no export keeps the
 * others of its service waiting.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { FetchedPage, PageRequest, PageSlot, PageSlots, Runtime } from '../ports.ts';

/** A slot held for longer is returned before the next request, and requested again with those that wait. */
export const maxHoldMs = 15_000;

/** There is no slot for the next request: the run continues after a wait. */
export class NoFreeSlot extends Error {
  readonly waitSeconds: number;

  constructor(waitSeconds: number) {
    super(`No slot is free within ${waitSeconds} s`);
    this.waitSeconds = waitSeconds;
  }
}

export interface HeldSlot {
  /**
   * Takes the slot for the next request, or keeps the one that is held.
   * @throws NoFreeSlot; ServiceUnavailableError if taking it lasted too long; and what `PageSlots.acquire` throws
   */
  take(signal?: AbortSignal): Promise<void>;
  /** Returns the slot, if one is held. Never rejects. */
  release(): Promise<void>;
}

/** `leaseMs` covers one request that begins when the slot has been held for 15 s. */
export function holdSlot(slots: PageSlots, leaseMs: number, { now }: Pick<Runtime, 'now'>): HeldSlot {
  let held: PageSlot | undefined;

  async function release(): Promise<void> {
    const slot = held;
    held = undefined;
    await slot?.release();
  }

  /** Whether a request that begins now ends before the lease does. */
  const coversRequest = ({ grantedAt }: PageSlot) => now() - grantedAt < maxHoldMs;

  return {
    async take(signal) {
      if (held !== undefined && coversRequest(held)) return;
      await release();
      const slot = await slots.acquire({ leaseMs, signal });
      if (!slot.granted) throw new NoFreeSlot(slot.waitSeconds);
      held = slot;
      if (coversRequest(slot)) return;
      await release();
      throw new ExportError(
        'ServiceUnavailableError',
        `No page was requested: taking a slot (maxConcurrentPages) lasted longer than ${maxHoldMs / 1_000} s, because the table is slow ` +
          'or the invocation was suspended. The attempt is retried',
      );
    },
    release,
  };
}

/**
 * Requests pages as one slot allows: one request at a time, and only while a slot is held. A request waits until the one
 * before it is over: it failed, its signal aborted, or its body has ended, failed or was closed. Then it takes the slot.
 */
export function withinSlot<Page extends Pick<FetchedPage, 'body'>>(
  requestPage: (request: PageRequest, signal?: AbortSignal) => Promise<Page>,
  slot: HeldSlot,
): typeof requestPage {
  /** Resolves once all requests so far are over. */
  let idle = Promise.resolve();
  return async (request, signal) => {
    const previous = idle;
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    idle = previous.then(() => over);
    try {
      await untilAborted(previous, signal);
      await slot.take(signal);
      const page = await requestPage(request, signal);
      // The body of an aborted request may never be read.
      if (signal?.aborted) end();
      signal?.addEventListener('abort', () => end(), { once: true });
      return { ...page, body: withEnd(page.body, end) };
    } catch (error) {
      // A wait for the service, short or long, holds no slot.
      if (isExportError(error, 'ServiceThrottledError')) await slot.release();
      end();
      throw error;
    }
  };
}

/** Resolves when `promise` does, or rejects with the signal's reason when it aborts. */
async function untilAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return await promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** The same body. Calls `onEnd` when it has ended, failed or been closed. */
function withEnd(body: FetchedPage['body'], onEnd: () => void): FetchedPage['body'] {
  return {
    [Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      return {
        async next() {
          try {
            const result = await chunks.next();
            if (result.done === true) onEnd();
            return result;
          } catch (error) {
            onEnd();
            throw error;
          }
        },
        async return() {
          try {
            await chunks.return?.();
          } finally {
            onEnd();
          }
          return { done: true, value: undefined };
        },
      };
    },
  };
}
