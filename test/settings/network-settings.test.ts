import { describe, expect, it } from 'vitest';
import { serviceSettingsSchema } from '../../lib/settings/settings.ts';
import { parseSettings } from '../support/settings-file.ts';

const parse = (settings: object) =>
  parseSettings(serviceSettingsSchema, { baseUrl: 'https://a.example', ...settings }, 'service');
const problemOf = (settings: object): string => {
  try {
    parse(settings);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

describe('proxyUrl', () => {
  it.each(['http://proxy.example:3128', 'https://proxy.example', 'http://10.0.0.1:8080/', 'http://[::1]:3128'])(
    'may be %s',
    (proxyUrl) => expect(parse({ proxyUrl })).toMatchObject({ proxyUrl }),
  );

  it.each([
    ['http://user:hunter2-secret@proxy.example', 'proxyUrl: must not contain a user or password'],
    ['http://hunter2-secret@proxy.example', 'proxyUrl: must not contain a user or password'],
    ['socks5://hunter2-secret.example', 'proxyUrl: must be the URL of an HTTP proxy'],
    ['hunter2-secret:3128', 'proxyUrl: must be the URL of an HTTP proxy'],
    ['', 'proxyUrl: must be the URL of an HTTP proxy'],
    ['http://proxy.example/hunter2-secret', 'proxyUrl: must not contain a path'],
    ['http://proxy.example/?key=hunter2-secret', 'proxyUrl: must not contain a path'],
  ])('must not be %s, which no message quotes', (proxyUrl, problem) => {
    expect(problemOf({ proxyUrl })).toContain(problem);
    expect(problemOf({ proxyUrl })).not.toContain('hunter2');
  });
});

describe('headers', () => {
  it('are any others than those of the exporter', () => {
    const headers = { 'X-Tenant': 'acme', 'x-trace_id': 'a b', Via: '1.1 gateway' };
    expect(parse({ headers }).headers).toEqual(headers);
  });

  it.each([
    ...'X-SERVICE-API-KEY x-acme-api-key X-Api-Key X-Service-Cursor Authorization cookie Content-Type content-length Content-Encoding ACCEPT accept-encoding Host'.split(
      ' ',
    ),
    ...'Connection Keep-Alive Transfer-Encoding TE Trailer Upgrade Expect Proxy-Authorization Proxy-Connection User-Agent Range If-None-Match'.split(
      ' ',
    ),
  ])('must not include %s, and no message quotes its value', (name) => {
    const problem = problemOf({ headers: { [name]: 'hunter2-secret' } });
    expect(problem).toBe(`service headers.${name}: must not be set: ${problem.split('must not be set: ')[1]}`);
    expect(problem).not.toContain('hunter2');
  });

  it.each([
    ['a name with a space', { 'X Tenant': 'a' }, 'is not a valid header name'],
    ['an empty name', { '': 'a' }, 'is not a valid header name'],
    ['a line break in a name', { 'X-A\r\nX-B': 'a' }, 'is not a valid header name'],
    ['a line break in a value', { 'X-A': 'a\r\nX-SERVICE-API-KEY: b' }, 'printable ASCII'],
    ['an empty value', { 'X-A': '' }, 'printable ASCII'],
    ['white space around a value', { 'X-A': ' a' }, 'printable ASCII'],
    ['a value beyond ASCII', { 'X-A': 'ü' }, 'printable ASCII'],
    ...[
      'Ocp-Apim-Subscription-Key DD-APPLICATION-KEY X-Auth-Key apikey X-ApiKey developer-token X-Shopify-Access-Token',
      'x_secret X-ClientSecret X-Vault-Token AccessToken X-Password X-Amz-Security-Token X-Forwarded-Authorization Token',
    ].flatMap((names) =>
      names
        .split(' ')
        .map((name): [string, object, string] => [
          `a credential in ${name}`,
          { [name]: 'x' },
          `must not be set: it holds a credential, and these headers are not secret. Set send of api.auth, or without api, of the service: {"${name}": "{secret.NAME}"}`,
        ]),
    ),
    ['a name in two spellings', { 'X-A': 'a', 'x-a': 'b' }, 'is already set in another spelling'],
    ['too many bytes', { 'X-A': 'a'.repeat(4_093) }, 'at most 4096 bytes'],
    ['a number', { 'X-A': 1 }, 'must be a string'],
  ])('must not have %s', (_, headers, problem) => {
    expect(problemOf({ headers })).toContain(problem);
  });
});

describe('tls', () => {
  it.each([
    { ca: 'certs/ca.pem' },
    { ca: '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n' },
    { clientCertificateSecret: 'reports/client' },
    { clientCertificate: 'c.pem', clientKey: 'k.pem', clientKeyPassphraseEnv: 'PASSPHRASE' },
  ])('may be %j', (tls) => expect(parse({ tls }).tls).toEqual(tls));

  it.each([
    [{ ca: '' }, 'tls.ca: must be PEM text'],
    [{ ca: `-----BEGIN CERTIFICATE-----${'a'.repeat(65_536)}` }, 'tls.ca: must be PEM text'],
    [{ clientCertificate: 'c.pem' }, 'tls.clientKey: is required with clientCertificate'],
    [{ clientKey: 'k.pem' }, 'tls.clientCertificate: is required with clientKey'],
    [{ clientKeyPassphraseEnv: 'X' }, 'tls.clientKey: is required with clientCertificate'],
    [
      { clientCertificate: 'c.pem', clientKey: '-----BEGIN PRIVATE KEY-----\nhunter2-secret' },
      'tls.clientKey: must be the path of a PEM file, not its content',
    ],
    [
      { clientCertificate: 'c.pem', clientKey: 'k.pem', clientKeyPassphraseEnv: 'hunter2-secret' },
      'tls.clientKeyPassphraseEnv: must be the name of an environment variable',
    ],
    [{ clientCertificateSecret: '{"key":"hunter2-secret"}' }, 'tls.clientCertificateSecret: must be the name'],
    [{ key: 'hunter2-secret' }, 'tls: unknown field: "key"'],
  ])('must not be %j, which no message quotes', (tls, problem) => {
    expect(problemOf({ tls })).toContain(problem);
    expect(problemOf({ tls })).not.toContain('hunter2');
  });
});
