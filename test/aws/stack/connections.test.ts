/** An operator in a network where only the proxy resolves the names of AWS, with certificates of a private CA. */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { HeadBucketCommand } from '@aws-sdk/client-s3';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createOperatorClients } from '../../../lib/aws/stack/clients.ts';
import { probeFromFunction } from '../../../lib/aws/stack/service-connection.ts';
import { startPrivateService } from '../../support/service/private-service.ts';
import { type ProxyServer, startProxy } from '../../support/service/proxy-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const region = 'eu-central-1';
const credentials = 'alice:s%C3%A9cret';
const config = `
[default]
region = ${region}
ca_bundle = CA_OF_PROFILE
[profile base]
region = ${region}
[profile role]
role_arn = arn:aws:iam::123456789012:role/operator
source_profile = base
region = ${region}
[profile mfa]
role_arn = arn:aws:iam::123456789012:role/operator
source_profile = base
mfa_serial = arn:aws:iam::123456789012:mfa/alice
region = ${region}
[profile sso]
sso_session = company
sso_account_id = 123456789012
sso_role_name = operator
region = ${region}
[sso-session company]
sso_region = ${region}
sso_start_url = https://company.awsapps.com/start
`;

/** STS and SSO issue credentials. Every other service rejects all requests. */
const aws: RequestListener = (request, response) => {
  const { host = '' } = request.headers;
  if (host.startsWith('sts.')) {
    response.setHeader('content-type', 'text/xml');
    response.end(
      '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>' +
        '<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>key</SecretAccessKey><SessionToken>token</SessionToken>' +
        '<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>',
    );
    return;
  }
  if (host.startsWith('portal.sso.')) {
    const roleCredentials = { accessKeyId: 'AKIDSSO', secretAccessKey: 'key', sessionToken: 'token', expiration: 4e12 };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ roleCredentials }));
    return;
  }
  response.writeHead(400, { 'content-type': 'text/xml' });
  response.end('<ErrorResponse><Error><Type>Sender</Type><Code>Rejected</Code></Error></ErrorResponse>');
};

type Variables = Readonly<Record<string, string | undefined>>;

/** With `ca.pem` and `variables` in the environment. HTTPS_PROXY is the proxy unless they have another one. */
async function startNetwork(variables: Variables = {}, reject?: number) {
  const domain = `${region}.amazonaws.com`;
  const hosts = ['127.0.0.1', `*.${domain}`, `*.s3.${domain}`, `*.sso.${domain}`];
  const service = await startPrivateService({ listener: aws, hosts });
  const proxy = await startProxy({ target: service, credentials: () => decodeURIComponent(credentials), reject });
  const directory = await temporaryDirectory();
  const path = (name: string) => join(directory.path, name);
  await writeFile(path('ca.pem'), service.authority.cert);
  await writeFile(path('config'), config.replace('CA_OF_PROFILE', path('ca.pem')));
  await writeFile(path('credentials'), '[base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = key\n');
  const cache = path('.aws/sso/cache');
  await mkdir(cache, { recursive: true });
  const token = { accessToken: 'token', expiresAt: '2099-01-01T00:00:00Z' };
  await writeFile(join(cache, `${createHash('sha1').update('company').digest('hex')}.json`), JSON.stringify(token));
  const env: Record<string, string | undefined> = {
    HOME: directory.path,
    AWS_CONFIG_FILE: path('config'),
    AWS_SHARED_CREDENTIALS_FILE: path('credentials'),
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_ACCESS_KEY_ID: undefined,
    AWS_SECRET_ACCESS_KEY: undefined,
    AWS_REGION: undefined,
    AWS_PROFILE: 'base',
    AWS_CA_BUNDLE: path('ca.pem'),
    HTTPS_PROXY: proxy.url.replace('//', `//${credentials}@`),
    ...variables,
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return {
    env,
    service,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
      await directory.remove();
    },
  };
}

afterEach(() => void vi.unstubAllEnvs());

async function send(
  { env }: { readonly env: Readonly<Record<string, string | undefined>> },
  operation: (clients: ReturnType<typeof createOperatorClients>) => Promise<unknown>,
): Promise<unknown> {
  const clients = createOperatorClients(env);
  return await operation(clients)
    .catch((error: unknown) => error)
    .finally(() => clients.close());
}

const describeStacks = ({ cloudFormation }: ReturnType<typeof createOperatorClients>) =>
  cloudFormation.send(new DescribeStacksCommand({}));

const signIn: typeof describeStacks = async (clients) => {
  vi.stubEnv('AWS_PROFILE', 'sso');
  return await describeStacks(clients);
};

const tunnels = ({ requests }: ProxyServer) =>
  [...new Set(requests.map(({ authority }) => authority.replace(`.${region}.amazonaws.com:443`, '')))].sort();

