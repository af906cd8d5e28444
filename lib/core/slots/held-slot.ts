/**
 * The slot of one invocation: taken when a request needs it, and returned while none does, so that no export keeps the
 * others of its service waiting.
 */

import type { PageSlot, PageSlots, Runtime } from '../ports.ts';

/** A slot held for longer is returned before the next request, and requested again after those that wait. */
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
  /** The slot for the next request. @throws NoFreeSlot, and what `PageSlots.acquire` throws */
  take(signal?: AbortSignal): Promise<PageSlot>;
  /** Returns the slot, if one is held. Never rejects. */
  release(): Promise<void>;
}

/** `leaseMs` covers one request that begins when the slot has been held for 15 s. */
export function holdSlot(
  slots: PageSlots,
  exportName: string,
  leaseMs: number,
  { now }: Pick<Runtime, 'now'>,
): HeldSlot {
  let held: { readonly slot: PageSlot; readonly since: number } | undefined;

  async function release(): Promise<void> {
    const slot = held?.slot;
    held = undefined;
    await slot?.release();
  }

  return {
    async take(signal) {
      if (held !== undefined && now() - held.since < maxHoldMs) return held.slot;
      await release();
      const slot = await slots.acquire(exportName, { leaseMs, signal });
      if (!slot.granted) throw new NoFreeSlot(slot.waitSeconds);
      held = { slot, since: now() };
      return slot;
    },
    release,
  };
}
