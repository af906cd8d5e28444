/** The tests' clients of the emulated AWS. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SchedulerClient } from '@aws-sdk/client-scheduler';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { inject } from 'vitest';
import { credentials, region } from '../emulators/ministack.ts';
import { type PlainRequest, signedHeaders } from './signature-v4.ts';

const miniStack = { endpoint: inject('miniStack'), region, credentials };

export const s3 = new S3Client({ ...miniStack, forcePathStyle: true });
export const dynamoDb = new DynamoDBClient(miniStack);
export const scheduler = new SchedulerClient(miniStack);
export const secretsManager = new SecretsManagerClient(miniStack);
export const stepFunctions = new SFNClient(miniStack);

/**
 * Calls an operation of a service that only the tests use, over its JSON protocol, so that no SDK client is needed for
 * it.
 *
 * @example await callJson('sqs', 'AmazonSQS.CreateQueue', { QueueName: 'events' })
 */
export async function callJson<Result>(service: string, target: string, parameters: object): Promise<Result> {
  const body = JSON.stringify(parameters);
  const headers = { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target };
  return await send<Result>(service, { method: 'POST', path: '/', headers, body });
}

/** The events of all log groups. */
export async function logEvents(): Promise<object[]> {
  const { logGroups } = await callJson<{ logGroups: { logGroupName: string }[] }>(
    'logs',
    'Logs_20140328.DescribeLogGroups',
    {},
  );
  const responses = logGroups.map(({ logGroupName }) =>
    callJson<{ events: object[] }>('logs', 'Logs_20140328.FilterLogEvents', { logGroupName, limit: 10_000 }),
  );
  return (await Promise.all(responses)).flatMap(({ events }) => events);
}

/** Sends a GET, such as for Lambda's list of functions. */
export async function getJson<Result>(service: string, path: string): Promise<Result> {
  return await send<Result>(service, { method: 'GET', path, headers: {}, body: '' });
}

async function send<Result>(service: string, request: PlainRequest): Promise<Result> {
  const { method, path, body } = request;
  const url = new URL(path, miniStack.endpoint);
  const headers = signedHeaders(service, url, request);
  const response = await fetch(url, { method, headers, ...(method === 'POST' ? { body } : {}) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${service} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Result;
}
