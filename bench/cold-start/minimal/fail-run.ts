/** The minimal function that records a failure: no checks, no guarantees. */

import { DynamoDBClient, GetItemCommand, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';

const TableName = process.env.TABLE_NAME;

export async function handler({ input }: { readonly input: { readonly Error: string } }) {
  const table = new DynamoDBClient();
  const pk = { S: 'reports' };
  const { Item: state } = await table.send(new GetItemCommand({ TableName, Key: { pk, sk: { S: 'state' } } }));
  const { Items: [last] = [] } = await table.send(
    new QueryCommand({ TableName, KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } }),
  );
  await table.send(new PutItemCommand({ TableName, Item: { ...state, pk, failure: { S: input.Error } } }));
  return { pages: Number(last?.page?.N ?? 0) };
}
