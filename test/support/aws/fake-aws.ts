/** AWS in this process, as the functions use it: S3 and DynamoDB of the simulation, secrets, and executions. */

import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { DynamoDBClient, PutItemCommand, type PutItemCommandInput } from '@aws-sdk/client-dynamodb';
import { type PutObjectCommandInput, S3Client } from '@aws-sdk/client-s3';
import { type PutSecretValueCommandInput, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { type DescribeExecutionCommandInput, SFNClient } from '@aws-sdk/client-sfn';
import type { Platform } from '../../../lib/aws/lambda/platform.ts';
import { createSimulatedDynamoDb, type Item, type SimulatedDynamoDb } from '../../simulation/world/dynamodb.ts';
import { createSimulatedS3, type SimulatedS3 } from '../../simulation/world/s3.ts';
import type { Command } from '../../simulation/world/sdk-clients.ts';

export interface FakeAws {
  readonly table: string;
  /** The bucket with this name, which is created when it is first used. */
  readonly bucket: (name: string) => SimulatedS3;
  /** What functions have asked S3 to create: the last request of each key. */
  readonly requested: ReadonlyMap<string, PutObjectCommandInput>;
  /** The items of a table. */
  readonly items: (table?: string) => readonly Item[];
  /** Replaces the items of a table, as a restore does. */
  readonly replaceItems: (table: string, items: readonly Item[]) => void;
  /** By name. */
  readonly secrets: Map<string, string>;
  /** Status by ARN. */
  readonly executions: Map<string, string>;
  /** The services that requests were sent to, in order. */
  readonly requests: string[];
  readonly createClient: Platform['createClient'];
  /** Performs the command of a client of this class. */
  readonly send: (type: { readonly name: string }, command: object) => Promise<unknown>;
}

const notFound = (name: string) => Object.assign(new Error(name), { name, $metadata: { httpStatusCode: 400 } });

export function createFakeAws(): FakeAws {
  const table = 'page-log';
  const buckets = new Map<string, SimulatedS3>();
  const tables = new Map<string, { readonly server: SimulatedDynamoDb; readonly items: Map<string, Item> }>();
  const requested = new Map<string, PutObjectCommandInput>();
  const secrets: FakeAws['secrets'] = new Map();
  const executions: FakeAws['executions'] = new Map();
  const requests: string[] = [];

  const bucket = (name: string) => {
    const found = buckets.get(name) ?? createSimulatedS3(() => {});
    buckets.set(name, found);
    return found;
  };
  const createTable = (tableName: string) => {
    const items = new Map<string, Item>();
    const onWrite = (item: Item) => void items.set(`${item.pk?.S} ${item.sk?.S}`, item);
    const server = createSimulatedDynamoDb({ tableName, onWrite, returnsExisting: true, maxBatch: 100 });
    const created = { server, items };
    tables.set(tableName, created);
    return created;
  };
  createTable(table);

  const services: Readonly<Record<string, (command: Command) => unknown>> = {
    [S3Client.name](command) {
      const input = command.input as PutObjectCommandInput;
      if (/^(PutObject|CreateMultipartUpload)Command$/.test(command.constructor.name)) {
        requested.set(input.Key ?? '', input);
      }
      return bucket(input.Bucket ?? '').perform(command);
    },
    [DynamoDBClient.name](command) {
      const { TableName = '' } = command.input as PutItemCommandInput;
      return (tables.get(TableName) ?? createTable(TableName)).server.perform(command);
    },
    [SecretsManagerClient.name]({ constructor: { name }, input }) {
      const { SecretId = '', SecretString = '', VersionStages } = input as PutSecretValueCommandInput;
      if (name === 'PutSecretValueCommand' && VersionStages === undefined) secrets.set(SecretId, SecretString);
      if (!secrets.has(SecretId)) throw notFound('ResourceNotFoundException');
      return { SecretString: secrets.get(SecretId) };
    },
    [SFNClient.name]({ input }) {
      const { executionArn = '' } = input as DescribeExecutionCommandInput;
      const status = executions.get(executionArn);
      if (status === undefined) throw notFound('ExecutionDoesNotExist');
      return { executionArn, status };
    },
  };
  const send: FakeAws['send'] = async (type, command) => {
    requests.push(type.name);
    await setImmediate();
    const { input } = command as { readonly input: PutObjectCommandInput };
    if (input.Body instanceof Readable) Object.assign(input, { Body: await buffer(input.Body) });
    const output = services[type.name]?.(command as Command);
    const { Body } = (output ?? {}) as { readonly Body?: Readable };
    if (Body !== undefined) Object.assign(Body, { transformToByteArray: async () => await buffer(Body) });
    return output;
  };
  return {
    table,
    bucket,
    requested,
    secrets,
    executions,
    requests,
    send,
    items: (name = table) => [...(tables.get(name)?.items.values() ?? [])],
    replaceItems(name, items) {
      const { server } = createTable(name);
      for (const Item of items) server.perform(new PutItemCommand({ TableName: name, Item: { ...Item } }));
    },
    // The configuration of a real client is needed for uploads in parts.
    createClient<Client, Config>(type: new (config: Config) => Client, config: Config) {
      const credentials = { accessKeyId: 'key', secretAccessKey: 'secret' };
      const client = new type({ ...config, region: 'us-east-1', credentials } as Config);
      return Object.assign(client as object, { send: (command: object) => send(type, command) }) as Client;
    },
  };
}
