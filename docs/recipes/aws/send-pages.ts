/**
 * A Lambda function that sends a message for each page of a run to a queue. queue-pages.ts deploys it. A repeated
 * invocation sends all pages again, so what processes the messages must be idempotent, as process-pages.ts is.
 */

import { setTimeout } from 'node:timers/promises';
import { S3Client } from '@aws-sdk/client-s3';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { ManifestPage } from 'report-exporter';
import { checkEvent, pagesOf } from './formats.js';

const { BUCKET = '', PREFIX = '', QUEUE = '' } = process.env;
const maxBatchesAtOnce = 16;
const maxAttempts = 5;
const s3 = new S3Client();
const sqs = new SQSClient();

/** Sends every page of the run to the queue. */
export async function handler({ detail }: { readonly detail: unknown }): Promise<void> {
  const { manifest, pages } = checkEvent(detail).result;
  const batches = batchesOf(pagesOf(s3, BUCKET, PREFIX + manifest));
  let sent = 0;
  const sendBatches = async () => {
    for await (const batch of batches) {
      await send(batch);
      sent += batch.length;
    }
  };
  await Promise.all(Array.from({ length: maxBatchesAtOnce }, sendBatches));
  if (sent !== pages) throw new Error(`${manifest} names ${sent} pages instead of ${pages}`);
}

/** Sends a message for each page. SQS may reject some of them: it gets those again, unless they are invalid. */
async function send(batch: readonly ManifestPage[]): Promise<void> {
  let Entries = batch.map((page) => ({ Id: String(page.page), MessageBody: JSON.stringify(page) }));
  for (let attempt = 1; ; attempt += 1) {
    const { Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries }));
    if (Failed.length === 0) return;
    if (attempt === maxAttempts || Failed.some(({ SenderFault }) => SenderFault)) {
      throw new Error(`Cannot send ${Failed.length} pages: ${Failed[0]?.Message}`);
    }
    await setTimeout(Math.random() * 200 * 2 ** attempt);
    Entries = Entries.filter(({ Id }) => Failed.some((failed) => failed.Id === Id));
  }
}

/** SQS accepts at most 10 messages at once. */
async function* batchesOf(pages: AsyncIterable<ManifestPage>): AsyncGenerator<ManifestPage[]> {
  let batch: ManifestPage[] = [];
  for await (const page of pages) {
    batch.push(page);
    if (batch.length < 10) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
