/** Simulated S3: one bucket with conditional writes, multipart uploads and checksums. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { S3ServiceException } from '@aws-sdk/client-s3';
import type { Command } from './sdk-clients.ts';

export interface StoredObject {
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  readonly etag: string;
  /** As a HeadObject with ChecksumMode returns it; absent if the writer sent none. */
  readonly checksum?: { readonly ChecksumSHA256: string; readonly ChecksumType: 'FULL_OBJECT' | 'COMPOSITE' };
}

/** A change that came from outside: an operator, a lifecycle rule or another program. */
interface Damage {
  readonly key: string;
  /** In virtual time. */
  readonly at: number;
}

/** A multipart upload that was neither completed nor aborted. */
interface UnfinishedUpload {
  readonly id: string;
  readonly key: string;
}

export interface SimulatedS3 {
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** Every object that a function has written to the key, the newest last. */
  versions(key: string): readonly StoredObject[];
  readonly damages: readonly Damage[];
  /** Deletes or replaces an object as someone does who is allowed to: unconditionally, and unseen by the checks. */
  damage(key: string, replacement: StoredObject | undefined, at: number): void;
  /** Brings an earlier version back. */
  restore(key: string, version: StoredObject | undefined): void;
  readonly unfinishedUploads: () => readonly UnfinishedUpload[];
  /** @throws as S3 does; the error's name says what failed */
  perform(command: Command): unknown;
}

interface Upload {
  readonly key: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly parts: Map<number, { readonly body: Buffer; readonly etag: string }>;
}

/**
 * `onWrite` is called with each object before it is stored, and with the object that it replaces. `maxListed`: the most
 * keys of one response to a listing; S3 may return fewer than the request allows.
 */
