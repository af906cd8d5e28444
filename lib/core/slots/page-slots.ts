/**
 * Shares the slots of a service fairly between its exports: at most `maxConcurrentPages` pages are requested at the same
 * time (docs/architecture.md, "Concurrent pages").
 *
 * One small record per service lists the slots in use, the exports that wait for one, and how long a slot is held on
 * average. It is replaced as a whole, by compare-and-set. Slots are given in the order of the queue. An export leaves the
 * queue when it gets a slot, and joins it at the end for its next page, so all exports advance at the same pace.
 *
 * A waiter near the front of the queue polls inside its invocation. Every other one says when it will check again, and
 * leaves. A slot is kept free for a waiter that still has time until then, so that no other overtakes it while it sleeps. One
 * that is late keeps its place, but does not block those after it: its execution may have been stopped.
 *
 * A slot is a lease. If its holder dies, the slot becomes free when the lease ends.
 */

import type { PageSlot, PageSlots, Runtime } from '../ports.ts';

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

/** The slots of a service. Instants are in whole seconds since the epoch, because the record should be small. */
export interface SlotState {
  /** 1 for the first state ever written. Each replacement adds one. */
  readonly version: number;
  /** The slots in use. */
  readonly holders: readonly SlotHolder[];
  /** The exports that wait for a slot, oldest first. Each is in it once. */
  readonly queue: readonly SlotWaiter[];
  /** A moving average of how long a slot is held; 0 until the first one is returned. */
  readonly averageHoldMs: number;
  /** When the newest slot was given; 0 before the first. */
  readonly lastGrantAt: number;
}

interface SlotHolder {
  /** Random, unique to one call of `acquire`. */
  readonly id: string;
  /** When others may use the slot if it is not returned. */
  readonly expiresAt: number;
}

interface SlotWaiter {
  readonly export: string;
  /** When the waiter checks again whether it is its turn. */
  readonly checkAt: number;
}

/** The slots of a service whose exports have requested none yet. It is not stored: the first write replaces version 0. */
const noSlots: SlotState = { version: 0, holders: [], queue: [], averageHoldMs: 0, lastGrantAt: 0 };

/** How much the clocks of two functions may differ. */
const clockMarginSeconds = 60;
/** No lease is longer: Lambda's own limit. */
const maxLeaseMs = 900_000;
/** How late a waiter may be before it is passed over. Covers a cold start, and the time for which it polls. */
const graceSeconds = 15;
/** A waiter that is so late has been stopped. */
const forgottenAfterSeconds = 600;

/** For how long a waiter polls inside its invocation. */
export const maxPollMs = 10_000;
/** A waiter that expects its turn so soon polls, too: the Wait state takes at least a second. */
const pollIfWithinMs = 2_000;
/** Assumed until the first slot is returned. */
const initialHoldMs = 1_000;
/** The weight of the newest value in the moving average is one part in so many. */
const averageOver = 16;

/**
 * Compare-and-set conflicts after which a call gives up, and the longest delay between them. Either takes about four
 * seconds. `release` is more persistent than `acquire`, because a slot that is not returned is lost until its lease ends.
 */
const acquireConflicts = { max: 20, maxDelayMs: 500 } as const;
const releaseConflicts = { max: 80, maxDelayMs: 100 } as const;
/** Errors of the store after which `release` gives up. The store's client has retried already. */
const maxReleaseErrors = 2;

/**
 * @throws from `acquire`: the store's errors, unchanged, and the reason of an aborted signal. The export then keeps its
 *   place in the queue.
 */
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
    async acquire(exportName, { leaseMs, signal }) {
      const id = runtime.randomHex(16);
      const pollUntil = runtime.now() + Math.min(maxPollMs, leaseMs / 4);
      /** When the newest write began that takes a slot, whether or not it took effect. */
      let grantedAt: number | undefined;
      const slotSince = (at: number): PageSlot => ({ granted: true, grantedAt: at, release: () => release(id, at) });
      try {
        for (let conflicts = 0; conflicts <= acquireConflicts.max;) {
          signal?.throwIfAborted();
          const stored = await store.read();
          // An earlier write of this call took effect, though another one followed before its response arrived.
          if (grantedAt !== undefined && stored !== undefined && holds(stored, id)) return slotSince(grantedAt);

          const now = runtime.now();
          const holder = { id, expiresAt: toSeconds(now + Math.min(leaseMs, maxLeaseMs)) + clockMarginSeconds };
          const { write, next } = nextMove(withoutExpired(stored, now), { exportName, limit, holder, pollUntil }, now);
          if (next === 'hold') grantedAt = now;
          if (write !== undefined && !(await store.replace(write))) {
            conflicts += 1;
            await runtime.sleep(delayMs(conflicts, acquireConflicts.maxDelayMs), signal);
          } else if (next === 'hold') return slotSince(now);
          else if ('waitSeconds' in next) return { granted: false, waitSeconds: next.waitSeconds };
          // Up to a third less.
          else await runtime.sleep(next.pollMs * (1 - random() / 3), signal);
        }
      } catch (error) {
        // A write may have taken a slot although its response was lost. Nothing else would return it before its lease ends.
        if (grantedAt !== undefined) await release(id);
        throw error;
      }
      await release(id);
      return { granted: false, waitSeconds: random() < 0.5 ? 1 : 2 };
    },
  };

  /** Measures how long the slot was held, if `grantedAt` is given. */
  async function release(id: string, grantedAt?: number): Promise<void> {
    let errors = 0;
    for (let conflicts = 0; conflicts <= releaseConflicts.max && errors < maxReleaseErrors;) {
      try {
        const stored = await store.read();
        if (stored === undefined || !holds(stored, id)) return;
        const averageHoldMs =
          grantedAt === undefined ? stored.averageHoldMs : averageWith(stored.averageHoldMs, runtime.now() - grantedAt);
        const holders = stored.holders.filter((holder) => holder.id !== id);
        if (await store.replace({ ...stored, version: stored.version + 1, holders, averageHoldMs })) return;
        conflicts += 1;
      } catch {
        errors += 1;
      }
      await runtime.sleep(delayMs(conflicts + errors, releaseConflicts.maxDelayMs));
    }
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  function random(): number {
    return Number.parseInt(runtime.randomHex(4), 16) / 0x1_0000;
  }

  /** Up to 10 ms at first, and up to twice as long with every attempt. */
  function delayMs(attempt: number, maxMs: number): number {
    return 5 + random() * Math.min(maxMs, 10 * 2 ** (attempt - 1));
  }
}

