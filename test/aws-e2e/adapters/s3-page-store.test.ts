import { inject } from 'vitest';
import { s3Harness } from '../../aws/s3/s3-harness.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

/**
 * S3 decides If-None-Match in one step. S3Mock 5.2.0, versitygw 1.7.0 and moto 5.2.5 look first and write then: of eight who
 * create the same object at once, now and then two or more are told that they did. So there, writers come one after the other.
 */
const looksBeforeItWrites = new Set(['S3Mock', 'versitygw', 'moto']);

/** S3 answers each part with its checksum, which completing the upload needs again. S3Mock 5.2.0 keeps it to itself. */
const takesNoParts = new Set(['S3Mock']);

for (const { name, endpoint } of inject('s3Servers')) {
  pageStoreContract(
    `The S3 page store on ${name}`,
    () => s3Harness({ endpoint, region, credentials, bucket: 'page-store' }),
    {
      timeoutMs: 60_000,
      ...(looksBeforeItWrites.has(name) ? { writers: 1 } : {}),
      ...(takesNoParts.has(name) ? { largePageBytes: 8 * 1_024 * 1_024 } : {}),
    },
  );
}
