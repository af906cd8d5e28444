/** What lies in a folder of the bucket, and in which revision, without a look at each object. */

import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { ListedObject } from '../../core/ports.ts';
import { refusedLook, type S3Object } from './objects.ts';

/**
 * The objects whose keys begin with `prefix`, in S3's order, a thousand a request; their keys are whole.
 * @throws ConfigurationError where S3 does not let us list
 */
export async function* listObjects(
  { client, Bucket }: Pick<S3Object, 'client' | 'Bucket'>,
  prefix: string,
): AsyncGenerator<ListedObject> {
  let next: string | undefined;
  do {
    const command = new ListObjectsV2Command({ Bucket, Prefix: prefix, ContinuationToken: next });
    const listed = await client.send(command).catch((error: unknown) => {
      throw refusedLook(error, { Bucket, Key: prefix }) ?? error;
    });
    for (const { Key: key = '', Size: bytes = 0, ETag } of listed.Contents ?? []) {
      yield { key, bytes, revision: revisionOf(ETag) };
    }
    next = listed.NextContinuationToken;
  } while (next !== undefined);
}

/** The name that S3 gives an object's content, however a server quotes it. */
export function revisionOf(etag: string | undefined): string | null {
  return etag?.replaceAll('"', '') || null;
}
