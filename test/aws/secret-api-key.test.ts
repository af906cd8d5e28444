import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { createSecretApiKey } from '../../lib/aws/secret-api-key.ts';
import { expectNoKey, failureOf, trickyApiKey } from '../support/service-client.ts';

function aSecret({ field = 'apiKey' } = {}) {
  const client = new SecretsManagerClient({ region: 'us-east-1' });
  const clock = { now: 0 };
  const key = createSecretApiKey({ client, secretId: 'reports/api-key', field, now: () => clock.now });
  const secrets = mockClient(client);
  const holds = (SecretString: string | undefined) =>
    secrets
      .on(GetSecretValueCommand, { SecretId: 'reports/api-key' })
      .resolves({ ...(SecretString && { SecretString }) });
  return { key, secrets, holds, clock };
}
const json = (apiKey: unknown) => JSON.stringify({ apiKey });

describe('the API key in Secrets Manager', () => {
  it('is the field of the secret, or, where no field is named, the secret itself', async () => {
    const inField = aSecret();
    inField.holds(json(trickyApiKey));
    expect(await inField.key.get()).toBe(trickyApiKey);

    const plain = aSecret({ field: '' });
    plain.holds(trickyApiKey);
    expect(await plain.key.get()).toBe(trickyApiKey);
  });

  it('is known without the line break that editors and shells put behind it', async () => {
    for (const end of ['\n', '\r\n']) {
      const plain = aSecret({ field: '' });
      plain.holds(trickyApiKey + end);
      expect(await plain.key.get()).toBe(trickyApiKey);
    }
  });

  it('is looked up once in five minutes', async () => {
    const { key, secrets, holds, clock } = aSecret();
    holds(json('first'));
    expect(await key.get()).toBe('first');
    holds(json('second'));
    clock.now = 299_999;
    expect(await key.get()).toBe('first');
    clock.now = 300_000;
    expect(await key.get()).toBe('second');
    expect(secrets.calls()).toHaveLength(2);
  });

  it('is looked up at once where the service refused it, and the new one is used from then on', async () => {
    const { key, holds } = aSecret();
    holds(json('first'));
    await key.get();
    holds(json('second'));
    expect(await key.refresh()).toBe('second');
    expect(await key.get()).toBe('second');
  });

  it.each([
    ['nothing', undefined],
    ['blanks', '  '],
    ['no JSON', trickyApiKey],
    ['JSON cut off in the middle of the key', json(trickyApiKey).slice(0, -4)],
    ['JSON that is no object', JSON.stringify([trickyApiKey])],
    ['null', 'null'],
    ['another field', JSON.stringify({ key: trickyApiKey })],
    ['an empty field', json('')],
    ['a field that is no text', json({ value: trickyApiKey })],
  ])('is missed where the secret holds %s, and the error does not tell what it does hold', async (_, held) => {
    const { key, holds } = aSecret();
    holds(held);
    const error = await failureOf(key.get());
    expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringContaining('reports/api-key') });
    expect(error.cause).toBeUndefined();
    expectNoKey(error);
  });

  it('is not found in a field that every object has', async () => {
    const { key, holds } = aSecret({ field: 'constructor' });
    holds(json(trickyApiKey));
    expect(await failureOf(key.get())).toMatchObject({ name: 'ConfigurationError' });
  });

  it.each(['ResourceNotFoundException', 'AccessDeniedException', 'DecryptionFailure', 'InvalidRequestException'])(
    'needs a person where it cannot be read: %s',
    async (name) => {
      const { key, secrets } = aSecret();
      secrets.on(GetSecretValueCommand).rejects(Object.assign(new Error(name), { name }));
      expect(await failureOf(key.get())).toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining(`reports/api-key cannot be read (${name})`),
      });
    },
  );

  it('is asked for again where Secrets Manager is only busy: its error passes through', async () => {
    const { key, secrets, holds } = aSecret();
    const busy = Object.assign(new Error('busy'), { name: 'ThrottlingException' });
    secrets.on(GetSecretValueCommand).rejects(busy);
    await expect(key.get()).rejects.toBe(busy);
    holds(json('first'));
    expect(await key.get()).toBe('first');
  });
});
