/**
 * As much of AWS as the functions need, behind real HTTP: DynamoDB (dynalite), and in one small server of our own S3 for
 * objects sent whole, Secrets Manager and Step Functions for one question each. Enough to run a deployment's code, not to
 * judge the adapters by: that is what the suites in `test/contracts` and the independent servers are for.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { startDynamoDb } from './local-dynamodb.ts';

interface StoredObject {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

export interface LocalAws extends AsyncDisposable {
  /** What leads the SDK here, as a function finds it in its environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly table: string;
  /** By `bucket/key`. */
  readonly objects: Map<string, StoredObject>;
  /** By name. */
  readonly secrets: Map<string, string>;
  /** Status by ARN. */
  readonly executions: Map<string, string>;
  /** Those that came with requests to S3, Secrets Manager and Step Functions. */
  readonly sessionTokens: unknown[];
}

export interface LocalAwsOptions {
  /** How long S3 takes to store an object, on top of what it takes by itself. */
  readonly storingMs?: number;
}

export async function startLocalAws({ storingMs = 0 }: LocalAwsOptions = {}): Promise<LocalAws> {
  const dynamoDb = await startDynamoDb();
  const objects: LocalAws['objects'] = new Map();
  const secrets: LocalAws['secrets'] = new Map();
  const executions: LocalAws['executions'] = new Map();
  const sessionTokens: unknown[] = [];
  const server = createServer((request, response) => {
    sessionTokens.push(request.headers['x-amz-security-token']);
    void answer(request, response, { objects, secrets, executions }, storingMs);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const env = {
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'anyone',
    AWS_SECRET_ACCESS_KEY: 'anything',
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
  const credentials = { accessKeyId: 'anyone', secretAccessKey: 'anything' };
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

type Kept = Pick<LocalAws, 'objects' | 'secrets' | 'executions'>;

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  kept: Kept,
  storingMs: number,
): Promise<void> {
  const body = await buffer(request);
  const target = String(request.headers['x-amz-target'] ?? '');
  if (target === '') {
    if (request.method === 'PUT' && storingMs > 0) await sleep(storingMs);
    answerAsS3(request, response, body, kept.objects);
    return;
  }
  const asked = JSON.parse(body.toString()) as { SecretId?: string; executionArn?: string };
  const known = target.endsWith('.GetSecretValue')
    ? { SecretString: kept.secrets.get(asked.SecretId ?? '') }
    : { status: kept.executions.get(asked.executionArn ?? ''), executionArn: asked.executionArn };
  const missing = target.endsWith('.GetSecretValue') ? 'ResourceNotFoundException' : 'ExecutionDoesNotExist';
  const found = Object.values(known).every((value) => value !== undefined);
  response.writeHead(found ? 200 : 400, { 'content-type': 'application/x-amz-json-1.1' });
  response.end(JSON.stringify(found ? known : { __type: missing, message: missing }));
}

function answerAsS3(
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
  const refuse = (status: number, code: string) => {
    // Chunked, as S3 says to a HEAD as well: with no length at all the connection would have to end.
    response.writeHead(status, { 'content-type': 'application/xml', 'transfer-encoding': 'chunked' });
    response.end(method === 'HEAD' ? undefined : `<Error><Code>${code}</Code><Message>${code}</Message></Error>`);
  };
  if (method === 'PUT') {
    const mayWrite =
      headers['if-none-match'] === '*'
        ? existing === undefined
        : headers['if-match'] === undefined || (existing !== undefined && etag(existing) === headers['if-match']);
    if (!mayWrite) {
      refuse(412, 'PreconditionFailed');
      return;
    }
    const said = Object.entries(headers).filter(([name]) =>
      /^(x-amz-meta-.*|content-type|x-amz-checksum-sha256)$/.test(name),
    );
    const object = { body, headers: Object.fromEntries(said) as Record<string, string> };
    objects.set(path, object);
    response.writeHead(200, { etag: etag(object) });
    response.end();
    return;
  }
  if (existing === undefined) {
    refuse(404, 'NoSuchKey');
    return;
  }
  const { 'x-amz-checksum-sha256': checksum, ...said } = existing.headers;
  response.writeHead(200, {
    ...said,
    // Of what was sent with one, and for who asks.
    ...(checksum !== undefined && headers['x-amz-checksum-mode'] === 'ENABLED'
      ? { 'x-amz-checksum-sha256': checksum, 'x-amz-checksum-type': 'FULL_OBJECT' }
      : {}),
    etag: etag(existing),
    'content-length': existing.body.length,
  });
  response.end(method === 'HEAD' ? undefined : existing.body);
}

const etag = ({ body }: StoredObject) => `"${createHash('md5').update(body).digest('hex')}"`;

/** Up to a thousand objects, in the order of their keys; the token is the last key. */
function listingOf(objects: LocalAws['objects'], bucket: string, asked: URLSearchParams): string {
  const begin = `${bucket}/${asked.get('prefix') ?? ''}`;
  const after = asked.get('continuation-token') ?? '';
  const paths = [...objects.keys()].filter((path) => path.startsWith(begin) && path.slice(bucket.length + 1) > after);
  const listed = paths.sort().slice(0, 1_000);
  const contents = listed.map((path) => {
    const object = objects.get(path) as StoredObject;
    const key = path.slice(bucket.length + 1);
    return `<Contents><Key>${key}</Key><Size>${object.body.length}</Size><ETag>${etag(object)}</ETag></Contents>`;
  });
  const more = listed.length < paths.length;
  const next = more ? `<NextContinuationToken>${listed.at(-1)?.slice(bucket.length + 1)}</NextContinuationToken>` : '';
  return `<ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`;
}