export function createSimulatedS3(
  onWrite: (key: string, object: StoredObject, existing: StoredObject | undefined) => void,
  maxListed = 1_000,
): SimulatedS3 {
  const objects = new Map<string, StoredObject>();
  const versions = new Map<string, StoredObject[]>();
  const damages: Damage[] = [];
  const uploads = new Map<string, Upload>();
  let uploadCount = 0;

  const put = (key: string, object: StoredObject | undefined) => {
    if (object === undefined) objects.delete(key);
    else objects.set(key, object);
  };
  const write = (key: string, object: StoredObject, condition: Condition) => {
    const existing = objects.get(key);
    if (condition.IfNoneMatch === '*' && existing !== undefined) throw s3Error('PreconditionFailed', 412);
    if (condition.IfMatch !== undefined && existing === undefined) throw s3Error('NoSuchKey', 404);
    if (condition.IfMatch !== undefined && existing?.etag !== condition.IfMatch)
      throw s3Error('PreconditionFailed', 412);
    onWrite(key, object, existing);
    objects.set(key, object);
    versions.set(key, [...(versions.get(key) ?? []), object]);
    return { ETag: object.etag };
  };
  const read = (key: string, errorName: string) => {
    const object = objects.get(key);
    if (object === undefined) throw s3Error(errorName, 404);
    return object;
  };
  const upload = (id: string) => {
    const found = uploads.get(id);
    if (found === undefined) throw s3Error('NoSuchUpload', 404);
    return found;
  };

  const commands: Readonly<Record<string, (input: Input) => unknown>> = {
    HeadObjectCommand({ Key }) {
      const { body, metadata, etag, checksum } = read(Key, 'NotFound');
      return { ContentLength: body.length, Metadata: { ...metadata }, ETag: etag, ...checksum };
    },
    GetObjectCommand({ Key }) {
      const { body, metadata, etag } = read(Key, 'NoSuchKey');
      return {
        ContentLength: body.length,
        Metadata: { ...metadata },
        ETag: etag,
        Body: Object.assign(Readable.from([body]), { transformToString: async () => body.toString() }),
      };
    },
    PutObjectCommand({ Key, Body, Metadata = {}, ChecksumSHA256, ...condition }) {
      const body = Buffer.from(Body ?? '');
      const checksum = createHash('sha256').update(body).digest('base64');
      if (ChecksumSHA256 !== undefined && ChecksumSHA256 !== checksum) throw s3Error('BadDigest', 400);
      return write(Key, createStoredObject(body, Metadata, ChecksumSHA256 !== undefined), condition);
    },
    CreateMultipartUploadCommand({ Key, Metadata = {} }) {
      uploadCount += 1;
      const id = `upload-${uploadCount}`;
      uploads.set(id, { key: Key, metadata: Metadata, parts: new Map() });
      return { UploadId: id };
    },
    UploadPartCommand({ UploadId = '', PartNumber = 0, Body }) {
      const body = Buffer.from(Body ?? '');
      const etag = `"${createHash('md5').update(body).digest('hex')}"`;
      upload(UploadId).parts.set(PartNumber, { body, etag });
      return { ETag: etag };
    },
    // Only the parts that the request lists become part of the object.
    CompleteMultipartUploadCommand({ UploadId = '', Key, MultipartUpload, ...condition }) {
      const { metadata, parts } = upload(UploadId);
      const listed = MultipartUpload?.Parts ?? [];
      if (listed.length === 0) throw s3Error('MalformedXML', 400);
      const chosen = listed.map(({ PartNumber = 0, ETag }, index) => {
        if (PartNumber <= (listed[index - 1]?.PartNumber ?? 0)) throw s3Error('InvalidPartOrder', 400);
        const part = parts.get(PartNumber);
        if (part === undefined || part.etag !== ETag) throw s3Error('InvalidPart', 400);
        return part.body;
      });
      const hash = (algorithm: string) => {
        const digests = chosen.map((body) => createHash(algorithm).update(body).digest());
        return createHash(algorithm).update(Buffer.concat(digests));
      };
      const object: StoredObject = {
        body: Buffer.concat(chosen),
        metadata,
        etag: `"${hash('md5').digest('hex')}-${chosen.length}"`,
        checksum: {
          ChecksumSHA256: `${hash('sha256').digest('base64')}-${chosen.length}`,
          ChecksumType: 'COMPOSITE',
        },
      };
      const response = write(Key, object, condition);
      uploads.delete(UploadId);
      return response;
    },
    AbortMultipartUploadCommand({ UploadId = '' }) {
      upload(UploadId);
      uploads.delete(UploadId);
      return {};
    },
    ListObjectsV2Command({ Prefix = '', Delimiter, ContinuationToken, MaxKeys = 1_000 }) {
      /** The key itself, or the common prefix that stands for it. */
      const entryOf = (key: string) => {
        const end = Delimiter === undefined ? -1 : key.indexOf(Delimiter, Prefix.length);
        return end < 0 ? key : key.slice(0, end + 1);
      };
      const entries = new Set([...objects.keys()].filter((key) => key.startsWith(Prefix)).map(entryOf));
      const keys = [...entries].filter((entry) => entry > (ContinuationToken ?? ''));
      const page = keys.sort().slice(0, Math.min(MaxKeys, maxListed));
      const isTruncated = page.length < keys.length;
      const isPrefix = (entry: string) => Delimiter !== undefined && entry.endsWith(Delimiter);
      return {
        CommonPrefixes: page.filter(isPrefix).map((entry) => ({ Prefix: entry })),
        Contents: page
          .filter((entry) => !isPrefix(entry))
          .map((Key) => ({ Key, Size: objects.get(Key)?.body.length, ETag: objects.get(Key)?.etag })),
        IsTruncated: isTruncated,
        ...(isTruncated ? { NextContinuationToken: page.at(-1) } : {}),
      };
    },
  };

  return {
    objects,
    versions: (key) => versions.get(key) ?? [],
    damages,
    damage(key, replacement, at) {
      put(key, replacement);
      damages.push({ key, at });
    },
    restore: put,
    unfinishedUploads: () => [...uploads].map(([id, { key }]) => ({ id, key })),
    perform(command) {
      const perform = commands[command.constructor.name];
      if (perform === undefined) throw new Error(`The simulation does not support ${command.constructor.name}`);
      return perform(command.input as Input);
    },
  };
}

/** An object as one PutObject creates it. `hasChecksum`: whether the request had the SHA-256 of the body. */
export function createStoredObject(
  body: Buffer,
  metadata: StoredObject['metadata'],
  hasChecksum: boolean,
): StoredObject {
  const etag = `"${createHash('md5').update(body).digest('hex')}"`;
  if (!hasChecksum) return { body, metadata, etag };
  const ChecksumSHA256 = createHash('sha256').update(body).digest('base64');
  return { body, metadata, etag, checksum: { ChecksumSHA256, ChecksumType: 'FULL_OBJECT' } };
}

interface Condition {
  readonly IfNoneMatch?: string | undefined;
  readonly IfMatch?: string | undefined;
}

interface Input extends Condition {
  readonly Key: string;
  readonly Body?: Uint8Array | string;
  readonly Metadata?: Readonly<Record<string, string>>;
  readonly ChecksumSHA256?: string;
  readonly UploadId?: string;
  readonly PartNumber?: number;
  readonly MultipartUpload?: { readonly Parts?: readonly { readonly PartNumber?: number; readonly ETag?: string }[] };
  readonly Prefix?: string;
  readonly Delimiter?: string;
  readonly ContinuationToken?: string;
  readonly MaxKeys?: number;
}

/** The SDK has classes for few S3 errors; the others are recognized by name. */
export function s3Error(name: string, httpStatusCode: number): S3ServiceException {
  return new S3ServiceException({ name, message: name, $fault: 'client', $metadata: { httpStatusCode } });
}
