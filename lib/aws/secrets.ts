/**
 * Secrets of a service in AWS Secrets Manager: the API key, the credentials for the proxy and the client
 * certificate. They are cached, and read again when the service or the proxy rejects them, because they may have been
 * rotated. No error contains anything of their content.
 */

import {
  GetSecretValueCommand,
  PutSecretValueCommand,
  type SecretsManagerClient,
} from '@aws-sdk/client-secrets-manager';
import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { isAccessDenied, isNetworkError } from './errors.ts';
import { parseJson } from './parse-json.ts';
import { assertClientCertificate, type ClientCertificate } from '../settings/certificates.ts';
import type { NetworkSettings } from '../settings/network-settings.ts';
import type { ApiKeySource } from '../service/client/api-key.ts';
import type { NetworkSource, ProxyCredentials, ServiceNetwork } from '../service/network/network.ts';

interface SecretReader {
  readonly client: SecretsManagerClient;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

interface SecretApiKeyOptions extends SecretReader {
  /** Name or ARN. */
  readonly secretId: string;
}

/** The whole secret. `get` and `refresh` throw ConfigurationError if it is missing, unreadable or empty. */
export function createSecretApiKey({ client, secretId, now }: SecretApiKeyOptions): ApiKeySource {
  const source = cached(async () => {
    const remedy = 'Store what the service needs, and start again';
    const secret = await readSecret(client, secretId, `${remedy}: ${storeCommand(secretId)}`);
    // Editors and shells append a line break that is not part of the key.
    const key = secret?.replace(/\r?\n$/, '') ?? '';
    if (key.trim() !== '') return key;
    throw new ExportError('ConfigurationError', `The secret ${secretId} is empty. ${remedy}`);
  }, now);
  return { ...source, place: `The secret ${secretId}` };
}

/** The command in docs/aws.md. */
const storeCommand = (secretId: string): string =>
  `read -rs KEY && printf %s "$KEY" | aws secretsmanager put-secret-value --secret-id ${secretId} --secret-string file:///dev/stdin`;

interface SecretNetworkOptions extends SecretReader {
  readonly settings: NetworkSettings;
}

/** `get` and `refresh` throw ConfigurationError if a secret is missing or unreadable, or its content cannot be used. */
export function createSecretNetwork({ client, settings, now }: SecretNetworkOptions): NetworkSource {
  const { proxyUrl, proxyCredentialsSecret, tls } = settings;
  return cached(async (): Promise<ServiceNetwork> => {
    const [credentials, clientCertificate] = await Promise.all([
      proxyUrl === undefined || proxyCredentialsSecret === undefined
        ? undefined
        : readProxyCredentials(client, proxyCredentialsSecret),
      tls?.clientCertificateSecret === undefined
        ? undefined
        : readClientCertificate(client, tls.clientCertificateSecret, now()),
    ]);
    return {
      proxy: proxyUrl === undefined ? undefined : { origin: new URL(proxyUrl).origin, credentials },
      ca: tls?.ca,
      clientCertificate,
    };
  }, now);
}

const storeCredentials = 'Store JSON with the fields "username", without a colon, and "password", and start again';
const storeCertificate =
  'Store JSON with the fields "cert" and "key" in PEM form, and "passphrase" if the key is encrypted, and start again';

const proxyCredentialsSchema = z.object({
  username: z.string().check(z.regex(/^[^:]+$/)),
  password: z.string(),
});
const certificateSchema = z.object({
  cert: z.string().check(z.minLength(1)),
  key: z.string().check(z.minLength(1)),
  passphrase: z.optional(z.string()),
});

async function readProxyCredentials(client: SecretsManagerClient, secretId: string): Promise<ProxyCredentials> {
  const secret = await readSecret(client, secretId, storeCredentials);
  const { data } = proxyCredentialsSchema.safeParse(parseJson(secret));
  return data ?? rejectContent(secretId, 'credentials for the proxy', storeCredentials);
}

async function readClientCertificate(
  client: SecretsManagerClient,
  secretId: string,
  now: number,
): Promise<ClientCertificate> {
  const secret = await readSecret(client, secretId, storeCertificate);
  const { data } = certificateSchema.safeParse(parseJson(secret));
  const certificate = data ?? rejectContent(secretId, 'client certificate', storeCertificate);
  const places = {
    cert: `The field "cert" of secret ${secretId}`,
    key: `The field "key" of secret ${secretId}`,
    passphrase: `field "passphrase" of secret ${secretId}`,
  };
  assertClientCertificate(certificate, places, now);
  return certificate;
}

function rejectContent(secretId: string, what: string, remedy: string): never {
  throw new ExportError('ConfigurationError', `The secret ${secretId} holds no ${what}. ${remedy}`);
}

const cacheMs = 300_000;

/** `get` reads what was not read in the last five minutes, `refresh` always. */
function cached<Value>(read: () => Promise<Value>, now: () => number) {
  let newest: { readonly value: Value; readonly expiresAt: number } | undefined;
  const refresh = async (): Promise<Value> => {
    const value = await read();
    newest = { value, expiresAt: now() + cacheMs };
    return value;
  };
  return {
    get: async () => (newest !== undefined && now() < newest.expiresAt ? newest.value : refresh()),
    refresh,
  };
}

/** @throws ConfigurationError if the secret is missing or cannot be read */
async function readSecret(client: SecretsManagerClient, secretId: string, remedy: string): Promise<string | undefined> {
  try {
    return (await client.send(new GetSecretValueCommand({ SecretId: secretId }))).SecretString;
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause;
    if (isNetworkError(cause)) throw unreachable(cause);
    if (!permanentErrors.has(cause.name)) throw cause;
    assertNotDeleted(cause, secretId);
    throw new ExportError(
      'ConfigurationError',
      cause.name === 'ResourceNotFoundException'
        ? `The secret ${secretId} has no value yet, or does not exist. ${remedy}`
        : `The secret ${secretId} cannot be read (${cause.name}). Allow secretsmanager:GetSecretValue on it, and kms:Decrypt if a ` +
            'customer managed key encrypts it; then start again',
      { cause },
    );
  }
}

/**
 * Stores another version of the secret, which is the current one unless it has other `stages`. No error contains any of
 * it.
 * @throws ConfigurationError if the secret cannot be written; ServiceUnavailableError for what may pass
 */
export async function storeSecret(
  client: SecretsManagerClient,
  secretId: string,
  value: string,
  stages?: string[],
): Promise<void> {
  try {
    await client.send(new PutSecretValueCommand({ SecretId: secretId, SecretString: value, VersionStages: stages }));
  } catch (cause) {
    const { name } = cause as Error;
    assertNotDeleted(cause as Error, secretId);
    if (!permanentErrors.has(name)) {
      throw new ExportError('ServiceUnavailableError', `The secret ${secretId} could not be written (${name})`);
    }
    const remedy =
      'Allow secretsmanager:PutSecretValue on it, and kms:GenerateDataKey if a customer managed key encrypts it';
    const message = `The secret ${secretId} cannot be written (${name}). ${remedy}; then start again`;
    // A denial is retried: permissions take a moment to become effective.
    throw new ExportError('ConfigurationError', message, { cause: isAccessDenied(cause) ? cause : undefined });
  }
}

/** For some weeks, a deleted secret can be restored. */
function assertNotDeleted({ name, message }: Error, secretId: string): void {
  if (name !== 'InvalidRequestException' || !/(marked|scheduled) for deletion/.test(message)) return;
  const restore = `aws secretsmanager restore-secret --secret-id ${secretId}`;
  throw new ExportError(
    'ConfigurationError',
    `The secret ${secretId} is marked for deletion. Restore it, and start again: ${restore}`,
  );
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

/** Keeps the name, by which it is retried, and says that it is not the report service that does not answer. */
function unreachable(cause: Error): Error {
  const message =
    `Secrets Manager cannot be reached (${cause.message}). In a VPC, the functions need a NAT gateway, or an endpoint for ` +
    'secretsmanager (docs/aws.md#what-the-functions-must-reach), and with DNS servers of your own a security group that allows port 53';
  return Object.assign(new Error(message, { cause }), { name: cause.name });
}
