import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { startS3 } from '../../support/aws/local-s3.ts';
import { dummyAccount } from '../endpoint.ts';
import { s3Harness } from './s3-harness.ts';

pageStoreContract('The S3 page store', async () => {
  const server = await startS3();
  const harness = await s3Harness({ endpoint: server.url, ...dummyAccount, bucket: 'suite' });
  return {
    ...harness,
    async cleanup() {
      await harness.cleanup();
      await server[Symbol.asyncDispose]();
    },
  };
});
