/**
 * Stores the incidents of each run in an item of the page log's table, in the partition of its export. The record is JSON text: it is
 * read and written as a whole. Two attempts of a run may write at the same time, so every write is conditional.
 */

import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb';
import { type IncidentLog, type IncidentRecord, parseIncidentRecord } from '../../target/incidents.ts';
import type { RunRef, Runtime } from '../../core/ports.ts';
import { type Item, type ItemKey, partitionOf, toKeyItem, writeTokenOf } from './items.ts';

/** No sort key of another item of the partition begins like this. */
export const incidentsKey = (service: string, { export: exportName, run }: RunRef): ItemKey => ({
  pk: partitionOf(service, exportName),
  sk: `incidents#${run}`,
});

/** As long as the entries of the run's pages. */
const retentionDays = 400;

/** Attempts of one run seldom overlap. */
const maxConflicts = 5;

/** Needs dynamodb:GetItem on the table, and dynamodb:PutItem to write. */
export function createDynamoIncidentLog({
  client,
  table,
  service,
  runtime,
}: {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`, and `expiresAt` as its time to live. */
  readonly table: string;
  readonly service: string;
  readonly runtime: Pick<Runtime, 'now' | 'randomHex'>;
}): IncidentLog {
  const get = async (key: Item, signal?: AbortSignal): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName: table, Key: key, ConsistentRead: true });
    return (await client.send(command, signal && { abortSignal: signal })).Item;
  };

  /** Resolves to whether the item still had the version before, or an earlier attempt of this request has written. */
  const put = async (
    key: Item,
    version: number,
    record: IncidentRecord,
    signal: AbortSignal | undefined,
  ): Promise<boolean> => {
    const writeToken = runtime.randomHex(32);
    const item: Item = {
      ...key,
      version: { N: String(version) },
      record: { S: JSON.stringify(record) },
      writeToken: { S: writeToken },
      expiresAt: { N: String(Math.floor(runtime.now() / 1_000) + retentionDays * 86_400) },
    };
    const condition =
      version === 1
        ? { ConditionExpression: 'attribute_not_exists(pk)' }
        : {
            ConditionExpression: 'version = :previous',
            ExpressionAttributeValues: { ':previous': { N: String(version - 1) } },
          };
    try {
      const command = new PutItemCommand({ TableName: table, Item: item, ...condition });
      await client.send(command, signal && { abortSignal: signal });
      return true;
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      const existing = await get(key, signal);
      return existing !== undefined && writeTokenOf(existing) === writeToken;
    }
  };

  return {
    async read(run) {
      return parseIncidentRecord((await get(toKeyItem(incidentsKey(service, run))))?.record?.S);
    },

    async update(run, change, signal) {
      const key = toKeyItem(incidentsKey(service, run));
      for (let conflicts = 0; conflicts < maxConflicts; conflicts += 1) {
        const existing = await get(key, signal);
        signal?.throwIfAborted();
        const record = parseIncidentRecord(existing?.record?.S);
        const changed = change(record);
        if (changed === record || (await put(key, Number(existing?.version?.N ?? 0) + 1, changed, signal))) return;
      }
      throw new Error(`The incidents of run ${run.run} were changed concurrently at each of ${maxConflicts} attempts`);
    },
  };
}
