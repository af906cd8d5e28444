/** The minimal function that publishes a run with a manifest of any length: no checks, no guarantees. */

import { DynamoDBClient, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { HeadObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';

const TableName = process.env.TABLE_NAME;
const Bucket = process.env.BUCKET_NAME;

export async function handler({ input }: { readonly input: { readonly run: string } }) {
  const table = new DynamoDBClient();
  const client = new S3Client();
  const pk = { S: 'reports' };
  const { Items = [] } = await table.send(
    new QueryCommand({ TableName, KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } }),
  );
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: input.run }));
  const Body = JSON.stringify({ pages: Items, objects: Contents });
  await new Upload({ client, params: { Bucket, Key: `${input.run}/manifest.json`, Body } }).done();
  await client.send(new HeadObjectCommand({ Bucket, Key: 'latest.json' }));
  await client.send(new PutObjectCommand({ Bucket, Key: 'latest.json', Body: JSON.stringify({ run: input.run }) }));
  await table.send(new PutItemCommand({ TableName, Item: { pk, sk: { S: 'state' } } }));
  return { pages: Items.length };
}
