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
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'somebody');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'something');
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

  it('is found by its name, and its exports by its outputs', async () => {
    await using stack = await open();
    expect(stack.name).toBe('stack ReportExporter in eu-central-1');
    expect(stack.option).toBe('--stack ReportExporter');
    expect(await stack.exportNames()).toEqual(['daily', 'weekly']);
    await expect(stack.open('nightly')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: 'There is no export nightly in stack ReportExporter in eu-central-1. It holds daily, weekly',
    });
  });

  it('has exports that are what their functions are set to at this moment', async () => {
    await using stack = await open();
    const installed = await stack.open('daily');
    expect(installed.definition).toMatchObject({
      name: 'daily',
      request: { source: 'https://reports.example.com', format: 'XML', size: 5 },
    });
    expect(installed.service).toMatchObject({
      address: 'https://reports.example.com',
      vendor: 'ACME',
      cursorIn: 'body',
      keySource: `secret ${environment.API_KEY_SECRET_ID}`,
    });
    expect(installed.store.locate('daily/latest.json')).toBe('s3://bucket/reports/daily/latest.json');
    aws.dynamoDb.on(GetItemCommand).resolves({});
    expect(await installed.log.exportState('daily')).toBeUndefined();
    expect(aws.dynamoDb.call(0).args[0].input).toMatchObject({ TableName: 'page-log', ConsistentRead: true });

    const changed = { ...environment, EXPORT_SETTINGS: JSON.stringify({ name: 'daily' }), API_KEY_SECRET_FIELD: 'key' };
    aws.lambda.on(GetFunctionConfigurationCommand).resolves({ Environment: { Variables: changed } });
    const again = await stack.open('daily');
    expect(again.definition.request).not.toHaveProperty('size');
    expect(again.service.keySource).toBe(`field key of secret ${environment.API_KEY_SECRET_ID}`);
  });

  it.each([
    ['is gone', error('ResourceNotFoundException'), /there is no function Daily-ExportPage.*npx cdk deploy/],
    [
      'does not show its environment',
      { Environment: { Error: { ErrorCode: 'AccessDeniedException', Message: 'kms:Decrypt is denied' } } },
      /settings of export daily cannot be read.*kms:Decrypt is denied/,
    ],
    ['is set to nothing', {}, /the function's environment EXPORT_SETTINGS.*TABLE_NAME/],
  ])('cannot open an export whose function %s', async (_, answer, message) => {
    aws.lambda.reset();
    if (answer instanceof Error) aws.lambda.on(GetFunctionConfigurationCommand).rejects(answer);
    else aws.lambda.on(GetFunctionConfigurationCommand).resolves(answer);
    await using stack = await open();
    await expect(stack.open('daily')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
  });

  it('is looked for before it is there: what to do then is said', async () => {
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: 'ReportExporter' })
      .rejects(error('ValidationError', 'Stack with id ReportExporter does not exist'));
    const nothing = 'There is no stack ReportExporter in eu-central-1.';
    const remedy =
      'Give the name of the stack with --stack, its region with AWS_REGION and its account with AWS_PROFILE, or deploy it: npx cdk deploy';
    // That others cannot be listed is no reason to say less.
    aws.cloudFormation.on(DescribeStacksCommand, { StackName: undefined }).rejects(error('AccessDenied'));
    await expect(open()).rejects.toMatchObject({ name: 'ConfigurationError', message: `${nothing} ${remedy}` });

    const plain = { ...theStack, Outputs: [] };
    aws.cloudFormation.on(DescribeStacksCommand, { StackName: undefined, NextToken: undefined }).resolves({
      Stacks: [
        { ...theStack, StackName: 'Reports-Test' },
        { ...plain, StackName: 'Website' },
      ],
      NextToken: 'more',
    });
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: undefined, NextToken: 'more' })
      .resolves({ Stacks: [{ ...theStack, StackName: 'Reports' }] });
    await expect(open()).rejects.toThrow(`${nothing} Exports are deployed there in Reports, Reports-Test. ${remedy}`);
  });

  it.each([
    ['CREATE_IN_PROGRESS', [], /is still being made .* Wait until npx cdk deploy is done/],
    ['REVIEW_IN_PROGRESS', [], /is still being made/],
    ['ROLLBACK_COMPLETE', [], /could not be made .* CloudFormation's events say why; then npx cdk deploy/],
    ['DELETE_IN_PROGRESS', [], /is being removed .* Deploy it anew/],
    [
      'CREATE_COMPLETE',
      [{ OutputKey: 'Url', OutputValue: 'x' }],
      /is not one of Report Exporter\. Name another with --stack/,
    ],
    ['CREATE_COMPLETE', [{ OutputKey: 'UrlExport', OutputValue: '{"export":1}' }], /is not one of Report Exporter/],
    ['CREATE_COMPLETE', [{ OutputKey: 'DailyStateMachineArn', OutputValue: 'x' }], /by a version .* that did not tell/],
  ] as const)('that is %s, with outputs %j, is not taken for one of ours', async (StackStatus, Outputs, message) => {
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: 'ReportExporter' })
      .resolves({ Stacks: [{ ...theStack, StackStatus, Outputs: [...Outputs] }] });
    await expect(open()).rejects.toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) });
  });

  function watching(follow: boolean) {
    const said: string[] = [];
    const unheard = () => undefined;
    const given: StartOptions = {
      follow,
      emit: unheard,
      say: (text) => said.push(text),
      onRetry: unheard,
      signal: new AbortController().signal,
    };
    return { said, given };
  }

  it('starts an execution under a name of its own, with no more in its input than was asked for', async () => {
    aws.stepFunctions.on(StartExecutionCommand).resolves({ executionArn: arn('execution', 'Daily:one') });
    await using stack = await open();
    const installed = await stack.open('daily');
    const { given, said } = watching(false);
    for (const [request, input] of [
      [{}, {}],
      [{ restart: false, since: undefined }, {}],
      [
        { since: at('2026-11-01T00:00:00Z'), restart: true },
        { since: '2026-11-01T00:00:00Z', restart: true },
      ],
    ] as const) {
      aws.stepFunctions.resetHistory();
      expect(await installed.start(request, given)).toEqual({
        status: 'started',
        execution: arn('execution', 'Daily:one'),
        run: null,
      });
      expect(aws.stepFunctions.call(0).args[0].input).toEqual({
        stateMachineArn: arn('stateMachine', 'Daily'),
        name: expect.stringMatching(/^by-hand-[0-9a-f]{16}$/),
        input: JSON.stringify(input),
      });
      expect(aws.stepFunctions.calls()).toHaveLength(1);
    }
    expect(said[0]).toBe(`Execution ${arn('execution', 'Daily:one')}`);
    expect(aws.dynamoDb.calls()).toEqual([]);
  });

  it('has started the execution, too, where the answer was lost and it was over before the SDK asked again', async () => {
    const refused = error('ExecutionAlreadyExists', 'Execution Already Exists');
    aws.stepFunctions.on(StartExecutionCommand).rejects(refused);
    await using stack = await open();
    const installed = await stack.open('daily');
    const { given, said } = watching(false);
    const { execution } = (await installed.start({}, given)) as { execution?: string };
    const { name } = aws.stepFunctions.call(0).args[0].input as { name: string };
    expect(execution).toBe(arn('execution', `Daily:${name}`));
    expect(said).toEqual([`Execution ${execution}`]);
  });

  it('follows the run where that is asked for', async () => {
    const result = aRunResult({ export: 'daily' });
    aws.dynamoDb.resolves({});
    aws.stepFunctions.on(StartExecutionCommand).resolves({ executionArn: arn('execution', 'Daily:one') });
    aws.stepFunctions
      .on(DescribeExecutionCommand, { executionArn: arn('execution', 'Daily:one') })
      .resolves({ status: 'SUCCEEDED', output: JSON.stringify(result) });
    await using stack = await open();
    const end = await (await stack.open('daily')).start({}, watching(true).given);
    expect(end).toEqual({ status: 'completed', result, manifest: `s3://bucket/reports/${result.manifest}` });
  });

  it('has a service to be asked only where there is a key for it', async () => {
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

/** An endpoint that refuses everything, as one of the AWS services does. */
async function refusing(status: number, type: string, message: string) {
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

describe('AWS says no, and a person is told what to do', () => {
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
    ['UnrecognizedClientException', /^AWS does not know these credentials/],
    ['InvalidSignatureException', /^AWS does not accept what these credentials have signed/],
    [
      'AccessDeniedException',
      /^AWS does not let you do states:StartExecution \(No\)\. Ask for the permissions of an operator/,
    ],
  ])('%s', async (type, message) => {
    await using _ = await refusing(400, type, 'No');
    await expect(start()).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
  });

  it('but what is no refusal passes through as it is', async () => {
    await using _ = await refusing(400, 'StateMachineDoesNotExist', 'No');
    await expect(start()).rejects.toMatchObject({ name: 'StateMachineDoesNotExist', message: 'No' });
  });

  it('where there are no credentials, or no such profile', async () => {
    const nowhere = join(tmpdir(), 'no-such-file');
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) vi.stubEnv(name, undefined);
    for (const name of ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']) vi.stubEnv(name, nowhere);
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
    const told = {
      name: 'ConfigurationError',
      message: expect.stringMatching(/^There are no AWS credentials .*AWS_PROFILE/),
    };
    await expect(start()).rejects.toMatchObject(told);
    vi.stubEnv('AWS_PROFILE', 'nobody');
    await expect(start()).rejects.toMatchObject(told);
  });

  it.each(['', undefined])('where no region is set: %j', async (region) => {
    for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION']) vi.stubEnv(name, region);
    vi.stubEnv('AWS_CONFIG_FILE', join(tmpdir(), 'no-such-file'));
    await expect(open()).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: 'No AWS region is set. Name the one where the stack stands: AWS_REGION=eu-central-1',
    });
  });

  it('where nobody answers', async () => {
    const gone = await refusing(400, 'Gone', 'Gone');
    await gone[Symbol.asyncDispose]();
    await expect(open()).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/^AWS cannot be reached \(cloudformation, ECONNREFUSED.*AWS_ENDPOINT_URL/),
    });
  });
});
