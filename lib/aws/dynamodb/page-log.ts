/**
 * Stores export states and page-log entries in one DynamoDB table. A page counts as exported once it is logged here, so
 * every write is conditional and every read strongly consistent.
 *
 * The SDK retries a write whose response was lost, and the retry finds what the first attempt wrote. An existing entry is
 * adopted, regardless of which attempt wrote it; an existing state counts as written if it has the token of this write.
 */

import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
  QueryCommand,
  type QueryCommandInput,
} from '@aws-sdk/client-dynamodb';
import type { PageLog, RunHistory, RunRef, Runtime } from '../../core/ports.ts';
import { type BackfillStore, parseBackfill } from '../../backfill/store.ts';
import { parseWindowName } from '../../backfill/windows.ts';
import { parseExportState, parsePageEntry, type RecordStore } from '../../core/storage/stored-records.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { readAhead } from '../read-ahead.ts';
import {
  afterLastEntry,
  backfillKey,
  entriesPrefix,
  entryKey,
  firstEntry,
  fromBackfillItem,
  fromEntryItem,
  fromStateItem,
  type Item,
  type ItemKey,
  pageInSortKey,
  partitionOf,
  runInSortKey,
  stateKey,
  toBackfillItem,
  toEntryItem,
  toKeyItem,
  toStateItem,
  windowInSortKey,
  windowPrefix,
  writeTokenOf,
} from './items.ts';

