/**
 * Remembers where exports stand and how far runs have come, in one DynamoDB table.
 * A page counts as exported once it stands here, so every write carries its own condition and every read is consistent.
 *
 * The SDK repeats a write whose answer was lost, and the repetition then meets what the first has written. An entry in
 * the way is adopted whoever wrote it; a head in the way counts as written where it bears this write's own token.
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
import { parsePageEntry, parseExportState, type RecordStore } from '../../core/storage/stored-records.ts';
import {
  behindRuns,
  entryIn,
  type Item,
  type ItemKey,
  keyItem,
  pageInKey,
  pageItem,
  pageItemKey,
  pagesPrefix,
  runInKey,
  runsPrefix,
  stateIn,
  stateItem,
  stateKey,
  writeTokenOf,
} from './items.ts';

export interface DynamoPageLogOptions {
  readonly client: DynamoDBClient;
  /** Keys `pk` and `sk`, both strings; time to live on `expiresAt`. */
  readonly table: string;
  readonly runtime: Pick<Runtime, 'now' | 'randomHex'>;
  /** How long page entries are kept; the manifest outlives them. Heads stay. */
  readonly retentionDays?: number;
}

/** Entries read at a time, so that memory stays flat. */
const batchSize = 500;

/** A page log in `table`, which must be there. Needs GetItem, PutItem and Query on it. */
export function createDynamoPageLog(options: DynamoPageLogOptions): PageLog & RunHistory {
  const { client, table, runtime, retentionDays = 400 } = options;
  const get = async (key: ItemKey): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName: table, Key: keyItem(key), ConsistentRead: true });
    return (await client.send(command)).Item;
  };

  /** Whether `Item` was written; if its condition did not hold, what stands in its way. */
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
      // Not every endpoint returns the item that it is asked for.
      return { written: false, existing: error.Item ?? (await get(key)) };
    }
  };

  const query = ({ export: exportName, run }: RunRef, options: Partial<QueryCommandInput>) =>
    client.send(
      new QueryCommand({
        TableName: table,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk AND begins_with(sk, :pages)',
        ExpressionAttributeValues: { ':pk': { S: exportName }, ':pages': { S: pagesPrefix({ run }) } },
        ...options,
      }),
    );

  const place: RecordStore = {
    name: `table ${table}`,
    repairHint: (exportName) =>
      `put the item back (pk ${exportName}, sk ${stateKey(exportName).sk}), as point-in-time recovery has it, or delete it ` +
      'and set since.initial to where the next run is to start',
  };
  const entryAt = ({ export: exportName, run }: RunRef, item: Item) =>
    parsePageEntry({ export: exportName, run, page: pageInKey({ run }, item.sk?.S) }, place, () => entryIn(item));

  /** Entries sort by run and page, so the one before everything of a run is the last one of the run before it. */
  const lastBefore = async (exportName: string, sk: string): Promise<Item | undefined> => {
    const { Items: [item] = [] } = await client.send(
      new QueryCommand({
        TableName: table,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk AND sk BETWEEN :first AND :before',
        ExpressionAttributeValues: { ':pk': { S: exportName }, ':first': { S: runsPrefix }, ':before': { S: sk } },
        ScanIndexForward: false,
        Limit: 1,
      }),
    );
    return item;
  };

  return {
    async exportState(exportName) {
      const item = await get(stateKey(exportName));
      return item && parseExportState(exportName, place, () => stateIn(item));
    },

    async replaceState(head) {
      const token = runtime.randomHex(32);
      const condition =
        head.version === 1
          ? { ConditionExpression: 'attribute_not_exists(pk)' }
          : {
              ConditionExpression: 'version = :before',
              ExpressionAttributeValues: { ':before': { N: String(head.version - 1) } },
            };
      const { written, existing } = await putIf(stateKey(head.export), { Item: stateItem(head, token), ...condition });
      return written || (existing !== undefined && writeTokenOf(existing) === token);
    },

    async append(entry) {
      const expiresAt = Math.floor(runtime.now() / 1_000) + retentionDays * 86_400;
      const { written, existing } = await putIf(pageItemKey(entry), {
        Item: pageItem(entry, expiresAt),
        ConditionExpression: 'attribute_not_exists(pk)',
      });
      if (written) return entry;
      if (existing !== undefined) return entryAt(entry, existing);
      throw new Error(
        `Page ${entry.page} of run ${entry.run} was in the page log ${table} and is gone; it is tried again for a while`,
      );
    },

    async last(run) {
      const { Items: [item] = [] } = await query(run, { ScanIndexForward: false, Limit: 1 });
      return item && entryAt(run, item);
    },

    async *entries(run) {
      let next: QueryCommandInput['ExclusiveStartKey'];
      do {
        const batch = await query(run, { Limit: batchSize, ExclusiveStartKey: next });
        for (const item of batch.Items ?? []) yield entryAt(run, item);
        next = batch.LastEvaluatedKey;
      } while (next !== undefined);
    },

    async *runs(exportName) {
      for (let before = behindRuns; ; ) {
        const item = await lastBefore(exportName, before);
        if (item === undefined) return;
        const run = runInKey(item.sk?.S);
        yield entryAt({ export: exportName, run }, item);
        before = pagesPrefix({ run });
      }
    },
  };
}
