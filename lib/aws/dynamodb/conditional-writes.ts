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
import { type Item, type ItemKey, type KeyedItem, recordIn } from './items.ts';

export interface TableOptions {
  readonly client: DynamoDBClient;
  /** An existing table with the string keys `pk` and `sk`. */
  readonly table: string;
  readonly runtime: Pick<Runtime, 'randomHex'>;
}

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

  const putIf = async (
    Item: KeyedItem,
    condition: Pick<PutItemCommandInput, 'ConditionExpression' | 'ExpressionAttributeValues'>,
  ): Promise<Written> => {
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

  /** Writes the first version of an item if there is none, or another if the item has the version before. */
  const replace = async (item: KeyedItem): Promise<Written> => {
    const { version } = recordIn(item);
    const token = runtime.randomHex(32);
    const previous = { ':previous': { N: String(version - 1) } };
    const condition =
      version === 1
        ? { ConditionExpression: 'attribute_not_exists(pk)' }
        : { ConditionExpression: 'version = :previous', ExpressionAttributeValues: previous };
    const result = await putIf({ ...item, writeToken: { S: token } }, condition);
    return result.existing?.writeToken?.S === token ? { written: true } : result;
  };

  return { get, putIf, replace };
}
