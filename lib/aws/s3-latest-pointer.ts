/** The one object that is ever replaced: `latest.json`, which must never go back to an older run. */

import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { Latest } from '../core/model.ts';
import { type Chance, isContended, isMissing, pause, refusedLook, type S3Object } from './s3-objects.ts';

/** Finishing runs of one export are few; losing more races than this means that something else is wrong. */
const attempts = 30;

/**
 * Writes `latest`, unless a pointer with a higher sequence stands there. Replaces only the very pointer that was read
 * (If-Match), so that the slower of two writers decides anew instead of putting the older over the newer.
 */
export async function replaceLatest(object: S3Object, latest: Latest, surroundings: Chance): Promise<void> {
  const { client, ...place } = object;
  for (let tries = 1; ; tries += 1) {
    const standing = await readPointer(object);
    if (standing !== undefined && standing.sequence > latest.sequence) return;
    try {
      await client.send(
        new PutObjectCommand({
          ...place,
          Body: `${JSON.stringify(latest, null, 2)}\n`,
          ContentType: 'application/json',
          ChecksumAlgorithm: 'SHA256',
          ...(standing === undefined ? { IfNoneMatch: '*' } : { IfMatch: standing.etag }),
        }),
      );
      return;
    } catch (error) {
      // Changed since it was read, or gone.
      if (!(isContended(error) || isMissing(error)) || tries === attempts) throw error;
      await pause(tries, surroundings);
    }
  }
}

async function readPointer({ client, ...place }: S3Object) {
  try {
    const { Body, ETag } = await client.send(new GetObjectCommand(place));
    return { etag: ETag, sequence: sequenceIn((await Body?.transformToString()) ?? '') };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw refusedLook(error, place) ?? error;
  }
}

/** A pointer that cannot be read leads nobody anywhere, so it gives way to any other. */
function sequenceIn(text: string): number {
  try {
    const { sequence } = JSON.parse(text) as Partial<Latest>;
    return typeof sequence === 'number' ? sequence : 0;
  } catch {
    return 0;
  }
}
