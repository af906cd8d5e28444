/** The commands that the S3 page store sends. What a reader sees is tested by the suite in `test/contracts`. */

import { Readable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  type PutObjectCommandInput,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { describe, expect, it, vi } from 'vitest';
import { encryptionWith } from '../../../lib/aws/s3/objects.ts';
import { encodePageMetadata } from '../../../lib/aws/s3/page-metadata.ts';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { asCursor, type PageMetadata, type StoredPage } from '../../../lib/core/model.ts';
import {
  aCursor,
  aFetchedPage,
  aLatest,
  aPageIdentity,
  at,
  collect,
  randomBody,
  sha256Of,
  putPage,
} from '../../support/builders.ts';
import { aMockedStore, commandsSent, inputsSent, s3Error, theOnlyPut } from './mocked-s3.ts';

const base64Sha256 = (body: string | Uint8Array) => Buffer.from(sha256Of(body), 'hex').toString('base64');
const megabytes = (count: number) => randomBody(count * 1024 * 1024);
const matching = (message: RegExp) => expect.stringMatching(message) as unknown as string;

const metadata: PageMetadata = {
  key: aPageIdentity({ page: 3 }).key,
  run: '20261120T020000Z-1f3a5cb2d407' as StoredPage['run'],
  page: 3,
  bytes: 5,
  sha256: sha256Of('first'),
  reports: 1,
  documentRoot: asDocumentRoot('reports'),
  cursor: asCursor('1588888888888,aaaa'),
  nextCursor: asCursor('1588888888888,bbbb'),
  serviceTime: at('2026-11-20T02:00:01Z'),
};
const storedPage: StoredPage = { ...metadata, revision: '8b04d5e3775d298e78455efc5ca404d5' };

/** What the object metadata of a page say. */
const fieldsOf = ({ page = '{}' }: Readonly<Record<string, string>> = {}) =>
  JSON.parse(page) as Record<string, unknown>;

/** The object metadata of that page, with changes; undefined removes a field. */
const objectMetadata = (changes: Record<string, unknown> = {}): Record<string, string> => ({
  page: JSON.stringify({ ...fieldsOf(encodePageMetadata(metadata)), ...changes }),
  attempt: 'another',
});

describe('storing a page', () => {
  it('sends one PutObject with If-None-Match, the checksum and all metadata', async () => {
    const { s3, store } = aMockedStore();
    const identity = aPageIdentity({ page: 7 });
    const body = '<reports><report/></reports>';
    const nextCursor = aCursor();

    const put = await putPage(store, identity, aFetchedPage({ body, nextCursor, reports: 1 }));

    expect(put.stored).toBe(true);
    expect(commandsSent(s3)).toEqual(['PutObjectCommand']);
    const { Body, Metadata, ...input } = theOnlyPut(s3);
    expect(Body).toEqual(Buffer.from(body));
    expect(Metadata).toEqual({ page: expect.any(String), attempt: matching(/^[0-9a-f]{32}$/) });
    const { key: _, ...facts } = identity;
    expect(fieldsOf(Metadata)).toEqual({
      ...facts,
      bytes: body.length,
      sha256: sha256Of(body),
      reports: 1,
      documentRoot: 'reports',
      nextCursor,
      serviceTime: '2026-11-20T02:00:01Z',
      checksum: matching(/^[0-9a-f]{64}$/),
    });
    expect(input).toEqual({
      Bucket: 'bucket',
      Key: `all/reports/${identity.key}`,
      IfNoneMatch: '*',
      ContentType: 'application/xml;charset=UTF-8',
      ContentLength: body.length,
      ChecksumAlgorithm: 'SHA256',
      ChecksumSHA256: base64Sha256(body),
    });
  });

  it('sends a compressed page as a gzip file without Content-Encoding, with the checksums of both', async () => {
    const { s3, store } = aMockedStore();
    const body = '<reports><report/></reports>';
    const identity = aPageIdentity({ compression: 'gzip' });
    const put = await putPage(store, identity, aFetchedPage({ body }));

    const { Body, Key, Metadata, ...input } = theOnlyPut(s3);
    const object = Body as Buffer;
    expect(gunzipSync(object).toString()).toBe(body);
    // The time in its header is not set.
    expect(object.subarray(0, 8)).toEqual(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]));
    expect(Key).toMatch(/\/page-000001\.xml\.gz$/);
    expect(input).toMatchObject({
      ContentType: 'application/gzip',
      ContentLength: object.length,
      ChecksumSHA256: base64Sha256(object),
    });
    expect(input).not.toHaveProperty('ContentEncoding');
    const form = { compression: 'gzip', storedBytes: object.length, storedSha256: sha256Of(object) };
    const page = { bytes: body.length, sha256: sha256Of(body), ...form };
    expect(fieldsOf(Metadata)).toMatchObject(page);
    expect(put.page).toMatchObject(page);
  });

  it('says what to do if the page, or the manifest, does not fit into the storage of the function', async () => {
    vi.stubEnv('TMPDIR', '/dev/full');
    const { store } = aMockedStore();
    const page = putPage(store, aPageIdentity(), aFetchedPage({ body: megabytes(1) }));
    await expect(page).rejects.toThrow(/^Cannot write .*\/dev\/full \(ENOTDIR\).*follows from maxPageBytes/);
    const document = store.putDocument('nightly/manifest.json', Readable.from(['x'.repeat(1024 * 1024)]));
    await expect(document).rejects.toThrow(/^Cannot write .* has too many pages.*start with --restart$/);
    vi.unstubAllEnvs();
  });

  it('has a generic content type if the one of the service is too long for S3', async () => {
    for (const [length, isKept] of [
      [1_000, true],
      [1_001, false],
    ] as const) {
      const { s3, store } = aMockedStore();
      const contentType = 'application/xml;charset=UTF-8;note='.padEnd(length, 'x');
      await putPage(store, aPageIdentity(), aFetchedPage({ contentType }));
      expect(theOnlyPut(s3).ContentType).toBe(isKept ? contentType : 'application/octet-stream');
    }
  });

  it('has the storage class and the tags of the settings', async () => {
    const tags = { team: 'finance & co', 'cost=center': 'Köln 1+1', empty: '' };
    const { s3, store } = aMockedStore({ objects: { storageClass: 'STANDARD_IA', objectTags: tags } });
    await putPage(store, aPageIdentity(), aFetchedPage());
    const put = theOnlyPut(s3);
    expect(put.StorageClass).toBe('STANDARD_IA');
    expect(put.Tagging).toBe('team=finance%20%26%20co&cost%3Dcenter=K%C3%B6ln%201%2B1&empty=');
    expect(Object.fromEntries(new URLSearchParams(put.Tagging))).toEqual(tags);
  });

  it.each([
    ['too long', 'c'.repeat(801)],
    ['with a trailing blank', '1588888888888,a '],
    ['with a leading blank', ' 1588888888888,a'],
    ['with two consecutive blanks', '1588888888888,a  b'],
    ['not ASCII', '1588888888888,é'],
    ['with a control character', '1588888888888,\t'],
    ['that looks like an encoded word', '=?UTF-8?Q?=41?='],
  ])('stores a cursor that metadata may not preserve in an object of its own, before the page: %s', async (_, text) => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor(text);
    const identity = aPageIdentity({ page: 2, cursor });
    const { page } = await putPage(store, identity, aFetchedPage({ nextCursor: cursor }));

    const [inObject, inPage] = s3.commandCalls(PutObjectCommand).map(({ args: [{ input }] }) => input);
    const folder = identity.key.slice(0, identity.key.lastIndexOf('/'));
    expect(inObject).toMatchObject({
      Key: `all/reports/${folder}/_cursors/${sha256Of(text)}`,
      IfNoneMatch: '*',
      ContentLength: Buffer.byteLength(text),
      ChecksumSHA256: base64Sha256(text),
    });
    expect(inPage?.Key).toBe(`all/reports/${identity.key}`);
    const Metadata = inPage?.Metadata;
    expect(fieldsOf(Metadata)).toMatchObject({
      cursor: { sha256: sha256Of(text) },
      nextCursor: { sha256: sha256Of(text) },
    });
    expect(page).toMatchObject({ cursor: { sha256: sha256Of(text) }, nextCursor: text });
  });

  describe('with a cursor in an object of its own', () => {
    const text = 'c'.repeat(5_000);
    const cursor = asCursor(text);
    const stored: PageMetadata = { ...metadata, nextCursor: cursor };
    const page = { Metadata: encodePageMetadata(stored), ContentLength: stored.bytes, ETag: '"1"' };
    const content = (body: string) => ({
      Body: Readable.from([body]) as unknown as NonNullable<GetObjectCommandOutput['Body']>,
    });

    it('is refused if the object is missing', async () => {
      const { s3, store } = aMockedStore();
      s3.on(HeadObjectCommand).resolves(page).on(GetObjectCommand).rejects(s3Error('NoSuchKey', 404));
      await expect(store.find(stored.key)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: matching(/its next cursor is missing: s3:.*_cursors/),
      });
    });

    it('is refused if the object has another text', async () => {
      const { s3, store } = aMockedStore();
      s3.on(HeadObjectCommand).resolves(page).on(GetObjectCommand).resolves(content('another'));
      await expect(store.find(stored.key)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: matching(/it is not the cursor that it is named after/),
      });
    });
  });

  it('stays within 2 KB of metadata with the longest cursors that are stored unhashed', async () => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor('c'.repeat(498));
    const identity = aPageIdentity({ page: 999_999_999, cursor, compression: 'gzip' });
    const documentRoot = `{${'n'.repeat(191)}}reports`;
    const transferredBytes = Number.MAX_SAFE_INTEGER;
    const parts = { nextCursor: cursor, transferredBytes, reports: 999_999_999, documentRoot };
    await putPage(store, identity, aFetchedPage(parts));

    const { Metadata = {} } = theOnlyPut(s3);
    expect(fieldsOf(Metadata)).toMatchObject({ cursor, documentRoot });
    // Counts the prefix `x-amz-meta-` of each name, although S3 does not.
    const size = Object.entries(Metadata).reduce((sum, [name, value]) => sum + 11 + name.length + value.length, 0);
    expect(size).toBeLessThan(2_048);
  });

  it('sends the headers of the key for every write, and for an upload in parts with the request that creates it', async () => {
    const bucketKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
    const { s3, store } = aMockedStore({ encryption: encryptionWith({ bucketKeyArn }) });
    const latest = { transformToString: async () => JSON.stringify(aLatest({ sequence: 1 })) };
    s3.on(GetObjectCommand)
      .rejectsOnce(s3Error('NoSuchKey', 404))
      .resolves({ ETag: '"one"', Body: latest } as unknown as GetObjectCommandOutput);
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(CompleteMultipartUploadCommand).resolves({});
    await putPage(store, aPageIdentity(), aFetchedPage());
    await putPage(store, aPageIdentity(), aFetchedPage({ body: megabytes(9) }));
    await store.putDocument('manifest.json', Readable.from(['{}']));
    for (const sequence of [1, 2]) await store.putLatest('latest.json', aLatest({ sequence }), async () => true);
    const writes = [...s3.commandCalls(PutObjectCommand), ...s3.commandCalls(CreateMultipartUploadCommand)];
    expect(writes).toHaveLength(5);
    const headers = { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: bucketKeyArn, BucketKeyEnabled: true };
    for (const { args } of writes) expect(args[0].input).toMatchObject(headers);
  });

  it('uploads a larger page in parts of 8 MiB, and completes them with If-None-Match', async () => {
    const { s3, store } = aMockedStore({ objects: { storageClass: 'GLACIER_IR', objectTags: { team: 'finance' } } });
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).callsFake(({ PartNumber, Body }) => ({
      ETag: `"${PartNumber}"`,
      ChecksumSHA256: base64Sha256(Body),
    }));
    s3.on(CompleteMultipartUploadCommand).resolves({});
    const body = megabytes(20);
    const identity = aPageIdentity();

    const put = await putPage(store, identity, aFetchedPage({ body }));

    expect(put.stored).toBe(true);
    const [created] = s3.commandCalls(CreateMultipartUploadCommand);
    expect(created?.args[0].input).toMatchObject({
      ChecksumAlgorithm: 'SHA256',
      ContentType: 'application/xml;charset=UTF-8',
      StorageClass: 'GLACIER_IR',
      Tagging: 'team=finance',
    });
    expect(fieldsOf(created?.args[0].input.Metadata)).toMatchObject({ sha256: sha256Of(body), bytes: body.length });
    const parts = s3.commandCalls(UploadPartCommand).map(({ args: [{ input }] }) => input);
    parts.sort((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0));
    expect(sha256Of(Buffer.concat(parts.map(({ Body }) => Body as Buffer)))).toBe(sha256Of(body));
    expect(parts.map(({ Body }) => (Body as Buffer).length / 1024 / 1024)).toEqual([8, 8, 4]);
    for (const part of parts) expect(part).toMatchObject({ ChecksumAlgorithm: 'SHA256', UploadId: 'upload' });
    for (const input of inputsSent(s3)) expect(input).not.toHaveProperty('ChecksumSHA256');

    const completed = s3.commandCalls(CompleteMultipartUploadCommand);
    expect(completed).toHaveLength(1);
    expect(completed[0]?.args[0].input).toMatchObject({
      Key: `all/reports/${identity.key}`,
      IfNoneMatch: '*',
      MultipartUpload: {
        Parts: parts.map(({ PartNumber, Body }) => ({
          PartNumber,
          ETag: `"${PartNumber}"`,
          ChecksumSHA256: base64Sha256(Body as Buffer),
        })),
      },
    });
  });
});

