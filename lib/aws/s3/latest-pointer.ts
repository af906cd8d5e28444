/** Replaces `latest.json`, the only object that is ever overwritten. It never points back to an older run. */

import { Readable } from 'node:stream';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { LatestPointer } from '../../core/model.ts';
import { maxDocumentBytes, sequenceOfPointer } from '../../core/storage/stored-records.ts';
import {
  accessDenied,
  backOff,
  isConflict,
  isNotFound,
  missingBucket,
  type ObjectEncryption,
  type RetryRuntime,
  type S3Object,
} from './objects.ts';

/** Few runs of an export finish at the same time: to lose more races than this means that something else is wrong. */
const maxAttempts = 30;

/**
 * Writes `latest`, unless the object holds a pointer with a higher sequence that belongs to a run that has begun. The
 * write is conditional on the pointer that was read (If-Match), so the slower of two writers reads again instead of
 * overwriting the newer pointer.
 */
export async function replaceLatestObject(
  object: S3Object,
  latest: LatestPointer,
  hasBegun: (sequence: number) => Promise<boolean>,
  { encryption, runtime }: { readonly encryption: ObjectEncryption; readonly runtime: RetryRuntime },
): Promise<void> {
  const { client, ...location } = object;
  for (let attempt = 1; ; attempt += 1) {
    const existing = await readLatestObject(object);
    // Checked after the read: a run has begun before it publishes its pointer.
    if (existing !== undefined && existing.sequence > latest.sequence && (await hasBegun(existing.sequence))) return;
    try {
      await client.send(
        new PutObjectCommand({
          ...location,
          Body: `${JSON.stringify(latest, null, 2)}\n`,
          ContentType: 'application/json',
          ...encryption,
          ChecksumAlgorithm: 'SHA256',
          ...(existing === undefined ? { IfNoneMatch: '*' } : { IfMatch: existing.etag }),
        }),
      );
      return;
    } catch (error) {
      const hasChanged = isConflict(error) || isNotFound(error);
      if (!hasChanged || attempt === maxAttempts) throw missingBucket(error, location) ?? error;
      await backOff(attempt, runtime);
    }
  }
}

async function readLatestObject({ client, ...location }: S3Object) {
  try {
    const { Body, ETag: etag, ContentLength = 0 } = await client.send(new GetObjectCommand(location));
    if (ContentLength <= maxDocumentBytes) {
      return { etag, sequence: sequenceOfPointer((await Body?.transformToString()) ?? '') };
    }
    if (Body instanceof Readable) Body.destroy();
    return { etag, sequence: 0 };
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw accessDenied(error, location) ?? missingBucket(error, location) ?? error;
  }
}
