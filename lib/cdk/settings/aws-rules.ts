/** What only AWS demands of the settings of a service, in a settings file and in the props of a construct. Needs no CDK. */

import { resolve } from 'node:path';
import { isExportError } from '../../core/errors.ts';
import { findConcurrencyProblems } from '../../settings/account-settings.ts';
import { readCertificateAuthorities } from '../../settings/certificates.ts';
import type { ValidService } from '../../settings/deployment-settings.ts';
import type { SettingsProblem } from '../../settings/fields.ts';
import type { NetworkSettings } from '../../settings/network-settings.ts';
import { within } from '../../settings/parse-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { readTextFile } from '../../settings/text-file.ts';
import { findLimitProblems } from '../function-limits.ts';

/** Why AWS cannot run the exports of a service, although the schemas accept its settings. Paths of files are relative to `directory`. */
export function findAwsProblems(
  { service, exports, exportPage = {} }: ValidService,
  directory: string,
): SettingsProblem[] {
  // What is wrong with a service is wrong with all its exports. Report it once.
  const limits = new Map<string, number>();
  for (const [index, settings] of exports.entries()) {
    if (!has(service, 'totalTimeout', 'maxPageBytes')) break;
    if (!has(settings, 'slices', 'maxInlineWait', 'maxRetryAfter', 'pagesPerInvocation')) continue;
    for (const message of findLimitProblems(service, settings)) if (!limits.has(message)) limits.set(message, index);
  }
  return [
    ...[...limits].map(([message, index]) => ({ path: ['exports', index], message })),
    ...within(['service'], [...findNetworkProblems(service, directory)]),
    ...within(['exportPage'], findConcurrencyProblems(exportPage, exports.length)),
  ];
}

/** Whether none of the fields is invalid, and so missing. */
const has = <Settings extends object, Name extends keyof Settings>(
  settings: Settings,
  ...names: readonly Name[]
): settings is Settings & Required<Pick<Settings, Name>> => names.every((name) => settings[name] !== undefined);

function* findNetworkProblems(
  { tls, proxyUrl, proxyCredentialsSecret }: NetworkSettings,
  directory: string,
): Generator<SettingsProblem> {
  if (tls?.clientCertificate !== undefined && tls.clientCertificateSecret === undefined) {
    yield {
      path: ['tls', 'clientCertificateSecret'],
      message: 'is required on AWS with clientCertificate, which is for runs on this machine only',
    };
  }
  if (proxyCredentialsSecret !== undefined && proxyUrl === undefined) {
    yield { path: ['proxyUrl'], message: 'is required with proxyCredentialsSecret' };
  }
  try {
    if (tls?.ca !== undefined) readAuthorities(tls.ca, directory);
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    yield { path: ['tls', 'ca'], message: error.message.replace(/^tls\.ca:? /, '') };
  }
}

const readAuthorities = (ca: string, directory: string) =>
  readCertificateAuthorities(ca, (path) => readTextFile(resolve(directory, path)), Date.now());

/** The service with the content of the file in `tls.ca`: the functions have no files of this machine. */
export function withCertificates(service: ServiceSettings, directory: string): ServiceSettings {
  const { tls, ...others } = service;
  return tls?.ca === undefined ? service : { ...others, tls: { ...tls, ca: readAuthorities(tls.ca, directory) } };
}
