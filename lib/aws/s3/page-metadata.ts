/**
 * Stores what is known about a page as the metadata of its object, so that body and metadata become visible in one
 * step: as JSON, in the one header `x-amz-meta-page`.
 *
 * S3 allows 2 KB of printable ASCII. Of a cursor that is too long, or that HTTP might change, the metadata has the
 * hash, and an object of its own has the cursor (`page-store.ts`).
 */

import { hash } from 'node:crypto';
import type { PageMetadata, StoredCursor } from '../../core/model.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';

export type ObjectMetadata = Readonly<Record<string, string>>;

/** The checksum is that of the whole next cursor. */
export function encodePageMetadata({ key, ...page }: PageMetadata): ObjectMetadata {
  const stored = { ...page, cursor: storedCursor(page.cursor) };
  const checksum = checksumOf({ key, ...stored });
  return { page: JSON.stringify({ ...stored, nextCursor: storedCursor(page.nextCursor), checksum }) };
}

/** What `encodePageMetadata` has written, unless it was changed. @throws Error if it is no JSON */
export function readFields({ page }: ObjectMetadata): Readonly<Record<string, unknown>> {
  if (page === undefined) throw new Error('it has no metadata of a page');
  return JSON.parse(page) as Record<string, unknown>;
}

/** The hash of the next cursor; undefined if metadata has the cursor, or there is none. */
export function nextCursorHash({ nextCursor }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof nextCursor === 'object' && nextCursor !== null && 'sha256' in nextCursor
    ? String(nextCursor.sha256)
    : undefined;
}

/** @throws Error that says how `fields` differ from what was stored with the page */
export function decodePageMetadata(
  key: string,
  { checksum, ...fields }: Readonly<Record<string, unknown>>,
  nextCursor = fields.nextCursor,
): PageMetadata {
  return parsePageMetadata({ ...fields, key, nextCursor }, checksum);
}

/** As JSON, two cursors of this length, a document root and all other metadata fit into the 2 KB of S3. */
const maxCursorLength = 500;

/** The cursor itself if metadata preserves it, otherwise its hash. */
function storedCursor(cursor: StoredCursor): StoredCursor {
  return typeof cursor !== 'string' || isPreserved(cursor) ? cursor : { sha256: hash('sha256', cursor) };
}

/** HTTP may trim or collapse blanks in a header, and S3 decodes what looks like an encoded word (`=?…?=`). */
export const isPreserved = (value: string): boolean =>
  JSON.stringify(value).length <= maxCursorLength &&
  /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(value) &&
  !value.includes('=?');
