/** Reads the states of many exports in few requests. */

import { BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { mapConcurrently } from '../../core/concurrency.ts';
import { ExportError } from '../../core/errors.ts';
import type { ExportState } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import { parseExportState } from '../../core/storage/stored-records.ts';
import { fromStateItem, type Item, stateKey, toKeyItem } from './items.ts';
import { recordStoreOf } from './page-log.ts';

export interface ExportStatesOptions {
  readonly client: DynamoDBClient;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** Where the state of an export is. */
export interface StateLocation {
  readonly table: string;
  readonly service: string;
  readonly export: string;
}

/** DynamoDB's own limit. */
const itemsPerRequest = 100;
const concurrency = 8;
/** The keys that DynamoDB leaves unprocessed are requested again, after 0.1 s at first and 3.2 s at last. */
const maxAttempts = 7;

/**
 * The states, in the order of `locations`: undefined for an export that has never run. A state that was changed since it was
 * written is a rejected result, as it must not hide the others. Needs dynamodb:BatchGetItem.
 * @throws ServiceUnavailableError if DynamoDB leaves keys unprocessed at every attempt
 */
export async function readExportStates(
  options: ExportStatesOptions,
  locations: readonly StateLocation[],
): Promise<readonly PromiseSettledResult<ExportState | undefined>[]> {
  const batches = Array.from({ length: Math.ceil(locations.length / itemsPerRequest) }, (_, index) =>
    locations.slice(index * itemsPerRequest, (index + 1) * itemsPerRequest),
  );
  const found = await mapConcurrently(batches, concurrency, (batch) => readBatch(options, batch));
  const items = new Map(found.flatMap((batch) => [...batch]));
  return locations.map((location) => {
    const item = items.get(idOf(location.table, keyOf(location)));
    try {
      return { status: 'fulfilled', value: item && parseState(location, item) };
    } catch (reason) {
      return { status: 'rejected', reason };
    }
  });
}

function parseState({ table, service, export: exportName }: StateLocation, item: Item): ExportState {
  return parseExportState(exportName, recordStoreOf(table, service), () => fromStateItem(item));
}

const keyOf = ({ service, export: exportName }: StateLocation): Item => toKeyItem(stateKey(service, exportName));
const idOf = (table: string, { pk }: Item): string => `${table} ${pk?.S}`;

type Requests = Record<string, { Keys: Item[]; ConsistentRead: true }>;

/** The items of up to 100 locations, by `idOf`. */
async function readBatch(
  { client, clock }: ExportStatesOptions,
  locations: readonly StateLocation[],
): Promise<ReadonlyMap<string, Item>> {
  const items = new Map<string, Item>();
  let requests: Requests = {};
  for (const location of locations) {
    (requests[location.table] ??= { Keys: [], ConsistentRead: true }).Keys.push(keyOf(location));
  }
  for (let attempt = 1; Object.keys(requests).length > 0; attempt += 1) {
    const { Responses = {}, UnprocessedKeys = {} } = await client.send(
      new BatchGetItemCommand({ RequestItems: requests }),
    );
    for (const [table, found] of Object.entries(Responses)) {
      for (const item of found) items.set(idOf(table, item), item);
    }
    requests = Object.fromEntries(
      Object.entries(UnprocessedKeys).map(([table, { Keys = [] }]) => [table, { Keys, ConsistentRead: true }]),
    );
    if (Object.keys(requests).length === 0) break;
    if (attempt === maxAttempts) {
      throw new ExportError(
        'ServiceUnavailableError',
        `DynamoDB did not return all states from table ${Object.keys(requests).join(', ')} in ${maxAttempts} attempts, ` +
          'because it is throttled. Try again later',
      );
    }
    await clock.sleep(100 * 2 ** (attempt - 1));
  }
  return items;
}
