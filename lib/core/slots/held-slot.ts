/**
 * The slot of one invocation: taken when a request needs it, and returned while none does, so that no export keeps the
 * others of its service waiting.
 */

import { ExportError } from '../errors.ts';
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
  /**
   * Takes the slot for the next request, or keeps the one that is held.
   * @throws NoFreeSlot; ServiceUnavailableError if taking it lasted too long; and what `PageSlots.acquire` throws
   */
  take(signal?: AbortSignal): Promise<void>;
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
      const slot = await slots.acquire(exportName, { leaseMs, signal });
      if (!slot.granted) throw new NoFreeSlot(slot.waitSeconds);
      held = slot;
      if (coversRequest(slot)) return;
      await release();
      throw new ExportError(
        'ServiceUnavailableError',
        `Export ${exportName} requested no page: taking its slot (maxConcurrentPages) lasted longer than ${maxHoldMs / 1_000} s, because the table ` +
          'is slow or the invocation was suspended. The attempt is retried',
      );
    },
    release,
  };
}
