/**
 * Reads and conditional writes of single items. The SDK retries a write whose response was lost, and the retry finds
 * what the first attempt wrote: an item with the token of this write counts as written.
 */

import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import type { Runtime } from '../../core/ports.ts';
import type { Item, ItemKey, KeyedItem } from './items.ts';

export interface TableOptions {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`. */
  readonly table: string;
  readonly runtime: Pick<Runtime, 'randomHex'>;
}

type Condition = Pick<PutItemCommandInput, 'ConditionExpression' | 'ExpressionAttributeValues'>;

/** There is no item with this key. */
export const ifAbsent: Condition = { ConditionExpression: 'attribute_not_exists(pk)' };

interface Written {
  readonly written: boolean;
  /** The item that exists, if this one was not written. */
  readonly existing?: Item;
}

/** Needs dynamodb:GetItem and dynamodb:PutItem on the table. */
export function conditionalWrites({ client, table, runtime }: TableOptions) {
  const get = async ({ pk, sk }: ItemKey): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName: table, Key: { pk, sk }, ConsistentRead: true });
    return (await client.send(command)).Item;
  };

  const putIf = async (Item: KeyedItem, condition: Condition): Promise<Written> => {
    try {
      await client.send(
        new PutItemCommand({ TableName: table, Item, ReturnValuesOnConditionCheckFailure: 'ALL_OLD', ...condition }),
      );
      return { written: true };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      // Some emulators do not return the item.
      return { written: false, existing: error.Item ?? (await get(Item)) };
    }
  };

  /** As `putIf`, with a token of this write, to which it resolves. Undefined: another write came first. */
  const replaceIf = async (item: KeyedItem, condition: Condition): Promise<string | undefined> => {
    const token = runtime.randomHex(32);
    const { written, existing } = await putIf({ ...item, writeToken: { S: token } }, condition);
    return written || existing?.writeToken?.S === token ? token : undefined;
  };

  return { get, putIf, replaceIf };
}
