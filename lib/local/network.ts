/** The proxy and the certificates of a service on this machine: from settings, files and environment variables. */

import { ExportError } from '../core/errors.ts';
import {
  assertClientCertificate,
  type ClientCertificate,
  filePlace,
  readCertificateAuthorities,
} from '../settings/certificates.ts';
import type { NetworkSettings, TlsSettings } from '../settings/network-settings.ts';
import { readTextFile } from '../settings/text-file.ts';
import type { NetworkSource, Proxy, ServiceNetwork } from '../service/network/network.ts';
import { proxyCredentialsFor, proxyFromVariables } from '../service/network/proxy-variables.ts';

export interface LocalNetworkOptions {
  readonly baseUrl: string;
  readonly settings: NetworkSettings;
  readonly env: NodeJS.ProcessEnv;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** `get` and `refresh` throw ConfigurationError that names the file or the variable that cannot be used. */
export function createLocalNetwork({ baseUrl, settings, env, now }: LocalNetworkOptions): NetworkSource {
  const { tls } = settings;
  let cached: ServiceNetwork | undefined;
  async function refresh(): Promise<ServiceNetwork> {
    cached = {
      proxy: findProxy(baseUrl, settings.proxyUrl, env),
      ca: tls?.ca === undefined ? undefined : readCertificateAuthorities(tls.ca, now()),
      clientCertificate: tls === undefined ? undefined : readClientCertificate(tls, env, now()),
    };
    return cached;
  }
  return { get: async () => cached ?? (await refresh()), refresh };
}

function findProxy(baseUrl: string, proxyUrl: string | undefined, env: NodeJS.ProcessEnv): Proxy | undefined {
  if (proxyUrl === undefined) return proxyFromVariables(baseUrl, env);
  const { origin } = new URL(proxyUrl);
  return { origin, credentials: proxyCredentialsFor(origin, env) };
}

function readClientCertificate(tls: TlsSettings, env: NodeJS.ProcessEnv, now: number): ClientCertificate | undefined {
  const { clientCertificate, clientKey, clientKeyPassphraseEnv } = tls;
  if (clientCertificate === undefined || clientKey === undefined) return undefined;
  const passphrase = clientKeyPassphraseEnv === undefined ? undefined : readPassphrase(clientKeyPassphraseEnv, env);
  const places = {
    cert: filePlace(clientCertificate, 'tls.clientCertificate'),
    key: filePlace(clientKey, 'tls.clientKey'),
    passphrase: 'tls.clientKeyPassphraseEnv names its environment variable',
  };
  const [cert, key] = [readTextFile(clientCertificate, places.cert), readTextFile(clientKey, places.key)];
  assertClientCertificate({ cert, key, passphrase }, places, now);
  return { cert, key, passphrase };
}

/** Without the name of the variable, which might be the passphrase by mistake. */
function readPassphrase(variable: string, env: NodeJS.ProcessEnv): string {
  const passphrase = env[variable];
  if (passphrase !== undefined && passphrase !== '') return passphrase;
  throw new ExportError(
    'ConfigurationError',
    'The environment variable in tls.clientKeyPassphraseEnv is not set. Set it to the passphrase of the key',
  );
}