describe('a proxy in HTTPS_PROXY', () => {
  it('is used by the clients of all services, and to assume the role of the profile', async () => {
    await using network = await startNetwork({ AWS_PROFILE: 'role' });
    await send(network, async (clients) => {
      const results = await Promise.allSettled([
        describeStacks(clients),
        clients.dynamoDb.send(new GetItemCommand({ TableName: 'x', Key: { pk: { S: 'x' } } })),
        clients.s3.send(new HeadBucketCommand({ Bucket: 'bucket' })),
        clients.open((each) => new SecretsManagerClient(each)).send(new GetSecretValueCommand({ SecretId: 'x' })),
        probeFromFunction(clients, 'arn:aws:lambda:eu-central-1:123456789012:function:x', 'x', 'x' as never),
      ]);
      expect(results.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
    });
    const services = ['bucket.s3', 'cloudformation', 'dynamodb', 'lambda', 'secretsmanager', 'sts'];
    expect(tunnels(network.proxy)).toEqual(services);
    expect(network.service.requests.map(({ headers }) => headers.authorization?.includes('AKIDROLE'))).toContain(true);
  });

  it('is used to sign in by SSO', async () => {
    await using network = await startNetwork({ AWS_PROFILE: 'sso' });
    await send(network, describeStacks);
    expect(tunnels(network.proxy)).toEqual(['cloudformation', 'portal.sso']);
    expect(network.service.requests.at(-1)?.headers.authorization).toContain('AKIDSSO');
  });

  it('is not used for a host in NO_PROXY, or on the loopback interface', async () => {
    await using network = await startNetwork({ NO_PROXY: 'amazonaws.test' });
    vi.stubEnv('AWS_ENDPOINT_URL_CLOUDFORMATION', 'https://cloudformation.amazonaws.test');
    expect(await send(network, describeStacks)).toMatchObject({ message: expect.stringContaining('ENOTFOUND') });
    vi.stubEnv('AWS_ENDPOINT_URL_CLOUDFORMATION', network.service.url);
    expect(await send(network, describeStacks)).toMatchObject({ name: 'Rejected' });
    expect(network.proxy.requests).toEqual([]);
  });

  it('that rejects the credentials, or the host, is named with a remedy', async () => {
    await using network = await startNetwork();
    const { url } = network.proxy;
    const rejected = `Proxy ${url} responded with 407 to CONNECT. Set its user and password in HTTPS_PROXY, percent-encoded: http://user:password@proxy.example.com:3128`;
    const env = { ...network.env, HTTPS_PROXY: url };
    expect(await send({ env }, describeStacks)).toMatchObject({ name: 'ConfigurationError', message: rejected });

    await using other = await startNetwork({}, 403);
    const forbidden = `Proxy ${other.proxy.url} responded with 403 to CONNECT. Have it allow the hosts of AWS (*.amazonaws.com), or list them in NO_PROXY if they need no proxy`;
    expect(await send(other, describeStacks)).toMatchObject({ name: 'ConfigurationError', message: forbidden });
    // The SDK keeps only the text of this error.
    expect(await send({ env: { ...other.env } }, signIn)).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining(
        `Cannot reach AWS (ProxyError: Proxy ${other.proxy.url} responded with 403 to CONNECT)`,
      ),
    });
  });

  it('that cannot be reached, or is no URL, is named with the variable', async () => {
    await using network = await startNetwork();
    await network.proxy[Symbol.asyncDispose]();
    expect(await send(network, describeStacks)).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining(
        `Cannot reach AWS (Proxy ${network.proxy.url} cannot be reached (ECONNREFUSED)). Check`,
      ),
    });
    expect(await send({ env: { ...network.env, HTTPS_PROXY: 'socks5://proxy' } }, describeStacks)).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^The environment variable HTTPS_PROXY is not the URL of an HTTP proxy/),
    });
  });
});

describe('the certificate authorities', () => {
  it('are those of ca_bundle in the profile, if AWS_CA_BUNDLE is not set', async () => {
    const variables = { AWS_PROFILE: '', AWS_ACCESS_KEY_ID: 'AKID', AWS_SECRET_ACCESS_KEY: 'key', AWS_CA_BUNDLE: '' };
    await using network = await startNetwork(variables);
    expect(await send(network, describeStacks)).toMatchObject({ name: 'Rejected' });
  });

  it('are asked for if the certificate is not trusted', async () => {
    await using network = await startNetwork({ AWS_CA_BUNDLE: '' });
    expect(await send(network, describeStacks)).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/certificate.*\. If a proxy inspects TLS here, set AWS_CA_BUNDLE/),
    });
  });

  it.each([
    ['missing.pem', /^AWS_CA_BUNDLE: .*missing\.pem does not exist/],
    ['config', /^AWS_CA_BUNDLE: .*config contains no certificate/],
  ])('must be a file with certificates: %s', async (file, message) => {
    await using network = await startNetwork();
    const env = { ...network.env, AWS_CA_BUNDLE: join(network.env.HOME ?? '', file) };
    const error = { name: 'ConfigurationError', message: expect.stringMatching(message) };
    expect(await send({ env }, describeStacks)).toMatchObject(error);
  });
});

describe('the profile', () => {
  it('that requires an MFA code is used with temporary credentials, as the message says', async () => {
    await using network = await startNetwork({ AWS_PROFILE: 'mfa' });
    expect(await send(network, describeStacks)).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/multi-factor authentication.*aws configure export-credentials --format env/),
    });
  });

  it.each([
    [undefined, undefined, region],
    ['eu-north-1', undefined, 'eu-north-1'],
    ['eu-north-1', 'eu-south-1', 'eu-south-1'],
  ])('has the region, unless AWS_DEFAULT_REGION (%s) or AWS_REGION (%s) has', async (fallback, own, expected) => {
    await using network = await startNetwork({ AWS_DEFAULT_REGION: fallback, AWS_REGION: own });
    const clients = createOperatorClients(network.env);
    expect(await clients.cloudFormation.config.region()).toBe(expected);
    clients.close();
  });
});
