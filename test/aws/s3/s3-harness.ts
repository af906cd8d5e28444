/** Runs the suite in `test/contracts/page-store-contract.ts` on the S3 page store, with any S3 endpoint. */

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

/** Two stores with a common unique prefix in `bucket`, which is created if needed. Objects are not deleted. */
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
  if (store === undefined || another === undefined) throw new Error('Two clients must make two stores');

  async function* keysWithPrefix(keyPrefix: string): AsyncGenerator<string> {
    let token: string | undefined;
    do {
      const response = await client.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + keyPrefix, ContinuationToken: token }),
      );
      for (const { Key = '' } of response.Contents ?? []) yield Key.slice(prefix.length);
      token = response.NextContinuationToken;
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
    list: (keyPrefix) => collect(keysWithPrefix(keyPrefix)),
    async cleanup() {
      for (const each of clients) each.destroy();
    },
  };
}
