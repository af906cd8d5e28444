import { inject } from 'vitest';
import { s3Harness } from '../../aws/s3/s3-harness.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

/**
 * S3 evaluates If-None-Match atomically. S3Mock 5.2.0 checks first and writes later: of eight concurrent
 * writers of an object, sometimes two or more succeed. It does not return the checksum of each part either, which the completion
 * of an upload must contain. So there, writers run one after the other, and no page is uploaded in parts.
 */
const limitsOfS3Mock = { writers: 1, largePageBytes: 8 * 1_024 * 1_024 };

for (const { name, endpoint } of inject('s3Servers')) {
  pageStoreContract(
    `The S3 page store on ${name}`,
    () => s3Harness({ endpoint, region, credentials, bucket: 'page-store' }),
    {
      // More than S3 returns at once.
      listedFolders: 1_100,
      ...(name === 'S3Mock' ? limitsOfS3Mock : {}),
    },
  );
}
