/** The exports of a settings file that `report-exporter local` runs, with the overrides of the command line. */

import { dirname, resolve } from 'node:path';
import { ExportError } from '../core/errors.ts';
import { listNames } from '../core/sanitize.ts';
import { defaultApiKeyEnv, parseDeployment, type ServiceDeploymentSettings } from '../settings/deployment-settings.ts';
import type { AsText, ServiceProps, SettingsFile } from '../settings/props.ts';
import { fileDocument } from '../settings/settings-document.ts';
import { readTextFile } from '../settings/text-file.ts';
import type { LocalExport, LocalSettingsInput, SettingsSource } from '../local/settings.ts';
import {
  checkVariableName,
  collectProblems,
  compressionOf,
  optionsSet,
  type LocalOptions,
  overrideSettings,
  readOverrides,
  resolvePaths,
  sanitizeArgument,
  type SettingOptions,
  withoutUndefined,
} from './run-options.ts';

/**
 * The exports that `names` select; without names the only one, or every one with `--all`. `options` has only what was
 * given on the command line. The settings are those that would be deployed, except for what only AWS uses: all of the
 * schedule but its expression, and the number of pages per invocation.
 *
 * @throws ConfigurationError with a line for every problem. Keys are not read
 */
export function readFileExports(
  file: string,
  names: readonly string[],
  options: FileOptions,
  usageErrors: readonly string[],
): readonly LocalExport[] {
  const problems = [...usageErrors];
  const overrides = readOverrides(options, problems);
  if (options.apiKeyEnv !== undefined) checkVariableName(options.apiKeyEnv, problems);
  const read = collectProblems(() => readFile(file), problems);
  const selected =
    read === undefined ? [] : (collectProblems(() => select(read, file, names, options.all), problems) ?? []);
  problems.push(...findAmbiguousOverrides(selected, options));
  const exports = selected.flatMap(({ service, written, schedule }): LocalExport | [] => {
    const { baseUrl, ...others } = withResolvedPaths(written.service, dirname(file));
    const simulated = options.simulate === true;
    const base = { service: simulated ? others : { baseUrl, ...others }, export: written.export };
    const apiKeyEnv = simulated ? defaultApiKeyEnv : (options.apiKeyEnv ?? service.apiKeyEnv);
    const place = `${file} services.${service.name}`;
    const settings = overrideSettings(base, overrides, problems);
    if (settings === undefined) return [];
    if (!simulated) problems.push(...findMissingCertificate(settings.service, place));
    else if (others.api !== undefined) {
      problems.push(
        `--simulate: ${place} describes another API, and only the Report Export Service is simulated. ` +
          'Without --simulate, the API at its baseUrl is used; probe requests two pages and stores nothing',
      );
    }
    const compression = compressionOf(options, read?.deployment.bucket.compression);
    return { ...settings, apiKeyEnv, ...compression, ...(schedule !== undefined && { schedule }) };
  });
  // The options have problems of their own, whatever the file says.
  if (selected.length === 0) overrideSettings({ service: {}, export: { name: 'any' } }, overrides, problems);
  // What is wrong with an option is wrong for every export. Report it once.
  if (problems.length > 0) throw new ExportError('ConfigurationError', [...new Set(problems)].join('\n'));
  return exports;
}

type FileOptions = SettingOptions & Pick<LocalOptions, 'all' | 'simulate' | 'compress'>;

/** What later starts need to read the exports again. `options` has only what was given on the command line. */
export function settingsSource(file: string, options: LocalOptions): SettingsSource {
  const { settings: _file, out: _out, export: _export, all: _all, json: _json, ...others } = options;
  const { since: _since, restart: _restart, maxAttempts: _maxAttempts, quiet: _quiet, ...unbounded } = others;
  const { until: _until, each: _each, again: _again, parallel: _parallel, slice: _slice, ...kept } = unbounded;
  return { file: resolve(file), options: withoutUndefined({ ...kept, ...resolvePaths(kept, process.cwd()) }) as never };
}

