/** Proxies, private certificate authorities, client certificates and headers of a settings file, over real sockets. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { textOfState } from '../support/export/state-rows.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { aDirectory, jsonOf, runInProcess } from '../support/process/command-line.ts';
import { type PrivateService, privateHost, startPrivateService } from '../support/service/private-service.ts';
import { startProxy } from '../support/service/proxy-server.ts';

const passphrase = 'open sesame 1001';
const password = 'pr0xy-p@ssword:42';
const key = { REPORT_EXPORT_API_KEY: 'the-key-of-this-test' };
const env = { ...key, KEY_PASSPHRASE: passphrase };

/** The bytes of the state, and the states: in a file of SQLite, a long value is cut. */
async function stateIn(out: string): Promise<string> {
  const file = join(out, 'state.sqlite');
  return `${await readFile(file, 'latin1')}${textOfState(file)}`;
}

/** The files of a client of the service, in a new directory, with a settings file that has these settings. */
async function aClient({ authority }: Pick<PrivateService, 'authority'>, service: object) {
  const directory = await aDirectory();
  const client = authority.issue({ name: 'exporter', passphrase });
  const settings = { services: { acme: service }, exports: [{ name: 'nightly' }] };
  const files = {
    'ca.pem': authority.cert,
    'client.pem': client.cert,
    'client.key': client.key,
    'settings.json': JSON.stringify(settings),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const secrets = { key: client.key.split('\n')[1] ?? '', passphrase, password };
  const out = join(directory, 'out');
  return { out, secrets, words: ['local', '--settings', join(directory, 'settings.json'), '--out', out] };
}

const demanding = { tls: { requestCert: true, rejectUnauthorized: true } };

describe('report-exporter local --settings', () => {
  it('reads files relative to the settings file, and stores no secrets', async () => {
    await using service = await startPrivateService(demanding);
    await using proxy = await startProxy({ target: service });
    const { out, secrets, words } = await aClient(service, {
      baseUrl: service.namedUrl,
      proxyUrl: proxy.url,
      headers: { 'X-Tenant': 'acme' },
      tls: {
        ca: 'ca.pem',
        clientCertificateSecret: 'reports/client',
        clientCertificate: 'client.pem',
        clientKey: './client.key',
        clientKeyPassphraseEnv: 'KEY_PASSPHRASE',
      },
    });
    const ended = await runInProcess([...words, '--json'], env);
    expect(ended).toMatchObject({ status: 0 });
    expect(jsonOf(ended)).toMatchObject({ pages: 1, reports: 2 });
    expect(service.requests).toMatchObject([{ client: 'exporter', headers: { 'x-tenant': 'acme' } }]);
    expect(proxy.requests[0]?.authority).toContain(privateHost);

    const later = words.slice(1);
    const again = await runInProcess(['start', ...later], env);
    const checked = await runInProcess(['doctor', ...later], env);
    expect([again.status, checked.status]).toEqual([0, 0]);
    expect(service.requests.map(({ client }) => client)).toEqual(Array(3).fill('exporter'));
    expect(checked.stdout).toMatch(
      /✓ network +nightly: through proxy http:.*; trusts Example Private CA \(until .*\); client certificate exporter \(until/,
    );
    const state = await stateIn(out);
    expect(searchForSecrets({ state, ended, again, checked }, secrets)).toEqual([]);
  });

  it('uses the proxy in the variables, with its credentials, which appear nowhere', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
    const { out, secrets, words } = await aClient(service, { baseUrl: service.namedUrl, tls: { ca: 'ca.pem' } });
    const withCredentials = (text: string) => proxy.url.replace('://', `://exporter:${encodeURIComponent(text)}@`);
    const ended = await runInProcess(words, { ...key, HTTPS_PROXY: withCredentials(password) });
    expect(ended).toMatchObject({ status: 0 });
    const checked = await runInProcess(['doctor', ...words.slice(1)], {
      ...key,
      https_proxy: withCredentials(password),
    });
    expect(checked.stdout).toContain(`through proxy ${proxy.url} with credentials`);

    const wrong = { ...key, HTTPS_PROXY: withCredentials('wr0ng-p@ssword:43') };
    const failed = await runInProcess(words, wrong);
    expect(failed.stderr).toMatch(/Proxy http:.* responded with 407 to CONNECT for page 1 .*rejected the credentials/);
    const problem = await runInProcess(['doctor', ...words.slice(1)], wrong);
    expect(problem.stdout).toMatch(/✗ network +nightly: ConfigurationError: Proxy .* 407/);
    const state = await stateIn(out);
    const all = { ...secrets, wrong: 'wr0ng-p@ssword:43' };
    expect(searchForSecrets({ state, ended, checked, failed, problem }, all)).toEqual([]);
    // The service never received them either.
    expect(searchForSecrets({ requests: service.requests }, all)).toEqual([]);
  });

  it('rejects an unusable file before the first request', async () => {
    await using service = await startPrivateService(demanding);
    const tls = { clientCertificate: 'client.pem', clientKey: 'client.key' };
    const { secrets, words } = await aClient(service, { baseUrl: service.url, tls });
    const ended = await runInProcess(words, env);
    expect(ended).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/tls\.clientKey: .*the key cannot be decrypted\. Set its passphrase/),
    });
    expect(searchForSecrets({ ended }, secrets)).toEqual([]);
    expect(service.requests).toEqual([]);
  });
});

it('a simulator is reached without a proxy', async () => {
  const variables = { ...key, HTTPS_PROXY: 'http://127.0.0.1:9', HTTP_PROXY: 'http://127.0.0.1:9' };
  expect(await runInProcess(['local', '--out', await aDirectory()], variables)).toMatchObject({ status: 0 });
});
