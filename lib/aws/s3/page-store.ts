/**
 * Stores pages in an S3 bucket: each is visible completely or not at all, and is never overwritten (`If-None-Match:
 * *`).
 *
 * A page's metadata is that of its object, so body and next cursor become visible in one atomic step. Some of it is
 * known only at the end of the body, so the body is spooled before it is uploaded, in the temporary directory if it is
 * large; nothing is sent of a body that breaks off.
 */

import { hash, randomUUID } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import type { S3Client } from '@aws-sdk/client-s3';
import { createSlots } from '../../core/concurrency.ts';
import { codeOf, ExportError, objectConflict } from '../../core/errors.ts';
import { asCursor, type Cursor, type StoredPage } from '../../core/model.ts';
import type { PageIdentity, PageSpool, PageStore, StoreReader } from '../../core/ports.ts';
import { type Compress, objectDigest, type PageObject } from '../../core/storage/compression.ts';
import {
  createSpool,
  fillWithPage,
  openSpoolFile as openFile,
  type Spool,
  type SpoolFile,
  toPageMetadata,
} from '../../core/storage/spool.ts';
import { replaceLatestObject } from './latest-pointer.ts';
import {
  createObject,
  defaultPartBytes,
  hasDifferentBytes,
  headObject,
  listCommonPrefixes,
  listObjects,
  type NewBody,
  type NewObject,
  type ObjectEncryption,
  type ObjectInfo,
  type RetryRuntime,
  readObject,
  revisionOf,
  type S3Object,
} from './objects.ts';
import { decodePageMetadata, encodePageMetadata, isPreserved, nextCursorHash, readFields } from './page-metadata.ts';

export interface S3PageStoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /** Precedes every key in the bucket: empty, or ending with a slash. The model's keys do not have it. */
  readonly prefix: string;
  /** The encryption headers of every write. By default none: the bucket's default encryption applies. */
  readonly encryption?: ObjectEncryption;
  readonly runtime: RetryRuntime;
  /** Compresses pages. By default zlib does, in its threads. */
  readonly compress?: Compress;
  /** Creates the file of a large body. By default in the temporary directory. */
  readonly openSpoolFile?: () => SpoolFile;
  /** A larger body is uploaded in parts of this size. S3 and the SDK require at least 5 MiB; 8 MiB by default. */
  readonly partBytes?: number;
}

/**
 * Needs s3:GetObject, s3:PutObject and s3:AbortMultipartUpload on the objects, and s3:ListBucket: without it S3 answers
 * 403 instead of 404.
 */
export function createS3PageStore(options: S3PageStoreOptions): PageStore & StoreReader {
  const { client, bucket: Bucket, prefix, encryption = {}, runtime } = options;
  const folder = openFolder(options);
  const { objectAt, locate } = folder;
  return {
    async find(key) {
      const info = await headObject(objectAt(key));
      return info && (await readPage(folder, key, info));
    },
    spool: (identity) => spoolPage(folder, identity),
    putDocument: (key, chunks) => putDocument(folder, key, chunks),
    putLatest: (key, latest, hasBegun) => replaceLatestObject(objectAt(key), latest, hasBegun, { encryption, runtime }),

    async *list(name) {
      for await (const object of listObjects({ client, Bucket }, `${prefix}${name}/`)) {
        const key = object.key.slice(prefix.length);
        if (key.lastIndexOf('/') === name.length) yield { ...object, key };
      }
    },

    read: (key) => readObject(objectAt(key)),

    async *listFolders(name) {
      for await (const key of listCommonPrefixes({ client, Bucket }, `${prefix}${name}/`)) {
        yield key.slice(prefix.length, -1);
      }
    },

    locate,
  };
}

type Folder = ReturnType<typeof openFolder>;

/** The objects whose keys begin with the prefix, by their keys without it. */
function openFolder(options: S3PageStoreOptions) {
  const { client, bucket, prefix, encryption = {}, runtime, compress } = options;
  const { partBytes = defaultPartBytes, openSpoolFile = openTemporaryFile } = options;
  const objectAt = (key: string): S3Object => ({ client, Bucket: bucket, Key: prefix + key });
  const locate = (key: string) => `s3://${bucket}/${prefix}${key}`;
  return {
    objectAt,
    locate,
    partBytes,
    compress,
    openSpoolFile,
    uploadsInParts: createSlots(maxUploadsInParts),
    conflict: (key: string, reason: string, cause?: unknown) => objectConflict(locate(key), reason, cause),
    create: async (key: string, body: NewBody, facts: Pick<NewObject, 'contentType' | 'metadata'>) =>
      await createObject(objectAt(key), body, { ...facts, encryption, partBytes }, runtime),
  };
}

