/**
 * Stores export states and page-log entries in one DynamoDB table. A page counts as exported once it is logged here, so
 * every write is conditional and every read strongly consistent.
 *
 * The SDK retries a write whose response was lost, and the retry finds what the first attempt wrote. An existing entry
 * is adopted, regardless of which attempt wrote it. States are replaced as in `conditional-writes.ts`.
 */

import { type DynamoDBClient, QueryCommand, type QueryCommandInput } from '@aws-sdk/client-dynamodb';
import type { PageLog, Runtime } from '../../core/ports.ts';
import { asRunId, jobRecordSchema, progressSchema } from '../../core/model.ts';
import { parseExportState, parseLogEntry, type RecordStore } from '../../core/storage/stored-records.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { readAhead } from '../read-ahead.ts';
import { conditionalWrites, ifAbsent } from './conditional-writes.ts';
import { createDynamoSharedRecord } from './shared-record.ts';
import {
  boundedInSortKey,
  boundedPrefix,
  entriesPrefix,
  type Item,
  jobKey,
  pageInSortKey,
  partitionOf,
  recordIn,
  progressKey,
  slicesAfter,
  stateKey,
  toEntryItem,
  toStateItem,
} from './items.ts';

export interface DynamoPageLogOptions {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`, and `expiresAt` as its time to live. */
  readonly table: string;
  /** The first part of every partition key. Services that share a table have different names. */
  readonly service: string;
  readonly runtime: Pick<Runtime, 'now' | 'randomHex'>;
}

/** How long entries are kept. Manifests outlive them, and states never expire. */
const retentionDays = 400;

/** Items per query, so that memory stays constant. */
const batchSize = 500;

/** Needs dynamodb:GetItem, dynamodb:PutItem and dynamodb:Query on the table. */
export function createDynamoPageLog(options: DynamoPageLogOptions): PageLog {
  const { table, service, runtime } = options;
  const recordStore = recordStoreOf(table, service);
  const { get, putIf, replaceIf } = conditionalWrites(options);
  const parseEntry = (exportName: string, item: Item) => {
    const page = pageInSortKey(item.sk?.S) ?? { run: asRunId(''), page: Number.NaN };
    return parseLogEntry({ export: exportName, ...page }, recordStore, recordIn(item));
  };
  return {
    async exportState(exportName) {
      const item = await get(stateKey(service, exportName));
      return item && parseExportState(exportName, recordStore, recordIn(item));
    },

    async replaceState(state) {
      const previous = { ':previous': { N: String(state.version - 1) } };
      const ifPrevious = { ConditionExpression: 'version = :previous', ExpressionAttributeValues: previous };
      const condition = state.version === 1 ? ifAbsent : ifPrevious;
      return (await replaceIf(toStateItem(service, state), condition)) !== undefined;
    },

    async append(entry) {
      const expiresAt = Math.floor(runtime.now() / 1_000) + retentionDays * 86_400;
      const { written, existing } = await putIf(toEntryItem(service, entry, expiresAt), ifAbsent);
      if (written) return entry;
      if (existing !== undefined) return parseEntry(entry.export, existing);
      throw new Error(
        `Page ${entry.page} of run ${entry.run} disappeared from table ${table} while it was logged. The attempt is retried`,
      );
    },

    async last(chain) {
      const newest = { ScanIndexForward: false, Limit: 1 };
      const { Items: [item] = [] } = await queryItems(options, chain.export, entriesPrefix(chain), newest);
      return item && parseEntry(chain.export, item);
    },

    async *entries(chain) {
      const items = itemsOf(options, chain.export, entriesPrefix(chain));
      for await (const item of items) yield parseEntry(chain.export, item);
    },

    async *runEntries(run, after = 0) {
      const items = itemsOf(options, run.export, slicesAfter(run, after));
      for await (const item of items) yield parseEntry(run.export, item);
    },

    progress: (stateName) => createDynamoSharedRecord(progressKey(service, stateName), progressSchema, options),

    job: (stateName, slice) => createDynamoSharedRecord(jobKey(service, stateName, slice), jobRecordSchema, options),

    mayHaveExpired: (loggedAt) => runtime.now() >= epochMsOf(loggedAt) + retentionDays * 86_400_000,

    async *boundedStates(exportName) {
      for await (const item of itemsOf(options, exportName, boundedPrefix)) {
        yield parseExportState(boundedInSortKey(exportName, item.sk?.S), recordStore, recordIn(item));
      }
    },
  };
}

type Table = Pick<DynamoPageLogOptions, 'client' | 'table' | 'service'>;

/** A common prefix of sort keys, or the first and the last one. */
type SortKeys = string | { readonly from: string; readonly to: string };

/** The items of an export with these sort keys: one request. */
const queryItems = (
  { client, table, service }: Table,
  exportName: string,
  keys: SortKeys,
  options: Partial<QueryCommandInput>,
) =>
  client.send(
    new QueryCommand({
      TableName: table,
      ConsistentRead: true,
      KeyConditionExpression: `pk = :pk AND ${typeof keys === 'string' ? 'begins_with(sk, :prefix)' : 'sk BETWEEN :from AND :to'}`,
      ExpressionAttributeValues: {
        ':pk': { S: partitionOf(service, exportName) },
        ...(typeof keys === 'string'
          ? { ':prefix': { S: keys } }
          : { ':from': { S: keys.from }, ':to': { S: keys.to } }),
      },
      ...options,
    }),
  );

const itemsOf = (table: Table, exportName: string, keys: SortKeys): AsyncGenerator<Item> =>
  readAhead(
    (startKey: Item | undefined) =>
      queryItems(table, exportName, keys, { Limit: batchSize, ExclusiveStartKey: startKey }),
    ({ Items = [] }) => Items,
    ({ LastEvaluatedKey }) => LastEvaluatedKey,
  );

/** Describes the service's part of the table in errors. */
function recordStoreOf(table: string, service: string): RecordStore {
  return {
    name: `table ${table}`,
    repairHint(stateName) {
      const { pk, sk } = stateKey(service, stateName);
      return `restore the item (pk ${pk.S}, sk ${sk.S}) from point-in-time recovery, or delete it`;
    },
    startHint: 'set since.initial to the start of the next run',
  };
}
