/** After any manual edit of the bucket or the table, a run either publishes a correct manifest or fails with a named error. */

import { createHash } from 'node:crypto';
import {
  type AttributeValue,
  DeleteItemCommand,
  DynamoDBClient,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe } from 'vitest';
import { entriesPrefix, type Item, partitionOf } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { PageLog, PageStore } from '../../../lib/core/ports.ts';
import { type LocalAws, startLocalAws } from '../../support/aws/local-aws.ts';
import {
  createInterruptedExport,
  expectConsistentEndAfter,
  exportName,
  type InterruptedExport,
} from '../../support/export/interrupted-export.ts';
import { anyStorageEdit, type StoredItem } from '../../support/export/storage-edits.ts';
import { cases, fc, test } from '../../support/property.ts';
import { dummyAccount } from '../endpoint.ts';

const prefix = 'bucket/all/';
const service = 'orders';
const partition = partitionOf(service, exportName);
const runtime = { ...systemRuntime, sleep: async () => {} };

let aws: LocalAws;
let table: DynamoDBClient;
let store: PageStore;
let log: PageLog;
let folder: string;
let objects: LocalAws['objects'];
let items: readonly Item[];

beforeAll(async () => {
  aws = await startLocalAws();
  const { AWS_ENDPOINT_URL_DYNAMODB: dynamoDb = '', AWS_ENDPOINT_URL: s3 = '' } = aws.env;
  table = new DynamoDBClient({ endpoint: dynamoDb, ...dummyAccount });
  const client = new S3Client({ endpoint: s3, ...dummyAccount, forcePathStyle: true });
  store = createS3PageStore({ client, bucket: 'bucket', prefix: 'all/', runtime });
  log = createDynamoPageLog({ client: table, table: aws.table, service, runtime });
  await createInterruptedExport({ store, log });
  folder = `${exportName}/date=2026-11-20/run=${(await log.exportState(exportName))?.active?.run}`;
  objects = new Map(aws.objects);
  items = await allItems();
});
afterAll(async () => await aws[Symbol.asyncDispose]());

const allItems = async () =>
  (await table.send(new ScanCommand({ TableName: aws.table, ConsistentRead: true }))).Items ?? [];
const put = (Item: Item) => table.send(new PutItemCommand({ TableName: aws.table, Item }));
const remove = ({ pk, sk }: Item) =>
  table.send(new DeleteItemCommand({ TableName: aws.table, Key: { pk, sk } as Record<string, AttributeValue> }));

/** Restores the bucket and the table as the interrupted run left them. */
async function restore(): Promise<void> {
  aws.objects.clear();
  for (const [path, object] of objects) aws.objects.set(path, object);
  for (const item of await allItems()) await remove(item);
  for (const item of items) await put(item);
}

function itemAt(sk: string): StoredItem {
  const key = { pk: { S: partition }, sk: { S: sk } };
  return {
    name: sk,
    kind: sk === 'state' ? 'head' : 'entry',
    form: 'fields',
    async read() {
      const found = (await allItems()).find((item) => item.sk?.S === sk);
      if (found === undefined) return undefined;
      const { record, checksum } = found;
      return Buffer.from(JSON.stringify({ ...JSON.parse(record?.S ?? ''), checksum: checksum?.S }));
    },
    async write(bytes) {
      if (bytes === undefined) {
        await remove(key);
        return;
      }
      const { checksum, ...record } = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const original = items.find((item) => item.sk?.S === sk);
      await put({ ...original, ...key, record: { S: JSON.stringify(record) }, checksum: { S: String(checksum) } });
    },
  };
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64');

/** The bytes of an object. An edit keeps its metadata, and S3 computes the checksum of the new bytes. */
function bytesAt(key: string, kind: string, form: StoredItem['form']): StoredItem {
  return {
    name: key.split('/').at(-1) ?? '',
    kind,
    form,
    read: async () => aws.objects.get(prefix + key)?.body,
    async write(bytes) {
      if (bytes === undefined) aws.objects.delete(prefix + key);
      else {
        const headers = { ...aws.objects.get(prefix + key)?.headers, 'x-amz-checksum-sha256': sha256(bytes) };
        aws.objects.set(prefix + key, { body: bytes, headers });
      }
    },
  };
}

/** The metadata of an object, as headers. An object without metadata still exists. */
function metadataAt(key: string): StoredItem {
  return {
    name: `metadata of ${key.split('/').at(-1)}`,
    kind: 'metadata',
    form: 'fields',
    read: async () => {
      const headers = aws.objects.get(prefix + key)?.headers;
      return headers && Buffer.from(JSON.stringify(headers));
    },
    async write(bytes) {
      const object = aws.objects.get(prefix + key);
      if (object === undefined) return;
      const metadata = Object.entries(JSON.parse(bytes?.toString() ?? '{}') as Record<string, unknown>)
        // The value of a header is one line of printable ASCII.
        .map(
          ([name, value]) =>
            [name, (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 2_000)] as const,
        )
        .filter(([name, value]) => name.startsWith('x-amz-meta-') && /^[\x21-\x7e][\x20-\x7e]*$/.test(value));
      const { 'x-amz-checksum-sha256': checksum = sha256(object.body) } = object.headers;
      const headers = { ...Object.fromEntries(metadata), 'x-amz-checksum-sha256': checksum };
      aws.objects.set(prefix + key, { ...object, headers });
    },
  };
}

function halfWay(): InterruptedExport {
  const run = folder.split('run=')[1] as Parameters<typeof entriesPrefix>[0]['run'];
  const page = (number: number) => `${folder}/page-00000${number}.xml`;
  return {
    store,
    log,
    missesSameSizeEdits: false,
    items: [
      itemAt('state'),
      ...[1, 2].map((number) => itemAt(`${entriesPrefix({ run })}00000000000${number}`)),
      ...[1, 2, 3].map((number) => metadataAt(page(number))),
      ...[1, 2, 3, 4, 9].map((number) => bytesAt(page(number), 'page', 'bytes')),
      bytesAt(`${folder}/manifest.json`, 'manifest', 'bytes'),
      bytesAt(`${exportName}/latest.json`, 'latest', 'text'),
    ],
    deleteState: async () => {
      await remove({ pk: { S: partition }, sk: { S: 'state' } });
    },
    objects: async () =>
      new Map([...aws.objects].map(([path, { body }]) => [path.slice(prefix.length), body] as const)),
  };
}

describe('after any edit of the bucket or the table', () => {
  test.prop([fc.array(anyStorageEdit, { minLength: 1, maxLength: 3 })], { numRuns: cases(20) })(
    'the run is published correctly, or fails with an error that says why',
    async (edits) => {
      await restore();
      await expectConsistentEndAfter(edits, halfWay());
    },
    300_000,
  );
});
