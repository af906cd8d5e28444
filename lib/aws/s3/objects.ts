/**
 * Operations on S3 objects: create one atomically and only if it does not exist, look at one that may not exist, read
 * and list.
 */

import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  type PutObjectCommandInput,
  type S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { ExportError } from '../../core/errors.ts';
import type { ListedObject, Runtime } from '../../core/ports.ts';
import type { Digest } from '../../core/storage/compression.ts';
import type { Spool } from '../../core/storage/spool.ts';
import type { ServiceResources } from '../../settings/deployed-settings.ts';
import { hasName } from '../errors.ts';
import { readAhead } from '../read-ahead.ts';
import type { ObjectMetadata } from './page-metadata.ts';

export interface S3Object {
  readonly client: S3Client;
  readonly Bucket: string;
  readonly Key: string;
}

/** The headers that tell S3 how to encrypt an object; without any, the default of the bucket applies. */
export type ObjectEncryption = Pick<PutObjectCommandInput, 'ServerSideEncryption' | 'SSEKMSKeyId' | 'BucketKeyEnabled'>;

/**
 * Every write names the key: an existing bucket may have another default, and a bucket policy may reject writes that
 * name none. With a bucket key, S3 asks KMS for a data key for many objects at once.
 */
export const encryptionWith = ({ bucketKeyArn }: Pick<ServiceResources, 'bucketKeyArn'>): ObjectEncryption =>
  bucketKeyArn === undefined
    ? {}
    : { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: bucketKeyArn, BucketKeyEnabled: true };

/** For unique tokens, and for delays between attempts. */
export type RetryRuntime = Pick<Runtime, 'sleep' | 'randomHex'>;

export type NewBody = Digest & Pick<Spool, 'read'>;

/** The properties of a new object besides its bytes. */
export interface NewObject {
  readonly contentType: string;
  readonly metadata: ObjectMetadata;
  readonly encryption: ObjectEncryption;
  /** A larger body is sent in parts of this size. */
  readonly partBytes: number;
}

/** What S3 returns about an object without its bytes. */
export type ObjectInfo = Pick<
  HeadObjectCommandOutput,
  'Metadata' | 'ContentLength' | 'ETag' | 'ChecksumSHA256' | 'ChecksumType'
>;

/** One PutObject sends bodies up to this size. Of larger ones, (concurrency + 1) parts are buffered. */
export const defaultPartBytes = 8 * 1024 * 1024;
const concurrency = 4;
const maxParts = 10_000;

const maxAttempts = 6;

/**
 * Creates the object unless it exists, and resolves to the object that is there: `created` tells whether this call
 * created it. An upload that fails leaves nothing visible, and its parts are removed.
 *
 * Each call stores a token in the metadata. The SDK retries a request whose response was lost, and S3 then rejects it
 * because of the object that the first request created: the token shows that it is this call's own.
 */
export async function createObject(
  { client, ...location }: S3Object,
  body: NewBody,
  { contentType, metadata, encryption, partBytes }: NewObject,
  runtime: RetryRuntime,
): Promise<ObjectInfo & { readonly created: boolean }> {
  const token = runtime.randomHex(32);
  const Metadata = { ...metadata, attempt: token };
  for (let attempt = 1; ; attempt += 1) {
    const upload = new Upload({
      client,
      queueSize: concurrency,
      partSize: Math.max(partBytes, Math.ceil(body.bytes / maxParts)),
      // An error of its own abort would replace the one that made the upload fail.
      leavePartsOnError: true,
      params: {
        ...location,
        Body: body.read(),
        ContentLength: body.bytes,
        ContentType: contentType,
        Metadata,
        IfNoneMatch: '*',
        ...encryption,
        ChecksumAlgorithm: 'SHA256',
        // The checksum of the whole body is valid only for a single PutObject; parts have their own.
        ...(body.bytes <= partBytes ? { ChecksumSHA256: toBase64(body.sha256) } : {}),
      },
    });
    try {
      const { ETag } = await upload.done();
      return { created: true, Metadata, ContentLength: body.bytes, ETag };
    } catch (error) {
      await removeParts({ client, ...location }, upload.uploadId);
      if (!isConflict(error)) throw missingBucket(error, location) ?? error;
      const existing = await headObject({ client, ...location });
      if (existing !== undefined) return { ...existing, created: existing.Metadata?.attempt === token };
      if (attempt === maxAttempts) throw error;
      await backOff(attempt, runtime);
    }
  }
}

/** Aborts a failed upload in parts. Never rejects: a lifecycle rule removes parts that stay. */
async function removeParts({ client, ...location }: S3Object, UploadId: string | undefined): Promise<void> {
  if (UploadId === undefined) return;
  try {
    await client.send(new AbortMultipartUploadCommand({ ...location, UploadId }));
  } catch {
    // Such as NoSuchUpload, if the response to the abort was lost and the SDK repeated it.
  }
}

/** @throws ConfigurationError if S3 denies access */
export async function headObject({ client, ...location }: S3Object): Promise<ObjectInfo | undefined> {
  try {
    return await client.send(new HeadObjectCommand({ ...location, ChecksumMode: 'ENABLED' }));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw accessDenied(error, location) ?? error;
  }
}

/**
 * The object's bytes, streamed; undefined if there is no object. To a caller that may list only some prefixes of the
 * bucket, S3 answers 403 for a missing object, too. Then a listing of the key decides.
 * @throws ConfigurationError if S3 denies access
 */
