import { editedPageLogContract } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { fakeDynamoHarness } from './dynamodb-harness.ts';

// The entries of the long run need more than one response, which holds 1 MB.
pageLogContract('The DynamoDB page log', fakeDynamoHarness, { manyEntries: 800 });

editedPageLogContract('The DynamoDB page log', fakeDynamoHarness);
