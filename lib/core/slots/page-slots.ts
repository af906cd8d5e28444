/**
 * Limits how many pages of a service are requested at the same time, over all its exports, to `maxConcurrentPages`
 * (docs/architecture.md, "Concurrent pages").
 *
 * One small record per service lists the slots in use. It is replaced as a whole, by compare-and-set. A slot is a
 * lease: if its holder dies, the slot becomes free when the lease ends. There is no queue: exports without a slot try
 * again at random times.
 */

import type { PageSlot, PageSlots, Runtime } from '../ports.ts';
import { maxLeaseMs } from './held-slot.ts';

/** Stores the record of one service's slots. Reads are strongly consistent. */
export interface SlotStore {
  /** A damaged record must not stop the exports: it has no holders. */
  read(): Promise<StoredSlots>;
  /**
   * Compare-and-set: writes `holders` only if the record is still the one that was read. Resolves to whether it was
   * written.
   */
  replace(read: StoredSlots, holders: readonly SlotHolder[]): Promise<boolean>;
}

export interface StoredSlots {
  /** Changes with each write. Undefined: there is no record, or it is damaged. */
  readonly revision: string | undefined;
  readonly holders: readonly SlotHolder[];
}

export interface SlotHolder {
  /** Random, unique to one call of `acquire`. */
  readonly id: string;
  /** When others may use the slot if it is not returned, in seconds since the epoch. */
  readonly expiresAt: number;
}

/** How much the clocks of two functions may differ. */
const clockMarginSeconds = 60;

/** For how long an export tries to get a slot inside its invocation. */
export const maxPollMs = 10_000;
const minPauseMs = 100;
/**
 * How often others may take a slot while an export polls. Then it waits in its execution instead, where it pays for no
 * function.
 */
const maxLosses = 2;

/**
 * How often a return is tried after conflicts: a slot that is not returned is lost until its lease ends. An error
 * counts as many tries, because the store's client has repeated the request itself.
 */
const maxReturns = 80;
const returnsPerError = 40;

/** @throws from `acquire`: the store's errors, unchanged, and the reason of an aborted signal */
export function createPageSlots({
  store,
  limit,
  runtime,
}: {
  readonly store: SlotStore;
  /** How many slots the service has. */
  readonly limit: number;
  readonly runtime: Runtime;
}): PageSlots {
  return {
    async acquire({ leaseMs, signal, isRenewal = false }) {
      const id = runtime.randomHex(16);
      const pollUntil = runtime.monotonicNow() + Math.min(maxPollMs, leaseMs / 4);
      let slot: PageSlot | undefined;
      let previous: ReadonlySet<string> | undefined;
      let losses = 0;
      try {
        // A chain that has just returned its slot lets the others go first.
        if (isRenewal) await pause(signal);
        for (;;) {
          signal?.throwIfAborted();
          const found = await take(id, Math.min(leaseMs, maxLeaseMs));
          slot = found.slot;
          if (slot !== undefined) return slot;
          const holders = new Set(found.others.map((holder) => holder.id));
          if (previous !== undefined && !holders.isSubsetOf(previous)) losses += 1;
          previous = holders;
          if (losses >= maxLosses || runtime.monotonicNow() >= pollUntil) return undefined;
          await pause(signal);
        }
      } finally {
        // A write may have taken a slot although it was reported as refused, or its response was lost.
        if (slot === undefined) await returnSlot(id);
      }
    },
  };

  async function take(id: string, leaseMs: number): Promise<{ others: readonly SlotHolder[]; slot?: PageSlot }> {
    const stored = await store.read();
    const grantedAt = runtime.now();
    const others = stored.holders.filter((holder) => holder.id !== id && holdsAt(holder, grantedAt));
    if (others.length >= limit) return { others };
    const expiresAt = Math.ceil((grantedAt + leaseMs) / 1_000) + clockMarginSeconds;
    const isTaken = await store.replace(stored, [...others, { id, expiresAt }]);
    return isTaken ? { others, slot: { grantedAt, release: () => returnSlot(id) } } : { others };
  }

  async function returnSlot(id: string): Promise<void> {
    for (let tries = 0; tries < maxReturns;) {
      try {
        const stored = await store.read();
        const others = stored.holders.filter((holder) => holder.id !== id);
        if (others.length === stored.holders.length || (await store.replace(stored, others))) return;
        tries += 1;
      } catch {
        tries += returnsPerError;
      }
      await runtime.sleep(minPauseMs * random());
    }
  }

  async function pause(signal: AbortSignal | undefined): Promise<void> {
    await runtime.sleep(minPauseMs * (1 + 2 * random()), signal);
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  function random(): number {
    return Number.parseInt(runtime.randomHex(4), 16) / 0x1_0000;
  }
}

/** Whether the lease has not ended. This code writes no end that is too far ahead: the record was changed. */
function holdsAt({ expiresAt }: SlotHolder, nowMs: number): boolean {
  const now = nowMs / 1_000;
  return now < expiresAt && expiresAt <= now + maxLeaseMs / 1_000 + 2 * clockMarginSeconds;
}
