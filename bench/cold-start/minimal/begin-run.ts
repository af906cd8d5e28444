/** The minimal function that decides what an execution does: no checks, no guarantees. */

import { DynamoDBClient, GetItemCommand, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { DescribeExecutionCommand, SFNClient } from '@aws-sdk/client-sfn';

const TableName = process.env.TABLE_NAME;

export async function handler({ execution }: { readonly execution: string }) {
  const table = new DynamoDBClient();
  const executions = new SFNClient();
  const pk = { S: 'reports' };
  const { Item: state } = await table.send(new GetItemCommand({ TableName, Key: { pk, sk: { S: 'state' } } }));
  const active = await executions.send(
    new DescribeExecutionCommand({ executionArn: state?.execution?.S ?? execution }),
  );
  const { Items: [last] = [] } = await table.send(
    new QueryCommand({ TableName, KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } }),
  );
  if (active.status !== 'RUNNING')
    await table.send(new PutItemCommand({ TableName, Item: { pk, sk: { S: 'state' } } }));
  return { next: 'export', page: Number(last?.page?.N ?? 0) + 1 };
}
