/** Rules for the settings of a service that only AWS has, in a settings file and in props. Needs no CDK. */

import { isExportError } from '../../core/errors.ts';
import { readCertificateAuthorities } from '../../settings/certificates.ts';
import type { DeploymentSettings, FindMore } from '../../settings/deployment-settings.ts';
import { findBroken, type SettingsProblem, within } from '../../core/schema/fields.ts';
import { findLimitProblems } from '../function-limits.ts';

/** Why AWS cannot run exports whose settings the schemas accept. Paths of files are relative to `directory`. */
export const findAwsProblems =
  (directory: string): FindMore =>
  (path, { tls = {}, proxyUrl, proxyCredentialsSecret, ...service }, exports) => {
    // A problem of a service is a problem of all its exports. Report it once.
    const limits = new Map<string, number>();
    for (const [index, settings] of exports) {
      for (const message of findLimitProblems(service, settings)) if (!limits.has(message)) limits.set(message, index);
    }
    return [
      ...[...limits].map(([message, index]): SettingsProblem => ({ path: ['exports', index], message })),
      ...within(path, [
        ...findBroken([
          [
            ['tls', 'clientCertificateSecret'],
            tls.clientCertificate !== undefined && tls.clientCertificateSecret === undefined,
            'is required on AWS with clientCertificate, which is for runs on this machine only',
          ],
          [
            ['proxyUrl'],
            proxyCredentialsSecret !== undefined && proxyUrl === undefined,
            'is required with proxyCredentialsSecret',
          ],
        ]),
        ...findCaProblems(tls.ca, directory),
      ]),
    ];
  };

function findCaProblems(ca: string | undefined, directory: string): readonly SettingsProblem[] {
  try {
    if (ca !== undefined) readCertificateAuthorities(ca, Date.now(), directory);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return [{ path: ['tls', 'ca'], message: error.message.replace(/^tls\.ca:? /, '') }];
  }
}

/** The settings with the content of the files in `tls.ca`: the functions have no files of this machine. */
export const withCertificates = (settings: DeploymentSettings, directory: string): DeploymentSettings => ({
  ...settings,
  services: settings.services.map((each) => {
    const { tls } = each.service;
    if (tls?.ca === undefined) return each;
    const ca = readCertificateAuthorities(tls.ca, Date.now(), directory);
    return { ...each, service: { ...each.service, tls: { ...tls, ca } } };
  }),
});
