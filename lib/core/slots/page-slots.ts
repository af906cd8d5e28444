/**
 * Limits how many pages of a service are requested at the same time, over all its exports, to `maxConcurrentPages`
 * (docs/architecture.md, "Concurrent pages").
 *
 * One small record per service lists the slots in use. It is replaced as a whole, by compare-and-set. A slot is a lease: if
 * its holder dies, the slot becomes free when the lease ends.
 *
 * There is no queue. An export without a slot polls inside its invocation until others have been faster twice, and then its execution
 * waits for a random time. So only some of those that wait poll at any time, and which of them gets the next slot is chance.
 */

import type { PageSlots, Runtime } from '../ports.ts';
import { maxLeaseMs } from './held-slot.ts';

/** Stores the record of one service's slots. Reads are strongly consistent. */
export interface SlotStore {
  /**
   * Undefined if nothing is stored yet. A damaged record must not stop the exports: it is read as an empty one with its
   * version, or as undefined if its version is damaged, too.
   */
  read(): Promise<SlotState | undefined>;
  /**
   * Compare-and-set: writes `state` only if the stored state has version `state.version - 1` (`read` returns none, for
   * version 1). Resolves to whether it was written.
   */
  replace(state: SlotState): Promise<boolean>;
}

export interface SlotState {
  /** 1 for the first state ever written. Each replacement adds one. */
  readonly version: number;
  readonly holders: readonly {
    /** Random, unique to one call of `acquire`. */
    readonly id: string;
    /** When others may use the slot if it is not returned, in seconds since the epoch. */
    readonly expiresAt: number;
  }[];
}

/** How much the clocks of two functions may differ. */
const clockMarginSeconds = 60;

/** For how long an export polls inside its invocation. */
export const maxPollMs = 10_000;
const minPollIntervalMs = 100;
/** An export leaves when others have taken a free slot before it so often. */
const maxLosses = 2;

/** `release` is persistent, because a slot that is not returned is lost until its lease ends. The store's client retries errors already. */
const maxReleaseConflicts = 80;
const maxReleaseErrors = 2;

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
      /** When the newest write began that takes a slot, whether or not it took effect. */
      let grantedAt: number | undefined;
      let seen: SlotState | undefined;
      let losses = 0;
      try {
        for (;;) {
          signal?.throwIfAborted();
          const stored = await store.read();
          // An earlier write of this call took effect, though another one followed before its response arrived.
          if (grantedAt !== undefined && stored !== undefined && holds(stored, id)) {
            return { grantedAt, release: () => release(id) };
          }

          const now = runtime.now();
          const state = current(stored, now);
          // One that has just had a slot lets those that poll go first.
          if (state.holders.length < limit && (seen !== undefined || !isRenewal)) {
            grantedAt = now;
            const expiresAt = Math.ceil((now + Math.min(leaseMs, maxLeaseMs)) / 1_000) + clockMarginSeconds;
            const holders = [...state.holders, { id, expiresAt }];
            const isTaken = await store.replace({ version: state.version + 1, holders });
            if (isTaken) return { grantedAt, release: () => release(id) };
          }
          if (seen !== undefined && state.holders.some((holder) => !holds(seen as SlotState, holder.id))) losses += 1;
          seen = state;
          if (losses >= maxLosses || runtime.monotonicNow() >= pollUntil) {
            if (grantedAt !== undefined) await release(id);
            return undefined;
          }
          await runtime.sleep(minPollIntervalMs * (1 + 2 * random()), signal);
        }
      } catch (error) {
        // A write may have taken a slot although its response was lost. Nothing else would return it before its lease ends.
        if (grantedAt !== undefined) await release(id);
        throw error;
      }
    },
  };

  async function release(id: string): Promise<void> {
    for (let conflicts = 0, errors = 0; conflicts <= maxReleaseConflicts && errors < maxReleaseErrors;) {
      try {
        const stored = await store.read();
        if (stored === undefined || !holds(stored, id)) return;
        const holders = stored.holders.filter((holder) => holder.id !== id);
        if (await store.replace({ ...stored, version: stored.version + 1, holders })) return;
        conflicts += 1;
      } catch {
        errors += 1;
      }
      await runtime.sleep(5 + random() * Math.min(100, 10 * 2 ** (conflicts + errors)));
    }
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  function random(): number {
    return Number.parseInt(runtime.randomHex(4), 16) / 0x1_0000;
  }
}

/** Without slots whose lease has ended. What is too far ahead was not written by this code. */
function current(stored: SlotState | undefined, nowMs: number): SlotState {
  const { version, holders } = stored ?? { version: 0, holders: [] };
  const now = nowMs / 1_000;
  const latestEnd = now + maxLeaseMs / 1_000 + 2 * clockMarginSeconds;
  return { version, holders: holders.filter(({ expiresAt }) => now < expiresAt && expiresAt <= latestEnd) };
}

const holds = ({ holders }: SlotState, id: string): boolean => holders.some((holder) => holder.id === id);