export interface DynamoPageLogOptions {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`, and `expiresAt` as its time to live. */
  readonly table: string;
  /** The first part of every partition key. Services that share a table have different names. */
  readonly service: string;
  readonly runtime: Pick<Runtime, 'now' | 'randomHex'>;
  /** How long entries are kept. Manifests outlive them, and states never expire. */
  readonly retentionDays?: number;
  /** How states and backfills are read. Default: one at a time. */
  readonly readItem?: (key: ItemKey) => Promise<Item | undefined>;
}

/** Entries per query, so that memory stays constant. */
const batchSize = 500;

/** Needs dynamodb:GetItem, dynamodb:PutItem and dynamodb:Query on the table. */
export function createDynamoPageLog(
  options: DynamoPageLogOptions,
): PageLog & RunHistory & { readonly backfills: BackfillStore } {
  const { client, table, service, runtime, retentionDays = 400 } = options;
  const recordStore = recordStoreOf(table, service);

  const get = async (key: ItemKey): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName: table, Key: toKeyItem(key), ConsistentRead: true });
    return (await client.send(command)).Item;
  };
  const { readItem = get } = options;

  /** Resolves to whether the item was written; if not, also to the item that exists. */
  const putIf = async (
    key: ItemKey,
    put: Pick<PutItemCommandInput, 'Item' | 'ConditionExpression' | 'ExpressionAttributeValues'>,
  ): Promise<{ readonly written: boolean; readonly existing?: Item | undefined }> => {
    try {
      await client.send(
        new PutItemCommand({ TableName: table, ReturnValuesOnConditionCheckFailure: 'ALL_OLD', ...put }),
      );
      return { written: true };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      // Some emulators do not return the item.
      return { written: false, existing: error.Item ?? (await get(key)) };
    }
  };

  /** Writes an item with a version, if the item has the version before. */
  const replace = async (key: ItemKey, version: number, toItem: (token: string) => Item): Promise<boolean> => {
    const token = runtime.randomHex(32);
    const condition =
      version === 1
        ? { ConditionExpression: 'attribute_not_exists(pk)' }
        : {
            ConditionExpression: 'version = :previous',
            ExpressionAttributeValues: { ':previous': { N: String(version - 1) } },
          };
    const { written, existing } = await putIf(key, { Item: toItem(token), ...condition });
    return written || (existing !== undefined && writeTokenOf(existing) === token);
  };

  /** The items of an export whose sort keys begin with `prefix`. */
  const queryItems = (exportName: string, prefix: string, options: Partial<QueryCommandInput>) =>
    client.send(
      new QueryCommand({
        TableName: table,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
        ExpressionAttributeValues: {
          ':pk': { S: partitionOf(service, exportName) },
          ':prefix': { S: prefix },
        },
        ...options,
      }),
    );
  const queryEntries = ({ export: exportName, run }: RunRef, options: Partial<QueryCommandInput>) =>
    queryItems(exportName, entriesPrefix({ run }), options);

  /** Entries sort by run and page, so the entry that precedes a run's first entry is the last entry of the previous run. */
  const lastEntryBefore = async (exportName: string, sk: string): Promise<Item | undefined> => {
    const { Items: [item] = [] } = await client.send(
      new QueryCommand({
        TableName: table,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :before',
        ExpressionAttributeValues: {
          ':pk': { S: partitionOf(service, exportName) },
          ':first': { S: firstEntry },
          ':before': { S: sk },
        },
        ScanIndexForward: false,
        Limit: 1,
      }),
    );
    return item;
  };

  const parseEntry = ({ export: exportName, run }: RunRef, item: Item) => {
    const page = pageInSortKey({ run }, item.sk?.S);
    return parsePageEntry({ export: exportName, run, page }, recordStore, () => fromEntryItem(item));
  };

  const backfills: BackfillStore = {
    async read(exportName) {
      const item = await readItem(backfillKey(service, exportName));
      return item && parseBackfill(exportName, recordStore, () => fromBackfillItem(item));
    },
    replace: (backfill) =>
      replace(backfillKey(service, backfill.export), backfill.version, (token) =>
        toBackfillItem(service, backfill, token),
      ),
    async *windowStates(exportName) {
      const query = async (ExclusiveStartKey: Item | undefined) =>
        await queryItems(exportName, windowPrefix, { ExclusiveStartKey });
      for (let startKey: Item | undefined; ;) {
        const { Items = [], LastEvaluatedKey } = await query(startKey);
        for (const item of Items) {
          yield parseExportState(windowInSortKey(exportName, item.sk?.S), recordStore, () => fromStateItem(item));
        }
        if (LastEvaluatedKey === undefined) return;
        startKey = LastEvaluatedKey;
      }
    },
  };

  return {
    backfills,

    async exportState(exportName) {
      const item = await readItem(stateKey(service, exportName));
      return item && parseExportState(exportName, recordStore, () => fromStateItem(item));
    },

    replaceState: (state) =>
      replace(stateKey(service, state.export), state.version, (token) => toStateItem(service, state, token)),

    async append(entry) {
      const expiresAt = Math.floor(runtime.now() / 1_000) + retentionDays * 86_400;
      const { written, existing } = await putIf(entryKey(service, entry), {
        Item: toEntryItem(service, entry, expiresAt),
        ConditionExpression: 'attribute_not_exists(pk)',
      });
      if (written) return entry;
      if (existing !== undefined) return parseEntry(entry, existing);
      throw new Error(
        `Page ${entry.page} of run ${entry.run} disappeared from table ${table} while it was logged. The attempt is retried`,
      );
    },

    async last(run) {
      const { Items: [item] = [] } = await queryEntries(run, { ScanIndexForward: false, Limit: 1 });
      return item && parseEntry(run, item);
    },

    async *entries(run) {
      const batches = readAhead(
        (startKey: Item | undefined) => queryEntries(run, { Limit: batchSize, ExclusiveStartKey: startKey }),
        (batch) => batch.LastEvaluatedKey,
      );
      for await (const { response: batch, requestNext } of batches) {
        for (const item of batch.Items ?? []) {
          yield parseEntry(run, item);
          requestNext();
        }
      }
    },

    mayHaveExpired: (loggedAt) => runtime.now() >= epochMsOf(loggedAt) + retentionDays * 86_400_000,

    async *runs(exportName) {
      for (let before = afterLastEntry; ;) {
        const item = await lastEntryBefore(exportName, before);
        if (item === undefined) return;
        const run = runInSortKey(item.sk?.S);
        yield parseEntry({ export: exportName, run }, item);
        before = entriesPrefix({ run });
      }
    },
  };
}

/** Describes the service's part of the table in errors. */
function recordStoreOf(table: string, service: string): RecordStore {
  return {
    name: `table ${table}`,
    repairHint(stateName) {
      const { pk, sk } = stateKey(service, stateName);
      const next =
        parseWindowName(stateName) === undefined
          ? 'set since.initial to the start of the next run'
          : 'start the backfill again';
      return `restore the item (pk ${pk}, sk ${sk}) from point-in-time recovery, or delete it and ${next}`;
    },
  };
}