function spoolPage(folder: Folder, identity: PageIdentity): PageSpool {
  const { create, partBytes, uploadsInParts } = folder;
  const { key, compression } = identity;
  const spool = spoolFor(folder.openSpoolFile, pageRemedy);
  let object: PageObject;
  return {
    async fill(body) {
      object = await fillWithPage(spool, identity, body, folder.compress);
    },
    async put(received) {
      const metadata = encodePageMetadata(toPageMetadata(identity, object, received));
      await storeLongCursor(folder, key, received.nextCursor);
      const body = { ...objectDigest(object), read: spool.read };
      // No Content-Encoding: clients would decompress the object, but readers expect a gzip file.
      const contentType = compression === undefined ? toHeaderValue(received.contentType) : 'application/gzip';
      const release = body.bytes > partBytes ? await uploadsInParts.acquire() : undefined;
      const { created, ...info } = await create(key, body, { contentType, metadata }).finally(release);
      // A new page, too, is read from its metadata, so that a later attempt that adopts it sees the same.
      return { stored: created, page: await readPage(folder, key, info, created ? received.nextCursor : undefined) };
    },
    [Symbol.asyncDispose]: () => spool[Symbol.asyncDispose](),
  };
}

/** `known` is the next cursor of a page that this store has just written. @throws PageConflictError */
async function readPage(folder: Folder, key: string, info: ObjectInfo, known?: Cursor | null): Promise<StoredPage> {
  const { conflict, partBytes } = folder;
  const orConflict = <Value>(read: () => Value): Value => {
    try {
      return read();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw conflict(key, `its metadata was changed: ${reason}`, cause);
    }
  };
  const fields = orConflict(() => readFields(info.Metadata ?? {}));
  const sha256 = nextCursorHash(fields);
  const nextCursor = sha256 === undefined ? undefined : (known ?? (await readLongCursor(folder, key, sha256)));
  const metadata = orConflict(() => decodePageMetadata(key, fields, nextCursor));
  const { ContentLength: bytes } = info;
  const stored = objectDigest(metadata);
  if (bytes !== stored.bytes) {
    throw conflict(key, `it has ${bytes} bytes, but its metadata says ${stored.bytes}`);
  }
  if (hasDifferentBytes(info, stored, partBytes)) throw conflict(key, 'its bytes do not match its metadata');
  return { ...metadata, revision: revisionOf(info.ETag) };
}

/** Before its page, so that a reader that finds the page finds the cursor, too. */
async function storeLongCursor({ create }: Folder, key: string, cursor: Cursor | null): Promise<void> {
  if (cursor === null || isPreserved(cursor)) return;
  const content = Buffer.from(cursor);
  const body = { bytes: content.length, sha256: hash('sha256', content), read: () => content };
  await create(cursorKey(key, body.sha256), body, { contentType: 'text/plain', metadata: {} });
}

async function readLongCursor({ objectAt, locate, conflict }: Folder, key: string, sha256: string): Promise<Cursor> {
  const object = cursorKey(key, sha256);
  const content = await readObject(objectAt(object));
  if (content === undefined) throw conflict(key, `its next cursor is missing: ${locate(object)}`);
  const cursor = await textOf(content);
  if (hash('sha256', cursor) !== sha256) throw conflict(object, 'it is not the cursor that it is named after');
  return asCursor(cursor);
}

async function putDocument(folder: Folder, key: string, chunks: AsyncIterable<string>): Promise<void> {
  const { create, conflict, partBytes } = folder;
  await using spool = spoolFor(folder.openSpoolFile, manifestRemedy);
  const { bytes, sha256 } = await spool.fill(chunks);
  const body = { bytes, sha256, read: spool.read };
  const { created, ...info } = await create(key, body, { contentType: 'application/json', metadata: { sha256 } });
  const isSame =
    info.Metadata?.sha256 === sha256 && info.ContentLength === bytes && !hasDifferentBytes(info, body, partBytes);
  if (!created && !isSame) throw conflict(key, differentDocument);
}

/** Slices store pages at the same time. More uploads would need 40 MiB each, and would not be faster. */
const maxUploadsInParts = 2;

const spoolFor = (openFile: () => SpoolFile, remedy: string): Spool =>
  createSpool(openFile, (cause) => {
    const message = `Cannot write the body to upload to ${tmpdir()} (${codeOf(cause) || String(cause)}). ${remedy}`;
    return new ExportError('ConfigurationError', message, { cause });
  });

/** The file is unlinked at once, so that nothing remains even if the process is killed. */
function openTemporaryFile(): SpoolFile {
  const path = join(tmpdir(), `report-exporter-${randomUUID()}.spool`);
  const file = openFile(path);
  unlinkSync(path);
  return file;
}

/** What to do if the storage of the function is full. */
const pageRemedy =
  'The ephemeral storage of the function follows from maxPageBytes and slices.parallel: deploy the service again, then start again, with ' +
  'a lower --parallel if the start had one';
const manifestRemedy =
  'The manifest has a line with the cursor of each page, and the run has too many pages for one: narrow the filter and export the remaining ' +
  'reports as another export, or let runs start more often; then start with --restart';

/** The object with a cursor that is too long for metadata. Readers skip folders that begin with an underscore. */
const cursorKey = (key: string, sha256: string): string => `${key.slice(0, key.lastIndexOf('/'))}/_cursors/${sha256}`;

/** The service's content type, if S3 can store it: it holds 2 KB of system metadata. */
const toHeaderValue = (contentType: string): string =>
  /^[\x20-\x7e]{1,1000}$/.test(contentType) ? contentType : 'application/octet-stream';

const differentDocument =
  'it differs from what this run writes. If the table was restored to an earlier state, the run is published already: ' +
  'start with --restart';
