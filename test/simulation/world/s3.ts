/** Simulated S3: one bucket with conditional writes, multipart uploads and checksums. */

import { createHash } from 'node:crypto';
import { S3ServiceException } from '@aws-sdk/client-s3';
import type { Command } from './sdk-clients.ts';

export interface StoredObject {
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  readonly etag: string;
}

export interface SimulatedS3 {
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** @throws as S3 does; the error's name says what failed */
  perform(command: Command): unknown;
}

interface Upload {
  readonly key: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly parts: Map<number, Buffer>;
}

/** `onWrite` is called with each object before it is stored, and with the object that it replaces. */
export function createSimulatedS3(
  onWrite: (key: string, object: StoredObject, existing: StoredObject | undefined) => void,
): SimulatedS3 {
  const objects = new Map<string, StoredObject>();
  const uploads = new Map<string, Upload>();
  let uploadCount = 0;

  const write = (key: string, body: Buffer, metadata: StoredObject['metadata'], condition: Condition) => {
    const existing = objects.get(key);
    if (condition.IfNoneMatch === '*' && existing !== undefined) throw s3Error('PreconditionFailed', 412);
    if (condition.IfMatch !== undefined && existing === undefined) throw s3Error('NoSuchKey', 404);
    if (condition.IfMatch !== undefined && existing?.etag !== condition.IfMatch)
      throw s3Error('PreconditionFailed', 412);
    const object = { body, metadata, etag: `"${createHash('md5').update(body).digest('hex')}"` };
    onWrite(key, object, existing);
    objects.set(key, object);
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
      const { body, metadata, etag } = read(Key, 'NotFound');
      return { ContentLength: body.length, Metadata: { ...metadata }, ETag: etag };
    },
    GetObjectCommand({ Key }) {
      const { body, metadata, etag } = read(Key, 'NoSuchKey');
      return {
        ContentLength: body.length,
        Metadata: { ...metadata },
        ETag: etag,
        Body: { transformToString: async () => body.toString() },
      };
    },
    PutObjectCommand({ Key, Body, Metadata = {}, ChecksumSHA256, ...condition }) {
      const body = Buffer.from(Body ?? '');
      const checksum = createHash('sha256').update(body).digest('base64');
      if (ChecksumSHA256 !== undefined && ChecksumSHA256 !== checksum) throw s3Error('BadDigest', 400);
      return write(Key, body, Metadata, condition);
    },
    CreateMultipartUploadCommand({ Key, Metadata = {} }) {
      uploadCount += 1;
      const id = `upload-${uploadCount}`;
      uploads.set(id, { key: Key, metadata: Metadata, parts: new Map() });
      return { UploadId: id };
    },
    UploadPartCommand({ UploadId = '', PartNumber = 0, Body }) {
      const body = Buffer.from(Body ?? '');
      upload(UploadId).parts.set(PartNumber, body);
      return { ETag: `"part-${PartNumber}-${body.length}"` };
    },
    CompleteMultipartUploadCommand({ UploadId = '', Key, MultipartUpload, ...condition }) {
      const { metadata, parts } = upload(UploadId);
      const bodies = (MultipartUpload?.Parts ?? []).map(({ PartNumber = 0 }) => parts.get(PartNumber));
      if (bodies.some((body) => body === undefined)) throw s3Error('InvalidPart', 400);
      const response = write(Key, Buffer.concat(bodies as Buffer[]), metadata, condition);
      uploads.delete(UploadId);
      return response;
    },
    AbortMultipartUploadCommand({ UploadId = '' }) {
      upload(UploadId);
      uploads.delete(UploadId);
      return {};
    },
    ListObjectsV2Command({ Prefix = '', ContinuationToken, MaxKeys = 1_000 }) {
      const keys = [...objects.keys()].filter((key) => key.startsWith(Prefix) && key > (ContinuationToken ?? ''));
      const page = keys.sort().slice(0, MaxKeys);
      const isTruncated = page.length < keys.length;
      return {
        Contents: page.map((Key) => ({ Key, Size: objects.get(Key)?.body.length, ETag: objects.get(Key)?.etag })),
        IsTruncated: isTruncated,
        ...(isTruncated ? { NextContinuationToken: page.at(-1) } : {}),
      };
    },
  };

  return {
    objects,
    perform(command) {
      const perform = commands[command.constructor.name];
      if (perform === undefined) throw new Error(`The simulation does not support ${command.constructor.name}`);
      return perform(command.input as Input);
    },
  };
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
  readonly MultipartUpload?: { readonly Parts?: readonly { readonly PartNumber?: number }[] };
  readonly Prefix?: string;
  readonly ContinuationToken?: string;
  readonly MaxKeys?: number;
}

/** The SDK has classes for few S3 errors; the others are recognized by name. */
export function s3Error(name: string, httpStatusCode: number): S3ServiceException {
  return new S3ServiceException({ name, message: name, $fault: 'client', $metadata: { httpStatusCode } });
}
