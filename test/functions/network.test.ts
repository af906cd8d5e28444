/** ExportPage with a private service, a proxy, and secrets in AWS Secrets Manager, over real sockets. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { execute, type Functions } from '../support/export/function-machine.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { createAuthority, type IssuedCertificate } from '../support/service/certificates.ts';
import { type PrivateService, startPrivateService } from '../support/service/private-service.ts';
import { type ProxyServer, startProxy } from '../support/service/proxy-server.ts';

const apiKey = 'the-secret-api-key-7f3a';
const passphrase = 'open sesame 1001';
const password = 'pr0xy-p@ssword:42';

/** Everything that the functions write to stdout and stderr during the test. */
let written: string[] = [];
beforeEach(() => {
  written = [];
  const capture = (chunk: unknown) => {
    written.push(String(chunk));
    return true;
  };
  vi.spyOn(process.stdout, 'write').mockImplementation(capture);
  vi.spyOn(process.stderr, 'write').mockImplementation(capture);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

interface Deployment extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly service: PrivateService;
  readonly proxy: ProxyServer;
  readonly functions: Functions;
  readonly store: (certificate: IssuedCertificate & { readonly passphrase?: string }) => void;
}

const proxyCredentials = { username: 'exporter', password };

/** Functions for a service that demands a client certificate, behind a proxy that demands credentials. */
async function deploy(serviceSettings: object = {}): Promise<Deployment> {
  const aws = await startLocalAws();
  for (const [name, value] of Object.entries(aws.env)) vi.stubEnv(name, value);
  const service = await startPrivateService({ tls: { requestCert: true, rejectUnauthorized: true } });
  const proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
  aws.secrets.set('reports/api-key', apiKey);
  aws.secrets.set('reports/proxy', JSON.stringify(proxyCredentials));
  const env = {
    ...aws.env,
    DEPLOYMENT_NAME: 'ReportExporter',
    SERVICE_NAME: 'acme',
    TABLE_NAME: aws.table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: '',
    BUCKET_KMS_KEY_ARN: '',
  };
  const loadSettings = () => ({
    service: {
      baseUrl: service.namedUrl,
      proxyUrl: proxy.url,
      proxyCredentialsSecret: 'reports/proxy',
      headers: { 'X-Tenant': 'acme' },
      tls: { ca: service.authority.cert, clientCertificateSecret: 'reports/client' },
      ...serviceSettings,
    },
    exports: [{ name: 'reports' }],
  });
  return {
    aws,
    service,
    proxy,
    functions: {
      BeginRun: beginRunHandler(env, loadSettings),
      ExportPage: exportPageHandler(env, loadSettings),
      FinishRun: finishRunHandler(env, loadSettings),
      FailRun: failRunHandler(env, loadSettings),
    },
    store: (certificate) => void aws.secrets.set('reports/client', JSON.stringify(certificate)),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
      await aws[Symbol.asyncDispose]();
    },
  };
}

const secretsOf = ({ key }: IssuedCertificate) => ({ key: key.split('\n')[1] ?? '', passphrase, password, apiKey });

