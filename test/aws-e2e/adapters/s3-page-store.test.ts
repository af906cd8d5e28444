import { inject } from 'vitest';
import { s3Harness } from '../../aws/s3/s3-harness.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

/**
 * S3 evaluates If-None-Match atomically. S3Mock 5.2.0 and moto 5.2.5 check first and write later: of eight
 * concurrent writers of an object, sometimes two or more succeed. On these servers, writers run one after the other.
 */
const serversWithoutAtomicWrites = new Set(['S3Mock', 'moto']);

/** S3 returns the checksum of each part, which the completion must contain. S3Mock 5.2.0 does not return it. */
const serversWithoutPartChecksums = new Set(['S3Mock']);

for (const { name, endpoint } of inject('s3Servers')) {
  pageStoreContract(
    `The S3 page store on ${name}`,
    () => s3Harness({ endpoint, region, credentials, bucket: 'page-store' }),
    {
      // More than S3 returns at once.
      listedFolders: 1_100,
      ...(serversWithoutAtomicWrites.has(name) ? { writers: 1 } : {}),
      ...(serversWithoutPartChecksums.has(name) ? { largePageBytes: 8 * 1_024 * 1_024 } : {}),
    },
  );
}
