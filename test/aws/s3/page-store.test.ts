/** The commands that the S3 page store sends. What a reader sees is tested by the suite in `test/contracts`. */

import { PassThrough, Readable } from 'node:stream';
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

type MockedStore = ReturnType<typeof aMockedStore>;

const base64Sha256 = (body: string | Uint8Array) => Buffer.from(sha256Of(body), 'hex').toString('base64');
const matching = (message: RegExp) => expect.stringMatching(message) as unknown as string;
/** S3 takes parts of at least 5 MiB. */
const partBytes = 5 * 1024 ** 2;
const inTwoParts = randomBody(partBytes + 1_000);
const putsOf = (s3: MockedStore['s3']): readonly PutObjectCommandInput[] =>
  s3.commandCalls(PutObjectCommand).map(({ args: [{ input }] }) => input);

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
const identity = aPageIdentity({ key: storedPage.key, run: storedPage.run, page: 3 });

/** What the object metadata of a page say. */
const fieldsOf = ({ page = '{}' }: Readonly<Record<string, string>> = {}) =>
  JSON.parse(page) as Record<string, unknown>;

/** The object metadata of that page, with changes; undefined removes a field. */
const objectMetadata = (changes: Record<string, unknown> = {}): Record<string, string> => ({
  page: JSON.stringify({ ...fieldsOf(encodePageMetadata(metadata)), ...changes }),
  attempt: 'another',
});
const existing = { ContentLength: 5, Metadata: objectMetadata(), ETag: `"${storedPage.revision}"` };

describe('storing a page', () => {
  it('sends one PutObject with If-None-Match, the checksum and all metadata', async () => {
    const { s3, store } = aMockedStore();
    const page = aPageIdentity({ page: 7 });
    const body = '<reports><report/></reports>';
    const nextCursor = aCursor();
    const put = await putPage(store, page, aFetchedPage({ body, nextCursor, reports: 1 }));

    expect(put.stored).toBe(true);
    expect(commandsSent(s3)).toEqual(['PutObjectCommand']);
    const { Body, Metadata, ...input } = theOnlyPut(s3);
    expect(Body).toEqual(Buffer.from(body));
    expect(Metadata).toEqual({ page: expect.any(String), attempt: matching(/^[0-9a-f]{32}$/) });
    const { key: _, ...facts } = page;
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
      Key: `all/reports/${page.key}`,
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
    await putPage(store, aPageIdentity({ compression: 'gzip' }), aFetchedPage({ body }));
    const { Body, Metadata, ...input } = theOnlyPut(s3);
    const object = Body as Buffer;
    expect(gunzipSync(object).toString()).toBe(body);
    // The time in its header is not set.
    expect(object.subarray(0, 8)).toEqual(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]));
    expect(input).toMatchObject({
      Key: matching(/\/page-000001\.xml\.gz$/),
      ContentType: 'application/gzip',
      ContentLength: object.length,
      ChecksumSHA256: base64Sha256(object),
    });
    expect(input).not.toHaveProperty('ContentEncoding');
    const form = { compression: 'gzip', storedBytes: object.length, storedSha256: sha256Of(object) };
    expect(fieldsOf(Metadata)).toMatchObject({ bytes: body.length, sha256: sha256Of(body), ...form });
  });

  it('says what to do if the page, or the manifest, does not fit into the storage of the function', async () => {
    vi.stubEnv('TMPDIR', '/dev/full');
    const { store } = aMockedStore();
    const page = putPage(store, aPageIdentity(), aFetchedPage({ body: randomBody(1024 ** 2) }));
    await expect(page).rejects.toThrow(/^Cannot write .*\/dev\/full \(ENOTDIR\).*follows from maxPageBytes/);
    const document = store.putDocument('nightly/manifest.json', Readable.from(['x'.repeat(1024 ** 2)]));
    await expect(document).rejects.toThrow(/^Cannot write .* has too many pages.*start with --restart$/);
    vi.unstubAllEnvs();
  });

  it('has a generic content type if the one of the service is too long for S3', async () => {
    const { s3, store } = aMockedStore();
    const types = [1_000, 1_001].map((length) => 'application/xml;charset=UTF-8;note='.padEnd(length, 'x'));
    for (const contentType of types) await putPage(store, aPageIdentity(), aFetchedPage({ contentType }));
    expect(putsOf(s3).map(({ ContentType }) => ContentType)).toEqual([types[0], 'application/octet-stream']);
  });

  it.each([
    ['too long', 'c'.repeat(801)],
    ['that looks like an encoded word', '=?UTF-8?Q?=41?='],
  ])('stores a cursor that metadata may not preserve in an object of its own, before the page: %s', async (_, text) => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor(text);
    const page = aPageIdentity({ page: 2, cursor });
    await putPage(store, page, aFetchedPage({ nextCursor: cursor }));
    const [inObject, inPage] = putsOf(s3);
    const folder = page.key.slice(0, page.key.lastIndexOf('/'));
    const Key = `all/reports/${folder}/_cursors/${sha256Of(text)}`;
    expect(inObject).toMatchObject({ Key, IfNoneMatch: '*', ChecksumSHA256: base64Sha256(text) });
    expect(inPage?.Key).toBe(`all/reports/${page.key}`);
    const hashed = { sha256: sha256Of(text) };
    expect(fieldsOf(inPage?.Metadata)).toMatchObject({ cursor: hashed, nextCursor: hashed });
  });

  it('stays within 2 KB of metadata with the longest cursors that are stored unhashed', async () => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor('c'.repeat(498));
    const page = aPageIdentity({ page: 999_999_999, cursor, compression: 'gzip' });
    const documentRoot = `{${'n'.repeat(191)}}reports`;
    const parts = { nextCursor: cursor, transferredBytes: Number.MAX_SAFE_INTEGER, reports: 999_999_999, documentRoot };
    await putPage(store, page, aFetchedPage(parts));
    const { Metadata = {} } = theOnlyPut(s3);
    expect(fieldsOf(Metadata)).toMatchObject({ cursor, documentRoot });
    // Counts the prefix `x-amz-meta-` of each name, although S3 does not.
    const size = Object.entries(Metadata).reduce((sum, [name, value]) => sum + 11 + name.length + value.length, 0);
    expect(size).toBeLessThan(2_048);
  });
});

