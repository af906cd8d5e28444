/**
 * The network settings of a service in a deployment. The functions have no files of this machine: the certificate authorities are
 * read at synthesis, and what is only for runs on this machine is left out.
 */

import { resolve } from 'node:path';
import { isExportError } from '../../core/errors.ts';
import { readCertificateAuthorities } from '../../settings/certificates.ts';
import type { NetworkSettings } from '../../settings/network-settings.ts';
import type { SettingsProblem } from '../../settings/parse-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { readTextFile } from '../../settings/text-file.ts';

const readAuthorities = (ca: string, directory: string) =>
  readCertificateAuthorities(ca, (path) => readTextFile(resolve(directory, path)), Date.now());

/** The service with the content of the file in `tls.ca`, whose path is relative to `directory`. */
export function withCertificates(service: ServiceSettings, directory: string): ServiceSettings {
  const { tls, ...others } = service;
  return tls?.ca === undefined ? service : { ...others, tls: { ...tls, ca: readAuthorities(tls.ca, directory) } };
}

/** As the functions need it. The content of `tls.ca` has been read. */
export function withoutLocalSettings(service: ServiceSettings): ServiceSettings {
  const { tls, ...others } = service;
  if (tls === undefined) return service;
  const { clientCertificate: _certificate, clientKey: _key, clientKeyPassphraseEnv: _env, ...deployed } = tls;
  return Object.keys(deployed).length === 0 ? others : { ...others, tls: deployed };
}

/** What a deployment cannot use, of settings that the schema accepts. */
export function findNetworkProblems(
  { tls, proxyUrl, proxyCredentialsSecret }: NetworkSettings,
  directory: string,
): SettingsProblem[] {
  const problems: SettingsProblem[] = [];
  if (tls?.clientCertificate !== undefined && tls.clientCertificateSecret === undefined) {
    problems.push({
      path: ['tls', 'clientCertificateSecret'],
      message: 'is required on AWS with clientCertificate, which is for runs on this machine only',
    });
  }
  if (proxyCredentialsSecret !== undefined && proxyUrl === undefined) {
    problems.push({ path: ['proxyUrl'], message: 'is required with proxyCredentialsSecret' });
  }
  try {
    if (tls?.ca !== undefined) readAuthorities(tls.ca, directory);
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    problems.push({ path: ['tls', 'ca'], message: error.message.replace(/^tls\.ca:? /, '') });
  }
  return problems;
}
