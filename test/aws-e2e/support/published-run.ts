/** What a consumer finds in the bucket who goes by latest.json and the manifest, and believes neither. */

import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { ExportState, LatestPointer } from '../../../lib/core/model.ts';
import { sha256Of } from '../../support/builders.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { dynamoDb, s3 } from './aws.ts';
import { type Deployment, prefix } from './exporter-stack.ts';

interface Published {
  readonly latest: LatestPointer;
  readonly manifest: Manifest;
  /** Of every report in the manifest's pages, in the order they lie there. */
  readonly ids: readonly string[];
}

/** The newest published run. @throws where a page is not what its manifest says */
export async function readNewest(deployment: Deployment, exportName: string): Promise<Published> {
  const latest: LatestPointer = JSON.parse(await textAt(deployment, `${exportName}/latest.json`));
  const manifest: Manifest = JSON.parse(await textAt(deployment, latest.manifest));
  const ids: string[] = [];
  for (const { page, key, bytes, sha256, reports } of manifest.pages) {
    const text = await textAt(deployment, key);
    const found = Array.from(text.matchAll(/<r id="([^"]*)"/g), ([, id = '']) => id);
    if (Buffer.byteLength(text) !== bytes || sha256Of(text) !== sha256 || found.length !== reports) {
      throw new Error(`Page ${page} at ${key} is not what the manifest says`);
    }
    ids.push(...found);
  }
  return { latest, manifest, ids };
}

/** The keys below the export's folder, as the manifest spells them. */
export async function keysOf({ bucket }: Deployment, exportName: string): Promise<string[]> {
  const { Contents = [] } = await s3.send(
    new ListObjectsV2Command({ Bucket: bucket, Prefix: `${prefix}${exportName}/` }),
  );
  return Contents.map(({ Key = '' }) => Key.slice(prefix.length));
}

/** Where the export stands, by its one item in the table. */
export async function headOf({ table }: Deployment, exportName: string): Promise<ExportState> {
  const Key = { pk: { S: exportName }, sk: { S: 'state' } };
  const { Item } = await dynamoDb.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
  if (Item === undefined) throw new Error(`Export ${exportName} has no head`);
  return unmarshall(Item) as ExportState;
}

async function textAt({ bucket }: Deployment, key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
  return (await Body?.transformToString()) ?? '';
}
