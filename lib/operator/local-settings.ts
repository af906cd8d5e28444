/**
 * The settings of exports that run on this machine: those of a settings file, or of the options of the only export. A
 * problem is described by its line in the file, or by its option.
 */

import { dirname, resolve } from 'node:path';
import { shellQuote } from '../core/sanitize.ts';
import { describeProblem } from '../core/validation-errors.ts';
import {
  type ConfiguredExport,
  findMixture,
  hasSimulatedReports,
  type LocalDeploymentOptions,
  noExportIn,
  openLocalDeployment,
} from '../local/directory.ts';
import { isFilePresent, writeFileIfAbsent } from '../local/durable-fs.ts';
import { simulatorAddress } from '../local/service.ts';
import { defaultDirectory, type LocalDirectory, settingsFileIn, simulatedDirectory } from '../local/settings.ts';
import { stateFileIn } from '../local/sqlite/state-file.ts';
import { parseDeployment } from '../settings/deployment-settings.ts';
import { isPem } from '../settings/network-settings.ts';
import { defaultApiKeyEnv, type ExportSettings, type ServiceSettings } from '../settings/settings.ts';
import { fileDocument, type SettingsDocument } from '../settings/settings-document.ts';
import type { Target } from './target.ts';
import { assertNoProblems, sanitizeArgument, selectionProblems } from './arguments.ts';
import { flagOf, type OptionName, type Options } from './option-table.ts';
import { collectProblems } from './run-options.ts';

const nameOf = ({ settings }: ConfiguredExport): string => settings.export.name;

export interface LocalRuns extends Pick<LocalDeploymentOptions, 'out' | 'exports' | 'file' | 'onPageStored'> {
  readonly names: readonly string[];
}

/**
 * The exports that `local` runs: those of the settings file that `names` select, the only one, or every one with `all`.
 * The file is that of `--settings`, or that of the directory. Without a file, the options describe the only export,
 * against a simulator unless there is a base URL. The first stored page writes them to the file of the directory:
 * before, an option with a mistake can be given again. All that is wrong is added to `problems`. Keys are not read.
 */
export function readLocalRuns(options: Options, names: readonly string[], problems: string[]): LocalRuns {
  const { settings, simulate, baseUrl } = options;
  const isSimulated = simulate ?? (settings === undefined && baseUrl === undefined);
  const out = options.out ?? (isSimulated ? simulatedDirectory : defaultDirectory);
  const ofDirectory = settingsFileIn(out);
  const file = settings ?? (isFilePresent(ofDirectory) ? ofDirectory : undefined);
  problems.push(...findConflicts(names, options, file !== undefined));
  if (file !== undefined) return { out, file, ...readFileRuns(file, { options, names, problems }) };
  const exports = configuredExports(optionsDocument(options), { isSimulated }, problems);
  const onPageStored = (notify: (text: string) => void) => writeSettings(ofDirectory, options, notify);
  return { out, exports, names: exports.map(nameOf), onPageStored };
}

/** The runs of a settings file, which may be that of the directory. */
function readFileRuns(
  file: string,
  {
    options,
    names,
    problems,
  }: { readonly options: Options; readonly names: readonly string[]; readonly problems: string[] },
): Pick<LocalRuns, 'exports' | 'names'> {
  const isSimulated = options.simulate ?? false;
  const document = collectProblems(() => fileDocument(file), problems);
  const exports = document === undefined ? [] : configuredExports(document, { file, isSimulated }, problems);
  const wanted = options.export === undefined ? names : [options.export];
  const selected = selectConfigured(exports, wanted, { file, all: options.all ?? false }, problems);
  if (selected.length > 0) problems.push(...findContradictions(options, document?.value as RawSettings, file));
  return { exports, names: selected.map(nameOf) };
}

