/** How the S3 page store publishes: the manifest, which is written once, and the pointer to it, which only moves on. */

import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import type { Latest } from '../../lib/core/model.ts';
import { aLatest, sha256Of } from '../support/builders.ts';
import { aMockedStore, commandsSent, s3Error, theOnlyPut } from './mocked-s3.ts';

async function* stream(...chunks: readonly string[]): AsyncGenerator<string> {
  yield* chunks;
}

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
      ChecksumSHA256: Buffer.from(sha256Of('{"pages":[]}'), 'hex').toString('base64'),
      Metadata: { sha256: sha256Of('{"pages":[]}') },
    });
  });

  it('that is there already is left as it is, where it has the same bytes', async () => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves({ Metadata: { sha256: sha256Of('{}') } });
    await store.putManifest('manifest.json', stream('{}'));
    expect(commandsSent(s3)).toEqual(['PutObjectCommand', 'HeadObjectCommand']);
  });

  it.each([
    ['other bytes', { sha256: sha256Of('{"pages":[]}') }],
    ['unknown bytes', undefined],
  ])('that is there already with %s is refused', async (_, Metadata) => {
    const { s3, store } = aMockedStore();
    s3.on(PutObjectCommand).rejects(s3Error('PreconditionFailed', 412));
    s3.on(HeadObjectCommand).resolves({ ...(Metadata && { Metadata }) });
    await expect(store.putManifest('manifest.json', stream('{}'))).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringContaining('s3://bucket/all/reports/manifest.json') as unknown as string,
    });
  });
});

describe('the pointer to the newest manifest', () => {
  const key = 'reports/latest.json';
  const textOf = (latest: Latest) => `${JSON.stringify(latest, null, 2)}\n`;
  const pointer = (text: string, etag: string) =>
    ({ ETag: etag, Body: { transformToString: async () => text } }) as unknown as GetObjectCommandOutput;
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
    await store.putLatest(key, latest);
    expect(putsOf(s3)).toEqual([{ IfNoneMatch: '*', Body: textOf(latest) }]);
    expect(theOnlyPut(s3)).toMatchObject({ Key: `all/reports/${key}`, ContentType: 'application/json' });
  });

  it('is replaced only where it is still the one that was read', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'));
    await store.putLatest(key, latest);
    expect(putsOf(s3)).toEqual([{ IfMatch: '"seven"', Body: textOf(latest) }]);
  });

  it('is left alone where it points further already', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).resolves(pointer(textOf(aLatest({ sequence: 9 })), '"nine"'));
    await store.putLatest(key, aLatest({ sequence: 8 }));
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
    await store.putLatest(key, aLatest({ sequence: 8 }));
    expect(putsOf(s3)).toHaveLength(1);
  });

  it('is created anew where it is removed between the look and the write', async () => {
    const { s3, store } = aMockedStore();
    const latest = aLatest({ sequence: 8 });
    s3.on(GetObjectCommand)
      .resolvesOnce(pointer(textOf(aLatest({ sequence: 7 })), '"seven"'))
      .rejects(nothing);
    s3.on(PutObjectCommand).rejectsOnce(nothing).resolves({});
    await store.putLatest(key, latest);
    expect(putsOf(s3).map(({ IfMatch, IfNoneMatch }) => IfMatch ?? IfNoneMatch)).toEqual(['"seven"', '*']);
  });

  it.each(['', 'not JSON', 'null', '{"sequence":"9"}'])(
    'gives way where it leads nobody anywhere: %j',
    async (text) => {
      const { s3, store } = aMockedStore();
      s3.on(GetObjectCommand).resolves(pointer(text, '"broken"'));
      await store.putLatest(key, aLatest({ sequence: 1 }));
      expect(putsOf(s3)).toMatchObject([{ IfMatch: '"broken"' }]);
    },
  );

  it('is not written where S3 refuses a look at it', async () => {
    const { s3, store } = aMockedStore();
    s3.on(GetObjectCommand).rejects(s3Error('AccessDenied', 403));
    await expect(store.putLatest(key, aLatest())).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(putsOf(s3)).toEqual([]);
  });
});
