/**
 * Exports that share the slots of a service, in virtual time. Each export is a loop as the state machine runs it: an
 * invocation that requests a slot, holds it while it exports a page, and returns it; a Wait state if there is no slot; a
 * retry after an error. Every decision depends on the seed alone.
 */

import type { PageSlot, Runtime } from '../../../lib/core/ports.ts';
import { createPageSlots, type SlotState, type SlotStore } from '../../../lib/core/slots/page-slots.ts';
import { createRng, type Rng } from '../../simulation/world/rng.ts';
import { createTimeline } from '../../simulation/world/virtual-time.ts';
import { createMemorySlotStore, type MemorySlotStore } from './memory-adapters.ts';

export interface SimulatedExport {
  readonly name: string;
  readonly pages: number;
  readonly startAfterMs: number;
  /** How long a page takes. */
  readonly holdMs: (rng: Rng) => number;
}

/** Probabilities. */
export interface SlotFaults {
  /** A write is refused, as though another had come before it. */
  readonly conflict?: number;
  /** A write takes effect, and fails. */
  readonly lostResponse?: number;
  /** A write takes effect and is followed by another, so that it is reported as refused. */
  readonly replacedWrite?: number;
  /** A read or a write fails without effect. */
  readonly storeError?: number;
  /** An invocation dies while it holds a slot, and is retried. */
  readonly crash?: number;
  /** An invocation dies at a random moment while it waits, and is not retried. */
  readonly vanish?: number;
  /** An invocation is late by up to a minute. */
  readonly late?: number;
  /** An invocation is duplicated. */
  readonly duplicate?: number;
  /** Clocks differ from the true time by up to this much. */
  readonly maxClockOffsetMs?: number;
}

export interface SlotSimulationOptions {
  readonly seed: string;
  readonly limit: number;
  readonly exports: readonly SimulatedExport[];
  readonly faults?: SlotFaults;
  readonly leaseMs?: number;
  readonly untilMs?: number;
  /** Called once, after this time. May change the stored record. */
  readonly intervene?: { readonly afterMs: number; readonly act: (store: MemorySlotStore) => void };
}

export interface SlotHistory {
  readonly grants: readonly Grant[];
  /** When each export had all its pages, in milliseconds from the start. */
  readonly finishedAt: ReadonlyMap<string, number>;
  /** Exports that were stopped while they waited. */
  readonly vanished: ReadonlySet<string>;
  readonly counts: Readonly<Counts>;
  /** The longest time between the first request for a slot and the slot. */
  readonly longestWaitMs: number;
  readonly endState: SlotState | undefined;
}

interface Counts {
  /** Calls of `acquire`, and those that got no slot. */
  acquires: number;
  refused: number;
  reads: number;
  writes: number;
  conflicts: number;
}

/** A slot that an export got. All times are true times, in milliseconds since the epoch. */
interface Grant {
  readonly export: string;
  /** From 1; 0 in a duplicate invocation. */
  readonly page: number;
  readonly at: number;
  /** When the slot was returned, or its holder died. */
  until: number;
  /** When the holder has to stop. */
  readonly leaseEnd: number;
}

export const simulationStart = Date.UTC(2026, 10, 20, 2);

