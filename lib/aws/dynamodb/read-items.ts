/** Reads many items in few requests. */

import { BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { mapConcurrently } from '../../core/concurrency.ts';
import { ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import { type Item, type ItemKey, toKeyItem } from './items.ts';

interface ReadItemsOptions {
  readonly client: DynamoDBClient;
  readonly clock: Pick<Clock, 'sleep'>;
}

export interface ItemLocation extends ItemKey {
  readonly table: string;
}

/** DynamoDB's own limit. */
const itemsPerRequest = 100;
const concurrency = 8;
/** The keys that DynamoDB leaves unprocessed are requested again, after 0.1 s at first and 3.2 s at last. */
const maxAttempts = 7;

/**
 * Resolves to a function that returns the item at one of the `locations`. Needs dynamodb:BatchGetItem.
 * @throws ServiceUnavailableError if DynamoDB leaves keys unprocessed at every attempt
 */
export async function readItems(
  options: ReadItemsOptions,
  locations: readonly ItemLocation[],
): Promise<(location: ItemLocation) => Item | undefined> {
  const batches = Array.from({ length: Math.ceil(locations.length / itemsPerRequest) }, (_, index) =>
    locations.slice(index * itemsPerRequest, (index + 1) * itemsPerRequest),
  );
  const items = new Map<string, Item>();
  await mapConcurrently(batches, concurrency, (batch) => readBatch(options, batch, items));
  return ({ table, pk, sk }) => items.get(idOf(table, toKeyItem({ pk, sk })));
}

const idOf = (table: string, { pk, sk }: Item): string => JSON.stringify([table, pk?.S, sk?.S]);

type Requests = Record<string, { Keys: Item[]; ConsistentRead: true }>;

/** Adds the items of up to 100 locations to `items`. */
async function readBatch(
  { client, clock }: ReadItemsOptions,
  locations: readonly ItemLocation[],
  items: Map<string, Item>,
): Promise<void> {
  let requests: Requests = {};
  for (const { table, pk, sk } of locations) {
    (requests[table] ??= { Keys: [], ConsistentRead: true }).Keys.push(toKeyItem({ pk, sk }));
  }
  for (let attempt = 1; ; attempt += 1) {
    const { Responses = {}, UnprocessedKeys = {} } = await client.send(
      new BatchGetItemCommand({ RequestItems: requests }),
    );
    for (const [table, found] of Object.entries(Responses)) {
      for (const item of found) items.set(idOf(table, item), item);
    }
    requests = Object.fromEntries(
      Object.entries(UnprocessedKeys).map(([table, { Keys = [] }]) => [table, { Keys, ConsistentRead: true }]),
    );
    if (Object.keys(requests).length === 0) return;
    if (attempt === maxAttempts) {
      throw new ExportError(
        'ServiceUnavailableError',
        `DynamoDB did not return all states from table ${Object.keys(requests).join(', ')} in ${maxAttempts} attempts, ` +
          'because it is throttled. Try again later',
      );
    }
    await clock.sleep(100 * 2 ** (attempt - 1));
  }
}
