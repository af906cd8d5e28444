/** The minimal function that fetches, checks, stores and logs a page of any size with undici: no guarantees. */

import { DynamoDBClient, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { Upload } from '@aws-sdk/lib-storage';
import { SaxesParser } from 'saxes';
import request from 'undici/lib/api/api-request.js';
import Pool from 'undici/lib/dispatcher/pool.js';

const TableName = process.env.TABLE_NAME;
const Bucket = process.env.BUCKET_NAME;

export async function handler({ input }: { readonly input: { readonly run: string; readonly page: number } }) {
  const table = new DynamoDBClient();
  const client = new S3Client();
  const secrets = new SecretsManagerClient();
  const pk = { S: 'reports' };
  const { Items: [last] = [] } = await table.send(
    new QueryCommand({ TableName, KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } }),
  );
  const { SecretString: key } = await secrets.send(new GetSecretValueCommand({ SecretId: 'reports/api-key' }));
  const service = new Pool(process.env.BASE_URL ?? '');
  const { headers, body } = await request.call(service, {
    method: 'POST',
    path: `/v1/report/export?cursor=${encodeURIComponent(last?.cursor?.S ?? '')}`,
    headers: { 'content-type': 'application/json', 'x-service-api-key': key ?? '' },
    body: '{}',
  });
  const xml = new SaxesParser();
  const Key = `${input.run}/page-${input.page}.xml`;
  body.setEncoding('utf8').on('data', (chunk: string) => xml.write(chunk));
  await new Upload({ client, params: { Bucket, Key, Body: body } }).done();
  await client.send(new HeadObjectCommand({ Bucket, Key }));
  const cursor = String(headers['x-service-cursor']);
  await table.send(new PutItemCommand({ TableName, Item: { pk, sk: { S: Key }, cursor: { S: cursor } } }));
  return { next: 'page', page: input.page + 1 };
}
