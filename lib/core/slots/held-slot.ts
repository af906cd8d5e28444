/**
 * The slot of one chain within an invocation: taken when a request needs it, and returned while none does, so that no
 * export keeps the others of its service waiting.
 */

import type { PageSlot, PageSlots, Runtime } from '../ports.ts';

/** A slot that was held for longer is returned before the next request, so that other exports can take it. */
export const maxHoldMs = 15_000;
/** How long a request may take to be sent once it has its slot: its credentials may have to be read. */
export const maxSendDelayMs = 10_000;
/** No invocation waits longer for a place in the rate of the service. */
export const maxPlaceWaitMs = 60_000;

/** The next request has to wait for a slot, or for its place in the rate, for longer than this invocation can. */
export class NotYet extends Error {
  /** How long to wait before the next attempt. Undefined: it is not known when a slot becomes free. */
  readonly seconds: number | undefined;

  constructor(message: string, seconds?: number) {
    super(message);
    this.seconds = seconds;
  }
}

export interface HeldSlot {
  /**
   * Takes the slot for the next request, or keeps the one that is held.
   * @throws NotYet, and what `PageSlots.acquire` throws
   */
  take(signal?: AbortSignal): Promise<void>;
  /**
   * Called when the request is sent, after `waitMs` at most for its place in the rate.
   * @throws NotYet if it may end after the lease, because the invocation was suspended since `take`
   */
  assertCovers(waitMs: number): void;
  /** Returns the slot, if one is held. Never rejects. */
  release(): Promise<void>;
}

/** The longest lease. No Lambda function runs longer. */
export const maxLeaseMs = 900_000;

/**
 * `leaseMs` has to cover a request that takes the slot when it has been held for `maxHoldMs`, and is sent after
 * `maxSendDelayMs` and the wait for its place in the rate.
 */
export function holdSlot(slots: PageSlots, { now }: Pick<Runtime, 'now'>, leaseMs = maxLeaseMs): HeldSlot {
  let held: PageSlot | undefined;

  async function release(): Promise<void> {
    const slot = held;
    held = undefined;
    await slot?.release();
  }

  const isYounger = (slot: PageSlot | undefined, ageMs: number): boolean =>
    slot !== undefined && now() - slot.grantedAt < ageMs;
  /** Whether a request that takes the slot now ends before the lease does. */
  const coversRequest = (slot: PageSlot | undefined): boolean => isYounger(slot, maxHoldMs);

  return {
    async take(signal) {
      if (coversRequest(held)) return;
      const isRenewal = held !== undefined;
      await release();
      held = await slots.acquire({ leaseMs, signal, isRenewal });
      if (coversRequest(held)) return;
      // The lease may be nearly over, if the shared record was slow or the invocation was suspended.
      await release();
      throw new NotYet('No slot is free');
    },
    assertCovers(waitMs) {
      if (!isYounger(held, maxHoldMs + maxSendDelayMs + waitMs))
        throw new NotYet('The lease of the slot is nearly over');
    },
    release,
  };
}
