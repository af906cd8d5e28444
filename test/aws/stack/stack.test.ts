import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DescribeStackResourceCommand, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { StartExecutionCommand } from '@aws-sdk/client-sfn';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createOperatorClients } from '../../../lib/aws/stack/clients.ts';
import type { StartOptions } from '../../../lib/operator/target.ts';
import { serviceMetadataKey } from '../../../lib/settings/deployed-settings.ts';
import {
  type AService,
  aStack,
  arn,
  awsError,
  type MockedAws,
  mockAws,
  nightly,
  openMockedStack as open,
  resourceWith,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';
import { at } from '../../support/builders.ts';
import { listen } from '../../support/service/loopback.ts';

const acme: AService = {
  name: 'acme',
  exports: ['weekly', { name: 'daily', size: 5 }],
  schedules: { daily: nightly() },
  settings: { cursorIn: 'body' },
};
const globex: AService = { name: 'globex', exports: ['invoices'] };

beforeEach(stubAwsEnvironment);
afterEach(() => void vi.unstubAllEnvs());

describe('a deployed stack', () => {
  let aws: MockedAws;
  beforeEach(() => {
    aws = mockAws([acme, globex]);
  });
  afterEach(() => aws.restore());

  it('has the exports of all its services, in alphabetical order, and reads their settings once', async () => {
    await using stack = await open();
    expect(stack).toMatchObject({ name: 'stack ReportExporter in eu-central-1', option: '--stack ReportExporter' });
    expect(await Promise.all([stack.exportNames(), stack.exportNames()])).toEqual(
      Array(2).fill(['daily', 'invoices', 'weekly']),
    );
    await expect(stack.open('nightly')).rejects.toMatchObject({
      name: 'ConfigurationError',
      message:
        'There is no export nightly in stack ReportExporter in eu-central-1. Its exports: daily, invoices, weekly',
    });
    expect(aws.requests()).toEqual({ DescribeStacks: 1, DescribeStackResource: 2 });
  });

  it.each([
    ['does not exist', awsError('ValidationError', 'Resource acmeStateMachine does not exist'), /there is no resource/],
    ['has metadata of CDK only', resourceWith({ 'aws:cdk:path': 'x' }), /has no metadata report-exporter/],
    ['has metadata that is not JSON', resourceWith('{'), /has no metadata report-exporter/],
    [
      'was deployed by a newer version',
      resourceWith({ [serviceMetadataKey]: JSON.stringify({ version: 2 }) }),
      /cannot read the settings of service acme in stack ReportExporter: they have another version/,
    ],
    ['has metadata that is no text', resourceWith({ [serviceMetadataKey]: {} }), /they have another version/],
  ])('rejects a service whose state machine %s', async (_, response, message) => {
    const mocked = aws.cloudFormation.on(DescribeStackResourceCommand, {
      StackName: 'ReportExporter',
      LogicalResourceId: 'acmeStateMachine',
    });
    if (response instanceof Error) mocked.rejects(response);
    else mocked.resolves(response);
    await using stack = await open();
    const error = await stack.open('daily').catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) });
    expect(error).toMatchObject({
      message: expect.stringMatching(
        /^This version of report-exporter cannot read the settings of service acme in stack ReportExporter: .*, or deploy it with this one$/,
      ),
    });
  });

  it.each([
    ['CREATE_IN_PROGRESS', [], /has no exports \(CREATE_IN_PROGRESS\)\. Wait until cdk deploy is done$/],
    ['ROLLBACK_COMPLETE', [], /has no exports \(ROLLBACK_COMPLETE\)\. Set another with --stack, or deploy one/],
    ['CREATE_COMPLETE', [{ OutputKey: 'WebService', OutputValue: 'https://' }], /has no exports/],
  ] as const)('is rejected with status %s and outputs %j', async (StackStatus, Outputs, message) => {
    aws.cloudFormation
      .on(DescribeStacksCommand, { StackName: 'ReportExporter' })
      .resolves({ Stacks: [aStack([], { StackStatus, Outputs: [...Outputs] })] });
    await expect(open()).rejects.toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) });
  });

  function startOptions(follow: boolean) {
    const messages: string[] = [];
    const started: string[] = [];
    const ignore = () => undefined;
    const options: StartOptions = {
      follow,
      onProgress: ignore,
      emit: ignore,
      notify: (text) => messages.push(text),
      onStarted: (execution) => started.push(execution),
      onRetry: ignore,
      signal: new AbortController().signal,
    };
    return { messages, started, options };
  }

  it('starts an execution under a unique name, with the export and only the requested fields in its input', async () => {
    aws.stepFunctions.on(StartExecutionCommand).resolves({ executionArn: arn('execution', 'acme:one') });
    await using stack = await open();
    const deployed = await stack.open('daily');
    const { options, messages, started } = startOptions(false);
    const bounds = { since: at('2026-01-01T00:00:00Z'), until: at('2026-02-01T00:00:00Z') };
    for (const [request, input] of [
      [{ restart: undefined, since: undefined }, { export: 'daily' }],
      [
        { ...bounds, parallel: 8, slice: 'PT1H', restart: true },
        { export: 'daily', ...bounds, parallel: 8, slice: 'PT1H', restart: true },
      ],
    ] as const) {
      aws.stepFunctions.resetHistory();
      expect(await deployed.start(request, options)).toEqual({
        status: 'started',
        execution: arn('execution', 'acme:one'),
        run: null,
      });
      expect(aws.stepFunctions.call(0).args[0].input).toEqual({
        stateMachineArn: arn('stateMachine', 'acme'),
        name: expect.stringMatching(/^daily-manual-[0-9a-f]{16}$/),
        input: JSON.stringify(input),
      });
      expect(aws.stepFunctions.calls()).toHaveLength(1);
    }
    expect(messages[0]).toBe(`Execution ${arn('execution', 'acme:one')}`);
    expect(started).toEqual(Array(2).fill(arn('execution', 'acme:one')));
    expect(aws.dynamoDb.calls()).toEqual([]);

    // The only export of its service is named too: the service may get others.
    await (await stack.open('invoices')).start({}, options);
    expect(aws.stepFunctions.call(1).args[0].input).toMatchObject({
      stateMachineArn: arn('stateMachine', 'globex'),
      input: JSON.stringify({ export: 'invoices' }),
    });
  });

  it('returns the execution that a lost response has started, even if it has ended before the SDK retries', async () => {
    const alreadyExists = awsError('ExecutionAlreadyExists', 'Execution Already Exists');
    aws.stepFunctions.on(StartExecutionCommand).rejects(alreadyExists);
    await using stack = await open();
    const deployed = await stack.open('daily');
    const { options, messages } = startOptions(false);
    const { execution } = (await deployed.start({}, options)) as { execution?: string };
    const { name } = aws.stepFunctions.call(0).args[0].input as { name: string };
    expect(execution).toBe(arn('execution', `acme:${name}`));
    expect(messages).toEqual([`Execution ${execution}`]);
  });

  it('connects without a secret to a service that needs none', async () => {
    const api = { auth: { kind: 'none' as const }, request: { path: '/logs' }, next: { from: 'link' as const } };
    const page = { format: 'json' as const, reports: '/data/*' };
    aws.restore();
    const settings = { vendor: undefined, cursorIn: undefined, api: { ...api, page } };
    aws = mockAws([{ ...acme, exports: ['open'], settings, output: { apiKeySecret: undefined } }]);
    await using stack = await open();
    const { service } = await stack.open('open');
    expect(service.keySource).toBe('none is needed');
    await using _client = await service.connect();
    expect(aws.secretsManager.calls()).toEqual([]);
  });
});