it('uploads two pages in parts at the same time, because each takes memory, and continues after one that fails', async () => {
  const { s3, store } = aMockedStore({ partBytes: 5 * 1024 * 1024 });
  let uploads = 0;
  let most = 0;
  const twoHaveBegun = Promise.withResolvers<void>();
  s3.on(CreateMultipartUploadCommand).callsFake(async () => {
    uploads += 1;
    most = Math.max(most, uploads);
    if (uploads === 2) twoHaveBegun.resolve();
    return { UploadId: 'upload' };
  });
  s3.on(UploadPartCommand).callsFake(async ({ PartNumber, Body }) => {
    await twoHaveBegun.promise;
    if ((Body as Buffer).length === 1024 * 1024) throw s3Error('SlowDown', 503);
    return { ETag: `"${PartNumber}"` };
  });
  const end = async () => {
    uploads -= 1;
    return {};
  };
  s3.on(AbortMultipartUploadCommand).callsFake(end);
  s3.on(CompleteMultipartUploadCommand).callsFake(end);
  const puts = [6, 6, 7, 7, 7].map((size, index) =>
    putPage(store, aPageIdentity({ page: index + 1 }), aFetchedPage({ body: megabytes(size) })),
  );
  const results = await Promise.allSettled(puts);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
  expect(most).toBe(2);
});

