/**
 * Keeps pages in an S3 bucket: whole or not at all, and never overwritten, by `If-None-Match: *`.
 *
 * A page's facts are its object's metadata, so body and continuation become visible in one atomic step. Some are known
 * only once the body has ended, so it is spooled first; a body that breaks off sends nothing.
 */

import { tmpdir } from 'node:os';
import type { S3Client } from '@aws-sdk/client-s3';
import { ExportError } from '../../core/errors.ts';
import type { PageMetadata, StoredPage } from '../../core/model.ts';
import type { PageStore, StoreReader } from '../../core/ports.ts';
import { replaceLatest } from './latest-pointer.ts';
import {
  type Chance,
  createObject,
  type Existing,
  hasOtherBytes,
  headObject,
  listObjects,
  readObject,
  revisionOf,
  type S3Object,
} from './objects.ts';
import { factsOf, metadataOf } from './page-metadata.ts';
import { fileSpool, type Spool } from './spool.ts';

export interface S3PageStoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /** What every key in the bucket begins with: empty, or with a slash at its end. Keys in the model come without it. */
  readonly prefix: string;
  readonly runtime: Chance;
  /** Where bodies wait for their upload; files in the system's temporary directory by default. */
  readonly spool?: Spool;
}

/** Needs GetObject, PutObject and AbortMultipartUpload on the keys, and ListBucket: without it S3 hides what is missing. */
export function createS3PageStore(options: S3PageStoreOptions): PageStore & StoreReader {
  const { client, bucket, prefix, runtime, spool = fileSpool(tmpdir()) } = options;
  const objectAt = (key: string): S3Object => ({ client, Bucket: bucket, Key: prefix + key });
  const locate = (key: string) => `s3://${bucket}/${prefix}${key}`;

  const readPage = (key: string, existing: Existing): StoredPage => {
    const facts = readFacts(key, existing);
    const { ContentLength: bytes } = existing;
    if (bytes !== facts.bytes) throw conflict(locate(key), `it has ${bytes} bytes, its metadata says ${facts.bytes}`);
    if (hasOtherBytes(existing, facts)) throw conflict(locate(key), 'its bytes are not those its metadata tells of');
    return { ...facts, revision: revisionOf(existing.ETag) };
  };
  const readFacts = (key: string, { Metadata = {} }: Existing): PageMetadata => {
    try {
      return factsOf(key, Metadata);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw conflict(locate(key), `its metadata is not what was written with it: ${why}`, cause);
    }
  };

  return {
    async find(key) {
      const existing = await headObject(objectAt(key));
      return existing && readPage(key, existing);
    },

    async put({ key, run, page, cursor }, fetched) {
      return await spool(fetched.body, async (body) => {
        const { bytes, sha256 } = body;
        const { nextCursor, serviceTime, predecessorStored: loop } = fetched;
        await loop;
        const { ours, ...existing } = await createObject(
          objectAt(key),
          body,
          {
            contentType: asHeader(fetched.contentType),
            metadata: metadataOf({
              key,
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
          runtime,
        );
        // Read from the metadata in either case: whoever comes later must be told the same.
        return { stored: ours, page: readPage(key, existing) };
      });
    },

    async putManifest(key, chunks) {
      await spool(chunks, async (body) => {
        const { ours, ...existing } = await createObject(
          objectAt(key),
          body,
          {
            contentType: 'application/json',
            metadata: { sha256: body.sha256 },
          },
          runtime,
        );
        const { Metadata, ContentLength } = existing;
        const isThisOne =
          Metadata?.sha256 === body.sha256 && ContentLength === body.bytes && !hasOtherBytes(existing, body);
        if (!ours && !isThisOne) throw conflict(locate(key), 'its bytes are others than those of this manifest');
      });
    },

    putLatest: (key, latest, hasBegun) => replaceLatest(objectAt(key), latest, hasBegun, runtime),

    async *list(folder) {
      for await (const object of listObjects({ client, Bucket: bucket }, `${prefix}${folder}/`)) {
        const key = object.key.slice(prefix.length);
        if (key.lastIndexOf('/') === folder.length) yield { ...object, key };
      }
    },

    read: (key) => readObject(objectAt(key)),

    locate,
  };
}

/** The service's word, if a header can carry it. */
const asHeader = (contentType: string): string =>
  /^[\x20-\x7e]+$/.test(contentType) ? contentType : 'application/octet-stream';

function conflict(where: string, why: string, cause?: unknown): ExportError {
  return new ExportError(
    'PageConflictError',
    `${where} is there already, but not as this exporter left it: ${why}. Nothing was touched; ` +
      'if it was changed by mistake, move it away and start again',
    cause === undefined ? {} : { cause },
  );
}
