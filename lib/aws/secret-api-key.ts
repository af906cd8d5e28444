/**
 * The API key, read from AWS Secrets Manager. It is cached because every lookup costs time and money, and read again when
 * the service rejects it, because it may have been rotated.
 */

import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../core/errors.ts';
import type { ApiKeySource } from '../service/client/api-key.ts';
import { readField, readSecret } from './secret-value.ts';

export interface SecretApiKeyOptions {
  readonly client: SecretsManagerClient;
  /** Name or ARN. */
  readonly secretId: string;
  /** The field of the secret's JSON that holds the key; empty if the whole secret is the key. */
  readonly field: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** How long a key is used without another lookup; 5 minutes by default. */
  readonly cacheMs?: number;
}

/** `get` and `refresh` throw ConfigurationError if the secret is missing, unreadable or holds no key. */
export function createSecretApiKey(options: SecretApiKeyOptions): ApiKeySource {
  const { client, secretId, field, now, cacheMs = 300_000 } = options;
  let cached: { readonly key: string; readonly expiresAt: number } | undefined;

  async function refresh(): Promise<string> {
    const key = parseKey(await readSecret(client, secretId), secretId, field);
    cached = { key, expiresAt: now() + cacheMs };
    return key;
  }

  return {
    get: async () => (cached !== undefined && now() < cached.expiresAt ? cached.key : refresh()),
    refresh,
  };
}

function parseKey(secret: string | undefined, secretId: string, field: string): string {
  const value = field === '' ? secret : readField(secret, field);
  // Editors and shells append a line break that is not part of the key.
  const key = typeof value === 'string' ? value.replace(/\r?\n$/, '') : undefined;
  if (key !== undefined && key.trim() !== '') return key;
  const format = field === '' ? 'as plain text' : `as JSON with the field ${JSON.stringify(field)}`;
  throw new ExportError(
    'ConfigurationError',
    `The secret ${secretId} holds no API key. Store the key ${format}, and start again`,
  );
}