describe('a failed upload', () => {
  it('is aborted, and its parts are not completed', async () => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(UploadPartCommand, { PartNumber: 2 }).rejects(slowDown);
    const identity = aPageIdentity();

    await expect(putPage(store, identity, aFetchedPage({ body: megabytes(20) }))).rejects.toBe(slowDown);

    const aborted = s3.commandCalls(AbortMultipartUploadCommand).map(({ args: [{ input }] }) => input);
    expect(aborted).toEqual([{ Bucket: 'bucket', Key: `all/reports/${identity.key}`, UploadId: 'upload' }]);
    expect(s3.commandCalls(CompleteMultipartUploadCommand)).toEqual([]);
  });

  it.each([
    ['NoSuchUpload', 'as S3 answers the SDK if the response to the first abort was lost'],
    ['AccessDenied', 'without the permission'],
  ])('keeps its error if the abort fails with %s, %s', async (name) => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).rejects(slowDown);
    s3.on(AbortMultipartUploadCommand).rejects(s3Error(name, 404));

    await expect(putPage(store, aPageIdentity(), aFetchedPage({ body: megabytes(20) }))).rejects.toBe(slowDown);
    expect(s3.commandCalls(AbortMultipartUploadCommand)).toHaveLength(1);
  });
});

describe('a page that exists', () => {
  const identity = aPageIdentity({ key: storedPage.key, run: storedPage.run, page: 3 });
  const existing = { ContentLength: 5, Metadata: objectMetadata(), ETag: `"${storedPage.revision}"` };

  describe('and is compressed', () => {
    const ours = gzipSync('first', { level: 0 });
    const form = { compression: 'gzip', storedBytes: ours.length, storedSha256: sha256Of(ours) } as const;
    const compressed = { ...identity, key: `${identity.key}.gz`, compression: 'gzip' } as const;
    const page = { ...metadata, ...form, key: compressed.key };
    const object = {
      ContentLength: ours.length,
      Metadata: encodePageMetadata(page),
      ETag: '"1"',
      ChecksumSHA256: base64Sha256(ours),
      ChecksumType: 'FULL_OBJECT',
    } as const;

    it.each([
      ['another size', { ContentLength: 5 }, /it has 5 bytes, but its metadata says 28/],
      ['another checksum', { ChecksumSHA256: base64Sha256('first') }, /its bytes do not match its metadata/],
      [
        'edited metadata',
        { Metadata: { page: JSON.stringify({ ...fieldsOf(object.Metadata), storedBytes: 5 }) } },
        /its checksum does not match/,
      ],
      ['metadata without its form', { Metadata: encodePageMetadata(metadata) }, /its metadata was changed/],
    ])('is rejected with %s', async (_, change, message) => {
      const { s3, store } = aMockedStore();
      s3.on(HeadObjectCommand).resolves({ ...object, ...change });
      await expect(store.find(compressed.key)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: matching(message),
      });
    });
  });

  it('counts as stored if it has the token of this attempt: the SDK retried a write whose response was lost', async () => {
    const { s3, store } = aMockedStore();
    let written: PutObjectCommandInput | undefined;
    s3.on(PutObjectCommand).callsFake((input: PutObjectCommandInput) => {
      written = input;
      throw s3Error('PreconditionFailed', 412);
    });
    s3.on(HeadObjectCommand).callsFake(() => ({ Metadata: written?.Metadata, ContentLength: written?.ContentLength }));

    const put = await putPage(store, identity, aFetchedPage({ body: 'second' }));
    expect(put).toMatchObject({ stored: true, page: { sha256: sha256Of('second') } });
  });

  it('is adopted after a multipart upload, whose parts are removed', async () => {
    const { s3, store } = aMockedStore();
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(CompleteMultipartUploadCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);

    expect(await putPage(store, identity, aFetchedPage({ body: megabytes(9) }))).toEqual({
      stored: false,
      page: storedPage,
    });
    expect(s3.commandCalls(AbortMultipartUploadCommand)).toHaveLength(1);
  });

  it('counts as stored if the SDK retried the completion of its upload: NoSuchUpload', async () => {
    const { s3, store } = aMockedStore();
    let metadata: Record<string, string> | undefined;
    s3.on(CreateMultipartUploadCommand).callsFake(async (input: { Metadata?: Record<string, string> }) => {
      metadata = input.Metadata;
      return { UploadId: 'upload' };
    });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(CompleteMultipartUploadCommand).rejects(s3Error('NoSuchUpload', 404));
    const body = megabytes(9);
    s3.on(HeadObjectCommand).callsFake(() => ({ Metadata: metadata, ContentLength: body.length }));

    expect(await putPage(store, identity, aFetchedPage({ body }))).toMatchObject({ stored: true });
  });

  it('may still be in the making: a conflict is retried with the whole body', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejectsOnce(s3Error('ConditionalRequestConflict', 409)).resolves({});
    s3.on(HeadObjectCommand).rejects(s3Error('NotFound', 404));

    expect(await putPage(store, identity, aFetchedPage({ body: 'whole' }))).toMatchObject({ stored: true });
    const bodies = s3.commandCalls(PutObjectCommand).map(({ args: [{ input }] }) => input.Body);
    expect(bodies).toEqual([Buffer.from('whole'), Buffer.from('whole')]);
  });

  it.each([
    ['no metadata', undefined],
    ['no run', objectMetadata({ run: undefined })],
    ['another length than the object', objectMetadata({ bytes: 6 })],
    ['metadata that is no JSON', { page: 'page 3' }],
    ['no checksum', objectMetadata({ checksum: undefined })],
    ['another number of reports', objectMetadata({ reports: 2 })],
    ['no next cursor', objectMetadata({ nextCursor: undefined })],
    [
      'the metadata of another page',
      encodePageMetadata({ ...metadata, page: 4, key: metadata.key.replace('3.xml', '4.xml') }),
    ],
  ])('is a conflict if its metadata was changed: %s', async (_, Metadata) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves({ ContentLength: 5, ...(Metadata && { Metadata }) });
    const conflict = {
      name: 'PageConflictError',
      message: matching(/^s3:\/\/bucket\/all\/reports\/.*page-000003.xml already exists/),
    };
    await expect(store.find(storedPage.key)).rejects.toMatchObject(conflict);
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    await expect(putPage(store, identity, aFetchedPage())).rejects.toMatchObject(conflict);
  });
});

