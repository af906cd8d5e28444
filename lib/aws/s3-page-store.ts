/**
 * Keeps pages in an S3 bucket: whole or not at all, and never overwritten, by `If-None-Match: *`.
 *
 * A page's facts are its object's metadata, so body and continuation become visible in one atomic step. Some are known
 * only once the body has ended, so it is spooled first; a body that breaks off sends nothing.
 */

import { tmpdir } from 'node:os';
import type { S3Client } from '@aws-sdk/client-s3';
import { ExportError } from '../core/errors.ts';
import type { StoredPage } from '../core/model.ts';
import type { PageStore } from '../core/ports.ts';
import { metadataOf, pageOf } from './page-metadata.ts';
import { replaceLatest } from './s3-latest-pointer.ts';
import { type Chance, createObject, headObject, type S3Object, type Standing } from './s3-objects.ts';
import { fileSpool, type Spool } from './spool.ts';

export interface S3PageStoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /** What every key in the bucket begins with: empty, or with a slash at its end. Keys in the model come without it. */
  readonly prefix: string;
  readonly surroundings: Chance;
  /** Where bodies wait for their upload; files in the system's temporary directory by default. */
  readonly spool?: Spool;
}

/** Needs GetObject, PutObject and AbortMultipartUpload on the keys, and ListBucket: without it S3 hides what is missing. */
export function createS3PageStore(options: S3PageStoreOptions): PageStore {
  const { client, bucket, prefix, surroundings, spool = fileSpool(tmpdir()) } = options;
  const objectAt = (key: string): S3Object => ({ client, Bucket: bucket, Key: prefix + key });
  const locate = (key: string) => `s3://${bucket}/${prefix}${key}`;

  const readPage = (key: string, standing: Standing): StoredPage => {
    const page = pageOf(key, standing);
    if (page !== undefined) return page;
    throw conflict(locate(key), 'its metadata is not that of a page of its size');
  };

  return {
    async find(key) {
      const standing = await headObject(objectAt(key));
      return standing && readPage(key, standing);
    },

    async put({ key, run, page, cursor }, fetched) {
      return await spool(fetched.body, async (body) => {
        const { bytes, sha256 } = body;
        const { nextCursor, serviceTime } = fetched;
        const { ours, ...standing } = await createObject(
          objectAt(key),
          body,
          {
            contentType: asHeader(fetched.contentType),
            metadata: metadataOf({
              run,
              page,
              bytes,
              sha256,
              reports: fetched.reports(),
              cursor,
              nextCursor,
              serviceTime,
            }),
          },
          surroundings,
        );
        // Read from the metadata in either case: whoever comes later must be told the same.
        return { stored: ours, page: readPage(key, standing) };
      });
    },

    async putManifest(key, chunks) {
      await spool(chunks, async (body) => {
        const { ours, Metadata } = await createObject(
          objectAt(key),
          body,
          {
            contentType: 'application/json',
            metadata: { sha256: body.sha256 },
          },
          surroundings,
        );
        if (!ours && Metadata?.sha256 !== body.sha256) {
          throw conflict(locate(key), 'its bytes are others than those of this manifest');
        }
      });
    },

    putLatest: (key, latest) => replaceLatest(objectAt(key), latest, surroundings),

    locate,
  };
}

/** The service's word, if a header can carry it. */
const asHeader = (contentType: string): string =>
  /^[\x20-\x7e]+$/.test(contentType) ? contentType : 'application/octet-stream';

function conflict(where: string, why: string): ExportError {
  return new ExportError(
    'PageConflictError',
    `${where} is there already, but not as this exporter left it: ${why}. Nothing was touched; ` +
      'if it was changed by mistake, move it away and start again',
  );
}
