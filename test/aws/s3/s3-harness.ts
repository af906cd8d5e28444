/** The S3 page store against any S3 endpoint, for the suite in `test/contracts/page-store-contract.ts`. */

import { randomBytes } from 'node:crypto';
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { PageStoreHarness } from '../../contracts/page-store-contract.ts';
import { collect } from '../../support/builders.ts';
import type { Endpoint } from '../endpoint.ts';

/** Two stores under a prefix of their own in `bucket`, which is made if it is not there. Nothing is removed. */
export async function s3Harness({ bucket, ...endpoint }: Endpoint & { bucket: string }): Promise<PageStoreHarness> {
  const clients = [1, 2].map(() => new S3Client({ ...endpoint, forcePathStyle: true })) as [S3Client, S3Client];
  const [client] = clients;
  const prefix = `suite-${randomBytes(6).toString('hex')}/`;
  await client
    .send(new HeadBucketCommand({ Bucket: bucket }))
    .catch(() => client.send(new CreateBucketCommand({ Bucket: bucket })));
  const [store, another] = clients.map((each) =>
    createS3PageStore({ client: each, bucket, prefix, runtime: systemRuntime }),
  );
  if (store === undefined || another === undefined) throw new Error('two clients make two stores');

  async function* keysUnder(begin: string): AsyncGenerator<string> {
    let token: string | undefined;
    do {
      const listed = await client.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + begin, ContinuationToken: token }),
      );
      for (const { Key = '' } of listed.Contents ?? []) yield Key.slice(prefix.length);
      token = listed.NextContinuationToken;
    } while (token !== undefined);
  }
  return {
    store,
    another,
    async read(key) {
      try {
        const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
        return await Body?.transformToByteArray();
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchKey') return undefined;
        throw error;
      }
    },
    list: (begin) => collect(keysUnder(begin)),
    async cleanup() {
      for (const each of clients) each.destroy();
    },
  };
}