export async function readObject({ client, ...location }: S3Object): Promise<AsyncIterable<Uint8Array> | undefined> {
  try {
    const { Body } = await client.send(new GetObjectCommand(location));
    return Body instanceof Readable ? Body : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    const denied = accessDenied(error, location);
    if (denied === undefined) throw missingBucket(error, location) ?? error;
    const mayExist = await isListed({ client, ...location }).catch((cause: unknown) => {
      if (accessDenied(cause, location) === undefined) throw cause;
      return true;
    });
    if (mayExist) throw denied;
    return undefined;
  }
}

async function isListed({ client, Bucket, Key }: S3Object): Promise<boolean> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: Key, MaxKeys: 1 }));
  // The key itself comes before all longer ones.
  return Contents[0]?.Key === Key;
}

/**
 * The objects whose keys begin with `prefix`, in S3's order, with their full keys. One request per thousand objects.
 * @throws ConfigurationError if S3 denies access
 */
export async function* listObjects(
  bucket: Pick<S3Object, 'client' | 'Bucket'>,
  prefix: string,
): AsyncGenerator<ListedObject> {
  const objects = readListing(bucket, { prefix }, ({ Contents = [] }) => Contents);
  for await (const { Key: key = '', Size: bytes = 0, ETag } of objects) {
    yield { key, bytes, revision: revisionOf(ETag) };
  }
}

/**
 * The common prefixes up to the next slash of the keys that begin with `prefix`, in S3's order and with the slash. One
 * request per thousand.
 * @throws ConfigurationError if S3 denies access
 */
export async function* listCommonPrefixes(bucket: Pick<S3Object, 'client' | 'Bucket'>, prefix: string) {
  const prefixes = readListing(bucket, { prefix, delimiter: '/' }, ({ CommonPrefixes = [] }) => CommonPrefixes);
  for await (const { Prefix = '' } of prefixes) yield Prefix;
}

function readListing<Item>(
  { client, Bucket }: Pick<S3Object, 'client' | 'Bucket'>,
  { prefix, delimiter }: { readonly prefix: string; readonly delimiter?: string },
  itemsOf: (response: ListObjectsV2CommandOutput) => readonly Item[],
): AsyncGenerator<Item> {
  const request = (ContinuationToken: string | undefined) =>
    client
      .send(new ListObjectsV2Command({ Bucket, Prefix: prefix, Delimiter: delimiter, ContinuationToken }))
      .catch((error: unknown) => {
        throw accessDenied(error, { Bucket, Key: prefix }) ?? missingBucket(error, { Bucket }) ?? error;
      });
  return readAhead(request, itemsOf, (response) => response.NextContinuationToken);
}

/**
 * Whether the object is known to have other bytes than `body`. S3 verifies and keeps the SHA-256 of a body sent by one
 * PutObject. Of a multipart upload it keeps only a checksum of checksums, which some servers do not mark as such.
 */
export function hasDifferentBytes(
  { ChecksumSHA256: checksum, ChecksumType: type }: ObjectInfo,
  body: Digest,
  partBytes: number,
): boolean {
  if (checksum === undefined || checksum.includes('-')) return false;
  const coversBody = type === undefined ? body.bytes <= partBytes : type === 'FULL_OBJECT';
  return coversBody && checksum !== toBase64(body.sha256);
}

/** The ETag without its quotes, which servers use differently. */
export function revisionOf(etag: string | undefined): string | null {
  return etag?.replaceAll('"', '') || null;
}

export function isNotFound(error: unknown): boolean {
  return hasName(error, 'NotFound', 'NoSuchKey');
}

/**
 * The object exists (412), or another writer is creating it (409). NoSuchUpload follows a CompleteMultipartUpload that
 * succeeded, if its response was lost and the SDK retried it.
 */
export function isConflict(error: unknown): boolean {
  return hasName(error, 'PreconditionFailed', 'ConditionalRequestConflict', 'NoSuchUpload');
}

/** The error for a 403 to a read, whose response has no explanation; undefined for any other error. */
export function accessDenied(cause: unknown, { Bucket, Key }: Omit<S3Object, 'client'>): ExportError | undefined {
  const { $metadata: response } = cause as { $metadata?: { httpStatusCode?: number } };
  if (response?.httpStatusCode !== 403) return undefined;
  return new ExportError(
    'ConfigurationError',
    `S3 denied access to s3://${Bucket}/${Key} (403). Allow s3:GetObject on it, s3:ListBucket on the bucket (without ` +
      'it S3 answers 403 if an object does not exist) and kms:Decrypt if a customer managed key encrypts it; then start again',
    { cause },
  );
}

/** The error for a request to a bucket that does not exist, as S3 does not name it; undefined for any other error. */
export function missingBucket(cause: unknown, { Bucket }: Pick<S3Object, 'Bucket'>): ExportError | undefined {
  if (!hasName(cause, 'NoSuchBucket')) return undefined;
  const remedy = 'Create it again, or set another one (bucket.existing) and deploy; then start again';
  return new ExportError('ConfigurationError', `There is no bucket ${Bucket} any more. ${remedy}`, { cause });
}

const firstDelayMs = 50;

/** Sleeps before the attempt after `attempt`: exponential back-off with jitter. */
export async function backOff(attempt: number, { sleep, randomHex }: RetryRuntime): Promise<void> {
  const random = Number.parseInt(randomHex(6), 16) / 0x1000000;
  await sleep(firstDelayMs * 2 ** Math.min(attempt - 1, 5) * (0.5 + random));
}

const toBase64 = (hexadecimal: string): string => Buffer.from(hexadecimal, 'hex').toString('base64');
