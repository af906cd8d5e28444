/** The operator's profile, credentials and region: real configuration files, and a local STS that checks MFA codes. */

import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetFunctionCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { HeadBucketCommand } from '@aws-sdk/client-s3';
import { ListSchedulesCommand } from '@aws-sdk/client-scheduler';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { DescribeExecutionCommand } from '@aws-sdk/client-sfn';
import { GetTopicAttributesCommand, SNSClient } from '@aws-sdk/client-sns';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { runProgram } from '../../../bin/program.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createOperatorClients } from '../../../lib/aws/stack/clients.ts';
import type { AskMfaCode } from '../../../lib/aws/stack/credentials.ts';
import { listen } from '../../support/service/loopback.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const serial = 'arn:aws:iam::123456789012:mfa/alice';
const validCode = '493817';
const configFile = `
[profile base]
region = eu-west-3
[profile operator]
role_arn = arn:aws:iam::123456789012:role/operator
source_profile = base
mfa_serial = ${serial}
region = eu-central-1
[profile no-region]
aws_access_key_id = AKIDNOREGION
aws_secret_access_key = key
[sso-session company]
sso_region = eu-central-1
`;
const credentialsFile = `
[base]
aws_access_key_id = AKIDBASE
aws_secret_access_key = base-key
`;

interface LocalRequest {
  readonly accessKey: string | undefined;
  readonly region: string | undefined;
  readonly body: string;
}

const errorXml = (code: string, message: string) =>
  `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`;

/** STS, and every other service, which rejects all requests. The environment has `profile` and `variables` only. */
async function startAws({
  profile,
  variables = {},
  config = configFile,
}: { profile?: string; variables?: Readonly<Record<string, string>>; config?: string } = {}) {
  const requests: LocalRequest[] = [];
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    const [, accessKey, region] = /Credential=([^/]+)\/\d+\/([^/]+)/.exec(request.headers.authorization ?? '') ?? [];
    requests.push({ accessKey, region, body });
    if (!body.includes('Action=AssumeRole')) {
      const isQuery = body.includes('Action=');
      response.writeHead(400, { 'content-type': isQuery ? 'text/xml' : 'application/json' });
      response.end(isQuery ? errorXml('ValidationError', 'No') : JSON.stringify({ __type: 'ValidationError' }));
    } else if (new URLSearchParams(body).get('TokenCode') === validCode) {
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.end(
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>' +
          '<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>role-key</SecretAccessKey><SessionToken>token</SessionToken>' +
          '<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>',
      );
    } else {
      response.writeHead(403, { 'content-type': 'text/xml' });
      response.end(errorXml('AccessDenied', 'MultiFactorAuthentication failed with invalid MFA one time pass code. '));
    }
  };
  const server = await listen(createServer((request, response) => void respond(request, response)));
  const directory = await temporaryDirectory();
  const path = (name: string) => join(directory.path, name);
  await writeFile(path('config'), config);
  await writeFile(path('credentials'), config === '' ? '' : credentialsFile);
  const env: Record<string, string | undefined> = {
    AWS_ACCESS_KEY_ID: undefined,
    AWS_SECRET_ACCESS_KEY: undefined,
    AWS_REGION: undefined,
    AWS_DEFAULT_REGION: undefined,
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: path('config'),
    AWS_SHARED_CREDENTIALS_FILE: path('credentials'),
    AWS_ENDPOINT_URL: server.url,
    AWS_PROFILE: profile,
    NO_COLOR: '1',
    ...variables,
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return {
    env,
    requests,
    assumedRoles: () => requests.filter(({ body }) => body.includes('Action=AssumeRole')),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await directory.remove();
    },
  };
}

afterEach(() => void vi.unstubAllEnvs());

/** Runs `status --stack`. At a terminal, a person types `reply` when asked; undefined is Ctrl-C. */
async function statusCommand(
  { env }: { readonly env: Readonly<Record<string, string | undefined>> },
  { isTTY = true, reply = 'x', onPrompt }: { isTTY?: boolean; reply?: string; onPrompt?: () => void } = {},
  signal = new AbortController().signal,
) {
  const stdin = Object.assign(new PassThrough(), { isTTY });
  let shown = '';
  let hasReplied = false;
  const write = (chunk: string | Uint8Array) => {
    shown += chunk.toString();
    if (!shown.includes('MFA code of') || hasReplied) return true;
    hasReplied = true;
    setImmediate(onPrompt ?? (() => stdin.write(reply)));
    return true;
  };
  let stdout = '';
  const status = await runProgram(['status', '--stack', 'Reports', '--json'], {
    env,
    stdin,
    stdout: { write: (chunk: string) => (stdout += chunk) },
    stderr: { isTTY, write },
    signal,
    runtime: systemRuntime,
    program: 'npx --no -- report-exporter',
  });
  return { status, shown, stdout };
}

