/** What the S3 page store asks of S3, command by command. What a reader sees is told by the suite in `test/contracts`. */

import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  type PutObjectCommandInput,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { encodePageMetadata } from '../../../lib/aws/s3/page-metadata.ts';
import { asCursor, type PageMetadata, type StoredPage } from '../../../lib/core/model.ts';
import { aCursor, aFetchedPage, aPageIdentity, at, collect, randomBody, sha256Of } from '../../support/builders.ts';
import { aMockedStore, commandsSent, inputsSent, s3Error, theOnlyPut } from './mocked-s3.ts';

const base64Sha256 = (body: string | Uint8Array) => Buffer.from(sha256Of(body), 'hex').toString('base64');
const megabytes = (count: number) => randomBody(count * 1024 * 1024);
const matching = (message: RegExp) => expect.stringMatching(message) as unknown as string;

const facts: PageMetadata = {
  key: aPageIdentity({ page: 3 }).key,
  run: '20261120T020000Z-1f3a5c' as StoredPage['run'],
  page: 3,
  bytes: 5,
  sha256: sha256Of('first'),
  reports: 1,
  cursor: asCursor('1588888888888,aaaa'),
  nextCursor: asCursor('1588888888888,bbbb'),
  serviceTime: at('2026-11-20T02:00:01Z'),
};
const first: StoredPage = { ...facts, revision: '8b04d5e3775d298e78455efc5ca404d5' };

/** The metadata of that page, as this exporter wrote it or as somebody changed it. */
const someMetadata = (changes: Record<string, string | undefined> = {}): Record<string, string> => {
  const changed = { ...encodePageMetadata(facts), attempt: 'another', ...changes };
  return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >;
};

