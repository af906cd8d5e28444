/**
 * Stores the slots of a service in an item of the page log's table.
 *
 * A damaged item must not stop the exports of the service. If its version is intact, it is read as a record of that version
 * without holders, and replaced on the condition that it still has that version. If its version is not, no condition is possible: it
 * is read as missing, and the first write replaces it unconditionally. Two exports that do so at once may lose a slot, as all those
 * before them already have: until their leases end, the service may receive more requests at once than the limit.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import * as z from 'zod/mini';
import type { Runtime } from '../../core/ports.ts';
import type { SlotStore } from '../../core/slots/page-slots.ts';
import { conditionalWrites } from './conditional-writes.ts';
import { type Item, recordIn, slotsKey, type SlotsOf, toSlotsItem } from './items.ts';

const slotsSchema = z.object({
  holders: z.array(z.object({ id: z.string(), expiresAt: z.int() })),
});

/** Needs dynamodb:GetItem and dynamodb:PutItem on the table. */
export function createDynamoSlotStore({
  service,
  of,
  ...options
}: {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`. */
  readonly table: string;
  readonly service: string;
  readonly of?: SlotsOf;
  readonly runtime: Pick<Runtime, 'randomHex'>;
}): SlotStore {
  const { get, replace } = conditionalWrites(options);
  const key = slotsKey(service, of);
  return {
    async read() {
      const item = await get(key);
      const version = item && versionOf(item);
      if (item === undefined || version === undefined) return undefined;
      try {
        return { version, ...slotsSchema.parse(JSON.parse(recordIn(item).json ?? '')) };
      } catch {
        return { version, holders: [] };
      }
    },

    async replace(state) {
      const item = toSlotsItem(key, state);
      const { written, existing } = await replace(item);
      const isDamaged = state.version === 1 && existing !== undefined && versionOf(existing) === undefined;
      return isDamaged ? (await replace(item, true)).written : written;
    },
  };
}

/** A version that has a successor. */
function versionOf(item: Item): number | undefined {
  const { version } = recordIn(item);
  return Number.isSafeInteger(version + 1) && version >= 1 ? version : undefined;
}
