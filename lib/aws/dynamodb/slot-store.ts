/**
 * Stores which exports of a service, and slices of their runs, hold a slot or wait for one, in an item of the page log's table. The
 * holders, the queue and the average are compact JSON text: every write costs by the kilobyte, and a hundred waiters take about
 * four. The version and the write token are attributes of their own.
 *
 * The SDK retries a write whose response was lost, and the retry finds what the first attempt wrote: a record with the
 * token of this write counts as written.
 *
 * A damaged item must not stop the exports of the service. If its version is intact, it is read as a record of that version
 * without holders and waiters, and replaced on the condition that it still has that version. If its version is not, no
 * condition is possible: it is read as missing, and the first write replaces it unconditionally. Two exports that do so
 * at once may lose a slot or a place, as all those before them already have: until their leases end, the service may
 * receive more requests at once than the limit.
 */

import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import * as z from 'zod/mini';
import type { Runtime } from '../../core/ports.ts';
import type { SlotState, SlotStore } from '../../core/slots/page-slots.ts';
import { type Item, slotsKey, toKeyItem, writeTokenOf } from './items.ts';

/** Needs dynamodb:GetItem and dynamodb:PutItem on the table. */
export function createDynamoSlotStore({
  client,
  table,
  service,
  runtime,
}: {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`. */
  readonly table: string;
  readonly service: string;
  readonly runtime: Pick<Runtime, 'randomHex'>;
}): SlotStore {
  const key = toKeyItem(slotsKey(service));

  const get = async (): Promise<Item | undefined> =>
    (await client.send(new GetItemCommand({ TableName: table, Key: key, ConsistentRead: true }))).Item;

  const put = async (item: Item, condition: Partial<PutItemCommandInput>): Promise<void> => {
    const returning = { ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const;
    await client.send(new PutItemCommand({ TableName: table, Item: item, ...returning, ...condition }));
  };

  return {
    async read() {
      const item = await get();
      return item && toState(item);
    },

    async replace(state) {
      const token = runtime.randomHex(32);
      const item = toItem(key, state, token);
      try {
        await put(item, conditionOf(state));
        return true;
      } catch (error) {
        if (!(error instanceof ConditionalCheckFailedException)) throw error;
        // Some emulators do not return the item.
        const existing = error.Item ?? (await get());
        if (existing === undefined) return false;
        if (writeTokenOf(existing) === token) return true;
        if (state.version > 1 || versionOf(existing) !== undefined) return false;
        await put(item, {});
        return true;
      }
    },
  };
}

function conditionOf({ version }: SlotState): Partial<PutItemCommandInput> {
  if (version === 1) return { ConditionExpression: 'attribute_not_exists(pk)' };
  return {
    ConditionExpression: 'version = :previous',
    ExpressionAttributeValues: { ':previous': { N: String(version - 1) } },
  };
}

/** Names and instants in pairs, because the names of fields would take more space than their values. */
const recordSchema = z.object({
  holders: z.array(z.tuple([z.string(), z.int()])),
  queue: z.array(z.tuple([z.string(), z.int()])),
  averageHoldMs: z.int().check(z.minimum(0)),
  lastGrantAt: z.int(),
});

type SlotRecord = z.infer<typeof recordSchema>;
const emptyRecord: SlotRecord = { holders: [], queue: [], averageHoldMs: 0, lastGrantAt: 0 };

function toItem(
  key: Item,
  { version, holders, queue, averageHoldMs, lastGrantAt }: SlotState,
  writeToken: string,
): Item {
  const record: SlotRecord = {
    holders: holders.map(({ id, expiresAt }) => [id, expiresAt]),
    queue: queue.map(({ export: exportName, checkAt }) => [exportName, checkAt]),
    averageHoldMs,
    lastGrantAt,
  };
  return {
    ...key,
    version: { N: String(version) },
    slots: { S: JSON.stringify(record) },
    writeToken: { S: writeToken },
  };
}

/** Undefined if the item has no version. */
function toState(item: Item): SlotState | undefined {
  const version = versionOf(item);
  if (version === undefined) return undefined;
  const { holders, queue, ...rest } = parseRecord(item) ?? emptyRecord;
  return {
    version,
    ...rest,
    holders: holders.map(([id, expiresAt]) => ({ id, expiresAt })),
    queue: queue.map(([exportName, checkAt]) => ({ export: exportName, checkAt })),
  };
}

function parseRecord(item: Item): SlotRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(item.slots?.S ?? ''));
  } catch {
    return undefined;
  }
}

/** A version that has a successor. */
function versionOf(item: Item): number | undefined {
  const version = Number(item.version?.N);
  return Number.isSafeInteger(version + 1) && version >= 1 ? version : undefined;
}
