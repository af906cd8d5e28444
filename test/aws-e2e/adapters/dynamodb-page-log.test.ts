import { inject } from 'vitest';
import { dynamoServerHarness } from '../../aws/dynamodb/dynamodb-harness.ts';
import { editedPageLogContract } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { credentials, region } from '../emulators/ministack.ts';

for (const { name, endpoint } of inject('dynamoDbServers')) {
  pageLogContract(`The DynamoDB page log on ${name}`, () => dynamoServerHarness({ endpoint, region, credentials }), {
    // More than 1 MB, the limit of a query response, and more than two batches of the page log.
    manyEntries: 1_200,
  });
  editedPageLogContract(`The DynamoDB page log on ${name}`, () =>
    dynamoServerHarness({ endpoint, region, credentials }),
  );
}
