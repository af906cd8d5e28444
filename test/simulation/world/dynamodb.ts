/**
 * Simulated DynamoDB: one table with the keys `pk` and `sk`, and the conditions that the page log uses. A read that is
 * not strongly consistent may return what was stored before the last write.
 */

import { type AttributeValue, ConditionalCheckFailedException } from '@aws-sdk/client-dynamodb';
import type { Command } from './sdk-clients.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

export interface SimulatedDynamoDb {
  readonly item: (pk: string, sk: string) => Item | undefined;
  /** The items of a partition whose sort keys begin with a prefix, in the order of their sort keys. */
  items(pk: string, prefix: string): readonly Item[];
  /** @throws as DynamoDB does */
  perform(command: Command): unknown;
}

export interface SimulatedDynamoDbOptions {
  readonly tableName: string;
  /** Called with each item before it is stored, and with the item that it replaces. */
  readonly onWrite: (item: Item, existing: Item | undefined) => void;
  /** Whether a failed condition returns the existing item; not every endpoint does. */
  readonly returnsExisting: boolean;
  /** The most items of one query response, as though they were large. */
  readonly maxBatch: number;
}

export function createSimulatedDynamoDb({
  tableName,
  onWrite,
  returnsExisting,
  maxBatch,
}: SimulatedDynamoDbOptions): SimulatedDynamoDb {
  const partitions = new Map<string, Map<string, Item>>();
  /** An item as an eventually consistent read returns it. */
  const stale = new Map<Item, Item | undefined>();
  const partition = (pk: string) => partitions.get(pk) ?? new Map<string, Item>();

  const itemsOf = (pk: string, prefix: string) =>
    [...partition(pk)]
      .filter(([sk]) => sk.startsWith(prefix))
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, item]) => item);

  const commands: Readonly<Record<string, (input: Input) => unknown>> = {
    GetItemCommand({ Key, ConsistentRead }) {
      const item = partition(text(Key, 'pk')).get(text(Key, 'sk'));
      const read = ConsistentRead === true || item === undefined ? item : stale.get(item);
      return read === undefined ? {} : { Item: cloneItem(read) };
    },
    PutItemCommand({ Item: item = {}, ConditionExpression, ExpressionAttributeValues }) {
      const pk = text(item, 'pk');
      const sk = text(item, 'sk');
      const existing = partition(pk).get(sk);
      if (!isConditionMet(ConditionExpression, ExpressionAttributeValues, existing)) {
        throw new ConditionalCheckFailedException({
          message: 'The conditional request failed',
          $metadata: { httpStatusCode: 400 },
          ...(returnsExisting && existing !== undefined ? { Item: cloneItem(existing) } : {}),
        });
      }
      const stored = cloneItem(item);
      onWrite(stored, existing);
      stale.set(stored, existing);
      partitions.set(pk, partition(pk).set(sk, stored));
      return {};
    },
    QueryCommand({ ExpressionAttributeValues = {}, KeyConditionExpression, ConsistentRead, ...input }) {
      const all = queriedItems(KeyConditionExpression, ExpressionAttributeValues);
      const items = ConsistentRead === true ? all : all.slice(0, -1);
      if (input.ScanIndexForward === false) items.reverse();
      const startKey = input.ExclusiveStartKey && text(input.ExclusiveStartKey, 'sk');
      const from = startKey === undefined ? 0 : items.findIndex((item) => text(item, 'sk') === startKey) + 1;
      const limit = Math.min(input.Limit ?? maxBatch, maxBatch);
      const batch = items.slice(from, from + limit);
      const last = batch.at(-1);
      const hasMore = from + batch.length < items.length && last !== undefined;
      return {
        Items: batch.map(cloneItem),
        ...(hasMore ? { LastEvaluatedKey: { pk: last.pk, sk: last.sk } } : {}),
      };
    },
  };

  function queriedItems(condition: string | undefined, values: Item): Item[] {
    const pk = text(values, ':pk');
    switch (condition) {
      case 'pk = :pk AND begins_with(sk, :prefix)':
        return itemsOf(pk, text(values, ':prefix'));
      case 'pk = :pk AND sk BETWEEN :from AND :to': {
        const isBetween = (sk: string) => sk >= text(values, ':from') && sk <= text(values, ':to');
        return itemsOf(pk, '').filter((item) => isBetween(text(item, 'sk')));
      }
      case undefined:
      default:
        throw unsupportedExpression(condition);
    }
  }

  return {
    item: (pk, sk) => partition(pk).get(sk),
    items: itemsOf,
    perform(command) {
      if ((command.input as Input).TableName !== tableName) {
        throw Object.assign(new Error('There is no such table'), { name: 'ResourceNotFoundException', $metadata: {} });
      }
      const perform = commands[command.constructor.name];
      if (perform === undefined) throw new Error(`The simulation does not support ${command.constructor.name}`);
      return perform(command.input as Input);
    },
  };
}

/** Every attribute is a string or a number. */
const cloneItem = (item: Item): Record<string, AttributeValue> =>
  Object.fromEntries(Object.entries(item).map(([name, value]) => [name, { ...value }]));

/** The record in an item, as an outsider reads it. */
export const recordOf = <Value>(item: Item): Value => JSON.parse(text(item, 'record')) as Value;

interface Input {
  readonly TableName?: string;
  readonly Key?: Item;
  readonly Item?: Item;
  readonly ConsistentRead?: boolean;
  readonly ConditionExpression?: string;
  readonly KeyConditionExpression?: string;
  readonly ExpressionAttributeValues?: Item;
  readonly ScanIndexForward?: boolean;
  readonly ExclusiveStartKey?: Item;
  readonly Limit?: number;
}

/** @throws Error for a condition that the page log does not use */
export function isConditionMet(
  condition: string | undefined,
  values: Item | undefined,
  existing: Item | undefined,
): boolean {
  switch (condition) {
    case undefined:
      return true;
    case 'attribute_not_exists(pk)':
      return existing === undefined;
    case 'version = :previous':
      return existing?.version?.N !== undefined && existing.version.N === values?.[':previous']?.N;
    case 'writeToken = :read':
      return existing?.writeToken?.S !== undefined && existing.writeToken.S === values?.[':read']?.S;
    case 'NOT attribute_type(writeToken, :text)':
      return existing?.writeToken?.S === undefined;
    default:
      throw unsupportedExpression(condition);
  }
}

const unsupportedExpression = (expression: string | undefined) =>
  new Error(`The simulation does not support the expression ${expression}`);

/** @throws Error if the item has no such string attribute */
export function text(item: Item | undefined, name: string): string {
  const value = item?.[name]?.S;
  if (value === undefined) throw new Error(`The item has no string attribute ${name}`);
  return value;
}
