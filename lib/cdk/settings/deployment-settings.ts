/**
 * The settings of a deployment, from the context of cdk.json. They are validated completely before anything is synthesized, and
 * every problem is reported, one line each: those of the settings file, and those that only AWS has.
 */

import { dirname } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import {
  assignExports,
  type DeploymentSettings,
  exportDeploymentSchema,
  fieldsOf,
  issueAt,
  parseDeployment,
  type SettingsIssue,
  splitServiceEntry,
} from '../../settings/deployment-settings.ts';
import { serviceSettingsSchema } from '../../settings/settings.ts';
import { fileDocument, parseJson, type SettingsDocument, valueDocument } from '../../settings/settings-document.ts';
import { readTextFile } from '../../settings/text-file.ts';
import { findLimitProblems } from '../function-limits.ts';
import { findNetworkProblems, withCertificates } from './service-network.ts';

export { defaultStackName } from '../../settings/deployment-settings.ts';

/** The key in the context of cdk.json that holds the settings. */
export const contextKey = 'reportExporter';

/** What `deploymentSettings` has returned: valid settings, which need not be parsed again. */
const parsedSettings = new WeakSet<object>();

const isParsed = (value: unknown): value is DeploymentSettings =>
  typeof value === 'object' && value !== null && parsedSettings.has(value);

/**
 * Parses the value of the context key: the path of a settings file, relative to the working directory (`-c
 * reportExporter=prod.json`), or the settings themselves, as an object or as JSON text. Returns settings that it has parsed
 * before as they are.
 *
 * @throws ConfigurationError with a line for every problem
 */
export function deploymentSettings(value: unknown): DeploymentSettings {
  if (isParsed(value)) return value;
  try {
    return parseSettingsOf(value);
  } catch (error) {
    // An app need not catch it: the problems are then printed without the frames of this package.
    if (error instanceof ExportError) error.stack = `${error.name}: ${error.message}`;
    throw error;
  }
}

function parseSettingsOf(value: unknown): DeploymentSettings {
  const document = documentOf(value);
  const directory = isFilePath(value) ? dirname(value) : '.';
  const parsed = parseDeployment(document, (found) => [...findMisfits(found), ...findNetworkMisfits(found, directory)]);
  const settings = {
    ...parsed,
    services: parsed.services.map((each) => ({ ...each, service: withCertificates(each.service, directory) })),
  };
  parsedSettings.add(settings);
  return settings;
}

const isFilePath = (value: unknown): value is string =>
  typeof value === 'string' && value.trim() !== '' && !value.trimStart().startsWith('{');

function documentOf(value: unknown): SettingsDocument {
  if (value === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `cdk.json ${contextKey}: is missing. Only the CDK CLI reads the context of cdk.json (cdk synth); elsewhere, pass the path of the ` +
        'settings file as the prop settings',
    );
  }
  if (isFilePath(value)) return fileDocument(value, readTextFile);
  if (typeof value !== 'string' || value.trim() === '') return valueDocument(value, 'cdk.json', [contextKey]);
  return valueDocument(parseJson(value, `cdk.json ${contextKey}:`), 'cdk.json', [contextKey]);
}

/** Why Lambda cannot run exports of their service. Empty for invalid settings, which the schemas report. */
function findMisfits(value: unknown): SettingsIssue[] {
  const { services, exports } = fieldsOf(value);
  // What is wrong with a service is wrong with all its exports. Report it once.
  const reported = new Set<string>();
  return assignExports(value).flatMap(({ index, service = '' }) => {
    const { service: entry } = splitServiceEntry(fieldsOf(fieldsOf(services)[service]));
    const { service: _service, ...settings } = fieldsOf((exports as readonly unknown[])[index]);
    const parsedService = serviceSettingsSchema.safeParse(entry);
    const parsedExport = exportDeploymentSchema.safeParse(settings);
    if (!parsedService.success || !parsedExport.success) return [];
    const problems = findLimitProblems(parsedService.data, parsedExport.data).filter(
      (problem) => !reported.has(`${service} ${problem}`),
    );
    for (const problem of problems) reported.add(`${service} ${problem}`);
    return problems.map((problem) => issueAt(['exports', index], problem));
  });
}

/** What is wrong with certificates and secrets of the services. Empty for invalid settings, which the schemas report. */
function findNetworkMisfits(value: unknown, directory: string): SettingsIssue[] {
  return Object.entries(fieldsOf(fieldsOf(value).services)).flatMap(([name, entry]) => {
    const parsed = serviceSettingsSchema.safeParse(splitServiceEntry(fieldsOf(entry)).service);
    if (!parsed.success) return [];
    return findNetworkProblems(parsed.data, directory).map(({ path, message }) =>
      issueAt(['services', name, ...path], message),
    );
  });
}