function selectConfigured(
  exports: readonly ConfiguredExport[],
  names: readonly string[],
  { file, all }: { readonly file: string; readonly all: boolean },
  problems: string[],
): readonly ConfiguredExport[] {
  if (exports.length === 0) return [];
  const isClear = all || (names.length === 0 && exports.length === 1);
  if (!isClear) problems.push(...selectionProblems(file, names, exports.map(nameOf)));
  const selected = isClear
    ? exports
    : [...new Set(names)].flatMap((name) => exports.filter((each) => nameOf(each) === name));
  problems.push(...new Set(selected.flatMap(({ problem }) => problem ?? [])));
  return selected;
}

function findConflicts(names: readonly string[], options: Options, hasFile: boolean): readonly string[] {
  const { all = false, simulate = false, baseUrl } = options;
  return [
    ...(simulate && baseUrl !== undefined
      ? ['--simulate: cannot be combined with --base-url, which names a service']
      : []),
    ...(hasFile ? [] : names.map((name) => sanitizeArgument(`${name}: unexpected argument`))),
    ...(all && !hasFile ? ['--all: needs --settings, or a settings file in the directory'] : []),
    ...(all && names.length > 0 ? ['--all: runs every export; leave out the names of exports'] : []),
  ];
}

/** The options that describe the only export, and are settings in a file. */
const describingOptions = ['baseUrl', 'vendor'] as const;

/** The part of a valid settings file that options can set, too. */
interface RawSettings {
  readonly services: Readonly<Record<string, Partial<Record<(typeof describingOptions)[number], string>>>>;
  readonly exports: readonly { readonly name: string; readonly service?: string }[];
}

/** The options that say something else than the settings file, which counts. */
function findContradictions(options: Options, { services, exports }: RawSettings, file: string): readonly string[] {
  const entry = exports.find(({ name }) => name === options.export) ?? exports[0];
  const service = services[entry?.service ?? Object.keys(services)[0] ?? ''];
  return describingOptions
    .filter((field) => options[field] !== undefined && service?.[field] !== options[field])
    .map((field) => `${flagOf(field)}: ${file} says otherwise. Edit that file, or leave out ${flagOf(field)}`);
}

/** Writes the options to the settings file of the directory, which later commands read, unless there is one. */
function writeSettings(file: string, options: Options, notify: (text: string) => void): void {
  if (writeFileIfAbsent(file, `${JSON.stringify(settingsOfOptions(options), null, 2)}\n`)) {
    notify(`Settings written to ${file}: later commands read them there, and you can edit them`);
  }
}

/** Every export of a settings document. Problems of the document are added to `problems`: then there are none. */
function configuredExports(
  document: SettingsDocument,
  { file, isSimulated: simulates }: { readonly file?: string; readonly isSimulated: boolean },
  problems: string[],
): readonly ConfiguredExport[] {
  const parsed = collectProblems(() => parseDeployment(document), problems);
  const { services = [] } = parsed ?? {};
  const [simulated] = services.filter(({ service }) => service.baseUrl === simulatorUrl);
  if (!simulates && simulated !== undefined && services.some(({ service }) => service.baseUrl !== simulatorUrl)) {
    problems.push(
      `${file} services.${simulated.name} is simulated, and others are not. Use a file and a directory for each kind`,
    );
    return [];
  }
  return services.flatMap(({ name, service: written, exports }) => {
    const { apiKeyEnv, ...service } = written;
    const isSimulated = simulates || service.baseUrl === simulatorUrl;
    const local = {
      service: {
        ...service,
        baseUrl: isSimulated ? undefined : service.baseUrl,
        tls: withResolvedPaths(service.tls, dirname(file ?? '')),
      },
      // The simulator needs no key.
      apiKeyEnv: (isSimulated ? undefined : apiKeyEnv) ?? defaultApiKeyEnv,
      compression: parsed?.bucket.compression,
    };
    return exports.map((each) => ({
      settings: { ...local, export: each },
      problem: findLocalProblem(service, each, { place: `${file} services.${name}`, isSimulated }),
    }));
  });
}

/**
 * A directory with the exports of the settings file `--settings`, or of its own file. If its own file cannot be used,
 * what is stored can be read, and nothing can start.
 * @throws ConfigurationError with a line for every problem of `--settings`, or if there are neither settings nor
 *   exports
 */
