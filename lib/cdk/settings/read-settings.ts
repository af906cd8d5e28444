/**
 * The settings of a deployment, from the context of cdk.json or from the code of an app. All of them are validated
 * before anything is synthesized. Every problem has a line of its own, also those that only AWS has.
 */

import { dirname } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import {
  type DeploymentSettings,
  parseDeployment,
  type ServiceDeploymentSettings,
} from '../../settings/deployment-settings.ts';
import type { ServiceProps, SettingsFile } from '../../settings/props.ts';
import { fileDocument, parseJson, type SettingsDocument, valueDocument } from '../../settings/settings-document.ts';
import { findAwsProblems, withCertificates } from './aws-rules.ts';
import type { GivenSettings } from './exporter-settings.ts';

/** The name of the stack that the CDK app deploys, unless the settings have another. */
export const defaultStackName = 'ReportExporter';

/** The key in the context of cdk.json that holds the settings. */
export const contextKey = 'reportExporter';

/** The settings that `deploymentSettings` has returned, which need not be parsed again, and how each was written. */
const parsedSettings = new WeakMap<object, SettingsFile>();

const isParsed = (value: unknown): value is DeploymentSettings =>
  typeof value === 'object' && value !== null && parsedSettings.has(value);

/**
 * Parses the settings of a deployment: the path of a settings file, relative to the working directory (`-c
 * reportExporter=prod.json`), or the settings themselves, as an object or as JSON text. Returns settings that it has
 * parsed before as they are.
 *
 * @throws ConfigurationError with a line for every problem
 */
export const deploymentSettings = (given: unknown): DeploymentSettings => readSettings(given, { subject: 'settings' });

/** Where settings that are not in a file were written, for messages. */
export interface SettingsPlace {
  readonly subject: string;
  readonly path?: readonly string[];
}
export const inContext: SettingsPlace = { subject: 'cdk.json', path: [contextKey] };

/** `deploymentSettings` of a value that was written at `place`. */
export function readSettings(given: unknown, place: SettingsPlace): DeploymentSettings {
  if (isParsed(given)) return given;
  try {
    return parseSettingsOf(given, place);
  } catch (error) {
    // An app need not catch it: the problems are then printed without the frames of this package.
    if (error instanceof ExportError) error.stack = `${error.name}: ${error.message}`;
    throw error;
  }
}

function parseSettingsOf(value: unknown, place: SettingsPlace): DeploymentSettings {
  const document = documentOf(value, place);
  const directory = isFilePath(value) ? dirname(value) : '.';
  const settings = withCertificates(parseDeployment(document, findAwsProblems(directory)), directory);
  parsedSettings.set(settings, document.value as SettingsFile);
  return settings;
}

/** A service of settings that were parsed here, in the form of the props of a `ReportExporter`. */
export function propsOfService(
  settings: DeploymentSettings,
  { name, prefix, service: { tls } }: ServiceDeploymentSettings,
): Pick<GivenSettings, 'name' | 'prefix' | 'service' | 'exports'> {
  const { services, exports } = parsedSettings.get(settings) as SettingsFile;
  const service = services[name] as ServiceProps;
  return {
    name,
    prefix,
    // The content of the file in `tls.ca`, whose path is relative to the settings file.
    service: service.tls === undefined ? service : { ...service, tls: { ...service.tls, ca: tls?.ca } },
    exports: exports.filter((each) => each.service === name || settings.services.length === 1),
  };
}

const isFilePath = (value: unknown): value is string =>
  typeof value === 'string' && value.trim() !== '' && !value.trimStart().startsWith('{');

function documentOf(value: unknown, { subject, path = [] }: SettingsPlace): SettingsDocument {
  if (value === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `cdk.json ${contextKey}: is missing. Only the CDK CLI reads the context of cdk.json (cdk synth); elsewhere, pass the path of the ` +
        'settings file as the prop settings',
    );
  }
  if (isFilePath(value)) return fileDocument(value);
  const isText = typeof value === 'string' && value.trim() !== '';
  return valueDocument(isText ? parseJson(value, `${[subject, ...path].join(' ')}:`) : value, subject, path);
}
