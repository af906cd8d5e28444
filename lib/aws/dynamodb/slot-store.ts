/**
 * Stores the slots of a service in an item of the page log's table. Each write has a random token, which the next
 * write must name.
 *
 * A damaged item must not stop the exports of the service: what cannot be read has no holders, and an item without a
 * token is replaced. Until the leases of its holders end, the service may receive more requests at once than the
 * limit.
 */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import * as z from 'zod/mini';
import type { Runtime } from '../../core/ports.ts';
import type { SlotStore } from '../../core/slots/page-slots.ts';
import { conditionalWrites } from './conditional-writes.ts';
import { recordIn, slotsKey, type SlotsOf, toAttributes } from './items.ts';

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
  const { get, putIf } = conditionalWrites(options);
  const key = slotsKey(service, of);
  return {
    async read() {
      const item = (await get(key)) ?? {};
      const revision = item.writeToken?.S;
      try {
        return { revision, ...slotsSchema.parse(JSON.parse(recordIn(item).json ?? '')) };
      } catch {
        return { revision, holders: [] };
      }
    },

    async replace({ revision }, holders) {
      const token = options.runtime.randomHex(32);
      const item = { ...key, ...toAttributes({ json: JSON.stringify({ holders }) }), writeToken: { S: token } };
      const { written, existing } = await putIf(
        item,
        revision === undefined
          ? {
              ConditionExpression: 'NOT attribute_type(writeToken, :text)',
              ExpressionAttributeValues: { ':text': { S: 'S' } },
            }
          : { ConditionExpression: 'writeToken = :read', ExpressionAttributeValues: { ':read': { S: revision } } },
      );
      // The SDK repeats a write whose response was lost.
      return written || existing?.writeToken?.S === token;
    },
  };
}
