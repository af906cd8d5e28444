/** The local AWS, as the tests speak to it. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SFNClient } from '@aws-sdk/client-sfn';
import { inject } from 'vitest';
import { credentials, region } from '../emulators/ministack.ts';
import { type PlainRequest, signed } from './signature-v4.ts';

const miniStack = { endpoint: inject('miniStack'), region, credentials };

export const s3 = new S3Client({ ...miniStack, forcePathStyle: true });
export const dynamoDb = new DynamoDBClient(miniStack);
export const secretsManager = new SecretsManagerClient(miniStack);
export const stepFunctions = new SFNClient(miniStack);
export const stepFunctionsOfMoto = new SFNClient({ ...miniStack, endpoint: inject('moto') });

/**
 * One operation of a service that only the tests speak to, over its plain JSON protocol: not worth an SDK client each.
 *
 * @example await ask('sqs', 'AmazonSQS.CreateQueue', { QueueName: 'events' })
 */
export async function ask<Answer>(service: string, target: string, parameters: object): Promise<Answer> {
  const body = JSON.stringify(parameters);
  const headers = { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target };
  return await answered<Answer>(service, { method: 'POST', path: '/', headers, body });
}

/** What a service answers to a GET, such as Lambda's list of functions. */
export async function get<Answer>(service: string, path: string): Promise<Answer> {
  return await answered<Answer>(service, { method: 'GET', path, headers: {}, body: '' });
}

async function answered<Answer>(service: string, request: PlainRequest): Promise<Answer> {
  const { method, path, body } = request;
  const url = new URL(path, miniStack.endpoint);
  const headers = signed(service, url, request);
  const response = await fetch(url, { method, headers, ...(method === 'POST' ? { body } : {}) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${service} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Answer;
}