describe('a large page', () => {
  const parts = (s3: MockedStore['s3']) => {
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).callsFake(({ PartNumber, Body }) => ({
      ETag: `"${PartNumber}"`,
      ChecksumSHA256: base64Sha256(Body),
    }));
    s3.on(CompleteMultipartUploadCommand).resolves({});
  };

  it('is uploaded in parts of 8 MiB, and completed with If-None-Match', async () => {
    const { s3, store } = aMockedStore();
    parts(s3);
    const body = randomBody(9 * 1024 ** 2);
    expect(await putPage(store, identity, aFetchedPage({ body }))).toMatchObject({ stored: true });
    const [created] = s3.commandCalls(CreateMultipartUploadCommand);
    expect(created?.args[0].input).toMatchObject({
      ChecksumAlgorithm: 'SHA256',
      ContentType: 'application/xml;charset=UTF-8',
    });
    expect(fieldsOf(created?.args[0].input.Metadata)).toMatchObject({ sha256: sha256Of(body), bytes: body.length });
    const uploaded = s3.commandCalls(UploadPartCommand).map(({ args: [{ input }] }) => input);
    uploaded.sort((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0));
    expect(sha256Of(Buffer.concat(uploaded.map(({ Body }) => Body as Buffer)))).toBe(sha256Of(body));
    expect(uploaded.map(({ Body }) => (Body as Buffer).length / 1024 ** 2)).toEqual([8, 1]);
    for (const part of uploaded) expect(part).toMatchObject({ ChecksumAlgorithm: 'SHA256', UploadId: 'upload' });
    const completed = s3.commandCalls(CompleteMultipartUploadCommand).map(({ args: [{ input }] }) => input);
    expect(completed).toMatchObject([
      {
        Key: `all/reports/${identity.key}`,
        IfNoneMatch: '*',
        MultipartUpload: {
          Parts: uploaded.map(({ PartNumber, Body }) => ({
            PartNumber,
            ETag: `"${PartNumber}"`,
            ChecksumSHA256: base64Sha256(Body as Buffer),
          })),
        },
      },
    ]);
  });

  it('takes memory, so two are uploaded at the same time, and the next one after one that fails', async () => {
    const { s3, store } = aMockedStore({ partBytes });
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
      if ((Body as Buffer).length === 1_000) throw s3Error('SlowDown', 503);
      return { ETag: `"${PartNumber}"` };
    });
    const end = async () => {
      uploads -= 1;
      return {};
    };
    s3.on(AbortMultipartUploadCommand).callsFake(end);
    s3.on(CompleteMultipartUploadCommand).callsFake(end);
    const other = randomBody(partBytes + 1_700);
    const puts = [inTwoParts, inTwoParts, other, other].map((body, index) =>
      putPage(store, aPageIdentity({ page: index + 1 }), aFetchedPage({ body })),
    );
    const results = await Promise.allSettled(puts);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled']);
    expect(most).toBe(2);
  });

  it.each([undefined, 'NoSuchUpload', 'AccessDenied'])(
    'is aborted and not completed if a part fails, whose error stays although the abort fails: %s',
    async (name) => {
      const { s3, store } = aMockedStore({ partBytes });
      parts(s3);
      const slowDown = s3Error('SlowDown', 503);
      s3.on(UploadPartCommand, { PartNumber: 2 }).rejects(slowDown);
      if (name !== undefined) s3.on(AbortMultipartUploadCommand).rejects(s3Error(name, 404));
      await expect(putPage(store, identity, aFetchedPage({ body: inTwoParts }))).rejects.toBe(slowDown);
      const aborted = s3.commandCalls(AbortMultipartUploadCommand).map(({ args: [{ input }] }) => input);
      expect(aborted).toEqual([{ Bucket: 'bucket', Key: `all/reports/${identity.key}`, UploadId: 'upload' }]);
      expect(s3.commandCalls(CompleteMultipartUploadCommand)).toEqual([]);
    },
  );

  it('is adopted if it exists, and its parts are removed', async () => {
    const { s3, store } = aMockedStore({ partBytes });
    parts(s3);
    s3.on(CompleteMultipartUploadCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);
    const put = await putPage(store, identity, aFetchedPage({ body: inTwoParts }));
    expect(put).toEqual({ stored: false, page: storedPage });
    expect(s3.commandCalls(AbortMultipartUploadCommand)).toHaveLength(1);
  });

  it('counts as stored if the SDK retried its completion: NoSuchUpload', async () => {
    const { s3, store } = aMockedStore({ partBytes });
    parts(s3);
    s3.on(CompleteMultipartUploadCommand).rejects(s3Error('NoSuchUpload', 404));
    const body = inTwoParts;
    s3.on(HeadObjectCommand).callsFake(() => {
      const [created] = s3.commandCalls(CreateMultipartUploadCommand);
      return { Metadata: created?.args[0].input.Metadata, ContentLength: body.length };
    });
    expect(await putPage(store, identity, aFetchedPage({ body }))).toMatchObject({ stored: true });
  });
});

