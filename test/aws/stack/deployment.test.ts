import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CloudFormationClient, DescribeStacksCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetFunctionConfigurationCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { DescribeExecutionCommand, SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createOperatorClients } from '../../../lib/aws/stack/clients.ts';
import { openStack } from '../../../lib/aws/stack/deployment.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { StartOptions } from '../../../lib/core/operations/deployment.ts';
import { aRunResult, at } from '../../support/builders.ts';

const arn = (kind: string, name: string) => `arn:aws:states:eu-central-1:123456789012:${kind}:${name}`;
const output = (name: string, more: object = {}) => ({
  OutputKey: `${name}Export`,
  OutputValue: JSON.stringify({
    export: name.toLowerCase(),
    stateMachineArn: arn('stateMachine', name),
    exportPageFunction: `${name}-ExportPage`,
    ...more,
  }),
});
const theStack = {
  StackName: 'ReportExporter',
  StackStatus: 'UPDATE_COMPLETE',
  CreationTime: new Date(0),
  Outputs: [
    { OutputKey: 'BucketName', OutputValue: 'bucket' },
    { OutputKey: 'WeeklyStateMachineArn', OutputValue: arn('stateMachine', 'Weekly') },
    output('Weekly'),
    output('Daily', { schedule: 'daily-schedule' }),
  ],
} satisfies Stack;
const environment = {
  EXPORT_SETTINGS: JSON.stringify({ name: 'daily', size: 5 }),
  SERVICE_SETTINGS: JSON.stringify({ baseUrl: 'https://reports.example.com/', vendor: 'ACME', cursorIn: 'body' }),
  TABLE_NAME: 'page-log',
  BUCKET_NAME: 'bucket',
  KEY_PREFIX: 'reports/',
  API_KEY_SECRET_ID: 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:key-AbCdEf',
  API_KEY_SECRET_FIELD: '',
  DEPLOYMENT_NAME: 'ReportExporter',
};
const error = (name: string, message = name) => Object.assign(new Error(message), { name });

beforeEach(() => {
  vi.stubEnv('AWS_REGION', 'eu-central-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'access-key');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret-key');
});
afterEach(() => void vi.unstubAllEnvs());

function mockedAws() {
  const aws = {
    cloudFormation: mockClient(CloudFormationClient),
    lambda: mockClient(LambdaClient),
    stepFunctions: mockClient(SFNClient),
    dynamoDb: mockClient(DynamoDBClient),
    secretsManager: mockClient(SecretsManagerClient),
  };
  aws.cloudFormation.on(DescribeStacksCommand, { StackName: 'ReportExporter' }).resolves({ Stacks: [theStack] });
  aws.lambda
    .on(GetFunctionConfigurationCommand, { FunctionName: 'Daily-ExportPage' })
    .resolves({ Environment: { Variables: environment } });
  return aws;
}
const open = (stackName = 'ReportExporter') => openStack({ stackName, env: {}, runtime: systemRuntime });

