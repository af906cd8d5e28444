/** Runs the suites in `test/contracts` on the DynamoDB page log, with the simulation or a server. */

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
import { createFakeAws } from '../../support/aws/fake-aws.ts';

export interface DynamoHarness extends Omit<EditedPageLogHarness, 'log'>, PageLogHarness {
  /** The service whose part of the table the page logs use. */
  readonly service: string;
  readonly client: DynamoDBClient;
  readonly table: string;
}

/** A server with an AWS API. */
export interface Endpoint {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

const service = 'orders';

/**
 * A client that does not get the response to its first write, which has reached the table. Like the SDK, it sends the
 * request again, after `meanwhile`.
 */
export function clientWithLostResponse(client: DynamoDBClient, meanwhile: () => Promise<unknown>): DynamoDBClient {
  let isLost = false;
  const send = async (command: PutItemCommand) => {
    const response = await client.send(command);
    if (!(command instanceof PutItemCommand) || isLost) return response;
    isLost = true;
    await meanwhile();
    return await client.send(command);
  };
  return { send } as unknown as DynamoDBClient;
}

/** The same, on the DynamoDB of the simulation. */
export async function fakeDynamoHarness(): Promise<DynamoHarness> {
  const aws = createFakeAws();
  const client = aws.createClient<DynamoDBClient, object>(DynamoDBClient, {});
  return dynamoHarness({ client, table: aws.table });
}

/** Two page logs of one service on a table. */
function dynamoHarness({
  client,
  other = client,
  table,
}: {
  readonly client: DynamoDBClient;
  readonly other?: DynamoDBClient;
  readonly table: string;
}): DynamoHarness {
  const edit = async (key: ItemKey, change: (kept: StoredRecord) => StoredRecord) => {
    const Key = { ...key };
    const { Item = {} } = await client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
    const { json, checksum } = editStored({ json: Item.record?.S, checksum: Item.checksum?.S }, change);
    const edited = { ...Item, record: { S: json }, checksum: { S: checksum } };
    await client.send(new PutItemCommand({ TableName: table, Item: edited }));
  };
  return {
    service,
    client,
    table,
    name: `table ${table}`,
    editState: (exportName, change) => edit(stateKey(service, exportName), change),
    editPage: (page, change) => edit(entryKey(service, page), change),
    log: createDynamoPageLog({ client, table, service, runtime: systemRuntime }),
    another: createDynamoPageLog({ client: other, table, service, runtime: systemRuntime }),
    cleanup: async () => {},
  };
}

/** The harness on a server, with a table of its own. */
export async function dynamoServerHarness(endpoint: Endpoint): Promise<DynamoHarness> {
  const client = new DynamoDBClient({ ...endpoint });
  const other = new DynamoDBClient({ ...endpoint });
  const table = `page-log-${randomBytes(6).toString('hex')}`;
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: ['pk', 'sk'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
      KeySchema: [
        { AttributeName: 'pk', KeyType: 'HASH' },
        { AttributeName: 'sk', KeyType: 'RANGE' },
      ],
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 0.05, maxDelay: 1 }, { TableName: table });
  return {
    ...dynamoHarness({ client, other, table }),
    async cleanup() {
      await client.send(new DeleteTableCommand({ TableName: table }));
      client.destroy();
      other.destroy();
    },
  };
}