describe('the bytes of a page that exists', () => {
  const find = async (existing: Partial<HeadObjectCommandOutput>) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves({ ContentLength: 5, Metadata: objectMetadata(), ETag: '"etag"', ...existing });
    const found = await store.find(storedPage.key);
    expect(inputsSent(s3)).toEqual([
      { Bucket: 'bucket', Key: `all/reports/${storedPage.key}`, ChecksumMode: 'ENABLED' },
    ]);
    return found;
  };

  it('are verified by the checksum that S3 keeps', async () => {
    const found = await find({ ChecksumSHA256: base64Sha256('first'), ChecksumType: 'FULL_OBJECT' });
    expect(found).toEqual({ ...storedPage, revision: 'etag' });
  });

  it.each(['FULL_OBJECT', undefined] as const)(
    'are a conflict if the checksum differs: type %s',
    async (ChecksumType) => {
      const found = find({ ChecksumSHA256: base64Sha256('fi-st'), ...(ChecksumType && { ChecksumType }) });
      await expect(found).rejects.toMatchObject({
        name: 'PageConflictError',
        message: matching(/its bytes do not match its metadata/),
      });
    },
  );

  it.each<[string, Partial<HeadObjectCommandOutput>]>([
    ['has no checksum', {}],
    ['has a checksum of parts', { ChecksumSHA256: base64Sha256('of their hashes'), ChecksumType: 'COMPOSITE' }],
    ['has a checksum of parts, marked by a suffix', { ChecksumSHA256: `${base64Sha256('of their hashes')}-3` }],
    ['has a checksum of another algorithm', { ChecksumCRC64NVME: 'AAAAAAAAAAA=', ChecksumType: 'FULL_OBJECT' }],
  ])('are not verified if S3 %s', async (_, existing) => {
    expect(await find(existing)).toEqual({ ...storedPage, revision: 'etag' });
  });
});

