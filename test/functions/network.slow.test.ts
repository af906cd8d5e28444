/** ExportPage with a private service, a proxy, and secrets in AWS Secrets Manager, over real sockets. */

import { describe, expect, it } from 'vitest';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { execute, type Functions } from '../support/export/function-machine.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { createAuthority, type IssuedCertificate } from '../support/service/certificates.ts';
import { type PrivateService, startPrivateService } from '../support/service/private-service.ts';
import { type ProxyServer, startProxy } from '../support/service/proxy-server.ts';

const apiKey = 'the-secret-api-key-7f3a';
const passphrase = 'open sesame 1001';
const password = 'pr0xy-p@ssword:42';

const output = captureOutput();

interface Deployment extends AsyncDisposable {
  readonly aws: FakeAws;
  readonly service: PrivateService;
  readonly proxy: ProxyServer;
  readonly functions: Functions;
  readonly store: (certificate: IssuedCertificate & { readonly passphrase?: string }) => void;
}

const proxyCredentials = { username: 'exporter', password };

/** Functions for a service that demands a client certificate, behind a proxy that demands credentials. */
async function deploy(serviceSettings: object = {}): Promise<Deployment> {
  const aws = createFakeAws();
  const service = await startPrivateService({ tls: { requestCert: true, rejectUnauthorized: true } });
  const proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
  aws.secrets.set('reports/api-key', apiKey);
  aws.secrets.set('reports/proxy', JSON.stringify(proxyCredentials));
  const settings = {
    service: {
      baseUrl: service.namedUrl,
      proxyUrl: proxy.url,
      proxyCredentialsSecret: 'reports/proxy',
      headers: { 'X-Tenant': 'acme' },
      tls: { ca: service.authority.cert, clientCertificateSecret: 'reports/client' },
      ...serviceSettings,
    },
    exports: [{ name: 'reports' }],
  };
  return {
    aws,
    service,
    proxy,
    functions: deployedFunctions(aws, settings),
    store: (certificate) => void aws.secrets.set('reports/client', JSON.stringify(certificate)),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
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
    expect(
      searchForSecrets({ result, written: output.text(), requested: [...deployment.aws.requested] }, secretsOf(client)),
    ).toEqual([]);
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
    const before = output.text().split('attempt-failed').length;

    const current = service.authority.issue({ name: 'current' });
    aws.secrets.set('reports/proxy', JSON.stringify(proxyCredentials));
    deployment.store(current);
    const result = await execute(functions, { name: 'second' });
    expect(result).toMatchObject({ status: 'succeeded' });
    expect(service.requests).toMatchObject([{ client: 'current' }]);
    expect(output.text().split('attempt-failed')).toHaveLength(before);
    expect(
      searchForSecrets(
        { failed, result, written: output.text() },
        { ...secretsOf(current), former: secretsOf(former).key },
      ),
    ).toEqual([]);
  });
});