it('every write has the headers of the key, and an upload in parts in the request that creates it', async () => {
  const bucketKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
  const { s3, store } = aMockedStore({ encryption: encryptionWith({ bucketKeyArn }), partBytes });
  const latest = { transformToString: async () => JSON.stringify(aLatest({ sequence: 1 })) };
  s3.on(GetObjectCommand)
    .rejectsOnce(s3Error('NoSuchKey', 404))
    .resolves({ ETag: '"one"', Body: latest } as unknown as GetObjectCommandOutput);
  s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
  s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
  s3.on(CompleteMultipartUploadCommand).resolves({});
  await putPage(store, aPageIdentity(), aFetchedPage());
  await putPage(store, aPageIdentity(), aFetchedPage({ body: inTwoParts }));
  await store.putDocument('manifest.json', Readable.from(['{}']));
  for (const sequence of [1, 2]) await store.putLatest('latest.json', aLatest({ sequence }), async () => true);
  const created = s3.commandCalls(CreateMultipartUploadCommand).map(({ args: [{ input }] }) => input);
  const writes = [...putsOf(s3), ...created];
  expect(writes).toHaveLength(5);
  const headers = { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: bucketKeyArn, BucketKeyEnabled: true };
  for (const write of writes) expect(write).toMatchObject(headers);
});

