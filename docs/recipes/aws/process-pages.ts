/**
 * A Lambda function that verifies pages and processes them: here, it stores each one compressed. It takes the pages in
 * the messages of queue-pages.ts. Replace `processPage`, but keep the run and the page in the key of the result: a page that is processed twice then has one
 * result. A page is held in memory.
 */

import { createHash } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { ManifestPage } from 'report-exporter';

const { BUCKET = '', PREFIX = '', RESULTS = '' } = process.env;
const s3 = new S3Client();

/** Processes the pages in messages of a queue. Only the messages of pages that failed are delivered again. */
export async function fromQueue({ Records }: SQSEvent): Promise<SQSBatchResponse> {
  const failed: string[] = [];
  for (const { messageId, body } of Records) {
    try {
      await processPage(JSON.parse(body));
    } catch (error) {
      console.error(error);
      failed.push(messageId);
    }
  }
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}

async function processPage({ key, bytes, sha256, compression }: ManifestPage): Promise<void> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: PREFIX + key }));
  const object = (await Body?.transformToByteArray()) ?? new Uint8Array();
  const xml = compression === 'gzip' ? gunzipSync(object, { maxOutputLength: bytes + 1 }) : object;
  if (xml.length !== bytes || createHash('sha256').update(xml).digest('hex') !== sha256) {
    throw new Error(`${key} does not match its manifest`);
  }
  await s3.send(new PutObjectCommand({ Bucket: RESULTS, Key: `${key.replace(/\.gz$/, '')}.gz`, Body: gzipSync(xml) }));
}
