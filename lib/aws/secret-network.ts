/**
 * The proxy and the certificates of a service on AWS. Credentials and the client certificate are secrets in AWS Secrets Manager. They
 * are cached, and read again when the proxy or the service rejects them, because they may have been rotated.
 */

import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError } from '../core/errors.ts';
import { assertClientCertificate, type ClientCertificate } from '../settings/certificates.ts';
import type { NetworkSettings } from '../settings/network-settings.ts';
import type { NetworkSource, ProxyCredentials, ServiceNetwork } from '../service/network/network.ts';
import { readField, readSecret } from './secret-value.ts';

export interface SecretNetworkOptions {
  readonly client: SecretsManagerClient;
  readonly settings: NetworkSettings;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** How long secrets are used without another lookup; 5 minutes by default. */
  readonly cacheMs?: number;
}

/** `get` and `refresh` throw ConfigurationError if a secret is missing or unreadable, or its content cannot be used. */
export function createSecretNetwork({ client, settings, now, cacheMs = 300_000 }: SecretNetworkOptions): NetworkSource {
  const { proxyUrl, proxyCredentialsSecret, tls } = settings;
  let cached: { readonly network: ServiceNetwork; readonly expiresAt: number } | undefined;

  async function refresh(): Promise<ServiceNetwork> {
    const [credentials, clientCertificate] = await Promise.all([
      proxyUrl === undefined || proxyCredentialsSecret === undefined
        ? undefined
        : readProxyCredentials(client, proxyCredentialsSecret),
      tls?.clientCertificateSecret === undefined
        ? undefined
        : readClientCertificate(client, tls.clientCertificateSecret, now()),
    ]);
    const network = {
      proxy: proxyUrl === undefined ? undefined : { origin: new URL(proxyUrl).origin, credentials },
      ca: tls?.ca,
      clientCertificate,
    };
    cached = { network, expiresAt: now() + cacheMs };
    return network;
  }

  return {
    get: async () => (cached !== undefined && now() < cached.expiresAt ? cached.network : refresh()),
    refresh,
  };
}

async function readProxyCredentials(client: SecretsManagerClient, secretId: string): Promise<ProxyCredentials> {
  const secret = await readSecret(client, secretId);
  const username = readField(secret, 'username');
  const password = readField(secret, 'password');
  if (typeof username === 'string' && username !== '' && !username.includes(':') && typeof password === 'string') {
    return { username, password };
  }
  throw new ExportError(
    'ConfigurationError',
    `The secret ${secretId} holds no credentials for the proxy. Store JSON with the fields "username", without a colon, and "password"`,
  );
}

async function readClientCertificate(
  client: SecretsManagerClient,
  secretId: string,
  now: number,
): Promise<ClientCertificate> {
  const secret = await readSecret(client, secretId);
  const [cert, key, passphrase] = ['cert', 'key', 'passphrase'].map((field) => readField(secret, field));
  const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
  if (!isText(cert) || !isText(key) || (passphrase !== undefined && typeof passphrase !== 'string')) {
    throw new ExportError(
      'ConfigurationError',
      `The secret ${secretId} holds no client certificate. Store JSON with the fields "cert" and "key" in PEM form, and ` +
        '"passphrase" if the key is encrypted',
    );
  }
  const certificate = { cert, key, ...(passphrase === undefined ? {} : { passphrase }) };
  const places = {
    cert: `The field "cert" of secret ${secretId}`,
    key: `The field "key" of secret ${secretId}`,
    passphrase: `field "passphrase" of secret ${secretId}`,
  };
  assertClientCertificate(certificate, places, now);
  return certificate;
}
