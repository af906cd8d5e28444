/** Proxies, private certificate authorities, client certificates and headers on the command line, over real sockets. */

import { readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { searchForSecrets } from '../support/secret-search.ts';
import { aDirectory, jsonOf, runInProcess } from '../support/process/command-line.ts';
import { createAuthority } from '../support/service/certificates.ts';
import { type PrivateService, privateHost, startPrivateService } from '../support/service/private-service.ts';
import { startProxy } from '../support/service/proxy-server.ts';

const passphrase = 'open sesame 1001';
const password = 'pr0xy-p@ssword:42';
const key = { REPORT_EXPORT_API_KEY: 'the-key-of-this-test' };
const env = { ...key, KEY_PASSPHRASE: passphrase };

/** The files of a client of the service, in a new directory. */
async function aClient({ authority }: Pick<PrivateService, 'authority'>) {
  const directory = await aDirectory();
  const client = authority.issue({ name: 'exporter', passphrase });
  const files = { 'ca.pem': authority.cert, 'client.pem': client.cert, 'client.key': client.key };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const secrets = { key: client.key.split('\n')[1] ?? '', passphrase, password };
  return { directory, secrets };
}

const demanding = { tls: { requestCert: true, rejectUnauthorized: true } };

describe('report-exporter local', () => {
  it('uses the options, and saves them without secrets for later commands', async () => {
    await using service = await startPrivateService(demanding);
    await using proxy = await startProxy({ target: service });
    const { directory, secrets } = await aClient(service);
    const out = join(directory, 'out');
    // Relative paths are saved as absolute ones.
    const file = (name: string) => relative(process.cwd(), join(directory, name));
    const ended = await runInProcess(
      [
        'local',
        '--base-url',
        service.namedUrl,
        '--out',
        out,
        '--json',
        '--proxy-url',
        proxy.url,
        '--ca',
        file('ca.pem'),
        '--client-certificate',
        file('client.pem'),
        '--client-key',
        file('client.key'),
        '--client-key-passphrase-env',
        'KEY_PASSPHRASE',
        '--header',
        'X-Tenant: acme',
        '--header',
        'X-Trace:1',
      ],
      env,
    );
    expect(ended).toMatchObject({ status: 0 });
    expect(jsonOf(ended)).toMatchObject({ pages: 1, reports: 2 });
    expect(service.requests).toMatchObject([{ client: 'exporter', headers: { 'x-tenant': 'acme', 'x-trace': '1' } }]);

    const again = await runInProcess(['start', '--out', out], env);
    const all = await runInProcess(['local', '--all', '--out', out], env);
    const checked = await runInProcess(['doctor', '--out', out], env);
    expect([again.status, all.status, checked.status]).toEqual([0, 0, 0]);
    expect(service.requests.map(({ client }) => client)).toEqual(Array(4).fill('exporter'));
    expect(proxy.requests).toHaveLength(4);
    expect(checked.stdout).toMatch(
      /✓ reports network +through proxy http:.*; trusts Example Private CA \(until .*\); client certificate exporter \(until/,
    );
    const state = await readFile(join(out, 'state.sqlite'), 'latin1');
    expect(state).toContain(join(directory, 'client.key'));
    expect(searchForSecrets({ state, ended, again, all, checked }, secrets)).toEqual([]);
  });

  it('uses the proxy in the variables, with its credentials, which appear nowhere', async () => {
    await using service = await startPrivateService();
    await using proxy = await startProxy({ target: service, credentials: () => `exporter:${password}` });
    const { directory, secrets } = await aClient(service);
    const out = join(directory, 'out');
    const words = ['local', '--base-url', service.namedUrl, '--out', out, '--ca', join(directory, 'ca.pem'), '--json'];
    const withCredentials = (text: string) => proxy.url.replace('://', `://exporter:${encodeURIComponent(text)}@`);
    const ended = await runInProcess(words, { ...key, HTTPS_PROXY: withCredentials(password) });
    expect(ended).toMatchObject({ status: 0 });
    const checked = await runInProcess(['doctor', '--out', out], { ...key, https_proxy: withCredentials(password) });
    expect(checked.stdout).toContain(`through proxy ${proxy.url} with credentials`);

    const wrong = { ...key, HTTPS_PROXY: withCredentials('wr0ng-p@ssword:43') };
    const failed = await runInProcess(words, wrong);
    expect(failed.stderr).toMatch(/Proxy http:.* responded with 407 to CONNECT for page 1 .*rejected the credentials/);
    const problem = await runInProcess(['doctor', '--out', out], wrong);
    expect(problem.stdout).toMatch(/✗ reports network +ConfigurationError: Proxy .* 407/);
    const state = await readFile(join(out, 'state.sqlite'), 'latin1');
    const all = { ...secrets, wrong: 'wr0ng-p@ssword:43' };
    expect(searchForSecrets({ state, ended, checked, failed, problem }, all)).toEqual([]);
    // The service never received them either.
    expect(searchForSecrets({ requests: service.requests }, all)).toEqual([]);
  });

  it('does not use the variables for a simulator, or for a service on the loopback interface', async () => {
    await using service = await startPrivateService();
    const { directory } = await aClient(service);
    const variables = { ...key, HTTPS_PROXY: 'http://127.0.0.1:9', HTTP_PROXY: 'http://127.0.0.1:9' };
    const simulated = await runInProcess(['local', '--out', join(directory, 'simulated')], variables);
    const words = [
      'local',
      '--base-url',
      service.url,
      '--ca',
      join(directory, 'ca.pem'),
      '--out',
      join(directory, 'out'),
    ];
    const loopback = await runInProcess(words, variables);
    expect([simulated.status, loopback.status]).toEqual([0, 0]);
  });

  it('rejects unusable files before the first request, with what to do', async () => {
    await using service = await startPrivateService(demanding);
    const { directory, secrets } = await aClient(service);
    const other = createAuthority({ name: 'Other' }).issue({ name: 'other' });
    await writeFile(join(directory, 'other.key'), other.key);
    const certificate = ['--client-certificate', join(directory, 'client.pem'), '--client-key'];
    const cases = [
      [['--ca', join(directory, 'nowhere.pem')], /tls\.ca: .*nowhere\.pem does not exist/],
      // As a pipe, which would block this process for good.
      [['--ca', '/dev/null'], /tls\.ca: \/dev\/null is a pipe or a device, not a regular file/],
      [[...certificate, '/dev/null'], /tls\.clientKey: \/dev\/null is a pipe or a device/],
      [['--ca', directory], /tls\.ca: .* is a directory, not a file/],
      [['--ca', join(directory, 'client.key')], /tls\.ca: .*client\.key contains no certificate/],
      [[...certificate, join(directory, 'client.key')], /tls\.clientKey: .*the key is encrypted\. Set its passphrase/],
      [[...certificate, join(directory, 'other.key')], /tls\.clientKey: .*other\.key: the key does not belong/],
    ] as const;
    for (const [words, message] of cases) {
      const out = join(directory, 'out');
      const ended = await runInProcess(['local', '--base-url', service.url, '--out', out, ...words], env);
      expect(ended).toMatchObject({ status: 2, stderr: expect.stringMatching(message) as unknown });
      expect(searchForSecrets({ ended }, secrets)).toEqual([]);
    }
    expect(service.requests).toEqual([]);
  });

  it('reports every wrong option at once, without values', async () => {
    const ended = await runInProcess(
      [
        'local',
        '--base-url',
        'https://a.example',
        '--proxy-url',
        'http://u:hunter2-secret@proxy.example',
        '--client-key',
        'k.pem',
        '--client-key-passphrase-env',
        'hunter2-secret',
        '--header',
        'hunter2-secret',
        '--header',
        'Authorization: hunter2-secret',
        '--header',
        'X-A: 1',
        '--header',
        'X-A: 2',
      ],
      env,
    );
    expect(ended.status).toBe(2);
    expect(ended.stderr.split('\n').filter((line) => line.startsWith('  --'))).toEqual([
      "  --header: must be a name and a value, such as 'X-Tenant: acme'",
      '  --header: X-A is given twice',
      expect.stringMatching(/^ {2}--proxy-url: must not contain a user or password: .*HTTPS_PROXY/),
      '  --client-key-passphrase-env: must be the name of an environment variable (letters, digits, underscores), not the passphrase',
      '  --client-certificate: is required with clientKey',
      expect.stringMatching(/^ {2}--header: Authorization must not be set: it holds a credential/),
    ]);
    expect(ended.stderr).not.toContain('hunter2');

    const simulated = await runInProcess(['local', '--ca', 'ca.pem', '--proxy-url', 'http://proxy.example'], env);
    expect(simulated.stderr).toMatch(
      /--proxy-url: the simulator does not use it; add --base-url\n.*--ca: the simulator/,
    );
    const valueless = await runInProcess(['local', '--header'], env);
    expect(valueless.stderr).toContain('--header: needs a value');
  });
});

describe('report-exporter local --settings', () => {
  it('reads files relative to the settings file; options replace single fields', async () => {
    await using service = await startPrivateService(demanding);
    await using proxy = await startProxy({ target: service });
    const { directory, secrets } = await aClient(service);
    const settings = {
      services: {
        acme: {
          baseUrl: service.namedUrl,
          proxyUrl: 'http://127.0.0.1:9',
          headers: { 'X-Tenant': 'acme', 'X-Stage': 'prod' },
          tls: {
            ca: 'ca.pem',
            clientCertificateSecret: 'reports/client',
            clientCertificate: 'client.pem',
            clientKey: './client.key',
            clientKeyPassphraseEnv: 'KEY_PASSPHRASE',
          },
        },
      },
      exports: [{ name: 'nightly' }],
    };
    const file = join(directory, 'settings.json');
    await writeFile(file, JSON.stringify(settings));
    const words = ['local', '--settings', file, '--out', join(directory, 'out'), '--header', 'X-Stage: test'];
    const ended = await runInProcess([...words, '--proxy-url', proxy.url], env);
    expect(ended).toMatchObject({ status: 0 });
    expect(service.requests).toMatchObject([
      { client: 'exporter', headers: { 'x-tenant': 'acme', 'x-stage': 'test' } },
    ]);
    expect(proxy.requests[0]?.authority).toContain(privateHost);
    const checked = await runInProcess(['doctor', '--out', join(directory, 'out'), '--json'], env);
    expect(JSON.parse(checked.stdout).status).not.toBe('problem');
    expect(searchForSecrets({ ended, checked }, secrets)).toEqual([]);
  });

  it('requires the files of a client certificate that on AWS is a secret, except for a simulator', async () => {
    const directory = await aDirectory();
    const file = join(directory, 'settings.json');
    const tls = { clientCertificateSecret: 'reports/client' };
    const services = { acme: { baseUrl: 'https://a.example', tls } };
    await writeFile(file, JSON.stringify({ services, exports: [{ name: 'nightly' }] }));
    const words = ['local', '--settings', file, '--out', join(directory, 'out')];
    const { status, stderr } = await runInProcess(words, env);
    expect(status).toBe(2);
    expect(stderr).toContain('services.acme.tls.clientCertificate: is required on this machine, with clientKey');
    expect(await runInProcess([...words, '--simulate'], env)).toMatchObject({ status: 0 });
  });
});
