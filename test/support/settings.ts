/** Settings as they are parsed from a file: a service, and its exports with the descriptions of their API. */

import { describeProblems } from '../../lib/core/validation-errors.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import type { ExportSettings, ServiceSettings } from '../../lib/settings/settings.ts';

/** @throws ConfigurationError that names every problem */
export function aDeployment(
  service: object,
  ...exports: readonly object[]
): { readonly service: ServiceSettings; readonly exports: readonly ExportSettings[] } {
  const value = { services: { service: { baseUrl: 'https://reports.example.com', ...service } }, exports };
  const { services } = parseDeployment({ value, describe: (issues) => [describeProblems('settings', { issues })] });
  return services[0] as { readonly service: ServiceSettings; readonly exports: readonly ExportSettings[] };
}

export const aServiceWith = (service: object): ServiceSettings => aDeployment(service, { name: 'reports' }).service;

export const anExportWith = (settings: object, service: object = {}): ExportSettings =>
  aDeployment(service, { name: 'reports', ...settings }).exports[0] as ExportSettings;

export const aSchedule = (overrides: object = {}) => ({
  expression: 'cron(0 4 * * ? *)',
  timeZone: 'Europe/Berlin',
  freshness: 'PT26H',
  ...overrides,
});

export interface SomeSettings {
  /** The service `acme`, and its secret. */
  readonly service?: object;
  readonly apiKeySecret?: object;
  readonly [setting: string]: unknown;
}

const aService = { baseUrl: 'https://reports.example.com', vendor: 'ACME' };

/** Settings with one service, `acme`. */
export const someSettings = ({ service = aService, apiKeySecret, ...overrides }: SomeSettings = {}) => ({
  services: { acme: { ...service, ...(apiKeySecret === undefined ? {} : { apiKeySecret }) } },
  exports: [{ name: 'nightly', schedule: aSchedule() }],
  ...overrides,
});

/** Settings with two services, `eu` and `us`, each with one export. */
export const someServices = (overrides: object = {}) => ({
  services: Object.fromEntries(
    ['eu', 'us'].map((name) => [
      name,
      { baseUrl: `https://${name}.example.com`, vendor: 'ACME', apiKeyEnv: `${name.toUpperCase()}_KEY` },
    ]),
  ),
  exports: ['eu', 'us'].map((service) => ({ name: `${service}-nightly`, service, schedule: aSchedule() })),
  ...overrides,
});