describe('a page that is stored', () => {
  it('is one PutObject that refuses to overwrite, with its checksum and all its facts', async () => {
    const { s3, store } = aMockedStore();
    const identity = aPageIdentity({ page: 7 });
    const body = '<reports><report/></reports>';
    const nextCursor = aCursor();

    const put = await store.put(identity, aFetchedPage({ body, nextCursor, reports: 1 }));

    expect(put.stored).toBe(true);
    expect(commandsSent(s3)).toEqual(['PutObjectCommand']);
    const { Body, ...input } = theOnlyPut(s3);
    expect(Body).toEqual(Buffer.from(body));
    expect(input).toEqual({
      Bucket: 'bucket',
      Key: `all/reports/${identity.key}`,
      IfNoneMatch: '*',
      ContentType: 'application/xml;charset=UTF-8',
      ContentLength: body.length,
      ChecksumAlgorithm: 'SHA256',
      ChecksumSHA256: base64Sha256(body),
      Metadata: {
        run: identity.run,
        page: '7',
        bytes: String(body.length),
        sha256: sha256Of(body),
        reports: '1',
        cursor: identity.cursor,
        'next-cursor': nextCursor,
        'last-page': 'false',
        'service-time': '2026-11-20T02:00:01Z',
        checksum: matching(/^[0-9a-f]{64}$/),
        attempt: matching(/^[0-9a-f]{32}$/),
      },
    });
  });

  it('says outright that it is the last, and leaves out what is unknown', async () => {
    const { s3, store } = aMockedStore();
    await store.put(aPageIdentity(), aFetchedPage({ nextCursor: null, serviceTime: null, reports: null }));
    const { Metadata = {} } = theOnlyPut(s3);
    expect(Object.keys(Metadata).sort()).toEqual([
      'attempt',
      'bytes',
      'checksum',
      'last-page',
      'page',
      'run',
      'sha256',
    ]);
    expect(Metadata['last-page']).toBe('true');
  });

  it.each([
    ['too long', 'c'.repeat(801)],
    ['blanks at its end', '1588888888888,a '],
    ['blanks at its start', ' 1588888888888,a'],
    ['two blanks in a row', '1588888888888,a  b'],
    ['not ASCII', '1588888888888,é'],
    ['a control character', '1588888888888,\t'],
    ['what may be taken for an encoded word', '=?UTF-8?Q?=41?='],
  ])('carries as its hash a cursor that would not come back as it was: %s', async (_, odd) => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor(odd);
    const { page } = await store.put(aPageIdentity({ page: 2, cursor }), aFetchedPage({ nextCursor: cursor }));

    const { Metadata } = theOnlyPut(s3);
    expect(Metadata).toMatchObject({ 'cursor-sha256': sha256Of(odd), 'next-cursor-sha256': sha256Of(odd) });
    expect(Metadata).not.toHaveProperty('cursor');
    expect(Metadata).not.toHaveProperty('next-cursor');
    expect(page).toMatchObject({ cursor: { sha256: sha256Of(odd) }, nextCursor: { sha256: sha256Of(odd) } });
  });

  it('has metadata that S3 takes, with the longest cursors that are carried whole: 2 KB in all', async () => {
    const { s3, store } = aMockedStore();
    const cursor = asCursor('c'.repeat(800));
    const identity = aPageIdentity({ page: 999_999_999, cursor });
    await store.put(identity, aFetchedPage({ nextCursor: cursor, reports: 999_999_999 }));

    const { Metadata = {} } = theOnlyPut(s3);
    expect(Metadata.cursor).toBe(cursor);
    // With the `x-amz-meta-` that each name has on the wire, though S3 does not count it.
    const size = Object.entries(Metadata).reduce((sum, [name, value]) => sum + 11 + name.length + value.length, 0);
    expect(size).toBeLessThan(2_048);
  });

  it('goes in parts of 8 MiB where it is larger; only completing them can make it visible, and refuses to overwrite', async () => {
    const { s3, store } = aMockedStore();
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).callsFake(({ PartNumber, Body }) => ({
      ETag: `"${PartNumber}"`,
      ChecksumSHA256: base64Sha256(Body),
    }));
    s3.on(CompleteMultipartUploadCommand).resolves({});
    const body = megabytes(20);
    const identity = aPageIdentity();

    const put = await store.put(identity, aFetchedPage({ body }));

    expect(put.stored).toBe(true);
    const [created] = s3.commandCalls(CreateMultipartUploadCommand);
    expect(created?.args[0].input).toMatchObject({
      ChecksumAlgorithm: 'SHA256',
      ContentType: 'application/xml;charset=UTF-8',
      Metadata: { sha256: sha256Of(body), bytes: String(body.length) },
    });
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

describe('an upload that fails', () => {
  it('is never begun where the body breaks off, however large it was', async () => {
    const { s3, store } = aMockedStore();
    const broken = new Error('the service broke off');
    function* body() {
      yield megabytes(20);
      throw broken;
    }
    await expect(store.put(aPageIdentity(), aFetchedPage({ body: body() }))).rejects.toBe(broken);
    expect(commandsSent(s3)).toEqual([]);
  });

  it('lets its error through as it was', async () => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(PutObjectCommand).rejects(slowDown);
    await expect(store.put(aPageIdentity(), aFetchedPage())).rejects.toBe(slowDown);
  });

  it('throws its parts away, and completes nothing', async () => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(UploadPartCommand, { PartNumber: 2 }).rejects(slowDown);
    const identity = aPageIdentity();

    await expect(store.put(identity, aFetchedPage({ body: megabytes(20) }))).rejects.toBe(slowDown);

    const aborted = s3.commandCalls(AbortMultipartUploadCommand).map(({ args: [{ input }] }) => input);
    expect(aborted).toEqual([{ Bucket: 'bucket', Key: `all/reports/${identity.key}`, UploadId: 'upload' }]);
    expect(s3.commandCalls(CompleteMultipartUploadCommand)).toEqual([]);
  });
});

