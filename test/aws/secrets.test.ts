import { readFileSync } from 'node:fs';
import { GetSecretValueCommand, PutSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { createSecretApiKey, createSecretNetwork, storeSecret } from '../../lib/aws/secrets.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { createAuthority } from '../support/service/certificates.ts';
import { failureOf, trickyApiKey } from '../support/service/service-client.ts';

function aSecret() {
  const client = new SecretsManagerClient({ region: 'us-east-1' });
  const clock = { now: 0 };
  const key = createSecretApiKey({ client, secretId: 'reports/api-key', now: () => clock.now });
  const secrets = mockClient(client);
  const holds = (SecretString: string | undefined) =>
    secrets
      .on(GetSecretValueCommand, { SecretId: 'reports/api-key' })
      .resolves({ ...(SecretString && { SecretString }) });
  return { key, secrets, holds, clock };
}

describe('the API key in Secrets Manager', () => {
  it('is the whole secret, without the line break that editors and shells append', async () => {
    for (const end of ['', '\n', '\r\n']) {
      const { key, holds } = aSecret();
      holds(trickyApiKey + end);
      expect(await key.get()).toBe(trickyApiKey);
    }
  });

  it('is cached for five minutes', async () => {
    const { key, secrets, holds, clock } = aSecret();
    holds('first');
    expect(await key.get()).toBe('first');
    holds('second');
    clock.now = 299_999;
    expect(await key.get()).toBe('first');
    clock.now = 300_000;
    expect(await key.get()).toBe('second');
    expect(secrets.calls()).toHaveLength(2);
  });

  it.each([undefined, '  '])('is reported as missing if the secret holds %j', async (secret) => {
    const { key, holds } = aSecret();
    holds(secret);
    expect(await failureOf(key.get())).toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining('The secret reports/api-key is empty'),
    });
  });

  it.each(['AccessDeniedException', 'DecryptionFailure', 'InvalidRequestException'])(
    'is a configuration error if the secret cannot be read: %s',
    async (name) => {
      const { key, secrets } = aSecret();
      secrets.on(GetSecretValueCommand).rejects(Object.assign(new Error(name), { name }));
      expect(await failureOf(key.get())).toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining(`reports/api-key cannot be read (${name})`),
      });
    },
  );

  it('is read again by a refresh, and the new one is used from then on', async () => {
    const { key, holds } = aSecret();
    holds('first');
    await key.get();
    holds('second');
    expect(await key.refresh()).toBe('second');
    expect(await key.get()).toBe('second');
  });

  it('is reported with the command that restores it if the secret is marked for deletion', async () => {
    const { key, secrets } = aSecret();
    const text = "You can't perform this operation on the secret because it was marked for deletion.";
    const deleted = Object.assign(new Error(text), { name: 'InvalidRequestException' });
    secrets.on(GetSecretValueCommand).rejects(deleted);
    const error = {
      name: 'ConfigurationError',
      message:
        'The secret reports/api-key is marked for deletion. Restore it, and start again: aws secretsmanager restore-secret ' +
        '--secret-id reports/api-key',
    };
    expect(await failureOf(key.get())).toMatchObject(error);
    const client = new SecretsManagerClient({ region: 'us-east-1' });
    mockClient(client).on(PutSecretValueCommand).rejects(deleted);
    expect(await failureOf(storeSecret(client, 'reports/api-key', 'x'))).toMatchObject(error);
  });

  it('is reported with the command that stores it if the secret has no value yet', async () => {
    const { key, secrets } = aSecret();
    secrets.on(GetSecretValueCommand).rejects(Object.assign(new Error(), { name: 'ResourceNotFoundException' }));
    const { name, message } = await failureOf(key.get());
    expect(name).toBe('ConfigurationError');
    expect(message).toMatch(
      /^The secret reports\/api-key has no value yet, or does not exist\. Store what the service needs, and start again: read -rs/,
    );
    // The same as in the documented steps, except for the name of the secret.
    const documented = readFileSync('docs/aws.md', 'utf8').match(/read -rs KEY .*/)?.[0] ?? '';
    expect(message).toContain(documented.replace('<AcmeApiKeySecretId>', 'reports/api-key'));
  });
});

describe('the client certificate and the credentials for the proxy', () => {
  const now = Date.now();
  /** The error if the secret contains this text, of which nothing is in the error. */
  async function errorWith(settings: Parameters<typeof createSecretNetwork>[0]['settings'], secret?: string) {
    const client = new SecretsManagerClient({ region: 'us-east-1' });
    const reading = mockClient(client).on(GetSecretValueCommand);
    if (secret === undefined) reading.rejects(Object.assign(new Error(), { name: 'ResourceNotFoundException' }));
    else reading.resolves({ SecretString: secret });
    const error = await failureOf(createSecretNetwork({ client, settings, now: () => now }).get());
    const texts = [...(secret ?? '').matchAll(/[\w+/=-]{12,}/g)].map(([text]) => [text, text]);
    expect(searchForSecrets({ error }, Object.fromEntries(texts))).toEqual([]);
    return error;
  }

  const other = createAuthority({ name: 'Other' });
  const passphrase = 'open sesame 1001';
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
      JSON.stringify(other.issue({ name: 'old', until: new Date(now - 1_000) })),
      /^The field "cert" of secret reports\/client: the client certificate is only valid from/,
    ],
    [
      'a key of another certificate',
      JSON.stringify({ ...other.issue({ name: 'a' }), key: other.issue({ name: 'b' }).key }),
      /^The field "key" of secret reports\/client: the key does not belong to the certificate in/,
    ],
    [
      'an encrypted key without its passphrase',
      JSON.stringify(other.issue({ name: 'a', passphrase })),
      /the key cannot be decrypted\. Set its passphrase: field "passphrase" of secret reports\/client/,
    ],
    [
      'not been created',
      undefined,
      /^The secret reports\/client has no value yet, or does not exist\. Store JSON with the fields "cert" and "key"/,
    ],
  ])('cannot be used if the secret has %s: the error says what to do', async (_, secret, message) => {
    const error = await errorWith({ tls: { clientCertificateSecret: 'reports/client' } }, secret);
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(message) });
  });

  it.each(['hunter2-secret', '{}', '{"username":"a:b","password":"hunter2-secret"}'])(
    'cannot be used if the secret of the proxy is %s',
    async (secret) => {
      const settings = { proxyUrl: 'http://proxy.example.com:3128', proxyCredentialsSecret: 'reports/proxy' };
      expect(await errorWith(settings, secret)).toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining('The secret reports/proxy holds no credentials for the proxy'),
      });
    },
  );
});
