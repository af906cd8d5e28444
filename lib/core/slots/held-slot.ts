/**
 * The slot of one chain within an invocation: taken when a request needs it, and returned while none does, so that no
 * export keeps the others of its service waiting.
 */

import { createSlots } from '../concurrency.ts';
import { isExportError } from '../errors.ts';
import type { PageSlot, PageSlots, Runtime } from '../ports.ts';

/** A slot that was held for longer is returned before the next request, so that other exports can take it. */
export const maxHoldMs = 15_000;

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
  /** Returns the slot, if one is held. Never rejects. */
  release(): Promise<void>;
}

/** The longest lease. No Lambda function runs longer. */
export const maxLeaseMs = 900_000;

/** `leaseMs` has to cover a request that begins when the slot has been held for `maxHoldMs`. */
export function holdSlot(slots: PageSlots, { now }: Pick<Runtime, 'now'>, leaseMs = maxLeaseMs): HeldSlot {
  let held: PageSlot | undefined;

  async function release(): Promise<void> {
    const slot = held;
    held = undefined;
    await slot?.release();
  }

  /** Whether a request that begins now ends before the lease does. */
  const coversRequest = (slot: PageSlot | undefined): boolean =>
    slot !== undefined && now() - slot.grantedAt < maxHoldMs;

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
    release,
  };
}

/**
 * Fetches pages as one slot allows: one at a time, and only while a slot is held. A request waits until the one
 * before it is over, and then takes the slot.
 */
export function withinSlot<Request, Options extends { readonly signal?: AbortSignal }, Result>(
  send: (request: Request, options: Options) => Promise<Result>,
  slot: HeldSlot,
): typeof send {
  const turns = createSlots(1);
  return async (request, options) => {
    const endTurn = await turns.acquire(options.signal);
    try {
      await slot.take(options.signal);
      return await send(request, options);
    } catch (error) {
      // Other exports can use the slot while this one waits for the service.
      if (isExportError(error, 'ServiceThrottledError')) await slot.release();
      throw error;
    } finally {
      endTurn();
    }
  };
}
