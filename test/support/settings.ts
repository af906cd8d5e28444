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