export async function simulateSlots(options: SlotSimulationOptions): Promise<SlotHistory> {
  const { seed, limit, exports, faults = {}, leaseMs = 300_000, untilMs = 86_400_000, intervene } = options;
  const timeline = createTimeline(simulationStart);
  const rng = createRng(seed, 'slots');
  const memory = createMemorySlotStore();
  const counts: Counts = { acquires: 0, refused: 0, reads: 0, writes: 0, conflicts: 0 };
  const grants: Grant[] = [];
  /** Since when exports without a slot have requested one. */
  const waiting = new Map<string, number>();
  const finishedAt = new Map<string, number>();
  const vanished = new Set<string>();
  let longestWaitMs = 0;

  for (const each of exports) timeline.after(each.startAfterMs, () => void exportPages(each));
  if (intervene !== undefined) timeline.after(intervene.afterMs, () => intervene.act(memory));
  const stop = () => finishedAt.size + vanished.size === exports.length;
  await timeline.run({ until: simulationStart + untilMs, stop });
  return { grants, finishedAt, vanished, counts, longestWaitMs, endState: memory.current() };

  async function exportPages(each: SimulatedExport): Promise<void> {
    const { name, pages } = each;
    for (let page = 1; page <= pages; page += 1) {
      for (let attempt = 0; ; attempt += 1) {
        const outcome = await invoke(each, page);
        if (outcome === 'exported') break;
        if (outcome === 'vanished') {
          vanished.add(name);
          waiting.delete(name);
          return;
        }
        const backoffMs = 2_000 * 2 ** Math.min(attempt, 7);
        await timeline.sleep(outcome === 'failed' ? rng.between(0, backoffMs) : outcome * 1_000 + rng.between(0, 500));
      }
    }
    finishedAt.set(name, timeline.now() - simulationStart);
  }

  /** One invocation. Returns the seconds to wait if there is no slot. */
  async function invoke(
    { name, holdMs }: SimulatedExport,
    page: number,
  ): Promise<'exported' | 'failed' | 'vanished' | number> {
    // The transition of the state machine and the start of the function.
    await timeline.sleep(rng.between(50, 150) + (rng.chance(0.02) ? 1_000 : 0));
    if (rng.chance(faults.late ?? 0)) await timeline.sleep(rng.between(0, 60_000));
    const invocation = createInvocation();
    if (!waiting.has(name)) waiting.set(name, timeline.now());
    const keepAlive = rng.chance(faults.vanish ?? 0)
      ? timeline.after(rng.between(0, 12_000), invocation.kill)
      : () => {};
    if (rng.chance(faults.duplicate ?? 0)) void duplicate(name);
    counts.acquires += 1;
    const acquired = await Promise.race([
      createPageSlots({ ...invocation, limit })
        .acquire({ leaseMs })
        .catch(() => 'failed' as const),
      invocation.killed.then(() => 'vanished' as const),
    ]);
    keepAlive();
    if (acquired === 'failed' || acquired === 'vanished') return acquired;
    if (acquired === undefined) {
      counts.refused += 1;
      return rng.between(10, 30);
    }
    const grant = hold(name, page, acquired, invocation.offset);
    const isCrashing = rng.chance(faults.crash ?? 0);
    await timeline.sleep(holdMs(rng));
    grant.until = timeline.now();
    if (isCrashing) return 'failed';
    await acquired.release();
    return 'exported';
  }

  /** Another invocation of the export at the same time. */
  async function duplicate(name: string): Promise<void> {
    const invocation = createInvocation();
    const acquired = await createPageSlots({ ...invocation, limit })
      .acquire({ leaseMs })
      .catch(() => undefined);
    if (acquired === undefined) return;
    const grant = hold(name, 0, acquired, invocation.offset);
    await timeline.sleep(rng.between(0, 5_000));
    grant.until = timeline.now();
    await acquired.release();
  }

  function hold(name: string, page: number, { grantedAt }: PageSlot, offset: number): Grant {
    const at = timeline.now();
    const leaseEnd = grantedAt + leaseMs - offset;
    const grant: Grant = { export: name, page, at, until: Number.POSITIVE_INFINITY, leaseEnd };
    grants.push(grant);
    longestWaitMs = Math.max(longestWaitMs, at - (waiting.get(name) ?? at));
    waiting.delete(name);
    return grant;
  }

  function createInvocation(): Invocation {
    const { promise: killed, resolve } = Promise.withResolvers<void>();
    let isDead = false;
    /** Lets time pass. Never resolves in a dead invocation. */
    const pass = async (ms: number) => {
      await timeline.sleep(ms);
      if (isDead) await new Promise(() => {});
    };
    const offset = rng.between(-1, 1) * (faults.maxClockOffsetMs ?? 0);
    return {
      offset,
      store: {
        async read() {
          counts.reads += 1;
          await pass(rng.between(2, 8));
          if (rng.chance(faults.storeError ?? 0)) throw new Error('the read failed');
          return await memory.read();
        },
        async replace(state) {
          counts.writes += 1;
          await pass(rng.between(2, 8));
          if (rng.chance(faults.storeError ?? 0)) throw new Error('the write failed');
          const isWritten = !rng.chance(faults.conflict ?? 0) && (await memory.replace(state));
          if (!isWritten) counts.conflicts += 1;
          if (isWritten && rng.chance(faults.lostResponse ?? 0)) throw new Error('the response is lost');
          if (!isWritten || !rng.chance(faults.replacedWrite ?? 0)) return isWritten;
          return !(await memory.replace({ ...state, version: state.version + 1 }));
        },
      },
      runtime: {
        now: () => timeline.now() + offset,
        monotonicNow: () => timeline.now(),
        sleep: pass,
        randomHex: (length) => Array.from({ length }, () => rng.integerBelow(16).toString(16)).join(''),
      },
      kill() {
        isDead = true;
        resolve();
      },
      killed,
    };
  }
}

/** The most slots in use at the same time, of invocations that were alive and within their lease, from a time on. */
export function mostSlotsHeld({ grants }: SlotHistory, from = 0): number {
  const changes = grants
    .map(({ at, until, leaseEnd }) => ({ at, end: Math.min(until, leaseEnd) }))
    .filter(({ at, end }) => at >= from && at < end)
    .flatMap(({ at, end }) => [
      { at, change: 1 },
      { at: end, change: -1 },
    ])
    // A slot that is returned may be taken in the same millisecond.
    .sort((one, other) => one.at - other.at || one.change - other.change);
  let held = 0;
  return Math.max(0, ...changes.map(({ change }) => (held += change)));
}

interface Invocation {
  readonly store: SlotStore;
  readonly runtime: Runtime;
  /** Its clock minus the true time. */
  readonly offset: number;
  /** From here on, nothing of the invocation continues. */
  readonly kill: () => void;
  readonly killed: Promise<void>;
}
