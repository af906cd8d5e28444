/** Runs the suites in `test/contracts` on the DynamoDB page log, with any DynamoDB endpoint. */

import { randomBytes } from 'node:crypto';
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import { entryKey, type ItemKey, stateKey } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { editStored, type EditedPageLogHarness, type StoredRecord } from '../../contracts/edited-page-log-contract.ts';
import type { PageLogHarness } from '../../contracts/page-log-contract.ts';
import { startDynamoDb } from '../../support/aws/local-aws.ts';
import { dummyAccount, type Endpoint } from '../endpoint.ts';

export interface DynamoHarness extends Omit<EditedPageLogHarness, 'log'>, PageLogHarness {
  readonly endpoint: string;
  /** The service whose part of the table the page logs use. */
  readonly service: string;
  readonly client: DynamoDBClient;
  readonly table: string;
}

const service = 'orders';

/** A client that does not get the response to its first write, which has reached the table. */
export function clientWithLostResponse(endpoint: string, meanwhile: () => Promise<unknown>): DynamoDBClient {
  const client = new DynamoDBClient({ endpoint, ...dummyAccount });
  let isLost = false;
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const response = await next(args);
      if (context.commandName !== 'PutItemCommand' || isLost) return response;
      isLost = true;
      await meanwhile();
      throw Object.assign(new Error('The response is lost'), { name: 'TimeoutError' });
    },
    { step: 'finalizeRequest', priority: 'low' },
  );
  return client;
}

/** The same, on a DynamoDB of its own in this process. */
export async function localDynamoHarness(): Promise<DynamoHarness> {
  const server = await startDynamoDb();
  const harness = await dynamoHarness({ endpoint: server.endpoint, ...dummyAccount });
  return {
    ...harness,
    async cleanup() {
      await harness.cleanup();
      await server.close();
    },
  };
}

/** Two page logs of one service on a table that is created for them, and deleted by `cleanup`. */
export async function dynamoHarness(endpoint: Endpoint): Promise<DynamoHarness> {
  const client = new DynamoDBClient({ ...endpoint });
  const other = new DynamoDBClient({ ...endpoint });
  const table = `page-log-${randomBytes(6).toString('hex')}`;
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [
        { AttributeName: 'pk', AttributeType: 'S' },
        { AttributeName: 'sk', AttributeType: 'S' },
      ],
      KeySchema: [
        { AttributeName: 'pk', KeyType: 'HASH' },
        { AttributeName: 'sk', KeyType: 'RANGE' },
      ],
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 0.05, maxDelay: 1 }, { TableName: table });
  const edit = async (key: ItemKey, change: (kept: StoredRecord) => StoredRecord) => {
    const Key = { ...key };
    const { Item = {} } = await client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
    const { json, checksum } = editStored({ json: Item.record?.S, checksum: Item.checksum?.S }, change);
    const edited = { ...Item, record: { S: json }, checksum: { S: checksum } };
    await client.send(new PutItemCommand({ TableName: table, Item: edited }));
  };
  return {
    endpoint: endpoint.endpoint,
    service,
    client,
    table,
    name: `table ${table}`,
    editState: (exportName, change) => edit(stateKey(service, exportName), change),
    editPage: (page, change) => edit(entryKey(service, page), change),
    log: createDynamoPageLog({ client, table, service, runtime: systemRuntime }),
    another: createDynamoPageLog({ client: other, table, service, runtime: systemRuntime }),
    async cleanup() {
      await client.send(new DeleteTableCommand({ TableName: table }));
      client.destroy();
      other.destroy();
    },
  };
}
