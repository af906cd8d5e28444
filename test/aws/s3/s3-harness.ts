/** Runs the suite in `test/contracts/page-store-contract.ts` on the S3 page store, with the simulation or a server. */

import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { PageStoreHarness } from '../../contracts/page-store-contract.ts';
import { createFakeAws } from '../../support/aws/fake-aws.ts';
import { collect } from '../../support/builders.ts';
import type { Endpoint } from '../dynamodb/dynamodb-harness.ts';

/** Two stores with a common unique prefix in a bucket. Objects are not deleted. */
function s3Harness([client, other]: readonly [S3Client, S3Client], bucket: string): PageStoreHarness {
  const prefix = `suite-${randomBytes(6).toString('hex')}/`;
  const storeOf = (each: S3Client) => createS3PageStore({ client: each, bucket, prefix, runtime: systemRuntime });

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
    store: storeOf(client),
    another: storeOf(other),
    async read(key) {
      try {
        const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
        return await buffer(Body as AsyncIterable<Uint8Array>);
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchKey') return undefined;
        throw error;
      }
    },
    list: (keyPrefix) => collect(keysWithPrefix(keyPrefix)),
    cleanup: async () => {},
  };
}

export function fakeS3Harness(): PageStoreHarness {
  const client = createFakeAws().createClient<S3Client, object>(S3Client, {});
  return s3Harness([client, client], 'suite');
}

export async function s3ServerHarness({
  bucket,
  ...endpoint
}: Endpoint & { bucket: string }): Promise<PageStoreHarness> {
  const clients = [1, 2].map(() => new S3Client({ ...endpoint, forcePathStyle: true })) as [S3Client, S3Client];
  await clients[0].send(new CreateBucketCommand({ Bucket: bucket }));
  const cleanup = async () => {
    for (const each of clients) each.destroy();
  };
  return { ...s3Harness(clients, bucket), cleanup };
}
