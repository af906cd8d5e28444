/**
 * A Lambda function that copies runs, bounded ones included, to a bucket, each page verified by S3, in the order of the
 * export: pages, manifest, summary, latest.json. Each event copies all runs that are not copied yet, so no missed event
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
import { checkEvent, checkRun, missingParentsOf, pagesOf } from './formats.js';

const { BUCKET = '', PREFIX = '', COPIES = '' } = process.env;
const maxAtOnce = 16;
const maxAttempts = 5;
const s3 = new S3Client();

/** Copies every run that is not copied yet. Returns their IDs. */
export async function handler({ detail }: { readonly detail: unknown }): Promise<string[]> {
  const runs = await runsToCopy(checkEvent(detail).export);
  for (const run of runs) await copyRun(run);
  return runs.map(({ run }) => run);
}

const recordOf = (exportName: string, run: string) => `tables/runs/${exportName}-${run}.json`;
const summaryOf = ({ bounded }: RunSummary) => (bounded ? 'bounded.json' : 'run.json');

/**
 * The published runs that are not copied yet, lowest sequence first. A run may appear late, and its clock may have been
 * wrong. So all days are listed.
 */
async function runsToCopy(exportName: string): Promise<RunSummary[]> {
  const copied = new Set<string>();
  for await (const record of list(COPIES, `tables/runs/${exportName}-`)) copied.add(record);
  const days: string[] = [];
  for await (const day of list(BUCKET, `${PREFIX}${exportName}/date=`)) days.push(day);
  const runs: RunSummary[] = [];
  const readDays = async () => {
    for (let day = days.pop(); day !== undefined; day = days.pop()) {
      for await (const folder of list(BUCKET, `${day}run=`)) {
        const [, run = ''] = /run=([^/]+)/.exec(folder) ?? [];
        if (!copied.has(recordOf(exportName, run))) runs.push(...(await readRun(folder)));
      }
    }
  };
  await Promise.all(Array.from({ length: maxAtOnce }, readDays));
  return runs.sort((a, b) => a.sequence - b.sequence);
}

/** The run in a folder. A run in progress and an abandoned run have no summary. */
async function readRun(folder: string): Promise<RunSummary[]> {
  for (const name of ['run.json', 'bounded.json']) {
    for await (const key of list(BUCKET, folder + name)) {
      if (key === folder + name) return [checkRun(JSON.parse((await read(BUCKET, key)).text))];
    }
  }
  return [];
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
  await Promise.all(Array.from({ length: maxAtOnce }, copyPages));
  if (copied !== run.pages) throw new Error(`${run.manifest} names ${copied} pages instead of ${run.pages}`);
  const missing = await missingParentsOf(s3, BUCKET, PREFIX + run.manifest);
  if (missing !== undefined) await copy(missing.key, missing);
  await copy(run.manifest);
  const summary = `${dirname(run.manifest)}/${summaryOf(run)}`;
  await copy(summary);
  if (!run.bounded) await moveLatest(run);
  // Last: it records that the run is copied.
  await copy(summary, {}, recordOf(run.export, run.run));
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
async function* list(Bucket: string, prefix: string): AsyncGenerator<string> {
  const pages = paginateListObjectsV2({ client: s3 }, { Bucket, Prefix: prefix, Delimiter: '/' });
  for await (const { CommonPrefixes = [], Contents = [] } of pages) {
    for (const { Prefix = '' } of CommonPrefixes) yield Prefix;
    for (const { Key = '' } of Contents) yield Key;
  }
}
