/** The simulated DynamoDB and S3 pass the contract suites of the adapters. */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime as runtime } from '../../../lib/core/clock.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { pageStoreContract } from '../../contracts/page-store-contract.ts';
import { compressAtOnce } from '../../support/export/compress-at-once.ts';
import { createSimulatedDynamoDb } from './dynamodb.ts';
import { createSimulatedS3 } from './s3.ts';
import type { Command } from './sdk-clients.ts';

const cleanup = async () => {};

pageLogContract(
  'The page log on the simulated DynamoDB',
  () => {
    const table = createSimulatedDynamoDb({ tableName: 'log', onWrite: () => {}, returnsExisting: true, maxBatch: 7 });
    const client = { send: async (command: Command) => table.perform(command) } as unknown as DynamoDBClient;
    const create = () => createDynamoPageLog({ client, table: 'log', service: 'acme', runtime });
    return { log: create(), another: create(), cleanup };
  },
  { manyEntries: 100 },
);

pageStoreContract('The page store on the simulated S3', () => {
  const s3 = createSimulatedS3(() => {}, 7);
  const credentials = { accessKeyId: 'simulated', secretAccessKey: 'simulated' };
  const send = async (command: Command) => s3.perform(command);
  const client = Object.assign(new S3Client({ region: 'us-east-1', credentials }), { send }) as S3Client;
  const options = { client, bucket: 'bucket', prefix: 'all/', runtime };
  return {
    store: createS3PageStore(options),
    another: createS3PageStore({ ...options, compress: compressAtOnce(0) }),
    read: async (key) => s3.objects.get(`all/${key}`)?.body,
    list: async (prefix) =>
      [...s3.objects.keys()].flatMap((key) => (key.startsWith(`all/${prefix}`) ? [key.slice('all/'.length)] : [])),
    cleanup,
  };
});