describe('a profile that requires an MFA code', () => {
  it('asks once for all clients, which then use the credentials of the role', async () => {
    await using aws = await startAws({ profile: 'operator' });
    const askMfaCode = vi.fn<AskMfaCode>(async () => validCode);
    const clients = createOperatorClients(aws.env, askMfaCode);
    const results = await Promise.allSettled([
      clients.cloudFormation.send(new DescribeStacksCommand({})),
      clients.scheduler.send(new ListSchedulesCommand({})),
      clients.stepFunctions.send(new DescribeExecutionCommand({ executionArn: 'x' })),
      clients.dynamoDb.send(new GetItemCommand({ TableName: 'x', Key: { pk: { S: 'x' } } })),
      clients.s3.send(new HeadBucketCommand({ Bucket: 'x' })),
      clients.open((config) => new SecretsManagerClient(config)).send(new GetSecretValueCommand({ SecretId: 'x' })),
      clients.open((config) => new LambdaClient(config)).send(new GetFunctionCommand({ FunctionName: 'x' })),
      clients.open((config) => new SNSClient(config)).send(new GetTopicAttributesCommand({ TopicArn: 'x' })),
    ]);
    clients.close();
    expect(results.map(({ status }) => status)).toEqual(Array(8).fill('rejected'));
    expect(askMfaCode.mock.calls).toEqual([[serial]]);
    const [assumed, ...others] = aws.assumedRoles();
    expect(others).toEqual([]);
    expect(Object.fromEntries(new URLSearchParams(assumed?.body))).toMatchObject({
      RoleArn: 'arn:aws:iam::123456789012:role/operator',
      SerialNumber: serial,
      TokenCode: validCode,
    });
    expect(assumed?.accessKey).toBe('AKIDBASE');
    const requests = aws.requests.filter((request) => request !== assumed);
    expect(requests).toHaveLength(8);
    for (const request of requests) expect(request).toMatchObject({ accessKey: 'AKIDROLE', region: 'eu-central-1' });
  });

  it('asks at the terminal, on stderr, and does not show what is typed', async () => {
    await using aws = await startAws({ profile: 'operator' });
    const { status, shown, stdout } = await statusCommand(aws, { reply: `${validCode}\r` });
    expect(shown).toMatch(new RegExp(`^MFA code of ${serial}: \nError: There is no stack Reports in eu-central-1\\.`));
    expect(status).toBe(2);
    expect(aws.assumedRoles()).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'failed' });
    expect(shown + stdout).not.toContain(validCode);
  });

  it('explains that the code was wrong', async () => {
    await using aws = await startAws({ profile: 'operator' });
    const { status, shown } = await statusCommand(aws, { reply: '000000\r' });
    expect(shown).toContain(
      'Error: AWS rejected the MFA code (MultiFactorAuthentication failed with invalid MFA one time pass code. ). Each code works once',
    );
    expect({ status, attempts: aws.assumedRoles().length }).toEqual({ status: 2, attempts: 1 });
    expect(shown).not.toContain('000000');
  });

  it('says what to do without a terminal', async () => {
    await using aws = await startAws({ profile: 'operator' });
    const { status, shown } = await statusCommand(aws, { isTTY: false });
    expect(shown).toBe(
      `Error: The AWS profile requires a code of the MFA device ${serial}, and there is no terminal to ask for it. ` +
        'Run the command at a terminal, or set temporary credentials (aws configure export-credentials --format env)\n',
    );
    expect({ status, attempts: aws.assumedRoles().length }).toEqual({ status: 2, attempts: 0 });
  });

  it('can be interrupted at the prompt, by Ctrl-C in raw mode and by a signal', async () => {
    await using aws = await startAws({ profile: 'operator' });
    expect(await statusCommand(aws, { reply: '\x03' })).toMatchObject({
      status: 130,
      shown: expect.stringContaining('Interrupted'),
    });
    const interruption = new AbortController();
    const interrupt = { onPrompt: () => interruption.abort() };
    expect(await statusCommand(aws, interrupt, interruption.signal)).toMatchObject({ status: 130 });
    expect(aws.requests).toEqual([]);
  });
});

describe('the profile', () => {
  it('that does not exist is named, with those that do', async () => {
    await using aws = await startAws({ profile: 'operater' });
    const shown = 'Error: There is no AWS profile "operater". Set AWS_PROFILE to one of: base, no-region, operator\n';
    expect(await statusCommand(aws)).toMatchObject({ status: 2, shown });
    expect(aws.requests).toEqual([]);
  });

  it('default need not exist', async () => {
    const variables = { AWS_REGION: 'eu-central-1', AWS_ACCESS_KEY_ID: 'AKIDENV', AWS_SECRET_ACCESS_KEY: 'x' };
    await using aws = await startAws({ profile: '', variables, config: '' });
    expect((await statusCommand(aws)).shown).toContain('There is no stack Reports in eu-central-1');
    expect(aws.requests[0]).toMatchObject({ accessKey: 'AKIDENV' });
  });
});

describe('the region', () => {
  it.each([
    ['the profile, without variables', 'base', {}, 'eu-west-3'],
    ['AWS_DEFAULT_REGION, before the profile', 'base', { AWS_DEFAULT_REGION: 'eu-north-1' }, 'eu-north-1'],
    ['AWS_REGION, before both', 'base', { AWS_DEFAULT_REGION: 'eu-north-1', AWS_REGION: 'eu-south-1' }, 'eu-south-1'],
  ])('is that of %s', async (_, profile, variables, region) => {
    await using aws = await startAws({ profile, variables });
    expect((await statusCommand(aws)).shown).toContain(`There is no stack Reports in ${region}.`);
  });

  it('is asked for if neither variables nor the profile have one', async () => {
    await using aws = await startAws({ profile: 'no-region' });
    expect((await statusCommand(aws)).shown).toContain('Error: No AWS region is set.');
  });
});
