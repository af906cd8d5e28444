/** Checks each record of the slots before it is stored: how many are held, and for how long. */

import type { World } from '../world/world.ts';

/** The item, as an outsider reads it. */
export interface SlotItem {
  /** With times in seconds since the epoch. */
  readonly holders: readonly { readonly expiresAt: number }[];
}

/** No function runs for longer. */
const maxLeaseSeconds = 900;
/** How much the clocks of two functions may differ (docs/guarantees.md). */
const clockMarginSeconds = 60;

export function checkSlots(
  world: World,
  limit: number,
  maxSkewMs: number,
  writer: string,
  { holders }: SlotItem,
): void {
  const now = world.time.now() / 1_000;
  const skew = maxSkewMs / 1_000;
  const held = holders.filter(({ expiresAt }) => expiresAt > now + skew);
  if (held.length > limit) {
    world.violate('no more slots are held than maxConcurrentPages', `${writer} writes ${held.length} of ${limit}`);
  }
  const latest = Math.max(...held.map(({ expiresAt }) => expiresAt));
  if (latest > now + skew + maxLeaseSeconds + clockMarginSeconds) {
    world.violate('a slot of a killed function becomes free', `${writer} writes one until ${latest}, at ${now}`);
  }
}