describe('a page that exists', () => {
  it('counts as stored if it has the token of this attempt: the SDK retried a write whose response was lost', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).callsFake(() => {
      const { Metadata, ContentLength } = theOnlyPut(s3);
      return { Metadata, ContentLength };
    });
    const put = await putPage(store, identity, aFetchedPage({ body: 'second' }));
    expect(put).toMatchObject({ stored: true, page: { sha256: sha256Of('second') } });
  });

  it('may still be in the making: a conflict is retried with the whole body', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejectsOnce(s3Error('ConditionalRequestConflict', 409)).resolves({});
    s3.on(HeadObjectCommand).rejects(s3Error('NotFound', 404));
    expect(await putPage(store, identity, aFetchedPage({ body: 'whole' }))).toMatchObject({ stored: true });
    expect(putsOf(s3).map(({ Body }) => Body)).toEqual([Buffer.from('whole'), Buffer.from('whole')]);
  });

  const ours = gzipSync('first', { level: 0 });
  const form = { compression: 'gzip', storedBytes: ours.length, storedSha256: sha256Of(ours) } as const;
  const gzipped = {
    ContentLength: ours.length,
    Metadata: encodePageMetadata({ ...metadata, ...form, key: `${metadata.key}.gz` }),
    ETag: '"1"',
  };
  const other = encodePageMetadata({ ...metadata, page: 4, key: metadata.key.replace('3.xml', '4.xml') });
  const withCursor = {
    ...existing,
    Metadata: encodePageMetadata({ ...metadata, nextCursor: asCursor('c'.repeat(900)) }),
  };
  it.each<[string, Partial<HeadObjectCommandOutput>, RegExp]>([
    ['no metadata', { ...existing, Metadata: {} }, /already exists/],
    [
      'another length than its metadata says',
      { ...existing, ContentLength: 6 },
      /it has 6 bytes, but its metadata says 5/,
    ],
    ['metadata that is no JSON', { ...existing, Metadata: { page: 'page 3' } }, /already exists/],
    ['no checksum', { ...existing, Metadata: objectMetadata({ checksum: undefined }) }, /already exists/],
    [
      'an edited number of reports',
      { ...existing, Metadata: objectMetadata({ reports: 2 }) },
      /checksum does not match/,
    ],
    ['the metadata of another page', { ...existing, Metadata: other }, /already exists/],
    ['a next cursor that is missing', withCursor, /its next cursor is missing: s3:.*_cursors/],
    ['compressed, another size', { ...gzipped, ContentLength: 5 }, /it has 5 bytes, but its metadata says 28/],
    [
      'compressed, other bytes',
      { ...gzipped, ChecksumSHA256: base64Sha256('x'), ChecksumType: 'FULL_OBJECT' },
      /its bytes do not/,
    ],
    [
      'compressed, the metadata of a plain page',
      { ...gzipped, Metadata: objectMetadata() },
      /its metadata was changed/,
    ],
    [
      'another checksum in S3',
      { ...existing, ChecksumSHA256: base64Sha256('fi-st') },
      /its bytes do not match its metadata/,
    ],
  ])('is a conflict with %s', async (what, object, message) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves(object).on(GetObjectCommand).rejects(s3Error('NoSuchKey', 404));
    const key = what.startsWith('compressed') ? `${storedPage.key}.gz` : storedPage.key;
    const conflict = { name: 'PageConflictError', message: matching(message) };
    await expect(store.find(key)).rejects.toMatchObject(conflict);
  });

  it.each<[string, Partial<HeadObjectCommandOutput>]>([
    ['the checksum of its bytes', { ChecksumSHA256: base64Sha256('first'), ChecksumType: 'FULL_OBJECT' }],
    ['no checksum', {}],
    ['a checksum of parts', { ChecksumSHA256: base64Sha256('of their hashes'), ChecksumType: 'COMPOSITE' }],
    ['a checksum of parts, marked by a suffix', { ChecksumSHA256: `${base64Sha256('of their hashes')}-3` }],
    ['a checksum of another algorithm', { ChecksumCRC64NVME: 'AAAAAAAAAAA=', ChecksumType: 'FULL_OBJECT' }],
  ])('is found if S3 has %s', async (_, checksum) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves({ ...existing, ...checksum });
    expect(await store.find(storedPage.key)).toEqual(storedPage);
    const Key = `all/reports/${storedPage.key}`;
    expect(inputsSent(s3)).toEqual([{ Bucket: 'bucket', Key, ChecksumMode: 'ENABLED' }]);
  });
});

