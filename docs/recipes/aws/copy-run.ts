/**
 * A Lambda function that copies runs to a bucket, each page verified by S3, in the order of the export: pages,
 * manifest, run.json, latest.json. Each event copies all runs after the last one that was copied, so no missed event
 * loses a run, and a second event copies nothing. copy-runs.ts deploys it.
 */

import { dirname } from 'node:path/posix';
import type { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import {
  GetObjectCommand,
  HeadObjectCommand,
  NoSuchKey,
  NotFound,
  paginateListObjectsV2,
  PutObjectCommand,
  S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3';
import type { LatestPointer, ManifestPage, RunSummary } from 'report-exporter';
import { checkEvent, checkRun, pagesOf } from './formats.ts';

const { BUCKET = '', PREFIX = '', COPIES = '' } = process.env;
const maxPagesAtOnce = 16;
const maxAttempts = 5;
const s3 = new S3Client();

/** Copies every run that is not copied yet. Returns their IDs. */
export async function handler({ detail }: { readonly detail: unknown }): Promise<string[]> {
  const runs = await runsToCopy(checkEvent(detail).export);
  for (const run of runs) await copyRun(run);
  return runs.map(({ run }) => run);
}

/** The published runs after the last one that was copied, oldest first. */
async function runsToCopy(exportName: string): Promise<RunSummary[]> {
  const { latest } = await findLatest(exportName);
  const [, lastDay] = /date=([^/]+)/.exec(latest?.manifest ?? '') ?? [];
  // From the day before: around midnight, the clocks of two runs may differ.
  const firstDay = lastDay === undefined ? '' : new Date(Date.parse(lastDay) - 86_400_000).toISOString().slice(0, 10);
  const runs: RunSummary[] = [];
  for await (const day of list(`${PREFIX}${exportName}/date=`)) {
    if (day < `${PREFIX}${exportName}/date=${firstDay}`) continue;
    for await (const folder of list(`${day}run=`)) {
      // A run in progress and an abandoned run have no run.json.
      for await (const key of list(`${folder}run.json`)) {
        const run = checkRun(JSON.parse((await read(BUCKET, key)).text));
        if (run.sequence > (latest?.sequence ?? -1)) runs.push(run);
      }
    }
  }
  return runs.sort((a, b) => a.sequence - b.sequence);
}

async function copyRun(run: RunSummary): Promise<void> {
  const pages = pagesOf(s3, BUCKET, PREFIX + run.manifest);
  let copied = 0;
  const copyPages = async () => {
    for await (const page of pages) {
      // A compressed page has the size and checksum of its object, too.
      const { key, bytes, sha256, storedBytes = bytes, storedSha256 = sha256 } = page;
      await copy(key, { bytes: storedBytes, sha256: storedSha256 });
      copied += 1;
    }
  };
  await Promise.all(Array.from({ length: maxPagesAtOnce }, copyPages));
  if (copied !== run.pages) throw new Error(`${run.manifest} names ${copied} pages instead of ${run.pages}`);
  await copy(run.manifest);
  const summary = `${dirname(run.manifest)}/run.json`;
  await copy(summary);
  await copy(summary, {}, `tables/runs/${run.export}-${run.run}.json`);
  await moveLatest(run);
}

/** Copies an object, unless the copy exists. S3 rejects a copy that does not have the expected size and checksum. */
async function copy(key: string, { bytes, sha256 }: Partial<ManifestPage> = {}, copyKey = key): Promise<void> {
  if (await exists(copyKey)) return;
  const checksum = sha256 === undefined ? {} : { ChecksumSHA256: Buffer.from(sha256, 'hex').toString('base64') };
  // The SDK cannot repeat a request whose body is a stream.
  for (let attempt = 1; ; attempt += 1) {
    const { Body, ContentLength } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: PREFIX + key }));
    const content = Body as Readable;
    try {
      if (bytes !== undefined && bytes !== ContentLength) throw new RangeError(`${ContentLength} bytes, not ${bytes}`);
      const copied = { Bucket: COPIES, Key: copyKey, Body: content, ContentLength, IfNoneMatch: '*', ...checksum };
      await s3.send(new PutObjectCommand(copied));
      return;
    } catch (error) {
      content.destroy();
      const { name, message, $metadata } = error as S3ServiceException;
      if (name === 'PreconditionFailed') return;
      // Without a status, the connection failed.
      const status = $metadata?.httpStatusCode ?? 500;
      const isTemporary = (status === 409 || status >= 500) && !(error instanceof RangeError);
      if (!isTemporary || attempt === maxAttempts) throw new Error(`Cannot copy ${key}: ${message}`, { cause: error });
      await setTimeout(Math.random() * 200 * 2 ** attempt);
    }
  }
}

async function exists(key: string): Promise<boolean> {
  try {
    await s3.send(new HeadObjectCommand({ Bucket: COPIES, Key: key }));
    return true;
  } catch (error) {
    if (error instanceof NotFound) return false;
    throw error;
  }
}

/** Points latest.json of the copy to this run, unless it already points to a newer one. */
async function moveLatest({ export: exportName, run, sequence, completedAt, manifest }: RunSummary): Promise<void> {
  const { latest, etag } = await findLatest(exportName);
  if (latest !== undefined && latest.sequence >= sequence) return;
  const pointer: LatestPointer = { export: exportName, run, sequence, completedAt, manifest };
  const condition = etag === undefined ? { IfNoneMatch: '*' } : { IfMatch: etag };
  const Key = `${exportName}/latest.json`;
  await s3.send(new PutObjectCommand({ Bucket: COPIES, Key, Body: JSON.stringify(pointer), ...condition }));
}

async function findLatest(exportName: string): Promise<{ latest?: LatestPointer; etag?: string | undefined }> {
  try {
    const { text, etag } = await read(COPIES, `${exportName}/latest.json`);
    return { latest: JSON.parse(text), etag };
  } catch (error) {
    if (error instanceof NoSuchKey) return {};
    throw error;
  }
}

async function read(Bucket: string, Key: string): Promise<{ text: string; etag: string | undefined }> {
  const { Body, ETag } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return { text: (await Body?.transformToString()) ?? '', etag: ETag };
}

/** The folders and objects whose names begin with `prefix`. */
async function* list(prefix: string): AsyncGenerator<string> {
  const pages = paginateListObjectsV2({ client: s3 }, { Bucket: BUCKET, Prefix: prefix, Delimiter: '/' });
  for await (const { CommonPrefixes = [], Contents = [] } of pages) {
    for (const { Prefix = '' } of CommonPrefixes) yield Prefix;
    for (const { Key = '' } of Contents) yield Key;
  }
}
