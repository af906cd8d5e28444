/**
 * The settings of a deployment, from the context of cdk.json. They are validated completely before anything is synthesized, and
 * every problem is reported, one line each: those of the settings file, and those that only AWS has.
 */

import { readFileSync } from 'node:fs';
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
} from '../../core/settings/deployment-settings.ts';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import {
  fileDocument,
  parseJson,
  type SettingsDocument,
  valueDocument,
} from '../../core/settings/settings-document.ts';
import { findLimitProblems } from '../function-limits.ts';
import { findSizeProblem } from './stack-size.ts';

export { defaultStackName } from '../../core/settings/deployment-settings.ts';

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
  const document = documentOf(value);
  const settings = parseDeployment(document, findMisfits);
  const problem = findSizeProblem(settings);
  if (problem !== undefined) {
    throw new ExportError('ConfigurationError', document.describe([issueAt([], problem)]).join('\n'));
  }
  parsedSettings.add(settings);
  return settings;
}

function documentOf(value: unknown): SettingsDocument {
  if (typeof value !== 'string' || value.trim() === '') return valueDocument(value, 'cdk.json', [contextKey]);
  if (!value.trimStart().startsWith('{')) return fileDocument(value, (path) => readFileSync(path, 'utf8'));
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
