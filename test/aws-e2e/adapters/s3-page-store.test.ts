import { inject } from 'vitest';
import { s3ServerHarness } from '../../aws/s3/s3-harness.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

pageStoreContract(
  'The S3 page store on MiniStack',
  () => s3ServerHarness({ endpoint: inject('miniStack'), region, credentials, bucket: 'page-store' }),
  // More than S3 returns at once.
  { listedFolders: 1_100 },
);
