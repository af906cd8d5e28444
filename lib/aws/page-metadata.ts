/**
 * A page's facts as metadata of its object, so that body and facts become visible in one step, and back again.
 *
 * S3 takes 2 KB of it, in printable ASCII. A cursor that is longer, or that could come back changed, is carried as its
 * hash; the page log has it whole.
 */

import { createHash } from 'node:crypto';
import type { HeadObjectCommandOutput } from '@aws-sdk/client-s3';
import { asCursor, asRunId, type Continuation, type Instant, type StoredPage } from '../core/model.ts';

export type Metadata = Readonly<Record<string, string>>;

/** Two cursors and all the rest must fit into 2 KB. */
const longestCursor = 800;

/** Headers lose blanks at their ends and double ones within; what looks like an encoded word may be decoded on the way. */
const travelsUnchanged = (value: string): boolean =>
  value.length <= longestCursor && /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(value) && !value.includes('=?');

export function metadataOf(page: Omit<StoredPage, 'key'>): Metadata {
  return {
    run: page.run,
    page: String(page.page),
    bytes: String(page.bytes),
    sha256: page.sha256,
    ...(page.reports === null ? {} : { reports: String(page.reports) }),
    ...cursorAs('cursor', page.cursor),
    ...cursorAs('next-cursor', page.nextCursor),
    // Said outright: metadata that lost its cursor on the way must not make this the last page.
    'last-page': String(page.nextCursor === null),
    ...(page.serviceTime === null ? {} : { 'service-time': page.serviceTime }),
  };
}

/** The page that `metadata` tells of, or undefined where it does not fit the object or is not all there. */
export function pageOf(
  key: string,
  { Metadata: metadata = {}, ContentLength: length }: Pick<HeadObjectCommandOutput, 'Metadata' | 'ContentLength'>,
): StoredPage | undefined {
  const page = numberIn(metadata.page);
  const bytes = numberIn(metadata.bytes);
  const reports = metadata.reports === undefined ? null : numberIn(metadata.reports);
  const { run, sha256, 'service-time': serviceTime = null } = metadata;
  const nextCursor = cursorIn(metadata, 'next-cursor');
  if (run === undefined || page === undefined || bytes === undefined || reports === undefined) return undefined;
  if (bytes !== length || !/^[0-9a-f]{64}$/.test(sha256 ?? '')) return undefined;
  if (metadata['last-page'] !== String(nextCursor === null)) return undefined;
  return {
    key,
    run: asRunId(run),
    page,
    bytes,
    sha256: sha256 as string,
    reports,
    cursor: cursorIn(metadata, 'cursor'),
    nextCursor,
    serviceTime: serviceTime as Instant | null,
  };
}

function cursorAs(name: string, cursor: Continuation): Metadata {
  if (cursor === null) return {};
  if (typeof cursor !== 'string') return { [`${name}-sha256`]: cursor.sha256 };
  if (travelsUnchanged(cursor)) return { [name]: cursor };
  return { [`${name}-sha256`]: createHash('sha256').update(cursor).digest('hex') };
}

function cursorIn(metadata: Metadata, name: string): Continuation {
  const whole = metadata[name];
  if (whole !== undefined) return asCursor(whole);
  const sha256 = metadata[`${name}-sha256`];
  return sha256 === undefined ? null : { sha256 };
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}