export function openDirectory(
  { settings, out = defaultDirectory }: Options,
  machine: Omit<LocalDirectory, 'out'>,
): Target {
  const file = settings ?? settingsFileIn(out);
  const problems: string[] = [];
  const hasFile = settings !== undefined || isFilePresent(file);
  if (!hasFile && !isFilePresent(stateFileIn(out))) throw noExportIn(out);
  const document = hasFile ? collectProblems(() => fileDocument(file), problems) : undefined;
  // A run with --simulate and the same file has made the directory.
  const isSimulated = settings !== undefined && hasSimulatedReports(out);
  let exports = document === undefined ? [] : configuredExports(document, { file, isSimulated }, problems);
  const mixture = settings === undefined ? findMixture(exports, out) : undefined;
  if (mixture !== undefined) {
    problems.push(mixture);
    exports = [];
  }
  // Without a state, nothing can be read.
  if (settings !== undefined || !isFilePresent(stateFileIn(out))) assertNoProblems(problems);
  const problemsOfFile = [...problems];
  if (!hasFile)
    problems.push(
      `${file} does not exist. If the runs were started with --settings, add it. Otherwise run local again with the options of the first run, which writes the file`,
    );
  /** An export that only has a state, as far as that says what it is. */
  const settingsOfOther = (name: string, source: string | null): ConfiguredExport => {
    const known = { export: name, baseUrl: source === null || source === simulatorAddress ? undefined : source };
    const document = optionsDocument(known);
    const [other] = configuredExports(document, { isSimulated: known.baseUrl === undefined }, []);
    const missing = problems.length > 0 ? problems : selectionProblems(file, [name], exports.map(nameOf));
    return { ...(other as ConfiguredExport), problem: missing.join('\n') };
  };
  const target = openLocalDeployment({ ...machine, out, file, exports, problemsOfFile, settingsOfOther });
  if (settings === undefined) return target;
  return { ...target, name: `settings file ${file}`, option: `--settings ${shellQuote(file)} ${target.option}` };
}

/** Stands for a simulator in the settings file of a directory. No service can have this address. */
const simulatorUrl = 'https://simulator.invalid';

/** The settings file that says what the options say. */
const settingsOfOptions = ({ baseUrl = simulatorUrl, vendor, export: name = 'reports' }: Options) => ({
  services: { service: { baseUrl, vendor } },
  exports: [{ name }],
});

const optionsDocument = (options: Options): SettingsDocument => ({
  value: settingsOfOptions(options),
  describe: (issues) => issues.map((issue) => `${flagOfPath(issue.path)}: ${describeProblem(issue)}`),
});

function flagOfPath(path: readonly PropertyKey[]): string {
  const field = path.findLast((key) => typeof key === 'string') as 'name' | OptionName;
  return flagOf(field === 'name' ? 'export' : field);
}

/** Why a service that can be deployed cannot be used on this machine. */
function findLocalProblem(
  { tls }: Pick<ServiceSettings, 'tls'>,
  { api }: ExportSettings,
  { place, isSimulated }: { readonly place: string; readonly isSimulated: boolean },
): string | undefined {
  if (isSimulated) {
    if (api.pagination === undefined) return undefined;
    return (
      `--simulate: ${place} describes another API, and only the Report Export Service is simulated. ` +
      'Without --simulate, the API at its baseUrl is used; plan --request requests two pages and stores nothing'
    );
  }
  if (tls?.clientCertificateSecret === undefined || tls.clientCertificate !== undefined) return undefined;
  return `${place}.tls.clientCertificate: is required on this machine, with clientKey; clientCertificateSecret is for AWS only`;
}

/** Paths in a file are relative to it. They become absolute: later starts may have another working directory. */
function withResolvedPaths(tls: ServiceSettings['tls'], directory: string): ServiceSettings['tls'] {
  const absolute = (path: string | undefined) => (path === undefined || isPem(path) ? path : resolve(directory, path));
  return (
    tls && {
      ...tls,
      ca: absolute(tls.ca),
      clientCertificate: absolute(tls.clientCertificate),
      clientKey: absolute(tls.clientKey),
    }
  );
}