interface SlotRequest {
  readonly exportName: string;
  readonly limit: number;
  /** Takes the slot. */
  readonly holder: SlotHolder;
  /** Until when this call may poll, in milliseconds since the epoch. */
  readonly pollUntil: number;
}

/** What `acquire` does with the record that it has read: it may write another one, and then holds a slot, polls or leaves. */
interface Move {
  readonly write?: SlotState;
  readonly next: 'hold' | { readonly pollMs: number } | { readonly waitSeconds: number };
}

function nextMove(state: SlotState, { exportName, limit, holder, pollUntil }: SlotRequest, nowMs: number): Move {
  const { holders, queue } = state;
  const version = state.version + 1;
  const place = queue.findIndex((waiter) => waiter.export === exportName);
  const own = queue[place];
  const inTime = (own ? queue.slice(0, place) : queue).filter(
    ({ checkAt }) => nowMs / 1_000 <= checkAt + graceSeconds,
  ).length;
  const free = limit - holders.length;
  if (inTime < free) {
    const others = queue.filter((waiter) => waiter.export !== exportName);
    const lastGrantAt = toSeconds(nowMs);
    return { write: { ...state, version, holders: [...holders, holder], queue: others, lastGrantAt }, next: 'hold' };
  }

  const checkingAt = (checkAt: number): SlotState => {
    const waiter = { export: exportName, checkAt };
    return { ...state, version, queue: own ? queue.with(place, waiter) : [...queue, waiter] };
  };
  const averageMs = state.averageHoldMs || initialHoldMs;
  // If all slots have been held for long, the average is out of date, or a holder has died. Then there is no hurry.
  const sinceLastGrantMs = free > 0 ? 0 : nowMs - state.lastGrantAt * 1_000;
  const holdMs = Math.max(averageMs, sinceLastGrantMs / 4);
  /** How many slots must be returned until it is this export's turn, and how long one of these takes. */
  const turns = inTime + 1 - free;
  const turnMs = holdMs / limit;
  const isNear = inTime < limit || turns * turnMs <= pollIfWithinMs;
  if (isNear && nowMs < pollUntil) {
    const next = { pollMs: Math.min(500, Math.max(100, holdMs / 10)) };
    // Polling only reads, so the waiter must count as in time until it ends.
    const staysInTime = own !== undefined && toSeconds(pollUntil) <= own.checkAt + graceSeconds;
    return staysInTime ? { next } : { write: checkingAt(toSeconds(nowMs)), next };
  }
  // A slot stays free for a waiter that sleeps too long. So it wakes early, by one and a half standard deviations of the
  // time that so many turns take if they are random, and gets closer with every check.
  const waitMs = Math.max(turns - 1.5 * Math.sqrt(turns), turns / 4) * turnMs;
  const waitSeconds = Math.max(1, Math.floor(Math.min(waitMs / 1_000, maxWaitSeconds(averageMs))));
  return { write: checkingAt(toSeconds(nowMs) + waitSeconds), next: { waitSeconds } };
}

/** A minute, or four times as long as a slot is held, but at most five minutes. */
const maxWaitSeconds = (averageMs: number): number => Math.min(300, Math.max(60, (4 * averageMs) / 1_000));

/** Without slots whose lease has ended, and without waiters that are forgotten. */
function withoutExpired(stored: SlotState = noSlots, nowMs: number): SlotState {
  const now = nowMs / 1_000;
  const latestEnd = now + maxLeaseMs / 1_000 + 2 * clockMarginSeconds;
  // What is too far ahead was not written by this code.
  return {
    ...stored,
    holders: stored.holders.filter(({ expiresAt }) => now < expiresAt && expiresAt <= latestEnd),
    queue: stored.queue.filter(({ checkAt }) => Math.abs(now - checkAt) <= forgottenAfterSeconds),
    averageHoldMs: stored.averageHoldMs <= maxLeaseMs ? stored.averageHoldMs : 0,
    lastGrantAt: stored.lastGrantAt <= now + clockMarginSeconds ? stored.lastGrantAt : 0,
  };
}

const holds = ({ holders }: SlotState, id: string): boolean => holders.some((holder) => holder.id === id);

function averageWith(average: number, heldMs: number): number {
  // At least 1: 0 means that there is no average yet. A clock can be set back.
  const held = Math.max(1, heldMs);
  return Math.max(1, Math.round(average === 0 ? held : average + (held - average) / averageOver));
}

const toSeconds = (ms: number): number => Math.ceil(ms / 1_000);
