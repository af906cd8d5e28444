/**
 * Limits how many pages of a service are requested at the same time, over all its exports, to `maxConcurrentPages`
 * (docs/architecture.md, "Concurrent pages").
 *
 * One small record per service lists the slots in use. It is replaced as a whole, by compare-and-set. A slot is a
 * lease: if its holder dies, the slot becomes free when the lease ends. There is no queue: exports without a slot try
 * again at random times.
 */

import * as z from 'zod/mini';
import type { PageSlot, PageSlots, Runtime, SharedRecord, Versioned } from '../ports.ts';
import { maxLeaseMs } from './held-slot.ts';

export const slotsRecord = z.object({
  holders: z.readonly(
    z.array(
      z.object({
        /** Random, unique to one call of `acquire`. */
        id: z.string(),
        /** When others may use the slot if it is not returned, in seconds since the epoch. */
        expiresAt: z.int(),
      }),
    ),
  ),
});
export type SlotsRecord = Readonly<z.infer<typeof slotsRecord>>;
export type SlotHolder = SlotsRecord['holders'][number];

/** How much the clocks of two functions may differ. */
const clockMarginSeconds = 60;

/** For how long an export tries to get a slot inside its invocation. */
export const maxPollMs = 10_000;
const minPauseMs = 100;
/** How often others may take a slot while an export polls. After that, it waits in its execution. */
const maxLosses = 2;

/** How often the return of a slot is tried. A slot that is not returned is lost until its lease ends. */
const maxReturnTries = 80;
/** An error of the store counts as so many tries: its client has repeated the request itself. */
const triesPerError = 40;

/** @throws from `acquire`: the store's errors, unchanged, and the reason of an aborted signal */
export function createPageSlots({
  record,
  limit,
  runtime,
}: {
  readonly record: SharedRecord<SlotsRecord>;
  /** How many slots the service has. */
  readonly limit: number;
  readonly runtime: Runtime;
}): PageSlots {
  return {
    async acquire({ leaseMs, signal, isRenewal = false }) {
      const id = runtime.randomHex(16);
      const pollUntil = runtime.monotonicNow() + Math.min(maxPollMs, leaseMs / 4);
      let slot: PageSlot | undefined;
      let previousHolders: ReadonlySet<string> | undefined;
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
          const isLoss = previousHolders !== undefined && !holders.isSubsetOf(previousHolders);
          if (isLoss) losses += 1;
          previousHolders = holders;
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
    const stored = await record.read();
    const grantedAt = runtime.now();
    const others = holdersIn(stored).filter((holder) => holder.id !== id && holdsAt(holder, grantedAt));
    if (others.length >= limit) return { others };
    const expiresAt = Math.ceil((grantedAt + leaseMs) / 1_000) + clockMarginSeconds;
    const taken = await record.replace(stored, { holders: [...others, { id, expiresAt }] });
    return taken === undefined ? { others } : { others, slot: { grantedAt, release: () => returnSlot(id) } };
  }

  async function returnSlot(id: string): Promise<void> {
    for (let tries = 0; tries < maxReturnTries;) {
      try {
        const stored = await record.read();
        const held = holdersIn(stored);
        const holders = held.filter((holder) => holder.id !== id);
        if (holders.length === held.length || (await record.replace(stored, { holders })) !== undefined) return;
        tries += 1;
      } catch {
        tries += triesPerError;
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

const holdersIn = ({ content }: Versioned<SlotsRecord>): readonly SlotHolder[] => content?.holders ?? [];

/** Whether the lease is valid. One that ends too far ahead was not written by this code, and is ignored. */
function holdsAt({ expiresAt }: SlotHolder, nowMs: number): boolean {
  const now = nowMs / 1_000;
  return now < expiresAt && expiresAt <= now + maxLeaseMs / 1_000 + 2 * clockMarginSeconds;
}
