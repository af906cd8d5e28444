/** The one object that is ever replaced: `latest.json`, which must never go back to an older run. */

import { Readable } from 'node:stream';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { LatestPointer } from '../../core/model.ts';
import { maxPointerBytes, sequenceOfPointer } from '../../core/storage/stored-records.ts';
import { accessDenied, type Chance, isConflict, isMissing, pause, type S3Object } from './objects.ts';

/** Finishing runs of one export are few; losing more races than this means that something else is wrong. */
const attempts = 30;

/**
 * Writes `latest`, unless a pointer with a higher sequence stands there, of a run that has begun. Replaces only the very
 * pointer that was read (If-Match), so that the slower of two writers decides anew instead of putting the older over the
 * newer.
 */
export async function replaceLatest(
  object: S3Object,
  latest: LatestPointer,
  hasBegun: (sequence: number) => Promise<boolean>,
  runtime: Chance,
): Promise<void> {
  const { client, ...place } = object;
  for (let tries = 1; ; tries += 1) {
    const existing = await readLatestPointer(object);
    // Asked only now: a run that published this pointer had begun before it did.
    if (existing !== undefined && existing.sequence > latest.sequence && (await hasBegun(existing.sequence))) return;
    try {
      await client.send(
        new PutObjectCommand({
          ...place,
          Body: `${JSON.stringify(latest, null, 2)}\n`,
          ContentType: 'application/json',
          ChecksumAlgorithm: 'SHA256',
          ...(existing === undefined ? { IfNoneMatch: '*' } : { IfMatch: existing.etag }),
        }),
      );
      return;
    } catch (error) {
      // Changed since it was read, or gone.
      if (!(isConflict(error) || isMissing(error)) || tries === attempts) throw error;
      await pause(tries, runtime);
    }
  }
}

async function readLatestPointer({ client, ...place }: S3Object) {
  try {
    const { Body, ETag: etag, ContentLength = 0 } = await client.send(new GetObjectCommand(place));
    if (ContentLength <= maxPointerBytes) {
      return { etag, sequence: sequenceOfPointer((await Body?.transformToString()) ?? '') };
    }
    if (Body instanceof Readable) Body.destroy();
    return { etag, sequence: 0 };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw accessDenied(error, place) ?? error;
  }
}