describe('reading', () => {
  const key = 'reports/latest.json';
  const location = { Bucket: 'bucket', Key: `all/reports/${key}` };

  it('asks a listing whether an object exists if S3 answers 403, as it does to those who may list only some prefixes', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    // The listing has a longer key.
    s3.on(ListObjectsV2Command).resolves({ Contents: [{ Key: `${location.Key}.old` }] });
    expect(await store.read(key)).toBeUndefined();
    expect(inputsSent(s3)).toEqual([location, { Bucket: 'bucket', Prefix: location.Key, MaxKeys: 1 }]);
  });

  it.each([
    ['the object exists', async () => ({ Contents: [{ Key: location.Key }] })],
    ['the listing is denied, too', () => Promise.reject(s3Error('AccessDenied', 403))],
  ])('names the missing permission if %s', async (_, list) => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    s3.on(ListObjectsV2Command).callsFake(list);
    await expect(store.read(key)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: matching(/s3:\/\/bucket\/all\/reports\/reports\/latest.json \(403\)/),
    });
  });
});

describe('a listing', () => {
  const folder = 'reports/date=2026-11-20/run=20261120T020000Z-1f3a5cb2d407';

  it('has no revisions if the server returns no ETags', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command).resolves({ Contents: [{ Key: `all/reports/${folder}/page-000001.xml` }] });
    const [only] = await collect(store.list(folder));
    expect(only).toEqual({ key: `${folder}/page-000001.xml`, bytes: 0, revision: null });
  });

  it('names the missing permission', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command).rejects(s3Error('AccessDenied', 403));
    await expect(collect(store.list(folder))).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: matching(/s3:ListBucket/),
    });
  });
});

