/**
 * The two things the page store asks of S3 beyond the SDK: to look at an object that may not be there, and to create one
 * that nobody else has created, in one step that is seen whole or not at all.
 */

import { Readable } from 'node:stream';
import {
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  type S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { ExportError } from '../../core/errors.ts';
import type { ListedObject, Runtime } from '../../core/ports.ts';
import type { Metadata } from './page-metadata.ts';
import type { Spooled } from './spool.ts';

export interface S3Object {
  readonly client: S3Client;
  readonly Bucket: string;
  readonly Key: string;
}

/** For tokens that no other attempt has, and for pauses. */
export type Chance = Pick<Runtime, 'sleep' | 'randomHex'>;

/** What is known of an object without its bytes. */
export type Existing = Pick<
  HeadObjectCommandOutput,
  'Metadata' | 'ContentLength' | 'ETag' | 'ChecksumSHA256' | 'ChecksumType'
>;

/** Up to this size one PutObject; larger ones in parts of it. (lanes + 1) × part size is the memory they take. */
const partBytes = 8 * 1024 * 1024;
const concurrency = 4;
const maxParts = 10_000;

/**
 * Taken (412), or another is just taking it (409): for either, look who it was. NoSuchUpload is what a completion meets
 * that the SDK repeats because the answer to the first was lost.
 */
const conflicting: ReadonlySet<string> = new Set(['PreconditionFailed', 'ConditionalRequestConflict', 'NoSuchUpload']);
const attempts = 6;
const firstPauseMs = 50;

/**
 * Creates the object, unless it is there already, and resolves to what stands there: `ours`, or another's. An upload
 * that fails leaves nothing visible; its parts are thrown away.
 *
 * Each call leaves a token of its own in the metadata. The SDK repeats a request whose answer was lost, and so may meet
 * its own object as one already taken: by the token it is known to be ours.
 */
export async function createObject(
  { client, ...place }: S3Object,
  body: Spooled,
  { contentType, metadata }: { readonly contentType: string; readonly metadata: Metadata },
  runtime: Chance,
): Promise<Existing & { readonly ours: boolean }> {
  const attempt = runtime.randomHex(32);
  const Metadata = { ...metadata, attempt };
  for (let tries = 1; ; tries += 1) {
    try {
      const { ETag } = await new Upload({
        client,
        queueSize: concurrency,
        partSize: Math.max(partBytes, Math.ceil(body.bytes / maxParts)),
        leavePartsOnError: false,
        params: {
          ...place,
          Body: body.read(),
          ContentLength: body.bytes,
          ContentType: contentType,
          Metadata,
          IfNoneMatch: '*',
          ChecksumAlgorithm: 'SHA256',
          // Of the whole, so only where the whole goes at once; parts have checksums of their own.
          ...(body.bytes <= partBytes ? { ChecksumSHA256: base64(body.sha256) } : {}),
        },
      }).done();
      return { ours: true, Metadata, ContentLength: body.bytes, ETag };
    } catch (error) {
      if (!nameIn(error, conflicting)) throw error;
      const existing = await headObject({ client, ...place });
      if (existing !== undefined) return { ...existing, ours: existing.Metadata?.attempt === attempt };
      if (tries === attempts) throw error;
      await pause(tries, runtime);
    }
  }
}

const missing: ReadonlySet<string> = new Set(['NotFound', 'NoSuchKey']);

/** @throws ConfigurationError where S3 does not let us look */
export async function headObject({ client, ...place }: S3Object): Promise<Existing | undefined> {
  try {
    return await client.send(new HeadObjectCommand({ ...place, ChecksumMode: 'ENABLED' }));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw accessDenied(error, place) ?? error;
  }
}

/** The object's bytes as they come; undefined where there is none. @throws ConfigurationError where S3 does not let us look */
export async function readObject({ client, ...place }: S3Object): Promise<AsyncIterable<Uint8Array> | undefined> {
  try {
    const { Body } = await client.send(new GetObjectCommand(place));
    return Body instanceof Readable ? Body : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw accessDenied(error, place) ?? error;
  }
}

/**
 * Whether the bytes of `standing` are known to be others than those with this hash: of what was sent whole with a SHA-256
 * S3 has checked and kept it. Of what came in parts it has none of the whole; not every server says so by the type.
 */
export function hasOtherBytes(
  { ChecksumSHA256: checksum, ChecksumType: type }: Existing,
  { bytes, sha256 }: Pick<Spooled, 'bytes' | 'sha256'>,
): boolean {
  if (checksum === undefined || checksum.includes('-')) return false;
  const ofTheWhole = type === undefined ? bytes <= partBytes : type === 'FULL_OBJECT';
  return ofTheWhole && checksum !== base64(sha256);
}

const base64 = (hexadecimal: string): string => Buffer.from(hexadecimal, 'hex').toString('base64');

export function isMissing(error: unknown): boolean {
  return nameIn(error, missing);
}

export function isConflict(error: unknown): boolean {
  return nameIn(error, conflicting);
}

/** The error for a 403 to a look, whose answer says nothing by itself; undefined for any other. */
export function accessDenied(cause: unknown, { Bucket, Key }: Omit<S3Object, 'client'>): ExportError | undefined {
  const { $metadata: answer } = cause as { $metadata?: { httpStatusCode?: number } };
  if (answer?.httpStatusCode !== 403) return undefined;
  return new ExportError(
    'ConfigurationError',
    `S3 refuses a look at s3://${Bucket}/${Key} (403). Allow s3:GetObject on it and s3:ListBucket on the bucket: ` +
      'without the latter S3 says 403 where it means that nothing is there; and kms:Decrypt, where a key of yours ' +
      'encrypts it. Then start again',
    { cause },
  );
}

/** Longer after each failure, and never the same for two. */
export async function pause(failures: number, { sleep, randomHex }: Chance): Promise<void> {
  const random = Number.parseInt(randomHex(6), 16) / 0x1000000;
  await sleep(firstPauseMs * 2 ** Math.min(failures - 1, 5) * (0.5 + random));
}

function nameIn(error: unknown, names: ReadonlySet<string>): boolean {
  return error instanceof Error && names.has(error.name);
}

// MERGED listing.ts: What lies in a folder of the bucket, and in which revision, without a look at each object.

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
      throw accessDenied(error, { Bucket, Key: prefix }) ?? error;
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
