/** Checks each record of the slots before it is stored: who holds one, and whether it was that export's turn. */

import type { World } from '../world/world.ts';

/** The item, as an outsider reads it. */
export interface SlotItem {
  /** JSON text: pairs of an ID, or of an export, and a time in seconds since the epoch. */
  readonly slots: string;
}

interface Slots {
  readonly holders: readonly (readonly [id: string, expiresAt: number])[];
  readonly queue: readonly (readonly [exportName: string, checkAt: number])[];
}

/**
 * A slot is granted in the order of the queue. A waiter that is late may be passed over, so only those count that say they
 * will check later than any clock of the simulation shows now.
 */
export function checkSlots(
  world: World,
  limit: number,
  maxSkewMs: number,
  writer: string,
  item: SlotItem,
  previous: SlotItem | undefined,
): void {
  const { holders, queue } = JSON.parse(item.slots) as Slots;
  const before: Slots = previous === undefined ? { holders: [], queue: [] } : JSON.parse(previous.slots);
  const ids = new Set(before.holders.map(([id]) => id));
  if (holders.every(([id]) => ids.has(id))) return;
  const now = world.time.now() / 1_000;
  const skew = maxSkewMs / 1_000;
  const used = before.holders.filter(([, expiresAt]) => expiresAt > now + skew).length;
  // Each slice waits on its own. The one that has a slot now waits no longer.
  const waiting = new Set(queue.map(([name]) => name));
  const place = before.queue.findIndex(([name]) => name.split('#')[0] === writer && !waiting.has(name));
  const ahead = before.queue
    .slice(0, place === -1 ? undefined : place)
    .filter(([, checkAt]) => checkAt >= now + skew)
    .map(([name]) => name);
  if (ahead.length >= limit - used) {
    world.violate(
      'no export is overtaken while it waits for a slot',
      `${writer} takes one of ${limit - used} free slots before ${ahead.join(', ')}`,
    );
  }
}