describe('ExportPage', () => {
  it('exports through the proxy with the client certificate in the secret, and logs neither', async () => {
    await using deployment = await deploy();
    const { service, functions, proxy } = deployment;
    const client = { ...service.authority.issue({ name: 'exporter', passphrase }), passphrase };
    deployment.store(client);
    const result = await execute(functions, { name: 'first' });
    expect(result).toMatchObject({ status: 'succeeded', output: { pages: 1, reports: 2 } });
    expect(service.requests).toMatchObject([{ client: 'exporter', headers: { 'x-tenant': 'acme' } }]);
    expect(proxy.requests).toHaveLength(1);
    expect(searchForSecrets({ result, written, objects: [...deployment.aws.objects] }, secretsOf(client))).toEqual([]);
  });

  it('uses a rotated certificate and rotated credentials without a failed attempt', async () => {
    await using deployment = await deploy();
    const { service, functions, aws } = deployment;
    const former = createAuthority({ name: 'Former CA' }).issue({ name: 'former' });
    aws.secrets.set('reports/proxy', JSON.stringify({ ...proxyCredentials, password: 'former' }));
    deployment.store(former);
    // The function caches them.
    const failed = await execute(functions, { name: 'first' });
    expect(failed).toMatchObject({ status: 'failed', error: 'ConfigurationError' });
    const before = written.join('').split('attempt-failed').length;

    const current = service.authority.issue({ name: 'current' });
    aws.secrets.set('reports/proxy', JSON.stringify(proxyCredentials));
    deployment.store(current);
    const result = await execute(functions, { name: 'second' });
    expect(result).toMatchObject({ status: 'succeeded' });
    expect(service.requests).toMatchObject([{ client: 'current' }]);
    expect(written.join('').split('attempt-failed')).toHaveLength(before);
    expect(
      searchForSecrets({ failed, result, written }, { ...secretsOf(current), former: secretsOf(former).key }),
    ).toEqual([]);
  });

  const other = createAuthority({ name: 'Other' });
  it.each([
    [
      'no JSON',
      'hunter2-secret',
      /^The secret reports\/client holds no client certificate\. Store JSON with the fields "cert" and "key"/,
    ],
    ['no key', JSON.stringify({ cert: other.cert }), /holds no client certificate/],
    [
      'a passphrase that is no text',
      JSON.stringify({ ...other.issue({ name: 'x' }), passphrase: 7 }),
      /holds no client certificate/,
    ],
    [
      'an expired certificate',
      JSON.stringify(other.issue({ name: 'old', until: new Date(Date.now() - 1_000) })),
      /^The field "cert" of secret reports\/client: the client certificate old expired on/,
    ],
    [
      'a key of another certificate',
      JSON.stringify({ ...other.issue({ name: 'a' }), key: other.issue({ name: 'b' }).key }),
      /^The field "key" of secret reports\/client: the key does not belong to the certificate a/,
    ],
    [
      'an encrypted key without its passphrase',
      JSON.stringify(other.issue({ name: 'a', passphrase })),
      /the key is encrypted\. Set its passphrase: field "passphrase" of secret reports\/client/,
    ],
    [undefined, undefined, /^The secret reports\/client cannot be read \(ResourceNotFoundException\)/],
  ])('fails without a request if the secret has %s, and says what to do', async (_, secret, message) => {
    await using deployment = await deploy();
    if (secret !== undefined) deployment.aws.secrets.set('reports/client', secret);
    const result = await execute(deployment.functions, { name: 'first' });
    expect(result).toMatchObject({ status: 'failed', error: 'ConfigurationError' });
    const failed = result.events[0] as { failed: { message: string } };
    expect(failed.failed.message).toMatch(message);
    expect(deployment.proxy.requests).toEqual([]);
    const lines = [...(secret ?? '').matchAll(/[\w+/=-]{12,}/g)].map(([text]) => text);
    expect(searchForSecrets({ result, written }, Object.fromEntries(lines.map((line) => [line, line])))).toEqual([]);
  });

  it('fails without a request if the secret has no credentials for the proxy', async () => {
    await using deployment = await deploy();
    deployment.store(deployment.service.authority.issue({ name: 'exporter' }));
    for (const secret of ['hunter2-secret', '{}', '{"username":"a:b","password":"hunter2-secret"}']) {
      deployment.aws.secrets.set('reports/proxy', secret);
      const result = await execute(deployment.functions, { name: `with-${secret.length}` });
      expect(result).toMatchObject({ status: 'failed', error: 'ConfigurationError' });
      expect(JSON.stringify(result)).toContain('The secret reports/proxy holds no credentials for the proxy');
      expect(JSON.stringify(result) + written.join('')).not.toContain('hunter2');
    }
    expect(deployment.proxy.requests).toEqual([]);
  });
});
