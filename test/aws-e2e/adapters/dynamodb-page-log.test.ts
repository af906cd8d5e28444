import { inject } from 'vitest';
import { dynamoHarness } from '../../aws/dynamodb/dynamodb-harness.ts';
import { editedPageLogContract } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

for (const { name, endpoint } of inject('dynamoDbServers')) {
  pageLogContract(`The DynamoDB page log on ${name}`, () => dynamoHarness({ endpoint, region, credentials }), {
    timeoutMs: 60_000,
    // More than a megabyte, at which a query's answer ends, and more than two of the log's own batches.
    manyEntries: 1_200,
  });
  editedPageLogContract(`The DynamoDB page log on ${name}`, () => dynamoHarness({ endpoint, region, credentials }), {
    timeoutMs: 60_000,
  });
}