/** An endpoint that rejects every request like an AWS service. */
async function startRejectingEndpoint(status: number, type: string, message: string) {
  const server = await listen(
    createServer((_, response) => {
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-errortype': type });
      response.end(JSON.stringify({ __type: type, message }));
    }),
  );
  vi.stubEnv('AWS_ENDPOINT_URL', server.url);
  return server;
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
    ['ExpiredTokenException', /^No\. Select a profile with AWS_PROFILE, .*aws sso login/],
    ['InvalidSignatureException', /^No\. Select a profile with AWS_PROFILE/],
    ['AccessDeniedException', /^No\. AWS denied StartExecution\. Request an operator's permissions/],
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
      message: expect.stringMatching(/^Could not load credentials .*AWS_PROFILE/),
    };
    await expect(start()).rejects.toMatchObject(expected);
    vi.stubEnv('AWS_PROFILE', 'missing');
    await expect(start()).rejects.toMatchObject(expected);
  });

  it('if AWS cannot be reached', async () => {
    const closed = await startRejectingEndpoint(400, 'Closed', 'Closed');
    await closed[Symbol.asyncDispose]();
    await expect(open()).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/^Cannot reach AWS \(.*ECONNREFUSED.*AWS_ENDPOINT_URL/),
    });
  });
});
