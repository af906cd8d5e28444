/**
 * Stores what is known about a page as the metadata of its object, so that body and metadata become visible in one step.
 *
 * S3 allows 2 KB of printable ASCII. Of a cursor that is too long, or that HTTP might change, the metadata has the hash, and an
 * object of its own has the cursor (`page-store.ts`).
 */

import { createHash } from 'node:crypto';
import {
  asCursor,
  asRunId,
  type CompressedForm,
  type Compression,
  type DocumentRoot,
  type Instant,
  type PageMetadata,
  type SliceRef,
  type StoredCursor,
} from '../../core/model.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';

export type ObjectMetadata = Readonly<Record<string, string>>;

export function encodePageMetadata(page: PageMetadata): ObjectMetadata {
  const stored = { ...page, cursor: storedCursor(page.cursor), nextCursor: storedCursor(page.nextCursor) };
  return {
    run: stored.run,
    page: String(stored.page),
    ...(stored.slice === undefined ? {} : { slice: `${stored.slice}.${stored.attempt}` }),
    bytes: String(stored.bytes),
    sha256: stored.sha256,
    ...encodeCompressedForm(stored),
    ...(stored.reports === null ? {} : { reports: String(stored.reports) }),
    ...(stored.documentRoot === null ? {} : { root: stored.documentRoot }),
    ...encodeCursor('cursor', stored.cursor),
    ...encodeCursor('next-cursor', stored.nextCursor),
    // Explicit, so that metadata without its next cursor is not taken for that of the last page.
    'last-page': String(stored.nextCursor === null),
    ...(stored.serviceTime === null ? {} : { 'service-time': stored.serviceTime }),
    ...(stored.transferredBytes === undefined ? {} : { 'transferred-bytes': String(stored.transferredBytes) }),
    checksum: checksumOf(stored),
  };
}

/** @throws Error that says how `metadata` differs from what was stored with the page */
export function decodePageMetadata(key: string, metadata: ObjectMetadata): PageMetadata {
  const { run = '', page, bytes, sha256 = '', reports, root = null, 'service-time': serviceTime = null } = metadata;
  const { 'transferred-bytes': transferredBytes } = metadata;
  const nextCursor = decodeCursor(metadata, 'next-cursor');
  if (metadata['last-page'] !== String(nextCursor === null)) throw new Error('last-page contradicts next-cursor');
  const value = {
    key,
    run: asRunId(run),
    page: Number(page),
    ...decodeSlice(metadata.slice),
    bytes: Number(bytes),
    sha256,
    ...decodeCompressedForm(metadata),
    reports: reports === undefined ? null : Number(reports),
    documentRoot: root as DocumentRoot | null,
    cursor: decodeCursor(metadata, 'cursor'),
    nextCursor,
    serviceTime: serviceTime as Instant | null,
    ...(transferredBytes === undefined ? {} : { transferredBytes: Number(transferredBytes) }),
  } satisfies PageMetadata;
  return parsePageMetadata(() => ({ value, checksum: metadata.checksum }));
}

function decodeSlice(text: string | undefined): SliceRef {
  if (text === undefined) return {};
  const [slice, attempt] = text.split('.').map(Number);
  return { slice, attempt };
}

function encodeCompressedForm({ compression, storedBytes, storedSha256 = '' }: CompressedForm): ObjectMetadata {
  if (compression === undefined) return {};
  return { compression, 'stored-bytes': String(storedBytes), 'stored-sha256': storedSha256 };
}

/** Its fields are validated with those of the page. */
function decodeCompressedForm({ compression, ...metadata }: ObjectMetadata): CompressedForm {
  if (compression === undefined) return {};
  const { 'stored-bytes': storedBytes, 'stored-sha256': storedSha256 } = metadata;
  return { compression: compression as Compression, storedBytes: Number(storedBytes), storedSha256 };
}

/** Two cursors of this length, a document root and all other metadata fit into the 2 KB of S3. */
const maxCursorLength = 600;

/** The cursor itself if metadata preserves it, otherwise its hash. */
function storedCursor(cursor: StoredCursor): StoredCursor {
  if (typeof cursor !== 'string' || isPreserved(cursor)) return cursor;
  return { sha256: createHash('sha256').update(cursor).digest('hex') };
}

/** HTTP may trim or collapse blanks in a header, and S3 decodes what looks like an encoded word (`=?…?=`). */
export const isPreserved = (value: string): boolean =>
  value.length <= maxCursorLength && /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(value) && !value.includes('=?');

function encodeCursor(name: string, cursor: StoredCursor): ObjectMetadata {
  if (cursor === null) return {};
  return typeof cursor === 'string' ? { [name]: cursor } : { [`${name}-sha256`]: cursor.sha256 };
}

function decodeCursor(metadata: ObjectMetadata, name: string): StoredCursor {
  const cursor = metadata[name];
  if (cursor !== undefined) return asCursor(cursor);
  const sha256 = metadata[`${name}-sha256`];
  return sha256 === undefined ? null : { sha256 };
}
