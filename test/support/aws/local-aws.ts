/** The parts of AWS that the functions use, over HTTP: DynamoDB (dynalite), S3, secrets and DescribeExecution. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import dynalite from 'dynalite';
import { listen } from '../service/loopback.ts';
import { createS3, type LocalS3 } from './local-s3.ts';

export interface LocalAws extends AsyncDisposable {
  /** The environment variables that direct the SDK to these servers. */
  readonly env: Readonly<Record<string, string>>;
  readonly table: string;
  /** By `bucket/key`. */
  readonly objects: LocalS3['objects'];
  /** By name. */
  readonly secrets: Map<string, string>;
  /** Status by ARN. */
  readonly executions: Map<string, string>;
  /** The session tokens of all requests to S3, Secrets Manager and Step Functions. */
  readonly sessionTokens: unknown[];
}

export async function startLocalAws(): Promise<LocalAws> {
  const dynamoDb = await startDynamoDb();
  const s3 = createS3();
  const { objects } = s3;
  const secrets: LocalAws['secrets'] = new Map();
  const executions: LocalAws['executions'] = new Map();
  const sessionTokens: unknown[] = [];
  const server = await listen(
    createServer((request, response) => {
      sessionTokens.push(request.headers['x-amz-security-token']);
      const target = String(request.headers['x-amz-target'] ?? '');
      void (target === ''
        ? s3.respond(request, response)
        : respond(target, request, response, { secrets, executions }));
    }),
  );
  const env = {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'access-key',
    AWS_SECRET_ACCESS_KEY: 'secret-key',
    AWS_ENDPOINT_URL: server.url,
    AWS_ENDPOINT_URL_DYNAMODB: dynamoDb.endpoint,
  };
  const table = await createTable(dynamoDb.endpoint);
  return {
    env,
    table,
    objects,
    secrets,
    executions,
    sessionTokens,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await dynamoDb.close();
    },
  };
}

async function createTable(endpoint: string): Promise<string> {
  const credentials = { accessKeyId: 'access-key', secretAccessKey: 'secret-key' };
  const client = new DynamoDBClient({ endpoint, region: 'us-east-1', credentials });
  await client.send(
    new CreateTableCommand({
      TableName: 'page-log',
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: ['pk', 'sk'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
      KeySchema: [
        { AttributeName: 'pk', KeyType: 'HASH' },
        { AttributeName: 'sk', KeyType: 'RANGE' },
      ],
    }),
  );
  client.destroy();
  return 'page-log';
}

async function respond(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  state: Pick<LocalAws, 'secrets' | 'executions'>,
): Promise<void> {
  const input = JSON.parse(await text(request)) as {
    SecretId?: string;
    SecretString?: string;
    VersionStages?: readonly string[];
    executionArn?: string;
  };
  const { SecretId = '', SecretString } = input;
  if (target.endsWith('.PutSecretValue') && input.VersionStages === undefined)
    state.secrets.set(SecretId, SecretString ?? '');
  const output = target.endsWith('SecretValue')
    ? { SecretString: state.secrets.get(SecretId) }
    : { status: state.executions.get(input.executionArn ?? ''), executionArn: input.executionArn };
  const missing = target.endsWith('SecretValue') ? 'ResourceNotFoundException' : 'ExecutionDoesNotExist';
  const found = Object.values(output).every((value) => value !== undefined);
  response.writeHead(found ? 200 : 400, { 'content-type': 'application/x-amz-json-1.1' });
  response.end(JSON.stringify(found ? output : { __type: missing, message: missing }));
}

/** DynamoDB in memory. */
export interface LocalDynamoDb extends AsyncDisposable {
  readonly endpoint: string;
  readonly close: () => Promise<void>;
}

export async function startDynamoDb(): Promise<LocalDynamoDb> {
  const { url, ...server } = await listen(dynalite({ createTableMs: 0, deleteTableMs: 0 }));
  const close = server[Symbol.asyncDispose];
  return { endpoint: url, close, [Symbol.asyncDispose]: close };
}
