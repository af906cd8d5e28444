/** Reads secrets of AWS Secrets Manager. No error contains anything of their content. */

import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../core/errors.ts';

/** Errors that a person must fix. All others, such as throttling, pass through and are retried. */
const permanentErrors: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'DecryptionFailure',
  'InvalidRequestException',
  'InvalidParameterException',
  'ValidationException',
]);

const networkCodes: ReadonlySet<string> = new Set([
  'ENOTFOUND',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ETIMEDOUT',
]);

const isNetworkError = (error: Error): boolean =>
  error.name === 'TimeoutError' || ('code' in error && typeof error.code === 'string' && networkCodes.has(error.code));

/** Keeps the name, by which it is retried, and says that it is not the report service that does not answer. */
function unreachable(cause: Error): Error {
  const message =
    `Secrets Manager cannot be reached (${cause.message}). In a VPC, the functions need a NAT gateway, or an endpoint for ` +
    'secretsmanager (docs/deployment.md#network)';
  return Object.assign(new Error(message, { cause }), { name: cause.name });
}

/** @throws ConfigurationError if the secret is missing or cannot be read */
export async function readSecret(client: SecretsManagerClient, secretId: string): Promise<string | undefined> {
  try {
    return (await client.send(new GetSecretValueCommand({ SecretId: secretId }))).SecretString;
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause;
    if (isNetworkError(cause)) throw unreachable(cause);
    if (!permanentErrors.has(cause.name)) throw cause;
    throw new ExportError(
      'ConfigurationError',
      `The secret ${secretId} cannot be read (${cause.name}). Check that it exists, and allow ` +
        'secretsmanager:GetSecretValue on it, and kms:Decrypt if a customer managed key encrypts it; then start again',
      { cause },
    );
  }
}

/** Drops the parser's error, which would quote the secret: JSON that cannot be parsed has no fields. */
export function readField(secret: string | undefined, field: string): unknown {
  try {
    const value: unknown = JSON.parse(secret ?? '');
    return typeof value === 'object' && value !== null && Object.hasOwn(value, field)
      ? (value as Record<string, unknown>)[field]
      : undefined;
  } catch {
    return undefined;
  }
}
