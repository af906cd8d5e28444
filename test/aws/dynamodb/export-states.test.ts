/** The states of many exports are read in few requests, and a damaged one does not hide the others. */

import {
  BatchGetItemCommand,
  type BatchGetItemCommandInput,
  type BatchGetItemCommandOutput,
  DynamoDBClient,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readExportStates } from '../../../lib/aws/dynamodb/export-states.ts';
import { type Item, toStateItem } from '../../../lib/aws/dynamodb/items.ts';
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
  const put = (service: string, state: ExportState, change: (item: Item) => Item = (item) => item) =>
    client.send(new PutItemCommand({ TableName: aws.table, Item: change(toStateItem(service, state, 'token')) }));
  const read = (locations: readonly (readonly [service: string, exportName: string])[]) =>
    readExportStates(
      { client, clock: noSleep },
      locations.map(([service, name]) => ({ table: aws.table, service, export: name })),
    );

  it('are returned in order, from several services', async () => {
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
    ).toEqual([
      { status: 'fulfilled', value: weekly },
      { status: 'fulfilled', value: undefined },
      { status: 'fulfilled', value: daily },
      { status: 'fulfilled', value: undefined },
    ]);
  });

  it('are more than a request may name', async () => {
    const all = names(250).map((name, index) => anExportState({ export: name, sequence: index }));
    for (const state of all) await put('many', state);
    const states = await read(all.map((state) => ['many', state.export] as const));
    expect(states).toEqual(all.map((value) => ({ status: 'fulfilled', value })));
  });

  it('do not hide each other if one is damaged: only that one is rejected', async () => {
    await put('damaged', anExportState({ export: 'first' }));
    await put('damaged', anExportState({ export: 'second' }), (item) => ({ ...item, sequence: { N: '5' } }));
    expect(
      await read([
        ['damaged', 'first'],
        ['damaged', 'second'],
      ]),
    ).toEqual([
      expect.objectContaining({ status: 'fulfilled' }),
      {
        status: 'rejected',
        reason: expect.objectContaining({
          name: 'PageConflictError',
          message: expect.stringMatching(
            `The state of export second in table ${aws.table} .*\\(pk damaged/second, sk state\\)`,
          ),
        }),
      },
    ]);
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
    const read = (count: number) =>
      readExportStates(
        { client, clock },
        names(count).map((name) => ({ table: 'table', service: 'acme', export: name })),
      );
    return { read, delays, requests: () => dynamoDb.calls().length };
  }
  const nameIn = ({ pk }: Item) => String(pk?.S).split('/')[1] ?? '';

  it('are requested again, after a growing delay', async () => {
    const { read, delays, requests } = aThrottledTable(40);
    const states = await read(100);
    expect(states.map((each) => each.status === 'fulfilled' && each.value?.export)).toEqual(names(100));
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