describe('a page that is there already', () => {
  const identity = aPageIdentity({ key: first.key, run: first.run, page: 3 });
  const existing = { ContentLength: 5, Metadata: someMetadata(), ETag: `"${first.revision}"` };

  it('is adopted: what its metadata says is the truth', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);

    expect(await store.put(identity, aFetchedPage({ body: 'second' }))).toEqual({ stored: false, page: first });
    expect(commandsSent(s3)).toEqual(['PutObjectCommand', 'HeadObjectCommand']);
  });

  it('is ours where it bears the token of this very attempt: the SDK repeated a write whose answer was lost', async () => {
    const { s3, store } = aMockedStore();
    let written: PutObjectCommandInput | undefined;
    s3.on(PutObjectCommand).callsFake((input: PutObjectCommandInput) => {
      written = input;
      throw s3Error('PreconditionFailed', 412);
    });
    s3.on(HeadObjectCommand).callsFake(() => ({ Metadata: written?.Metadata, ContentLength: written?.ContentLength }));

    const put = await store.put(identity, aFetchedPage({ body: 'second' }));
    expect(put).toMatchObject({ stored: true, page: { sha256: sha256Of('second') } });
  });

  it('is adopted where many parts were sent in vain, and they are thrown away', async () => {
    const { s3, store } = aMockedStore();
    s3.on(CreateMultipartUploadCommand).resolves({ UploadId: 'upload' });
    s3.on(UploadPartCommand).resolves({ ETag: '"part"' });
    s3.on(CompleteMultipartUploadCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);

    expect(await store.put(identity, aFetchedPage({ body: megabytes(9) }))).toEqual({ stored: false, page: first });
    expect(s3.commandCalls(AbortMultipartUploadCommand)).toHaveLength(1);
  });

  it('is ours where a completion, repeated by the SDK, finds its upload gone', async () => {
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

    expect(await store.put(identity, aFetchedPage({ body }))).toMatchObject({ stored: true });
  });

  it('may be on its way only: a conflict is tried again, with the whole body', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejectsOnce(s3Error('ConditionalRequestConflict', 409)).resolves({});
    s3.on(HeadObjectCommand).rejects(s3Error('NotFound', 404));

    expect(await store.put(identity, aFetchedPage({ body: 'whole' }))).toMatchObject({ stored: true });
    const bodies = s3.commandCalls(PutObjectCommand).map(({ args: [{ input }] }) => input.Body);
    expect(bodies).toEqual([Buffer.from('whole'), Buffer.from('whole')]);
  });

  it('is not waited for for ever', async () => {
    const { s3, store } = aMockedStore();
    const conflict = s3Error('ConditionalRequestConflict', 409);
    s3.on(PutObjectCommand).rejects(conflict);
    s3.on(HeadObjectCommand).rejects(s3Error('NotFound', 404));

    await expect(store.put(identity, aFetchedPage())).rejects.toBe(conflict);
    expect(s3.commandCalls(PutObjectCommand)).toHaveLength(6);
  });

  it('is found without being read', async () => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand, { Bucket: 'bucket', Key: `all/reports/${first.key}` }).resolves(existing);
    expect(await store.find(first.key)).toEqual(first);
    expect(commandsSent(s3)).toEqual(['HeadObjectCommand']);
  });

  it.each([
    ['none at all', undefined],
    ['no run', someMetadata({ run: undefined })],
    ['a page that is no number', someMetadata({ page: 'three' })],
    ['another length than the object', someMetadata({ bytes: '6' })],
    ['no hash', someMetadata({ sha256: 'unknown' })],
    ['reports that are no number', someMetadata({ reports: '-1' })],
    ['a next cursor that got lost', someMetadata({ 'next-cursor': undefined })],
    ['a next cursor behind the last page', someMetadata({ 'last-page': 'true' })],
    ['no checksum', someMetadata({ checksum: undefined })],
    ['another number of reports', someMetadata({ reports: '2' })],
    ['reports that cannot be counted', someMetadata({ reports: '99999999999999999999' })],
    ['another next cursor', someMetadata({ 'next-cursor': '1588888888888,cccc' })],
    ['the last page, said in every way', someMetadata({ 'next-cursor': undefined, 'last-page': 'true' })],
    ['another clock', someMetadata({ 'service-time': '2026-11-21T02:00:01Z' })],
    ['no clock at all', someMetadata({ 'service-time': 'noon' })],
    [
      'those of another page, whole',
      encodePageMetadata({ ...facts, page: 4, key: facts.key.replace('3.xml', '4.xml') }),
    ],
  ])('is not built on where its metadata cannot be trusted: %s', async (_, Metadata) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves({ ContentLength: 5, ...(Metadata && { Metadata }) });
    const refusal = {
      name: 'PageConflictError',
      message: matching(/^s3:\/\/bucket\/all\/reports\/.*page-000003.xml already exists/),
    };
    await expect(store.find(first.key)).rejects.toMatchObject(refusal);
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    await expect(store.put(identity, aFetchedPage())).rejects.toMatchObject(refusal);
  });
});

