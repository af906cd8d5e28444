import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { fakeS3Harness } from './s3-harness.ts';

pageStoreContract('The S3 page store', fakeS3Harness);
