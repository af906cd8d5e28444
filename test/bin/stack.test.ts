/** The commands that act on a deployment: a mocked stack of a hundred exports in two services. */

import { readFileSync } from 'node:fs';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetAccountSettingsCommand, InvokeCommand } from '@aws-sdk/client-lambda';
import { GetBucketPolicyCommand, GetObjectCommand, HeadObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { GetSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { StartExecutionCommand, type StartExecutionCommandInput } from '@aws-sdk/client-sfn';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import type { ApiKeySource } from '../../lib/service/client/api-key.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import {
  type AService,
  arn,
  awsError,
  type MockedAws,
  mockStack,
  nightly,
  type StackContent,
  stackName,
  stubAwsEnvironment,
} from '../support/aws/mocked-stack.ts';
import { aCompletion, anExportState, aRun, at, fetchPage } from '../support/builders.ts';
import { type CommandResult, runInProcess } from '../support/process/command-line.ts';
import { clientFor, pageRequest } from '../support/service/service-client.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { apiWithTokens, describedWithTokens, startTokenServer } from '../support/service/token-server.ts';

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(2, '0')}`);
const acmeExports = names('acme', 60);
const globexExports = names('globex', 40);
const acme: AService = {
  name: 'acme',
  exports: acmeExports,
  schedules: Object.fromEntries(acmeExports.map((name) => [name, nightly({ freshness: 'none' })])),
};
const globex: AService = { name: 'globex', exports: globexExports };
const completed = (exportName: string) =>
  anExportState({ export: exportName, lastCompleted: aCompletion('x', { export: exportName }) });
const failed = (exportName: string, service: string) =>
  anExportState({
    export: exportName,
    active: aRun({
      export: exportName,
      execution: arn('execution', `${service}:${exportName}`),
      lastFailure: { error: 'RequestRejectedError', message: 'responded with 422', at: at('2026-11-20T03:00:00Z') },
    }),
  });
/** All have completed, except one that failed and one that runs. */
const content: StackContent = {
  services: [acme, globex],
  states: {
    acme: [...acmeExports.slice(0, -1).map(completed), failed('acme-59', 'acme')],
    globex: globexExports.map((name) => (name === 'globex-07' ? failed(name, 'globex') : completed(name))),
  },
  running: [arn('execution', 'globex:globex-07')],
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
const lines = ({ stdout }: CommandResult) => stdout.trimEnd().split('\n');
const exportOf = (line = '') => line.split(' ')[0];

describe('status', () => {
  it('shows a hundred exports, the failed ones first, and lists schedules once', async () => {
    const ended = await runOnStack('status');
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    const [, , , first, second, ...rest] = lines(ended);
    expect([exportOf(first), exportOf(second)]).toEqual(['acme-59', 'globex-07']);
    const listed = rest.slice(0, rest.indexOf(''));
    expect(listed.map(exportOf)).toEqual(
      [...acmeExports, ...globexExports].filter((name) => !['acme-59', 'globex-07'].includes(name)),
    );
    expect(aws.requests()).toMatchObject({ ListSchedules: 1 });
  });
});

describe('start', () => {
  const started = () =>
    aws.stepFunctions
      .commandCalls(StartExecutionCommand)
      .map(({ args: [{ input }] }) => input as StartExecutionCommandInput);

  it('starts all exports, each on the machine of its service, and continues if one cannot be started', async () => {
    aws.stepFunctions.on(StartExecutionCommand).callsFake(({ stateMachineArn = '', name = '' }) => {
      if (name.startsWith('globex-03')) throw awsError('ExecutionLimitExceeded', 'Too many executions');
      return { executionArn: `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}` };
    });
    const ended = await runOnStack('start', '--all', '--restart');
    expect(ended.status).toBe(1);
    expect(started().map(({ input = '' }) => JSON.parse(input))).toEqual(
      [...acmeExports, ...globexExports].map((name) => ({ export: name, restart: true })),
    );
    expect(new Set(started().map(({ stateMachineArn }) => stateMachineArn))).toEqual(
      new Set([arn('stateMachine', 'acme'), arn('stateMachine', 'globex')]),
    );
    expect(ended.stderr).toMatch(
      /^20\S+Z Failed: globex-03\n {2}ExecutionLimitExceeded: Too many executions\n→ to see/,
    );
    expect(ended.stdout).toMatch(
      /^20\S+Z In progress: acme-00\n {2}execution {2}arn:aws:states:eu-central-1:123456789012:execution:acme:acme-00-manual-[0-9a-f]{16}\n/,
    );
    expect(lines(ended).at(-1)).toMatch(/ 100 exports: 1 failed, 99 in progress$/);
  });
});

/** A payload as the SDK returns it. */
const payload = (value: unknown) => Buffer.from(JSON.stringify(value)) as never;

describe('doctor', () => {
  it('checks each service once, with its own key', async () => {
    const apiKey = 'the-key-of-this-service';
    const simulators = await Promise.all(
      [1, 2].map(() => startSimulator({ vendor: 'ACME', apiKey, reports: inMemoryReports(someReports(3)) })),
    );
    const [one, other] = simulators;
    aws.restore();
    aws = mockStack({
      services: [
        { ...acme, settings: { baseUrl: one?.baseUrl ?? '' } },
        { ...globex, settings: { baseUrl: other?.baseUrl ?? '' } },
      ],
    });
    aws.dynamoDb.on(GetItemCommand).resolves({});
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    aws.s3.on(GetBucketPolicyCommand).rejects(awsError('NoSuchBucketPolicy'));
    aws.secretsManager.on(GetSecretValueCommand).resolves({ SecretString: apiKey });
    const answer = { reports: 1, latencyMs: 12, clockLeadMs: 0 };
    aws.lambda.on(InvokeCommand).resolves({ Payload: payload(answer) });
    const AccountLimit = { UnreservedConcurrentExecutions: 1_000 };
    aws.lambda.on(GetAccountSettingsCommand).resolves({ AccountLimit });
    const ended = await runOnStack('doctor', '--json');
    for (const simulator of simulators) {
      expect(simulator.exchanges).toHaveLength(1);
      await simulator.close();
    }
    const { findings } = JSON.parse(ended.stdout) as {
      findings: { check: string; export: string | null; state: string; message: string }[];
    };
    expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
    expect(findings.filter(({ check }) => check === 'key')).toMatchObject([
      { export: null, message: expect.stringContaining('secret:acme-AbCdEf') },
      { export: null, message: expect.stringContaining('secret:globex-AbCdEf') },
    ]);
    expect(findings.filter(({ check }) => check === 'settings').map((finding) => finding.export)).toEqual([
      ...acmeExports,
      ...globexExports,
    ]);
    const byFunction = findings.filter(({ check }) => check === 'function');
    expect(byFunction).toMatchObject([{ message: expect.stringContaining('with 1 report after 12 ms on AWS') }, {}]);
    expect(aws.requests()).toMatchObject({ GetSecretValue: 2, ListSchedules: 1, Invoke: 2, GetAccountSettings: 1 });
    const [invocation] = aws.lambda.commandCalls(InvokeCommand);
    expect(invocation?.args[0].input.FunctionName).toMatch(/:function:acme-ExportPage$/);
    expect(JSON.parse(Buffer.from(invocation?.args[0].input.Payload as Uint8Array).toString())).toEqual({
      probe: { export: acmeExports[0], since: expect.any(String) },
    });
  });

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
      () => Promise.reject(new ExportError('ConfigurationError', 'Access denied to lambda:InvokeFunction')),
      { state: 'warning', remedy: expect.stringContaining('lambda:InvokeFunction') },
    ],
  ])('shows that %s, also if the operator cannot read the key', async (_, answer, expected) => {
    aws.restore();
    aws = mockStack({ services: [{ name: 'acme', exports: ['daily'] }] });
    aws.dynamoDb.on(GetItemCommand).resolves({});
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    aws.s3.on(GetBucketPolicyCommand).rejects(awsError('NoSuchBucketPolicy'));
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
      return { Payload: payload({ reports: 1, latencyMs: 12, clockLeadMs: 0 }) };
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
    .filter((line) => line.startsWith('| all |') || line.startsWith('| `status`'))
    .join();
  const actionOf: Readonly<Record<string, string>> = {
    HeadObject: 'GetObject',
    ListObjectsV2: 'ListBucket',
    Invoke: 'InvokeFunction',
  };

  it.each([[['status']], [['plan', '--all']], [['verify', '--all']]])('allow every request of %j', async (args) => {
    aws.s3.on(HeadObjectCommand).rejects(awsError('NotFound'));
    aws.s3.on(GetObjectCommand).rejects(awsError('NoSuchKey'));
    aws.s3.on(ListObjectsV2Command).resolves({});
    await runOnStack(...args);
    const requests = Object.keys(aws.requests()).map((name) => actionOf[name] ?? name);
    expect(requests).toContain('GetItem');
    expect(requests.filter((action) => !documented.includes(`:${action}\``))).toEqual([]);
  });
});
