/**
 * Limits how many requests a service receives in a period, over all its exports and all processes (docs/guarantees.md,
 * "Exports of one service").
 *
 * A shared record says when the next place for a request is free (GCRA, the generic cell rate algorithm). A request
 * takes a place by compare-and-set, and only if its invocation can wait for it: a place that is taken and not used is
 * lost to all. Otherwise nothing is written, and the run continues after a Wait state.
 */

import * as z from 'zod/mini';
import { createSlots } from '../concurrency.ts';
import type { RequestRate, Runtime, SharedRecord, Versioned } from '../ports.ts';
import { maxPlaceWaitMs, NotYet } from './held-slot.ts';
import { type SendRequest, throughGate } from './page-requests.ts';

/** At most `requests` in any period of `perMs`, and at most `burst` of them at once. */
export interface RateLimit {
  readonly requests: number;
  readonly perMs: number;
  readonly burst: number;
}

/** Times in milliseconds since the epoch. */
export const rateRecord = z.object({
  /** The theoretical arrival time of GCRA: from then on, a whole burst is free. A request moves it by one interval. */
  usedUntil: z.number(),
  /** The end of a Retry-After of the service. */
  notBefore: z.number(),
});
export type RateRecord = Readonly<z.infer<typeof rateRecord>>;

/**
 * The fraction by which the period is lengthened. The limit holds while the clocks of processes, and the times that
 * requests travel, differ by at most half of that.
 */
const margin = 0.02;

/** A longer Retry-After binds only the run that received it. */
const maxSharedRetryAfterMs = 300_000;
/** A time that is farther ahead than any valid one, by more than this, was written by a wrong clock. */
const clockMarginMs = 60_000;
/** A request that waits longer reads the record again: meanwhile, the service may have sent a Retry-After. */
const rereadAfterMs = 1_000;
/** How long before its place a waiting request reads the record again. */
const rereadLeadMs = 100;
/** The most time that a process reserves between taking a place and sending the request. */
const maxLeadMs = 1_000;
/** After each request in time, the reserved time is reduced to this part of it: so slowly that few are late again. */
const leadDecay = 0.95;

/** Sends requests as the rate alone allows. A Retry-After holds back the requests of other exports, too. */
export const atRate = <Options extends { readonly signal?: AbortSignal }, Result>(
  send: SendRequest<Options, Result>,
  rate: RequestRate | undefined,
): SendRequest<Options, Result> => (rate === undefined ? send : throughGate(send, { rate }));

/** The milliseconds between two places. A burst and the places after it in the same period are `requests` together. */
const intervalOf = ({ requests, perMs, burst }: RateLimit): number => (perMs * (1 + margin)) / (requests - burst + 1);

/** The content of the record, without times that only a wrong clock can have written. */
function plausible(content: RateRecord | undefined, limit: RateLimit, now: number): RateRecord {
  const { usedUntil = 0, notBefore: retryAfter = 0 } = content ?? {};
  const notBefore = retryAfter <= now + maxSharedRetryAfterMs + clockMarginMs ? retryAfter : 0;
  const latestPlace = Math.max(now, notBefore) + maxPlaceWaitMs + clockMarginMs;
  return { usedUntil: usedUntil <= latestPlace + limit.burst * intervalOf(limit) ? usedUntil : 0, notBefore };
}

/** The next place, from `earliest` on, and the record once it is taken. */
function nextPlace(record: RateRecord, limit: RateLimit, earliest: number): { placeAt: number; taken: RateRecord } {
  const { usedUntil, notBefore } = record;
  const interval = intervalOf(limit);
  const placeAt = Math.max(earliest, notBefore, usedUntil - (limit.burst - 1) * interval);
  return { placeAt, taken: { notBefore, usedUntil: Math.max(usedUntil, placeAt) + interval } };
}

/** The time to reserve between taking a place and sending the request. */
function createLead({ perMs }: RateLimit) {
  let leadMs = 0;
  return {
    ms: () => leadMs,
    /** Whether a request can be sent `lateMs` after its place. A later one would be too close to the next. */
    isInTime(lateMs: number): boolean {
      const isInTime = lateMs <= (perMs * margin) / 2;
      leadMs = isInTime ? leadMs * leadDecay : Math.min(2 * Math.max(lateMs, leadMs), maxLeadMs);
      return isInTime;
    },
  };
}

/** @throws from both functions: the store's errors, unchanged */
export function createRequestRate({
  record,
  limit,
  runtime,
}: {
  readonly record: SharedRecord<RateRecord>;
  readonly limit: RateLimit;
  readonly runtime: Runtime;
}): RequestRate {
  const { now, monotonicNow } = runtime;
  /** The newest record that this process knows. */
  let known: Versioned<RateRecord> | undefined;
  const turns = createSlots(1);
  const lead = createLead(limit);

  return {
    async take({ waitUntil = Number.POSITIVE_INFINITY, signal } = {}) {
      for (;;) {
        const maxWaitMs = Math.min(waitUntil - monotonicNow(), maxPlaceWaitMs);
        const endTurn = await turns.acquire(signal);
        const placeAt = await reserve(maxWaitMs).finally(endTurn);
        const isUsable = await waitFor(placeAt, signal);
        if (!isUsable) continue;
        if (lead.isInTime(now() - placeAt)) return;
      }
    },
    async holdBack(seconds) {
      const until = now() + Math.min(seconds * 1_000, maxSharedRetryAfterMs);
      const endTurn = await turns.acquire();
      try {
        await change((current) => (current.notBefore >= until ? undefined : { ...current, notBefore: until }));
      } finally {
        endTurn();
      }
    },
  };

  /** Takes the next place. @throws NotYet if it is not free, and more than `maxWaitMs` ahead: then none is taken */
  async function reserve(maxWaitMs: number): Promise<number> {
    let place = 0;
    await change((current) => {
      const earliest = now() + lead.ms();
      const { placeAt, taken } = nextPlace(current, limit, earliest);
      // A free place is always taken: otherwise, invocations that have no time to wait would never send a request.
      const tooLateMs = placeAt - earliest - Math.max(0, maxWaitMs);
      if (tooLateMs > 0) throw new NotYet('The next place of the rate is too far ahead', tooLateMs / 1_000);
      place = placeAt;
      return taken;
    });
    return place;
  }

  /** Replaces the record with what `decide` returns; undefined changes nothing. */
  async function change(decide: (current: RateRecord) => RateRecord | undefined): Promise<void> {
    for (let stored = known ?? (await record.read()); ; stored = await record.read()) {
      // Until this change succeeds, the record may be another one.
      known = undefined;
      const next = decide(plausible(stored.content, limit, now()));
      if (next === undefined) return;
      known = await record.replace(stored, next);
      if (known !== undefined) return;
    }
  }

  /** Resolves to whether the place can still be used. */
  async function waitFor(placeAt: number, signal: AbortSignal | undefined): Promise<boolean> {
    const waitMs = placeAt - now();
    if (waitMs > rereadAfterMs) {
      await runtime.sleep(waitMs - rereadLeadMs, signal);
      const { content } = await record.read();
      if (plausible(content, limit, now()).notBefore > placeAt) return false;
    }
    const restMs = placeAt - now();
    if (restMs > 0) await runtime.sleep(restMs, signal);
    return true;
  }
}
