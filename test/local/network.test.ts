/** The proxy and the certificates of a run on this machine, from settings, files and variables. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLocalNetwork } from '../../lib/local/network.ts';
import { aDirectory } from '../support/process/command-line.ts';
import { createAuthority } from '../support/service/certificates.ts';

const baseUrl = 'https://reports.example.com';
const networkOf = (env: Readonly<Record<string, string>>, settings: object = {}, url = baseUrl) =>
  createLocalNetwork({ baseUrl: url, settings, env, now: Date.now }).get();

describe('the proxy', () => {
  const proxy = { origin: 'http://proxy.example:3128', credentials: undefined };
  const url = proxy.origin;

  it.each([
    ['HTTPS_PROXY', { HTTPS_PROXY: url }],
    ['https_proxy, before HTTPS_PROXY', { https_proxy: url, HTTPS_PROXY: 'http://other.example' }],
    ['HTTPS_PROXY, whatever http_proxy is', { HTTPS_PROXY: url, http_proxy: 'http://other.example' }],
    ['a host and port without a scheme', { HTTPS_PROXY: 'proxy.example:3128' }],
  ])('is in the variable %s', async (_, env) => {
    expect((await networkOf(env)).proxy).toEqual({ origin: url });
  });

  it.each([
    ['no variable is set', {}],
    ['only HTTP_PROXY is set, which is for http', { HTTP_PROXY: url, http_proxy: url }],
    ['the variable is empty', { https_proxy: '', HTTPS_PROXY: url, HTTP_PROXY: url }],
    ['NO_PROXY is *', { HTTPS_PROXY: url, NO_PROXY: '*' }],
    ['NO_PROXY has the host', { HTTPS_PROXY: url, NO_PROXY: 'localhost, Reports.Example.com' }],
    ['no_proxy has the domain', { HTTPS_PROXY: url, no_proxy: 'example.com', NO_PROXY: '' }],
    ['NO_PROXY has .domain', { HTTPS_PROXY: url, NO_PROXY: '.example.com' }],
    ['NO_PROXY has *.domain', { HTTPS_PROXY: url, NO_PROXY: '*.example.com' }],
    ['NO_PROXY has host and port', { HTTPS_PROXY: url, NO_PROXY: 'reports.example.com:443' }],
  ])('is not used if %s', async (_, env) => {
    expect((await networkOf(env)).proxy).toBeUndefined();
  });

  it.each(['ports.example.com', '*.reports.example.com', 'reports.example.com:8443', 'reports', ','])(
    'is used although NO_PROXY is %s',
    async (entry) => {
      expect((await networkOf({ HTTPS_PROXY: url, NO_PROXY: entry })).proxy).toEqual({ origin: url });
    },
  );

  it.each(['http://127.0.0.1:8080', 'https://localhost', 'http://[::1]:80', 'https://a.localhost'])(
    'in a variable is not used for %s',
    async (loopback) => {
      expect((await networkOf({ HTTPS_PROXY: url, HTTP_PROXY: url }, {}, loopback)).proxy).toBeUndefined();
    },
  );

  it.each([
    ['10.1.2.3', '10.1.2.3'],
    ['[fd00::1]', 'fd00::1'],
    ['[fd00::1]', '[fd00::1]:443'],
  ])('is not used for the address %s if NO_PROXY is %s', async (host, entry) => {
    expect((await networkOf({ HTTPS_PROXY: url, NO_PROXY: entry }, {}, `https://${host}`)).proxy).toBeUndefined();
  });

  it('in a setting comes before the variables, NO_PROXY included, which may have its credentials', async () => {
    const settings = { proxyUrl: url };
    expect((await networkOf({ HTTPS_PROXY: 'http://other.example', NO_PROXY: '*' }, settings)).proxy).toEqual(proxy);
    const credentials = { username: 'exporter', password: 'p@ss:w%rd' };
    const env = { HTTPS_PROXY: 'http://exporter:p%40ss:w%25rd@proxy.example:3128/' };
    expect((await networkOf(env)).proxy).toEqual({ origin: url, credentials });
    expect((await networkOf(env, settings)).proxy).toEqual({ origin: url, credentials });
    // Not those for another proxy.
    expect((await networkOf(env, { proxyUrl: 'http://other.example' })).proxy).toEqual({
      origin: 'http://other.example',
      credentials: undefined,
    });
  });

  it.each([
    ['exporter:hunter2@proxy.example:3128', 'hunter2'],
    ['exporter:%3A%2F%2F@proxy.example:3128', '://'],
  ])('without a scheme keeps its credentials: %s', async (value, password) => {
    const expected = { origin: url, credentials: { username: 'exporter', password } };
    const env = { HTTPS_PROXY: value };
    expect((await networkOf(env)).proxy).toEqual(expected);
    expect((await networkOf(env, { proxyUrl: url })).proxy).toEqual(expected);
  });

  it('keeps a password without a user', async () => {
    const expected = { origin: url, credentials: { username: '', password: 'hunter2' } };
    for (const value of ['http://:hunter2@proxy.example:3128', ':hunter2@proxy.example:3128']) {
      expect((await networkOf({ HTTPS_PROXY: value })).proxy).toEqual(expected);
      expect((await networkOf({ HTTPS_PROXY: value }, { proxyUrl: url })).proxy).toEqual(expected);
    }
  });

  it.each([
    ['user:hunter2-secret@:3128', 'is not the URL of an HTTP proxy'],
    ['user:hunter2-secret://b@proxy.example:3128', 'is not the URL of an HTTP proxy'],
    ['socks5://user:hunter2-secret@proxy.example', 'is not the URL of an HTTP proxy'],
    ['http://user:hunter2-secret@', 'is not the URL of an HTTP proxy'],
    ['http://user:hunter2-%secret@proxy.example', 'has credentials that are not percent-encoded'],
  ])('cannot be %s, which no message quotes', async (value, problem) => {
    const error = await networkOf({ HTTPS_PROXY: value }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^The environment variable HTTPS_PROXY .*\. (Set|Encode)/) as unknown,
    });
    expect(String(error)).not.toContain('hunter2');
    expect(String(error)).toContain(problem);
  });
});

describe('certificates', () => {
  it('are read from files, and read again on a refresh', async () => {
    const directory = await aDirectory();
    const authority = createAuthority({ name: 'CA' });
    const passphrase = 'open sesame 1001';
    const [first, second] = [
      authority.issue({ name: 'first', passphrase }),
      authority.issue({ name: 'second', passphrase }),
    ];
    const [ca, clientCertificate, clientKey] = ['ca.pem', 'c.pem', 'k.pem'].map((name) => join(directory, name));
    const write = async ({ cert, key }: typeof first) => {
      await writeFile(String(ca), authority.cert);
      await writeFile(String(clientCertificate), cert);
      await writeFile(String(clientKey), key);
    };
    const tls = { ca, clientCertificate, clientKey, clientKeyPassphraseEnv: 'PASSPHRASE' };
    const network = createLocalNetwork({ baseUrl, settings: { tls }, env: { PASSPHRASE: passphrase }, now: Date.now });
    await write(first);
    const expected = { ca: authority.cert, clientCertificate: { ...first, passphrase } };
    expect(await network.get()).toMatchObject(expected);
    await write(second);
    expect(await network.get()).toMatchObject(expected);
    expect(await network.refresh()).toMatchObject({ clientCertificate: second });
    expect(await network.get()).toMatchObject({ clientCertificate: second });
  });

  it('need the variable that has the passphrase', async () => {
    const tls = { clientCertificate: 'c.pem', clientKey: 'k.pem', clientKeyPassphraseEnv: 'Hunter2_secret' };
    const error = await networkOf({}, { tls }).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(
      /^ConfigurationError: The environment variable in tls\.clientKeyPassphraseEnv is not set/,
    );
    expect(String(error)).not.toContain('Hunter2');
  });

  it.each([
    [{ ca: '/nowhere/ca.pem' }, 'tls.ca: /nowhere/ca.pem does not exist'],
    [
      { clientCertificate: '/nowhere/c.pem', clientKey: '/nowhere/k.pem' },
      'tls.clientCertificate: /nowhere/c.pem does not exist',
    ],
  ])('name the file that cannot be read: %j', async (tls, message) => {
    await expect(networkOf({}, { tls })).rejects.toMatchObject({ name: 'ConfigurationError', message });
  });
});
