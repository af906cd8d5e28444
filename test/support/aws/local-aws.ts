/**
 * The parts of AWS that the functions use, over HTTP: DynamoDB (dynalite), and a small server for S3 (without multipart
 * uploads), GetSecretValue and DescribeExecution. It runs the code of a deployment; the adapters themselves are tested by
 * the suites in `test/contracts` and against independent emulators.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import dynalite from 'dynalite';

interface StoredObject {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

export interface LocalAws extends AsyncDisposable {
  /** The environment variables that direct the SDK to these servers. */
  readonly env: Readonly<Record<string, string>>;
  readonly table: string;
  /** By `bucket/key`. */
  readonly objects: Map<string, StoredObject>;
  /** By name. */
  readonly secrets: Map<string, string>;
  /** Status by ARN. */
  readonly executions: Map<string, string>;
  /** The session tokens of all requests to S3, Secrets Manager and Step Functions. */
  readonly sessionTokens: unknown[];
}

export async function startLocalAws(): Promise<LocalAws> {
  const dynamoDb = await startDynamoDb();
  const objects: LocalAws['objects'] = new Map();
  const secrets: LocalAws['secrets'] = new Map();
  const executions: LocalAws['executions'] = new Map();
  const sessionTokens: unknown[] = [];
  const server = createServer((request, response) => {
    sessionTokens.push(request.headers['x-amz-security-token']);
    void respond(request, response, { objects, secrets, executions });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const env = {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'access-key',
    AWS_SECRET_ACCESS_KEY: 'secret-key',
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
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
      server.closeAllConnections();
      server.close();
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

type AwsState = Pick<LocalAws, 'objects' | 'secrets' | 'executions'>;

async function respond(request: IncomingMessage, response: ServerResponse, state: AwsState): Promise<void> {
  const body = await buffer(request);
  const target = String(request.headers['x-amz-target'] ?? '');
  if (target === '') {
    respondAsS3(request, response, body, state.objects);
    return;
  }
  const input = JSON.parse(body.toString()) as { SecretId?: string; executionArn?: string };
  const output = target.endsWith('.GetSecretValue')
    ? { SecretString: state.secrets.get(input.SecretId ?? '') }
    : { status: state.executions.get(input.executionArn ?? ''), executionArn: input.executionArn };
  const missing = target.endsWith('.GetSecretValue') ? 'ResourceNotFoundException' : 'ExecutionDoesNotExist';
  const found = Object.values(output).every((value) => value !== undefined);
  response.writeHead(found ? 200 : 400, { 'content-type': 'application/x-amz-json-1.1' });
  response.end(JSON.stringify(found ? output : { __type: missing, message: missing }));
}

function respondAsS3(
  { method, url = '', headers }: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
  objects: LocalAws['objects'],
): void {
  const { pathname, searchParams } = new URL(url, 'http://s3');
  const path = decodeURIComponent(pathname.slice(1));
  if (method === 'GET' && searchParams.get('list-type') === '2') {
    response.writeHead(200, { 'content-type': 'application/xml' });
    response.end(listingOf(objects, path.replace(/\/$/, ''), searchParams));
    return;
  }
  const existing = objects.get(path);
  const reject = (status: number, code: string) => {
    // S3 sends this header for HEAD as well. Without any length, the connection would have to end.
    response.writeHead(status, { 'content-type': 'application/xml', 'transfer-encoding': 'chunked' });
    response.end(method === 'HEAD' ? undefined : `<Error><Code>${code}</Code><Message>${code}</Message></Error>`);
  };
  if (method === 'PUT') {
    const mayWrite =
      headers['if-none-match'] === '*'
        ? existing === undefined
        : headers['if-match'] === undefined || (existing !== undefined && etag(existing) === headers['if-match']);
    if (!mayWrite) {
      reject(412, 'PreconditionFailed');
      return;
    }
    const stored = Object.entries(headers).filter(([name]) =>
      /^(x-amz-meta-.*|content-type|x-amz-checksum-sha256|x-amz-storage-class|x-amz-tagging)$/.test(name),
    );
    const object = { body, headers: Object.fromEntries(stored) as Record<string, string> };
    objects.set(path, object);
    response.writeHead(200, { etag: etag(object) });
    response.end();
    return;
  }
  if (existing === undefined) {
    reject(404, 'NoSuchKey');
    return;
  }
  const { 'x-amz-checksum-sha256': checksum, ...metadata } = existing.headers;
  response.writeHead(200, {
    ...metadata,
    // Only if the object was stored with a checksum, and the request asks for it.
    ...(checksum !== undefined && headers['x-amz-checksum-mode'] === 'ENABLED'
      ? { 'x-amz-checksum-sha256': checksum, 'x-amz-checksum-type': 'FULL_OBJECT' }
      : {}),
    etag: etag(existing),
    'content-length': existing.body.length,
  });
  response.end(method === 'HEAD' ? undefined : existing.body);
}

const etag = ({ body }: StoredObject) => `"${createHash('md5').update(body).digest('hex')}"`;

/** Up to 1,000 objects in key order. The continuation token is the last key. */
function listingOf(objects: LocalAws['objects'], bucket: string, parameters: URLSearchParams): string {
  const prefix = `${bucket}/${parameters.get('prefix') ?? ''}`;
  const after = parameters.get('continuation-token') ?? '';
  const paths = [...objects.keys()].filter((path) => path.startsWith(prefix) && path.slice(bucket.length + 1) > after);
  const listed = paths.sort().slice(0, 1_000);
  const contents = listed.map((path) => {
    const object = objects.get(path) as StoredObject;
    const key = path.slice(bucket.length + 1);
    return `<Contents><Key>${key}</Key><Size>${object.body.length}</Size><ETag>${etag(object)}</ETag></Contents>`;
  });
  const isTruncated = listed.length < paths.length;
  const nextToken = isTruncated
    ? `<NextContinuationToken>${listed.at(-1)?.slice(bucket.length + 1)}</NextContinuationToken>`
    : '';
  return `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${nextToken}${contents.join('')}</ListBucketResult>`;
}

/** DynamoDB in memory. */
export interface LocalDynamoDb extends AsyncDisposable {
  readonly endpoint: string;
  readonly close: () => Promise<void>;
}

export async function startDynamoDb(): Promise<LocalDynamoDb> {
  const server = dynalite({ createTableMs: 0, deleteTableMs: 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const { port } = server.address() as AddressInfo;
  return { endpoint: `http://127.0.0.1:${port}`, close, [Symbol.asyncDispose]: close };
}
