/** Proxies, certificates and headers of a service in a deployment. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { functionSettings } from '../../../lib/settings/deployed-settings.ts';
import { deploymentSettings } from '../../../lib/cdk/settings/read-settings.ts';
import { someSettings } from '../../support/settings.ts';
import { aDirectory } from '../../support/process/command-line.ts';
import { createAuthority } from '../../support/service/certificates.ts';

const authority = createAuthority({ name: 'Example CA' });
const baseUrl = 'https://reports.example.com';

it('the functions get the network settings without what is for runs on this machine only', () => {
  const tls = { ca: authority.cert, clientCertificateSecret: 'reports/client' };
  const written = {
    baseUrl,
    proxyUrl: 'http://proxy.example:3128',
    proxyCredentialsSecret: 'reports/proxy',
    headers: { 'X-Tenant': 'acme' },
  };
  const local = { clientCertificate: 'client.pem', clientKey: 'client.key', clientKeyPassphraseEnv: 'PASSPHRASE' };
  const settings = deploymentSettings(someSettings({ service: { ...written, tls: { ...tls, ...local } } }));
  const deployed = settings.services.map((each) => functionSettings(each).service);
  expect(deployed).toMatchObject([written]);
  expect(deployed[0]?.tls).toEqual(tls);
});

it('tls.ca becomes the content of the file, whose path is relative to the settings file', async () => {
  const directory = await aDirectory();
  mkdirSync(join(directory, 'certs'));
  writeFileSync(join(directory, 'certs/ca.pem'), `# notes\n${authority.cert}`);
  const file = join(directory, 'settings.json');
  writeFileSync(file, JSON.stringify(someSettings({ service: { baseUrl, tls: { ca: 'certs/ca.pem' } } })));
  expect(deploymentSettings(file).services[0]?.service.tls?.ca).toBe(authority.cert);
});
