/** Reads a published run as a consumer does, through latest.json and the manifest, and verifies every page. */

import { gunzipSync } from 'node:zlib';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { ExportState, LatestPointer } from '../../../lib/core/model.ts';
import { listPublishedRuns } from '../../../lib/core/storage/run-list.ts';
import type { ExportTarget } from '../../../lib/operator/target.ts';
import { collect, sha256Of } from '../../support/builders.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { dynamoDb, s3 } from './aws.ts';
import { type ExporterStack, prefix, serviceName } from './exporter-stack.ts';

interface PublishedRun {
  readonly latest: LatestPointer;
  readonly manifest: Manifest;
  /** The IDs of all reports, in the order of the pages. */
  readonly ids: readonly string[];
}

/** Reads the newest published run. @throws Error if a page does not match the manifest */
export async function readNewestRun(stack: Pick<ExporterStack, 'bucket'>, exportName: string): Promise<PublishedRun> {
  const latest: LatestPointer = JSON.parse(await readText(stack, `${exportName}/latest.json`));
  const manifest: Manifest = JSON.parse(await readText(stack, latest.manifest));
  const ids: string[] = [];
  for (const { page, key, bytes, sha256, compression, reports } of manifest.pages) {
    const object = await readObject(stack, key);
    const text = (compression === 'gzip' ? gunzipSync(object) : object).toString();
    const found = idsIn(text);
    if (Buffer.byteLength(text) !== bytes || sha256Of(text) !== sha256 || found.length !== reports) {
      throw new Error(`Page ${page} at ${key} does not match the manifest`);
    }
    ids.push(...found);
  }
  return { latest, manifest, ids };
}

/** In JSON, the quotes are escaped. */
const idsIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(/<r id=\\?"([^"\\]*)/g), ([, id = '']) => id);

/** The published bounded runs of the export, by date, with the IDs of the reports in their pages. */
export async function publishedBoundedRuns({ store, name }: Pick<ExportTarget, 'store' | 'name'>) {
  const runs = (await collect(listPublishedRuns(store, name))).filter(({ bounded }) => bounded === true);
  return await Promise.all(
    runs
      .sort((one, other) => (one.since < other.since ? -1 : 1))
      .map(async ({ run, since, until, manifest }) => {
        const { pages } = JSON.parse(await readStored(store, manifest)) as Manifest;
        const texts = await Promise.all(pages.map(({ key }) => readStored(store, key)));
        return { run, since, until, ids: texts.flatMap(idsIn) };
      }),
  );
}

export async function readStored(store: ExportTarget['store'], key: string): Promise<string> {
  const object = await store.read(key);
  if (object === undefined) throw new Error(`There is no object ${key}`);
  return Buffer.concat(await collect(object)).toString();
}

/** The keys in the export's folder, without the prefix, as in the manifest. */
export async function keysOf({ bucket }: ExporterStack, exportName: string): Promise<string[]> {
  const { Contents = [] } = await s3.send(
    new ListObjectsV2Command({ Bucket: bucket, Prefix: `${prefix}${exportName}/` }),
  );
  return Contents.map(({ Key = '' }) => Key.slice(prefix.length));
}

/** The export state, from its item in the table. */
export async function exportStateOf({ table }: ExporterStack, exportName: string): Promise<ExportState> {
  const Key = { pk: { S: `${serviceName}/${exportName}` }, sk: { S: 'state' } };
  const { Item } = await dynamoDb.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
  if (Item === undefined) throw new Error(`Export ${exportName} has no state`);
  return JSON.parse(Item.record?.S ?? '') as ExportState;
}

const readText = async (stack: Pick<ExporterStack, 'bucket'>, key: string): Promise<string> =>
  (await readObject(stack, key)).toString();

async function readObject({ bucket }: Pick<ExporterStack, 'bucket'>, key: string): Promise<Buffer> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
}