describe('the bytes of a page that is there already', () => {
  const asked = async (existing: Partial<HeadObjectCommandOutput>) => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).resolves({ ContentLength: 5, Metadata: someMetadata(), ETag: '"etag"', ...existing });
    const found = await store.find(first.key);
    expect(inputsSent(s3)).toEqual([{ Bucket: 'bucket', Key: `all/reports/${first.key}`, ChecksumMode: 'ENABLED' }]);
    return found;
  };

  it('are known to be its own by the checksum that S3 has of them', async () => {
    const found = await asked({ ChecksumSHA256: base64Sha256('first'), ChecksumType: 'FULL_OBJECT' });
    expect(found).toEqual({ ...first, revision: 'etag' });
  });

  it.each(['FULL_OBJECT', undefined] as const)('are refused where that is of others: type %s', async (ChecksumType) => {
    const others = asked({ ChecksumSHA256: base64Sha256('fi-st'), ...(ChecksumType && { ChecksumType }) });
    await expect(others).rejects.toMatchObject({
      name: 'PageConflictError',
      message: matching(/its bytes do not match its metadata/),
    });
  });

  it.each<[string, Partial<HeadObjectCommandOutput>]>([
    ['has none', {}],
    ['has one of parts', { ChecksumSHA256: base64Sha256('of their hashes'), ChecksumType: 'COMPOSITE' }],
    ['has one of parts, and says so in its own way', { ChecksumSHA256: `${base64Sha256('of their hashes')}-3` }],
    ['has one of another kind', { ChecksumCRC64NVME: 'AAAAAAAAAAA=', ChecksumType: 'FULL_OBJECT' }],
  ])('are taken on trust where S3 %s', async (_, existing) => {
    expect(await asked(existing)).toEqual({ ...first, revision: 'etag' });
  });
});

describe('a listing', () => {
  const folder = 'reports/date=2026-11-20/run=20261120T020000Z-1f3a5c';
  const object = (name: string, Size = 5) => ({ Key: `all/reports/${folder}/${name}`, Size, ETag: `"${name}"` });

  it('is asked for a thousand objects at a time, as it is read', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command)
      .resolvesOnce({ Contents: [object('page-000001.xml')], IsTruncated: true, NextContinuationToken: 'next' })
      .resolves({ Contents: [object('page-000002.xml', 7)], IsTruncated: false });

    const listed: [unknown, number][] = [];
    for await (const each of store.list(folder)) listed.push([each, s3.calls().length]);

    expect(listed).toEqual([
      [{ key: `${folder}/page-000001.xml`, bytes: 5, revision: 'page-000001.xml' }, 1],
      [{ key: `${folder}/page-000002.xml`, bytes: 7, revision: 'page-000002.xml' }, 2],
    ]);
    expect(inputsSent(s3)).toEqual([
      { Bucket: 'bucket', Prefix: `all/reports/${folder}/` },
      { Bucket: 'bucket', Prefix: `all/reports/${folder}/`, ContinuationToken: 'next' },
    ]);
  });

  it('leaves out what lies deeper', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command).resolves({ Contents: [object('old/page-000001.xml'), object('page-000002.xml')] });
    expect((await collect(store.list(folder))).map(({ key }) => key)).toEqual([`${folder}/page-000002.xml`]);
  });

  it('has no revisions where the server gives none', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command).resolves({ Contents: [{ Key: `all/reports/${folder}/page-000001.xml` }] });
    const [only] = await collect(store.list(folder));
    expect(only).toEqual({ key: `${folder}/page-000001.xml`, bytes: 0, revision: null });
  });

  it('tells a person which permission is missing', async () => {
    const { s3, store } = aMockedStore();
    s3.on(ListObjectsV2Command).rejects(s3Error('AccessDenied', 403));
    await expect(collect(store.list(folder))).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: matching(/s3:ListBucket/),
    });
  });

  it('lets every other error through as it was', async () => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(ListObjectsV2Command).rejects(slowDown);
    await expect(collect(store.list(folder))).rejects.toBe(slowDown);
  });
});

describe('a look at what is not there', () => {
  it('finds nothing', async () => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).rejects(s3Error('NotFound', 404));
    expect(await store.find('missing')).toBeUndefined();
  });

  it('tells a person which permission is missing where S3 only says 403', async () => {
    const { s3, store } = aMockedStore();
    s3.on(HeadObjectCommand).rejects(s3Error('Forbidden', 403));
    await expect(store.find('missing')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(
        /s3:\/\/bucket\/all\/reports\/missing \(403\).*s3:ListBucket/,
      ) as unknown as string,
    });
  });

  it('lets every other error through as it was', async () => {
    const { s3, store } = aMockedStore();
    const slowDown = s3Error('SlowDown', 503);
    s3.on(HeadObjectCommand).rejects(slowDown);
    await expect(store.find('missing')).rejects.toBe(slowDown);
  });
});

it('a person finds a page under the bucket, the prefix and its key', () => {
  expect(aMockedStore().store.locate('reports/latest.json')).toBe('s3://bucket/all/reports/reports/latest.json');
});