describe('an object that does not exist', () => {
  it('is reported with the missing permission if S3 answers 403', async () => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).rejects(s3Error('Forbidden', 403));
    await expect(store.find('missing')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(
        /s3:\/\/bucket\/all\/reports\/missing \(403\).*s3:ListBucket/,
      ) as unknown as string,
    });
  });
});

describe('a bucket that does not exist', () => {
  it.each<[string, (store: MockedStore) => Promise<unknown>]>([
    ['storing a page', (store) => putPage(store, aPageIdentity(), aFetchedPage())],
    ['the pointer', (store) => store.putLatest('latest.json', aLatest(), async () => true)],
    ['reading', (store) => store.read('latest.json')],
    ['a listing', (store) => collect(store.list('reports'))],
  ])('is named by %s', async (_, act) => {
    const { s3, store } = aMockedStore();
    s3.onAnyCommand().rejects(s3Error('NoSuchBucket', 404));
    await expect(act(store)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^There is no bucket bucket any more\. Create it again, or/) as unknown as string,
    });
  });
});

type MockedStore = ReturnType<typeof aMockedStore>['store'];
it.each<[string, (store: MockedStore) => Promise<unknown>]>([
  ['storing a page', (store) => putPage(store, aPageIdentity(), aFetchedPage())],
  ['looking for one', (store) => store.find('missing')],
  ['a listing', (store) => collect(store.list('reports'))],
])('any other error of %s is thrown unchanged', async (_, act) => {
  const { s3, store } = aMockedStore();
  const slowDown = s3Error('SlowDown', 503);
  s3.onAnyCommand().rejects(slowDown);
  await expect(act(store)).rejects.toBe(slowDown);
});
