/**
 * Reads and conditional writes of single items. The SDK retries a write whose response was lost, and the retry finds what the first
 * attempt wrote: an item with the token of this write counts as written.
 */

import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import type { Runtime } from '../../core/ports.ts';
import { type Item, type ItemKey, toKeyItem, writeTokenOf } from './items.ts';

interface TableOptions {
  readonly client: DynamoDBClient;
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
  const get = async (key: ItemKey): Promise<Item | undefined> => {
    const command = new GetItemCommand({ TableName: table, Key: toKeyItem(key), ConsistentRead: true });
    return (await client.send(command)).Item;
  };

  const putIf = async (
    key: ItemKey,
    put: Pick<PutItemCommandInput, 'Item' | 'ConditionExpression' | 'ExpressionAttributeValues'>,
  ): Promise<Written> => {
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
  const replace = async (key: ItemKey, version: number, toItem: (token: string) => Item): Promise<Written> => {
    const token = runtime.randomHex(32);
    const condition =
      version === 1
        ? { ConditionExpression: 'attribute_not_exists(pk)' }
        : {
            ConditionExpression: 'version = :previous',
            ExpressionAttributeValues: { ':previous': { N: String(version - 1) } },
          };
    const result = await putIf(key, { Item: toItem(token), ...condition });
    return result.existing !== undefined && writeTokenOf(result.existing) === token ? { written: true } : result;
  };

  return { get, putIf, replace };
}
