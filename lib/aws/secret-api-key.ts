/**
 * The API key, from AWS Secrets Manager: kept for a little while, as each look costs money and time, and looked up anew
 * when the service refuses it, as it may have been rotated.
 */

import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../core/errors.ts';
import type { ApiKeySource } from '../report-service/client/api-key.ts';

export interface SecretApiKeyOptions {
  readonly client: SecretsManagerClient;
  /** The secret's name or ARN. */
  readonly secretId: string;
  /** The field of the secret's JSON that holds the key; empty: the secret is the key. */
  readonly field: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** How long a key is used without a look; 5 minutes by default. */
  readonly cacheMs?: number;
}

/** What a person must mend. Everything else, such as throttling, passes through: trying again helps. */
const refusals: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'DecryptionFailure',
  'InvalidRequestException',
  'InvalidParameterException',
  'ValidationException',
]);

/** Both verbs throw ConfigurationError where the secret is not there, not readable, or holds no key. */
export function createSecretApiKey(options: SecretApiKeyOptions): ApiKeySource {
  const { client, secretId, field, now, cacheMs = 300_000 } = options;
  let known: { readonly key: string; readonly until: number } | undefined;

  async function refresh(): Promise<string> {
    const key = keyIn(await secretText(client, secretId), secretId, field);
    known = { key, until: now() + cacheMs };
    return key;
  }

  return {
    get: async () => (known !== undefined && now() < known.until ? known.key : refresh()),
    refresh,
  };
}

async function secretText(client: SecretsManagerClient, secretId: string): Promise<string | undefined> {
  try {
    return (await client.send(new GetSecretValueCommand({ SecretId: secretId }))).SecretString;
  } catch (cause) {
    if (!(cause instanceof Error) || !refusals.has(cause.name)) throw cause;
    throw new ExportError(
      'ConfigurationError',
      `The secret ${secretId} cannot be read (${cause.name}). See that it exists, holds the API key, and that the ` +
        'function may read and decrypt it; then start again',
      { cause },
    );
  }
}

function keyIn(text: string | undefined, secretId: string, field: string): string {
  const found = field === '' ? text : fieldOf(text, field);
  // The line break that editors and shells put at the end belongs to no key.
  const key = typeof found === 'string' ? found.replace(/\r?\n$/, '') : undefined;
  if (key !== undefined && key.trim() !== '') return key;
  const where = field === '' ? 'as plain text' : `as JSON, in its field ${JSON.stringify(field)}`;
  throw new ExportError(
    'ConfigurationError',
    `The secret ${secretId} holds no API key. Put it there ${where}, and start again`,
  );
}

/** What cannot be parsed has no fields: the parser's own error would quote the secret, so it goes no further. */
function fieldOf(text: string | undefined, field: string): unknown {
  try {
    const value: unknown = JSON.parse(text ?? '');
    return typeof value === 'object' && value !== null && Object.hasOwn(value, field)
      ? (value as Record<string, unknown>)[field]
      : undefined;
  } catch {
    return undefined;
  }
}
