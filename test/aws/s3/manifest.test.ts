/** How the S3 page store publishes: the manifest, which is written once, and the pointer to it, which only moves on. */

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
import { aMockedStore, commandsSent, s3Error, theOnlyPut } from './mocked-s3.ts';

async function* stream(...chunks: readonly string[]): AsyncGenerator<string> {
  yield* chunks;
}

const base64 = (text: string) => Buffer.from(sha256Of(text), 'hex').toString('base64');

describe('a manifest', () => {
  it('is one object of JSON that refuses to overwrite, and carries its hash', async () => {
    const { s3, store } = aMockedStore();
    await store.putManifest('reports/manifest.json', stream('{"pages":', '[]}'));
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

  it('that is there already is left as it is, where it has the same bytes', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves({ Metadata: { sha256: sha256Of('{}') }, ContentLength: 2 });
    await store.putManifest('manifest.json', stream('{}'));
    expect(commandsSent(s3)).toEqual(['PutObjectCommand', 'HeadObjectCommand']);
  });

  const own = { ContentLength: 2, Metadata: { sha256: sha256Of('{}') } };
  it.each<[string, Partial<HeadObjectCommandOutput>]>([
    ['other bytes', { ...own, Metadata: { sha256: sha256Of('{"pages":[]}') } }],
    ['unknown bytes', { ContentLength: 2 }],
    ['more bytes than it says', { ...own, ContentLength: 3 }],
    ['bytes of which S3 has another hash', { ...own, ChecksumSHA256: base64('[]'), ChecksumType: 'FULL_OBJECT' }],
  ])('that is there already with %s is refused', async (_, existing) => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves(existing);
    await expect(store.putManifest('manifest.json', stream('{}'))).rejects.toMatchObject({
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
  const nothing = s3Error('NoSuchKey', 404);
  const putsOf = (s3: ReturnType<typeof aMockedStore>['s3']) =>
    s3
      .commandCalls(PutObjectCommand)
      .map(({ args: [{ input }] }) => input)
      .map(({ IfMatch, IfNoneMatch, Body }: PutObjectCommandInput) => ({ IfMatch, IfNoneMatch, Body }));

  it('is created only where there is none', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(nothing);
    const latest = aLatest();
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3)).toEqual([{ IfNoneMatch: '*', Body: textOf(latest) }]);
    expect(theOnlyPut(s3)).toMatchObject({ Key: `all/reports/${key}`, ContentType: 'application/json' });
  });

  it('is replaced only where it is still the one that was read', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'));
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3)).toEqual([{ IfMatch: '"seven"', Body: textOf(latest) }]);
  });

  it('is left alone where it points further already', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 9 })), '"nine"'));
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(putsOf(s3)).toEqual([]);
  });

  it.each([
    ['PreconditionFailed', 412],
    ['ConditionalRequestConflict', 409],
  ])('is decided on anew where another writer came first: %s', async (name, status) => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'))
      .resolves(pointer(textOf(aLatest({ sequence: 9 })), '"nine"'));
    s3.on(PutObjectCommand).rejects(s3Error(name, status));
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(putsOf(s3)).toHaveLength(1);
  });

  it('is created anew where it is removed between the look and the write', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'))
      .rejects(nothing);
    s3.on(PutObjectCommand).rejectsOnce(nothing).resolves({});
    await store.putLatest(key, latest, hasBegun);
    expect(putsOf(s3).map(({ IfMatch, IfNoneMatch }) => IfMatch ?? IfNoneMatch)).toEqual(['"seven"', '*']);
  });

  it('is left alone where it points further already, to a run that has begun; and is asked about only then', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 9 })), '"nine"'));
    const asked: number[] = [];
    const hasBegun = async (sequence: number) => {
      asked.push(sequence);
      return sequence === 9;
    };
    await store.putLatest(key, aLatest({ sequence: 9 }), hasBegun);
    expect(asked).toEqual([]);
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(asked).toEqual([9]);
    expect(putsOf(s3)).toHaveLength(1);
  });

  it('gives way, as it was read, where it claims a run that has never begun', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: Number.MAX_SAFE_INTEGER })), '"huge"'));
    await store.putLatest(key, latest, async (sequence) => sequence <= 8);
    expect(putsOf(s3)).toEqual([{ IfMatch: '"huge"', Body: textOf(latest) }]);
  });

  it('gives way without being read where it is too large to be one', async () => {
    const { s3, store } = aMockedStore();
    const Body = Object.assign(new PassThrough(), { transformToString: async () => textOf(aLatest({ sequence: 9 })) });
    s3.on(GetObjectCommand).resolves({ ETag: '"film"', ContentLength: 5e9, Body } as unknown as GetObjectCommandOutput);
    await store.putLatest(key, aLatest({ sequence: 8 }), hasBegun);
    expect(putsOf(s3)).toMatchObject([{ IfMatch: '"film"' }]);
    expect(Body.destroyed).toBe(true);
  });

  it.each([
    '',
    'not JSON',
    'null',
    '[]',
    '{"sequence":"9"}',
    '{"sequence":1e300}',
    '{"sequence":9.5}',
    '{"sequence":null}',
    '{"sequence":{"valueOf":9}}',
  ])('gives way where it leads nobody anywhere: %j', async (text) => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).resolves(pointer(text, '"broken"'));
    await store.putLatest(key, aLatest({ sequence: 1 }), hasBegun);
    expect(putsOf(s3)).toMatchObject([{ IfMatch: '"broken"' }]);
  });

  it('is not written where S3 refuses a look at it', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    await expect(store.putLatest(key, aLatest(), hasBegun)).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(putsOf(s3)).toEqual([]);
  });
});