describe('a deployed stack', () => {
  let aws: ReturnType<typeof mockedAws>;
  beforeEach(() => {
    aws = mockedAws();
  });
  afterEach(() => {
    for (const each of Object.values(aws)) each.restore();
  });

  it('is found by name, and lists the exports in its outputs', async () => {
    await using stack = await open();
    expect(stack.name).toBe('stack ReportExporter in eu-central-1');
    expect(stack.option).toBe('--stack ReportExporter');
    expect(await stack.exportNames()).toEqual(['daily', 'weekly']);
    await expect(stack.open('nightly')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: 'There is no export nightly in stack ReportExporter in eu-central-1. Its exports: daily, weekly',
    });
  });

  it('opens exports with the current settings of their functions', async () => {
    await using stack = await open();
    const deployed = await stack.open('daily');
    expect(deployed.definition).toMatchObject({
      name: 'daily',
      request: { source: 'https://reports.example.com', format: 'XML', size: 5 },
    });
    expect(deployed.service).toMatchObject({
      address: 'https://reports.example.com',
      vendor: 'ACME',
      cursorIn: 'body',
      keySource: `secret ${environment.API_KEY_SECRET_ID}`,
    });
    expect(deployed.store.locate('daily/latest.json')).toBe('s3://bucket/reports/daily/latest.json');
    aws.dynamoDb.on(GetItemCommand).resolves({});
    expect(await deployed.log.exportState('daily')).toBeUndefined();
    expect(aws.dynamoDb.call(0).args[0].input).toMatchObject({ TableName: 'page-log', ConsistentRead: true });

    const changed = { ...environment, EXPORT_SETTINGS: JSON.stringify({ name: 'daily' }), API_KEY_SECRET_FIELD: 'key' };
    aws.lambda.on(GetFunctionConfigurationCommand).resolves({ Environment: { Variables: changed } });
    const reopened = await stack.open('daily');
    expect(reopened.definition.request).not.toHaveProperty('size');
    expect(reopened.service.keySource).toBe(`field key of secret ${environment.API_KEY_SECRET_ID}`);
  });

  it.each([
    ['does not exist', error('ResourceNotFoundException'), /there is no function Daily-ExportPage.*npx cdk deploy/],
    [
      'has an environment that Lambda does not return',
      { Environment: { Error: { ErrorCode: 'AccessDeniedException', Message: 'kms:Decrypt is denied' } } },
      /settings of export daily cannot be read.*kms:Decrypt is denied/,
    ],
    ['has no variables', {}, /the function's environment EXPORT_SETTINGS.*TABLE_NAME/],
  ])('rejects an export whose function %s', async (_, response, message) => {
    aws.lambda.reset();
    if (response instanceof Error) aws.lambda.on(GetFunctionConfigurationCommand).rejects(response);
    else aws.lambda.on(GetFunctionConfigurationCommand).resolves(response);
    await using stack = await open();
    await expect(stack.open('daily')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
  });

  it('suggests other stacks and deployment if it does not exist', async () => {
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: 'ReportExporter' })
      .rejects(error('ValidationError', 'Stack with id ReportExporter does not exist'));
    const problem = 'There is no stack ReportExporter in eu-central-1.';
    const remedy =
      'Set the stack with --stack, its region with AWS_REGION and its account with AWS_PROFILE, or deploy it: npx cdk deploy';
    // The message stays useful if the other stacks cannot be listed.
    aws.cloudFormation.on(DescribeStacksCommand, { StackName: undefined }).rejects(error('AccessDenied'));
    await expect(open()).rejects.toMatchObject({ name: 'ConfigurationError', message: `${problem} ${remedy}` });

    const withoutExports = { ...theStack, Outputs: [] };
    aws.cloudFormation.on(DescribeStacksCommand, { StackName: undefined, NextToken: undefined }).resolves({
      Stacks: [
        { ...theStack, StackName: 'Reports-Test' },
        { ...withoutExports, StackName: 'Website' },
      ],
      NextToken: 'more',
    });
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: undefined, NextToken: 'more' })
      .resolves({ Stacks: [{ ...theStack, StackName: 'Reports' }] });
    await expect(open()).rejects.toThrow(`${problem} Stacks with exports there: Reports, Reports-Test. ${remedy}`);
  });

  it.each([
    ['CREATE_IN_PROGRESS', [], /is still being created .* Wait until npx cdk deploy is done/],
    ['REVIEW_IN_PROGRESS', [], /is still being created/],
    [
      'ROLLBACK_COMPLETE',
      [],
      /was not created .* See its events in CloudFormation, then deploy it again: npx cdk deploy/,
    ],
    ['DELETE_IN_PROGRESS', [], /is being deleted .* Deploy it again/],
    [
      'CREATE_COMPLETE',
      [{ OutputKey: 'Url', OutputValue: 'x' }],
      /is not a Report Exporter stack\. Set another with --stack/,
    ],
    ['CREATE_COMPLETE', [{ OutputKey: 'UrlExport', OutputValue: '{"export":1}' }], /is not a Report Exporter stack/],
    [
      'CREATE_COMPLETE',
      [{ OutputKey: 'DailyStateMachineArn', OutputValue: 'x' }],
      /by an older version, whose outputs do not list its exports/,
    ],
  ] as const)('is rejected with status %s and outputs %j', async (StackStatus, Outputs, message) => {
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: 'ReportExporter' })
      .resolves({ Stacks: [{ ...theStack, StackStatus, Outputs: [...Outputs] }] });
    await expect(open()).rejects.toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) });
  });

  function startOptions(follow: boolean) {
    const messages: string[] = [];
    const ignore = () => undefined;
    const options: StartOptions = {
      follow,
      emit: ignore,
      say: (text) => messages.push(text),
      onRetry: ignore,
      signal: new AbortController().signal,
    };
    return { messages, options };
  }

  it('starts an execution under a unique name, with only the requested fields in its input', async () => {
    aws.stepFunctions.on(StartExecutionCommand).resolves({ executionArn: arn('execution', 'Daily:one') });
    await using stack = await open();
    const deployed = await stack.open('daily');
    const { options, messages } = startOptions(false);
    for (const [request, input] of [
      [{}, {}],
      [{ restart: false, since: undefined }, {}],
      [
        { since: at('2026-11-01T00:00:00Z'), restart: true },
        { since: '2026-11-01T00:00:00Z', restart: true },
      ],
    ] as const) {
      aws.stepFunctions.resetHistory();
      expect(await deployed.start(request, options)).toEqual({
        status: 'started',
        execution: arn('execution', 'Daily:one'),
        run: null,
      });
      expect(aws.stepFunctions.call(0).args[0].input).toEqual({
        stateMachineArn: arn('stateMachine', 'Daily'),
        name: expect.stringMatching(/^manual-[0-9a-f]{16}$/),
        input: JSON.stringify(input),
      });
      expect(aws.stepFunctions.calls()).toHaveLength(1);
    }
    expect(messages[0]).toBe(`Execution ${arn('execution', 'Daily:one')}`);
    expect(aws.dynamoDb.calls()).toEqual([]);
  });

  it('returns the execution that a lost response has started, even if it has ended before the SDK retries', async () => {
    const alreadyExists = error('ExecutionAlreadyExists', 'Execution Already Exists');
    aws.stepFunctions.on(StartExecutionCommand).rejects(alreadyExists);
    await using stack = await open();
    const deployed = await stack.open('daily');
    const { options, messages } = startOptions(false);
    const { execution } = (await deployed.start({}, options)) as { execution?: string };
    const { name } = aws.stepFunctions.call(0).args[0].input as { name: string };
    expect(execution).toBe(arn('execution', `Daily:${name}`));
    expect(messages).toEqual([`Execution ${execution}`]);
  });

  it('follows the run to its end if requested', async () => {
    const result = aRunResult({ export: 'daily' });
    aws.dynamoDb.resolves({});
    aws.stepFunctions.on(StartExecutionCommand).resolves({ executionArn: arn('execution', 'Daily:one') });
    aws.stepFunctions
      .on(DescribeExecutionCommand, { executionArn: arn('execution', 'Daily:one') })
      .resolves({ status: 'SUCCEEDED', output: JSON.stringify(result) });
    await using stack = await open();
    const end = await (await stack.open('daily')).start({}, startOptions(true).options);
    expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/reports/${result.manifest}` });
  });

  it('connects to the service only if there is an API key', async () => {
    await using stack = await open();
    const { service } = await stack.open('daily');
    aws.secretsManager.on(GetSecretValueCommand).resolves({ SecretString: '' });
    await expect(service.connect(() => undefined)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('holds no API key'),
    });
    aws.secretsManager.on(GetSecretValueCommand).resolves({ SecretString: 'a-key' });
    await using client = await service.connect(() => undefined);
    expect(Object.keys(client)).toEqual(['fetchPage']);
  });
});

/** An endpoint that rejects every request like an AWS service. */
async function startRejectingEndpoint(status: number, type: string, message: string) {
  const server = createServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-errortype': type });
    response.end(JSON.stringify({ __type: type, message }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  vi.stubEnv('AWS_ENDPOINT_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('an AWS error is explained to the operator', () => {
  const start = async () => {
    const clients = createOperatorClients({});
    try {
      await clients.stepFunctions.send(new StartExecutionCommand({ stateMachineArn: arn('stateMachine', 'Daily') }));
    } finally {
      clients.close();
    }
  };

  it.each([
    ['ExpiredTokenException', /^The AWS credentials have expired \(states: No\)\. .*AWS_PROFILE.*aws sso login/],
    ['UnrecognizedClientException', /^The AWS credentials are invalid/],
    ['InvalidSignatureException', /^AWS rejected the signature of the AWS credentials/],
    ['AccessDeniedException', /^Access denied to states:StartExecution \(No\)\. Request an operator's permissions/],
  ])('%s', async (type, message) => {
    await using _ = await startRejectingEndpoint(400, type, 'No');
    await expect(start()).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
  });

  it('unless the operator cannot fix it: then it is rethrown unchanged', async () => {
    await using _ = await startRejectingEndpoint(400, 'StateMachineDoesNotExist', 'No');
    await expect(start()).rejects.toMatchObject({ name: 'StateMachineDoesNotExist', message: 'No' });
  });

  it('if there are no credentials, or the profile does not exist', async () => {
    const missingFile = join(tmpdir(), 'no-such-file');
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) vi.stubEnv(name, undefined);
    for (const name of ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']) vi.stubEnv(name, missingFile);
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
    const expected = {
      name: 'ConfigurationError',
      message: expect.stringMatching(/^There are no AWS credentials .*AWS_PROFILE/),
    };
    await expect(start()).rejects.toMatchObject(expected);
    vi.stubEnv('AWS_PROFILE', 'missing');
    await expect(start()).rejects.toMatchObject(expected);
  });

  it.each(['', undefined])('if no region is set: %j', async (region) => {
    for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION']) vi.stubEnv(name, region);
    vi.stubEnv('AWS_CONFIG_FILE', join(tmpdir(), 'no-such-file'));
    await expect(open()).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: 'No AWS region is set. Set the region of the stack, such as AWS_REGION=eu-central-1',
    });
  });

  it('if AWS cannot be reached', async () => {
    const closed = await startRejectingEndpoint(400, 'Closed', 'Closed');
    await closed[Symbol.asyncDispose]();
    await expect(open()).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/^Cannot reach AWS \(cloudformation, ECONNREFUSED.*AWS_ENDPOINT_URL/),
    });
  });
});