describe('publication', () => {
  const key = 'reports/latest.json';
  const hasBegun = async () => true;
  const notFound = s3Error('NoSuchKey', 404);
  const pointer = (sequence: number, etag: string) => ({
    ETag: etag,
    Body: { transformToString: async () => JSON.stringify(aLatest({ sequence })) } as unknown as PassThrough,
  });
  const conditionsOf = (s3: MockedStore['s3']) => putsOf(s3).map(({ IfMatch, IfNoneMatch }) => IfMatch ?? IfNoneMatch);

  it('writes the manifest with its hash and If-None-Match', async () => {
    const { s3, store } = aMockedStore();
    await store.putDocument('reports/manifest.json', Readable.from(['{"pages":', '[]}']));
    const text = '{"pages":[]}';
    expect(theOnlyPut(s3)).toMatchObject({
      Key: 'all/reports/reports/manifest.json',
      Body: Buffer.from(text),
      IfNoneMatch: '*',
      ContentType: 'application/json',
      ChecksumSHA256: base64Sha256(text),
      Metadata: { sha256: sha256Of(text) },
    });
  });

  it('creates the pointer with If-None-Match, and replaces it with If-Match of the one that was read', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand)
      .rejectsOnce(notFound)
      .resolves(pointer(7, '"seven"') as unknown as GetObjectCommandOutput);
    for (const sequence of [7, 8]) await store.putLatest(key, aLatest({ sequence }), hasBegun);
    expect(conditionsOf(s3)).toEqual(['*', '"seven"']);
  });

  it('creates the pointer if it is deleted between the read and the write', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(7, '"seven"') as unknown as GetObjectCommandOutput)
      .rejects(notFound);
    s3.on(PutObjectCommand).rejectsOnce(notFound).resolves({});
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(conditionsOf(s3)).toEqual(['"seven"', '*']);
  });

  it('replaces a pointer that is unreadable, or too large to be read', async () => {
    const { s3, store } = aMockedStore();
    const unread = Object.assign(new PassThrough(), { transformToString: async () => expect.fail('it was read') });
    const damaged = { transformToString: async () => 'not JSON' };
    s3.on(GetObjectCommand)
      .resolvesOnce({ ETag: '"large"', ContentLength: 5e9, Body: unread } as unknown as GetObjectCommandOutput)
      .resolves({ ETag: '"damaged"', Body: damaged } as unknown as GetObjectCommandOutput);
    for (const sequence of [7, 8]) await store.putLatest(key, aLatest({ sequence }), hasBegun);
    expect(conditionsOf(s3)).toEqual(['"large"', '"damaged"']);
    expect(unread.destroyed).toBe(true);
  });
});

describe('a request that S3 denies', () => {
  const key = 'reports/latest.json';
  const location = { Bucket: 'bucket', Key: `all/reports/${key}` };

  it('is no error if a listing shows that the object does not exist, as for those who may list only some prefixes', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    // The listing has a longer key.
    s3.on(ListObjectsV2Command).resolves({ Contents: [{ Key: `${location.Key}.old` }] });
    expect(await store.read(key)).toBeUndefined();
    expect(inputsSent(s3)).toEqual([location, { Bucket: 'bucket', Prefix: location.Key, MaxKeys: 1 }]);
  });

  const all: Readonly<Record<string, (store: MockedStore['store']) => Promise<unknown>>> = {
    'storing a page': (store) => putPage(store, aPageIdentity(), aFetchedPage()),
    'looking for a page': (store) => store.find('missing'),
    'the pointer': (store) => store.putLatest('latest.json', aLatest(), async () => true),
    reading: (store) => store.read('latest.json'),
    'a listing': (store) => collect(store.list('reports')),
  };
  const errorOf = async (act: string, name: string, status: number) => {
    const { s3, store } = aMockedStore();
    const error = s3Error(name, status);
    s3.onAnyCommand().rejects(error);
    const thrown = await all[act]?.(store).then(
      () => expect.fail('it did not reject'),
      (reason: Error) => reason,
    );
    return thrown === error ? 'unchanged' : thrown;
  };

  it.each(Object.keys(all))('%s names the bucket that does not exist, and passes on any other error', async (act) => {
    expect(await errorOf(act, 'SlowDown', 503)).toBe('unchanged');
    if (act === 'looking for a page') return;
    const message = matching(/^There is no bucket bucket any more\. Create it again, or/);
    expect(await errorOf(act, 'NoSuchBucket', 404)).toMatchObject({ name: 'ConfigurationError', message });
  });

  it.each([
    ['looking for a page', /s3:\/\/bucket\/all\/reports\/missing \(403\).*s3:ListBucket/],
    ['the pointer', /s3:\/\/bucket\/all\/reports\/latest.json \(403\)/],
    ['reading', /s3:\/\/bucket\/all\/reports\/latest.json \(403\)/],
    ['a listing', /s3:ListBucket/],
  ])('%s names the missing permission', async (act, message) => {
    const error = { name: 'ConfigurationError', message: matching(message) };
    expect(await errorOf(act, 'AccessDenied', 403)).toMatchObject(error);
  });
});
