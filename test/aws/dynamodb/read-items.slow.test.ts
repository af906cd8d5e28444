/** Many items are read in few requests. */

import {
  BatchGetItemCommand,
  type BatchGetItemCommandInput,
  type BatchGetItemCommandOutput,
  DynamoDBClient,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromStateItem, type Item, stateKey, toStateItem } from '../../../lib/aws/dynamodb/items.ts';
import { readItems } from '../../../lib/aws/dynamodb/read-items.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import { aFullRun, anExportState } from '../../support/builders.ts';
import { type LocalAws, startLocalAws } from '../../support/aws/local-aws.ts';

const noSleep = { sleep: async () => {} };
const names = (count: number) => Array.from({ length: count }, (_, index) => `export-${index}`);

describe('the states in a table', () => {
  let aws: LocalAws;
  let client: DynamoDBClient;
  beforeAll(async () => {
    aws = await startLocalAws();
    const credentials = { accessKeyId: 'access-key', secretAccessKey: 'secret-key' };
    client = new DynamoDBClient({
      endpoint: String(aws.env.AWS_ENDPOINT_URL_DYNAMODB),
      region: 'us-east-1',
      credentials,
    });
  });
  afterAll(async () => {
    client.destroy();
    await aws[Symbol.asyncDispose]();
  });
  const put = (service: string, state: ExportState) =>
    client.send(new PutItemCommand({ TableName: aws.table, Item: toStateItem(service, state, 'token') }));
  const read = async (names: readonly (readonly [service: string, exportName: string])[]) => {
    const locations = names.map(([service, name]) => ({ table: aws.table, ...stateKey(service, name) }));
    const itemAt = await readItems({ client, clock: noSleep }, locations);
    return locations.map((location) => {
      const item = itemAt(location);
      return item && fromStateItem(item).value;
    });
  };

  it('are found by their keys, in several services', async () => {
    const daily = anExportState({ export: 'daily', active: aFullRun({ export: 'daily' }) });
    const weekly = anExportState({ export: 'weekly' });
    await put('acme', daily);
    await put('globex', weekly);
    expect(
      await read([
        ['globex', 'weekly'],
        ['acme', 'weekly'],
        ['acme', 'daily'],
        ['globex', 'daily'],
      ]),
    ).toEqual([weekly, undefined, daily, undefined]);
  });

  it('are more than a request may name', async () => {
    const all = names(250).map((name, index) => anExportState({ export: name, sequence: index }));
    for (const state of all) await put('many', state);
    expect(await read(all.map((state) => ['many', state.export] as const))).toEqual(all);
  });
});

describe('keys that DynamoDB leaves unprocessed', () => {
  /** Returns at most `limit` items in each response. */
  function aThrottledTable(limit: number) {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    const dynamoDb = mockClient(client);
    const delays: number[] = [];
    dynamoDb
      .on(BatchGetItemCommand)
      .callsFake(({ RequestItems = {} }: BatchGetItemCommandInput): Partial<BatchGetItemCommandOutput> => {
        const { Keys = [], ...options } = RequestItems.table ?? {};
        expect(options).toEqual({ ConsistentRead: true });
        const itemOf = (key: Item) => toStateItem('acme', anExportState({ export: nameIn(key) }), 'token');
        const rest = Keys.slice(limit);
        return {
          Responses: { table: Keys.slice(0, limit).map(itemOf) },
          UnprocessedKeys: rest.length === 0 ? {} : { table: { Keys: rest, ConsistentRead: true } },
        };
      });
    const clock = { sleep: async (ms: number) => void delays.push(ms) };
    const read = async (count: number) => {
      const locations = names(count).map((name) => ({ table: 'table', ...stateKey('acme', name) }));
      return locations.map(await readItems({ client, clock }, locations));
    };
    return { read, delays, requests: () => dynamoDb.calls().length };
  }
  const nameIn = ({ pk }: Item) => String(pk?.S).split('/')[1] ?? '';

  it('are requested again, after a growing delay', async () => {
    const { read, delays, requests } = aThrottledTable(40);
    const items = await read(100);
    expect(items.map((item) => item?.export?.S)).toEqual(names(100));
    expect({ delays, requests: requests() }).toEqual({ delays: [100, 200], requests: 3 });
  });

  it('are an error if they stay unprocessed', async () => {
    const { read, delays } = aThrottledTable(0);
    await expect(read(1)).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('did not return all states from table table in 7 attempts'),
    });
    expect(delays).toEqual([100, 200, 400, 800, 1_600, 3_200]);
  });
});