/** The export as its file has it now. @throws ConfigurationError as `readFileExports` does */
export function readAgain({ file, options }: SettingsSource, exportName: string): LocalExport {
  return readFileExports(file, [exportName], options as FileOptions, [])[0] as LocalExport;
}

/** Options override what is written. */
function readFile(file: string) {
  const document = fileDocument(file, readTextFile);
  return { deployment: parseDeployment(document), written: document.value as AsText<SettingsFile> };
}

/** Paths in the file are relative to it. */
const withResolvedPaths = ({ tls, ...service }: AsText<ServiceProps>, directory: string): AsText<ServiceProps> =>
  tls === undefined ? service : { ...service, tls: withoutUndefined({ ...tls, ...resolvePaths(tls, directory) }) };

/** The service requires a client certificate, which on AWS is a secret, and this machine has none. */
function findMissingCertificate({ tls }: LocalExport['service'], place: string): string[] {
  if (tls?.clientCertificateSecret === undefined || tls.clientCertificate !== undefined) return [];
  return [
    `${place}.tls.clientCertificate: is required on this machine, with clientKey; clientCertificateSecret is for AWS only`,
  ];
}

interface SelectedExport {
  readonly service: ServiceDeploymentSettings;
  readonly name: string;
  readonly written: { readonly service: AsText<ServiceProps>; readonly export: LocalSettingsInput['export'] };
  /** An expression. A local run starts at once, whatever the schedule. */
  readonly schedule: string | undefined;
}

function select(
  { deployment: { services }, written }: ReturnType<typeof readFile>,
  file: string,
  names: readonly string[],
  all = false,
): readonly SelectedExport[] {
  const exports = services.flatMap((service) =>
    service.exports.map(({ name, schedule }) => ({
      name,
      service,
      written: writtenSettings(written, service.name, name),
      schedule: schedule?.expression,
    })),
  );
  const known = exports.map(({ name }) => name);
  if (all || (names.length === 0 && exports.length === 1)) return exports;
  if (names.length === 0) {
    const message = `Specify exports of ${file}, or run all of them with --all: ${listNames(known)}`;
    throw new ExportError('ConfigurationError', message);
  }
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    const lines = unknown.map((name) => `${sanitizeArgument(name)}: no such export in ${file}`);
    throw new ExportError('ConfigurationError', [...lines, `  Its exports: ${listNames(known)}`].join('\n'));
  }
  return [...new Set(names)].flatMap((name) => exports.filter((each) => each.name === name));
}

/** A service and an export of a valid file, without what only a deployment uses. */
function writtenSettings({ services, exports }: AsText<SettingsFile>, serviceName: string, exportName: string) {
  const {
    apiKeySecret: _secret,
    apiKeyEnv: _env,
    exportPage: _page,
    readerAccounts: _readers,
    ...service
  } = services[serviceName] as AsText<SettingsFile>['services'][string];
  const found = exports.find(({ name }) => name === exportName) as AsText<SettingsFile>['exports'][number];
  const { service: _service, schedule: _schedule, ...settings } = found;
  return { service, export: settings };
}

const ofOneService = [
  'baseUrl',
  'vendor',
  'apiKeyEnv',
  'cursorIn',
  'filterUntil',
  'rootElement',
  'ca',
  'clientCertificate',
  'clientKey',
  'clientKeyPassphraseEnv',
  'header',
] as const satisfies (keyof SettingOptions)[];

/** An address or a key for one service must not be used for another. */
function findAmbiguousOverrides(selected: readonly SelectedExport[], options: SettingOptions): string[] {
  const services = [...new Set(selected.map(({ service }) => service.name))];
  if (services.length <= 1) return [];
  return optionsSet(options, ofOneService).map(
    (option) => `${option}: the exports belong to different services (${listNames(services)}); run them separately`,
  );
}
