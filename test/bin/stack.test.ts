/** What commands request of a mocked stack, and what they say if its function answers with errors. */

import { readFileSync } from 'node:fs';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { InvokeCommand } from '@aws-sdk/client-lambda';
import { GetObjectCommand, HeadObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { GetSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import type { ApiKeySource } from '../../lib/service/client/api-key.ts';
import {
  awsError,
  type MockedAws,
  mockStack,
  nightly,
  type StackContent,
  stackName,
  stubAwsEnvironment,
} from '../support/aws/mocked-stack.ts';
import { aCompletion, anExportState, fetchPage } from '../support/builders.ts';
import { runInProcess } from '../support/process/command-line.ts';
import { clientFor, pageRequest } from '../support/service/service-client.ts';
import { apiWithTokens, describedWithTokens, startTokenServer } from '../support/service/token-server.ts';

const names = Array.from({ length: 100 }, (_, index) => `daily-${index}`);
const completed = (exportName: string) =>
  anExportState({ export: exportName, lastCompleted: aCompletion('x', { export: exportName }) });
const schedules = Object.fromEntries(names.map((name) => [name, nightly({ freshness: 'none' })]));
const content: StackContent = {
  services: [{ name: 'acme', exports: names, schedules }],
  states: { acme: names.map(completed) },
};

let aws: MockedAws;
beforeEach(() => {
  stubAwsEnvironment();
  aws = mockStack(content);
});
afterEach(() => {
  vi.unstubAllEnvs();
  aws.restore();
});
const runOnStack = (...args: string[]) => runInProcess([...args, '--stack', stackName]);

/** A payload as the SDK returns it. */
const payload = (value: unknown) => Buffer.from(JSON.stringify(value)) as never;

describe('doctor', () => {
  it.each([
    [
      'the function cannot reach the service',
      () => ({
        FunctionError: 'Unhandled',
        Payload: payload({ errorType: 'ServiceUnavailableError', errorMessage: 'no route' }),
      }),
      { state: 'problem', message: 'ServiceUnavailableError: no route', remedy: expect.stringContaining('allow-list') },
    ],
    [
      'the function does not exist',
      () => Promise.reject(awsError('ResourceNotFoundException')),
      { state: 'problem', message: expect.stringContaining('Deploy the stack again') },
    ],
    [
      'the function is of another version',
      () => ({ Payload: payload({ next: 'page' }) }),
      {
        state: 'problem',
        message: expect.stringMatching(/did not answer as this version does. Deploy the stack again$/),
      },
    ],
    [
      'the operator may not invoke it',
      // The client, which is mocked here, explains it so.
      () => Promise.reject(new ExportError('ConfigurationError', 'No', { cause: awsError('AccessDeniedException') })),
      { state: 'warning', remedy: expect.stringContaining('lambda:InvokeFunction') },
    ],
  ])('shows that %s, also if the operator cannot read the key', async (_, answer, expected) => {
    aws.restore();
    aws = mockStack({ services: [{ name: 'acme', exports: ['daily'] }] });
    aws.dynamoDb.on(GetItemCommand).resolves({});
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    aws.secretsManager.on(GetSecretValueCommand).rejects(awsError('AccessDeniedException'));
    aws.lambda.on(InvokeCommand).callsFake(async () => answer());
    const { findings } = JSON.parse((await runOnStack('doctor', '--json')).stdout) as { findings: { check: string }[] };
    expect(findings.find(({ check }) => check === 'function')).toMatchObject(expected);
    expect(findings.find(({ check }) => check === 'key')).toMatchObject({ state: 'problem' });
  });
});

describe('a stack with a refresh token', () => {
  it('has its function renew the access token, which commands then use: they cannot store another refresh token', async () => {
    await using server = await startTokenServer();
    aws.restore();
    const settings = { baseUrl: server.url, vendor: undefined, api: describedWithTokens(server.url) };
    aws = mockStack({ services: [{ name: 'acme', exports: ['daily'], settings }] });
    aws.dynamoDb.on(GetItemCommand).resolves({});
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    let secret = server.consent();
    aws.secretsManager.on(GetSecretValueCommand).callsFake(() => ({ SecretString: secret }));
    aws.lambda.on(InvokeCommand).callsFake(async () => {
      const source = { get: async () => secret, refresh: async () => secret };
      const update: ApiKeySource['update'] = async (change) => (secret = await change(secret, () => {}));
      const api = apiWithTokens(server.url);
      await using client = clientFor(server, { api, apiKey: { ...source, update } });
      await fetchPage(client, pageRequest({ format: 'JSON' }));
      return { Payload: payload({ reports: 1, latencyMs: 12 }) };
    });
    const planned = await runOnStack('plan', 'daily', '--request');
    expect(planned).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('only the function may replace the refresh token'),
    });
    expect(server.exchanged).toEqual([]);
    const { findings } = JSON.parse((await runOnStack('doctor', '--json')).stdout) as { findings: { check: string }[] };
    expect(findings.find(({ check }) => check === 'service')).toMatchObject({ state: 'ok' });
    expect(await runOnStack('plan', 'daily', '--request')).toMatchObject({ status: 0 });
    expect(server.exchanged).toHaveLength(1);
  });
});

describe('the documented permissions', () => {
  /** The actions in docs/aws.md for commands that read. */
  const documented = readFileSync('docs/aws.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('- All commands:') || line.startsWith('- `status`,'))
    .join();
  const actionOf: Readonly<Record<string, string>> = {
    HeadObject: 'GetObject',
    ListObjectsV2: 'ListBucket',
    Invoke: 'InvokeFunction',
  };

  it.each([[['status']], [['plan', 'daily-0']], [['verify', '--all']]])('allow every request of %j', async (args) => {
    aws.s3.on(HeadObjectCommand).rejects(awsError('NotFound'));
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    await runOnStack(...args);
    // They are of one group, however many exports there are.
    expect(aws.requests().ListSchedules ?? 0).toBeLessThanOrEqual(1);
    const requests = Object.keys(aws.requests()).map((name) => actionOf[name] ?? name);
    expect(requests).toContain('GetItem');
    expect(requests.filter((action) => !documented.includes(`:${action}\``))).toEqual([]);
  });
});
