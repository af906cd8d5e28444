/**
 * DynamoDB, simulated: one table of items by `pk` and `sk`, with the conditions the page log makes. A read that does not
 * ask to be consistent may see what stood there before.
 */

import { type AttributeValue, ConditionalCheckFailedException } from '@aws-sdk/client-dynamodb';
import type { Command } from './sdk-clients.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

export interface SimulatedDynamoDb {
  readonly item: (pk: string, sk: string) => Item | undefined;
  /** Whose `sk` begins so, in its order. */
  items(pk: string, begins: string): readonly Item[];
  /** Answers one command at once. @throws as DynamoDB does */
  perform(command: Command): unknown;
}

export interface SimulatedDynamoDbOptions {
  /** Sees every item before it takes the place of what stood there. */
  readonly onWrite: (item: Item, existing: Item | undefined) => void;
  /** Whether a refused write brings back the item in its way, as not every endpoint does. */
  readonly returnsStanding: boolean;
  /** The most items a query answers with, however many were asked for: as though they were large. */
  readonly batch: number;
}

export function createSimulatedDynamoDb({
  onWrite,
  returnsStanding,
  batch,
}: SimulatedDynamoDbOptions): SimulatedDynamoDb {
  const partitions = new Map<string, Map<string, Item>>();
  const stale = new Map<Item, Item | undefined>();
  const partition = (pk: string) => partitions.get(pk) ?? new Map<string, Item>();

  const itemsOf = (pk: string, begins: string) =>
    [...partition(pk)]
      .filter(([sk]) => sk.startsWith(begins))
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, item]) => item);

  const commands: Readonly<Record<string, (input: Input) => unknown>> = {
    GetItemCommand({ Key, ConsistentRead }) {
      const item = partition(text(Key, 'pk')).get(text(Key, 'sk'));
      const seen = ConsistentRead === true || item === undefined ? item : stale.get(item);
      return seen === undefined ? {} : { Item: structuredClone(seen) };
    },
    PutItemCommand({ Item: item = {}, ConditionExpression, ExpressionAttributeValues }) {
      const pk = text(item, 'pk');
      const sk = text(item, 'sk');
      const existing = partition(pk).get(sk);
      if (!holds(ConditionExpression, ExpressionAttributeValues, existing)) {
        throw new ConditionalCheckFailedException({
          message: 'The conditional request failed',
          $metadata: { httpStatusCode: 400 },
          ...(returnsStanding && existing !== undefined
            ? { Item: structuredClone(existing) as Record<string, AttributeValue> }
            : {}),
        });
      }
      const kept = structuredClone(item);
      onWrite(kept, existing);
      stale.set(kept, existing);
      partitions.set(pk, partition(pk).set(sk, kept));
      return {};
    },
    QueryCommand({ ExpressionAttributeValues = {}, KeyConditionExpression, ConsistentRead, ...input }) {
      if (KeyConditionExpression !== 'pk = :pk AND begins_with(sk, :pages)') throw unknown(KeyConditionExpression);
      const all = itemsOf(text(ExpressionAttributeValues, ':pk'), text(ExpressionAttributeValues, ':pages'));
      const items = ConsistentRead === true ? all : all.slice(0, -1);
      if (input.ScanIndexForward === false) items.reverse();
      const after = input.ExclusiveStartKey && text(input.ExclusiveStartKey, 'sk');
      const from = after === undefined ? 0 : items.findIndex((item) => text(item, 'sk') === after) + 1;
      const limit = Math.min(input.Limit ?? batch, batch);
      const found = items.slice(from, from + limit);
      const last = found.at(-1);
      const more = from + found.length < items.length && last !== undefined;
      return {
        Items: structuredClone(found),
        ...(more ? { LastEvaluatedKey: { pk: last.pk, sk: last.sk } } : {}),
      };
    },
  };

  return {
    item: (pk, sk) => partition(pk).get(sk),
    items: itemsOf,
    perform(command) {
      const perform = commands[command.constructor.name];
      if (perform === undefined) throw new Error(`the simulation knows no ${command.constructor.name}`);
      return perform(command.input as Input);
    },
  };
}

interface Input {
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

function holds(condition: string | undefined, values: Item | undefined, existing: Item | undefined): boolean {
  switch (condition) {
    case undefined:
      return true;
    case 'attribute_not_exists(pk)':
      return existing === undefined;
    case 'version = :before':
      return existing?.version?.N !== undefined && existing.version.N === values?.[':before']?.N;
    default:
      throw unknown(condition);
  }
}

const unknown = (expression: string | undefined) =>
  new Error(`the simulation does not know the expression ${expression}`);

export function text(item: Item | undefined, name: string): string {
  const value = item?.[name]?.S;
  if (value === undefined) throw new Error(`the item has no text ${name}`);
  return value;
}
