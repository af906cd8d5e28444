/**
 * The API key, read from AWS Secrets Manager. It is cached because every lookup costs time and money, and read again when
 * the service rejects it, because it may have been rotated.
 */

import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../core/errors.ts';
import type { ApiKeySource } from '../report-service/client/api-key.ts';

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

/** Errors that a person must fix. All others, such as throttling, pass through and are retried. */
const permanentErrors: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'DecryptionFailure',
  'InvalidRequestException',
  'InvalidParameterException',
  'ValidationException',
]);

async function readSecret(client: SecretsManagerClient, secretId: string): Promise<string | undefined> {
  try {
    return (await client.send(new GetSecretValueCommand({ SecretId: secretId }))).SecretString;
  } catch (cause) {
    if (!(cause instanceof Error) || !permanentErrors.has(cause.name)) throw cause;
    throw new ExportError(
      'ConfigurationError',
      `The secret ${secretId} cannot be read (${cause.name}). Check that it exists, and allow ` +
        'secretsmanager:GetSecretValue on it, and kms:Decrypt if a customer managed key encrypts it; then start again',
      { cause },
    );
  }
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

/** Drops the parser's error, which would quote the secret: JSON that cannot be parsed has no fields. */
function readField(secret: string | undefined, field: string): unknown {
  try {
    const value: unknown = JSON.parse(secret ?? '');
    return typeof value === 'object' && value !== null && Object.hasOwn(value, field)
      ? (value as Record<string, unknown>)[field]
      : undefined;
  } catch {
    return undefined;
  }
}
