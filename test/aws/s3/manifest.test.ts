/** Publication in S3: the manifest, written once, and the pointer to the newest one, which never moves back. */

import { PassThrough } from 'node:stream';
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  PutObjectCommand,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import type { LatestPointer } from '../../../lib/core/model.ts';
import { aLatest, sha256Of } from '../../support/builders.ts';
import { aMockedStore, s3Error, theOnlyPut } from './mocked-s3.ts';

async function* stream(...chunks: readonly string[]): AsyncGenerator<string> {
  yield* chunks;
}

const base64 = (text: string) => Buffer.from(sha256Of(text), 'hex').toString('base64');

describe('a manifest', () => {
  it('is one JSON object with its hash, written with If-None-Match', async () => {
    const { s3, store } = aMockedStore();
    await store.putDocument('reports/manifest.json', stream('{"pages":', '[]}'));
    const { Body, ...put } = theOnlyPut(s3);
    expect(Body).toEqual(Buffer.from('{"pages":[]}'));
    expect(put).toMatchObject({
      Key: 'all/reports/reports/manifest.json',
      IfNoneMatch: '*',
      ContentType: 'application/json',
      ChecksumSHA256: base64('{"pages":[]}'),
      Metadata: { sha256: sha256Of('{"pages":[]}') },
    });
  });

  it('has the tags of pages, but not their storage class: it is read more often', async () => {
    const { s3, store } = aMockedStore({ objects: { storageClass: 'GLACIER_IR', objectTags: { team: 'finance' } } });
    await store.putDocument('reports/manifest.json', stream('{}'));
    expect(theOnlyPut(s3).Tagging).toBe('team=finance');
    expect(theOnlyPut(s3).StorageClass).toBeUndefined();
  });

  const sameManifest = { ContentLength: 2, Metadata: { sha256: sha256Of('{}') } };
  it.each<[string, Partial<HeadObjectCommandOutput>]>([
    ['another hash in its metadata', { ...sameManifest, Metadata: { sha256: sha256Of('{"pages":[]}') } }],
    ['no hash in its metadata', { ContentLength: 2 }],
    ['another length', { ...sameManifest, ContentLength: 3 }],
    ['another checksum in S3', { ...sameManifest, ChecksumSHA256: base64('[]'), ChecksumType: 'FULL_OBJECT' }],
  ])('that exists with %s is a conflict', async (_, existing) => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);
    await expect(store.putDocument('manifest.json', stream('{}'))).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringContaining('s3://bucket/all/reports/manifest.json') as unknown as string,
    });
  });
});

describe('the pointer to the newest manifest', () => {
  const key = 'reports/latest.json';
  const textOf = (latest: LatestPointer) => `${JSON.stringify(latest, null, 2)}\n`;
  const pointer = (text: string, etag: string) =>
    ({ ETag: etag, Body: { transformToString: async () => text } }) as unknown as GetObjectCommandOutput;
  const hasBegun = async () => true;
  const notFound = s3Error('NoSuchKey', 404);
  const putsOf = (s3: ReturnType<typeof aMockedStore>['s3']) =>
    s3
      .commandCalls(PutObjectCommand)
      .map(({ args: [{ input }] }) => input)
      .map(({ IfMatch, IfNoneMatch, Body }: PutObjectCommandInput) => ({ IfMatch, IfNoneMatch, Body }));

  it('is created with If-None-Match if there is none', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(notFound);
    const latest = aLatest();
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3)).toEqual([{ IfNoneMatch: '*', Body: textOf(latest) }]);
    expect(theOnlyPut(s3)).toMatchObject({ Key: `all/reports/${key}`, ContentType: 'application/json' });
  });

  it('is replaced with If-Match of the one that was read', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'));
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3)).toEqual([{ IfMatch: '"seven"', Body: textOf(latest) }]);
  });

  it.each([
    ['PreconditionFailed', 412],
    ['ConditionalRequestConflict', 409],
  ])('is read again if another writer was first: %s', async (name, status) => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'))
      .resolves(pointer(textOf(aLatest({ sequence: 9 })), '"nine"'));
    s3.on(PutObjectCommand).rejects(s3Error(name, status));
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(putsOf(s3)).toHaveLength(1);
  });

  it('is created if it is deleted between the read and the write', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'))
      .rejects(notFound);
    s3.on(PutObjectCommand).rejectsOnce(notFound).resolves({});
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3).map(({ IfMatch, IfNoneMatch }) => IfMatch ?? IfNoneMatch)).toEqual(['"seven"', '*']);
  });

  it('is replaced without being read if it is too large', async () => {
    const { s3, store } = aMockedStore();
    const Body = Object.assign(new PassThrough(), { transformToString: async () => textOf(aLatest({ sequence: 9 })) });
    s3.on(GetObjectCommand).resolves({
      ETag: '"large"',
      ContentLength: 5e9,
      Body,
    } as unknown as GetObjectCommandOutput);
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(putsOf(s3)).toMatchObject([{ IfMatch: '"large"' }]);
    expect(Body.destroyed).toBe(true);
  });

  it('is replaced if it is unreadable', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).resolves(pointer('not JSON', '"broken"'));
    await store.putLatest(key, aLatest({ sequence: 1 }), hasBegun);
    expect(putsOf(s3)).toMatchObject([{ IfMatch: '"broken"' }]);
  });

  it('is not written if S3 denies reading it', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    await expect(store.putLatest(key, aLatest(), hasBegun)).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(putsOf(s3)).toEqual([]);
  });
});
