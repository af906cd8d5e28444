/**
 * A page's facts as metadata of its object, so that body and facts become visible in one step, and back again.
 *
 * S3 takes 2 KB of it, in printable ASCII. A cursor that is longer, or that could come back changed, is carried as its
 * hash; the page log has it whole.
 */

import { createHash } from 'node:crypto';
import { asCursor, asRunId, type Instant, type PageMetadata, type StoredCursor } from '../../core/model.ts';
import { checksumOf, parsePageMetadata } from '../../core/storage/stored-records.ts';

export type Metadata = Readonly<Record<string, string>>;

/** Two cursors and all the rest must fit into 2 KB. */
const maxCursorLength = 800;

/** Headers lose blanks at their ends and double ones within; what looks like an encoded word may be decoded on the way. */
const travelsUnchanged = (value: string): boolean =>
  value.length <= maxCursorLength && /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(value) && !value.includes('=?');

export function metadataOf(page: PageMetadata): Metadata {
  const facts = { ...page, cursor: asCarried(page.cursor), nextCursor: asCarried(page.nextCursor) };
  return {
    run: facts.run,
    page: String(facts.page),
    bytes: String(facts.bytes),
    sha256: facts.sha256,
    ...(facts.reports === null ? {} : { reports: String(facts.reports) }),
    ...cursorAs('cursor', facts.cursor),
    ...cursorAs('next-cursor', facts.nextCursor),
    // Said outright: metadata that lost its cursor on the way must not make this the last page.
    'last-page': String(facts.nextCursor === null),
    ...(facts.serviceTime === null ? {} : { 'service-time': facts.serviceTime }),
    checksum: checksumOf(facts),
  };
}

/** The facts of the page at `key` that `metadata` tells. @throws Error that says why they are not what was written there */
export function factsOf(key: string, metadata: Metadata): PageMetadata {
  const { run = '', page, bytes, sha256 = '', reports, 'service-time': serviceTime = null } = metadata;
  const nextCursor = cursorIn(metadata, 'next-cursor');
  if (metadata['last-page'] !== String(nextCursor === null)) {
    throw new Error('it does not say in one way whether a page follows');
  }
  const value = {
    key,
    run: asRunId(run),
    page: Number(page),
    bytes: Number(bytes),
    sha256,
    reports: reports === undefined ? null : Number(reports),
    cursor: cursorIn(metadata, 'cursor'),
    nextCursor,
    serviceTime: serviceTime as Instant | null,
  } satisfies PageMetadata;
  return parsePageMetadata(() => ({ value, checksum: metadata.checksum }));
}

/** Whole where it comes back as it was, otherwise as its hash. */
function asCarried(cursor: StoredCursor): StoredCursor {
  if (typeof cursor !== 'string' || travelsUnchanged(cursor)) return cursor;
  return { sha256: createHash('sha256').update(cursor).digest('hex') };
}

function cursorAs(name: string, cursor: StoredCursor): Metadata {
  if (cursor === null) return {};
  return typeof cursor === 'string' ? { [name]: cursor } : { [`${name}-sha256`]: cursor.sha256 };
}

function cursorIn(metadata: Metadata, name: string): StoredCursor {
  const whole = metadata[name];
  if (whole !== undefined) return asCursor(whole);
  const sha256 = metadata[`${name}-sha256`];
  return sha256 === undefined ? null : { sha256 };
}
