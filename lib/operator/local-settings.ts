/**
 * The settings of exports that run on this machine. The options of the command line are written over those of a settings file before
 * it is parsed; without a file, they are all there is. A problem is described by its option, or by its line in the file.
 */

import { dirname, resolve } from 'node:path';
import { ExportError } from '../core/errors.ts';
import { listNames } from '../core/sanitize.ts';
import { describeProblem, problemLines } from '../core/validation-errors.ts';
import type { LocalExport, SettingsSource } from '../local/settings.ts';
import { defaultApiKeyEnv, parseDeployment } from '../settings/deployment-settings.ts';
import { fieldsOf, itemsOf } from '../settings/fields.ts';
import { isPem } from '../settings/network-settings.ts';
import type { ServiceSettings } from '../settings/settings.ts';
import type { SettingsDocument } from '../settings/settings-document.ts';
import { parseWholeNumber, selectionProblems, settingOptions } from './arguments.ts';
import { collectProblems } from './run-options.ts';

/** The options that settings are read from, as the argument parser returns them. */
export interface SettingOptions extends Partial<Record<Exclude<keyof typeof settingOptions, 'compress'>, string>> {
  /** A settings file. */
  readonly settings?: string;
  /** Every export of the file. */
  readonly all?: boolean;
  /** Use a simulator instead of the service in the file. */
  readonly simulate?: boolean;
  readonly compress?: boolean;
}

/**
 * The exports of the file that `names` select; without names the only one, or every one with `all`. Without a file, the export of
 * the options, against a simulator unless there is a base URL. Of what only AWS uses, the schedule is kept to be shown.
 *
 * @throws ConfigurationError with a line for every problem, including `usageErrors`. Keys are not read
 */
export async function readExports(
  options: SettingOptions,
  names: readonly string[],
  usageErrors: readonly string[],
): Promise<readonly LocalExport[]> {
  const { settings: file, all } = options;
  const problems = [...usageErrors];
  // The parser takes long to load, and most runs have no settings file.
  const document =
    file === undefined
      ? optionsDocument
      : await import('../settings/settings-document.ts').then(({ fileDocument }) =>
          collectProblems(() => fileDocument(file), problems),
        );
  const selected = selectExports(document?.value, file === undefined ? [] : names, all);
  const edited = document && patched(document, findPatches(selected, options, problems));
  const parsed = edited && collectProblems(() => parseDeployment(edited), problems);
  const isUnclear = names.length > 0 || (all !== true && selected.length === 0);
  if (parsed !== undefined && file !== undefined && isUnclear) {
    const known = writtenExports(document?.value).map(({ name }) => String(name));
    problems.push(...selectionProblems(file, names, known));
  }

  const isSimulated = file === undefined ? options.baseUrl === undefined : options.simulate === true;
  const wanted = new Set(selected.map(({ name }) => name));
  const exports = (parsed?.services ?? []).flatMap(({ name, service, apiKeyEnv, exports: ofService }) => {
    const used = ofService.filter((each) => file === undefined || wanted.has(each.name));
    if (used.length > 0) problems.push(...findLocalProblems(service, `${file} services.${name}`, isSimulated));
    const local = {
      service: {
        ...service,
        baseUrl: isSimulated ? undefined : service.baseUrl,
        tls: withResolvedPaths(service.tls, dirname(file ?? '')),
      },
      // The simulator needs no key, and what is not checked by a use is not stored: it could be the key itself.
      apiKeyEnv: (isSimulated ? undefined : apiKeyEnv) ?? defaultApiKeyEnv,
      compression: parsed?.bucket.compression,
    };
    return used.map((each): LocalExport => ({ ...local, export: each }));
  });
  // What is wrong with an option is wrong for every export. Report it once.
  if (problems.length > 0) throw new ExportError('ConfigurationError', [...new Set(problems)].join('\n'));
  return names.length === 0
    ? exports
    : [...new Set(names)].flatMap((name) => exports.filter((each) => each.export.name === name));
}

/** What later starts need to read the exports again. */
export const settingsSource = (file: string, options: SettingOptions): SettingsSource => {
  const { settings: _, all: __, export: ___, ...overriding } = options;
  const names = ['simulate', ...Object.keys(settingOptions)];
  const kept = Object.entries(overriding).filter(([name]) => names.includes(name));
  return { file: resolve(file), options: Object.fromEntries(kept) };
};

/** The export as its file has it now. @throws ConfigurationError as `readExports` does */
export async function readAgain({ file, options }: SettingsSource, exportName: string): Promise<LocalExport> {
  const [found] = await readExports({ ...options, settings: file }, [exportName], []);
  return found as LocalExport;
}

/** Without a settings file. The address stands for that of a simulator, which has none before it is started. */
const optionsDocument: SettingsDocument = {
  value: { services: { service: { baseUrl: 'http://127.0.0.1' } }, exports: [{ name: 'reports' }] },
  describe: (issues) => problemLines('', issues),
};

/** An export as it is written, in settings that may be invalid. */
interface WrittenExport {
  readonly index: number;
  readonly name: unknown;
  readonly service: unknown;
}

function writtenExports(value: unknown): readonly WrittenExport[] {
  const { services, exports } = fieldsOf(value);
  const [only, ...others] = Object.keys(fieldsOf(services));
  return itemsOf(exports).map((each, index) => {
    const { name, service = others.length === 0 ? only : undefined } = fieldsOf(each);
    return { index, name, service };
  });
}

function selectExports(value: unknown, names: readonly string[], all = false): readonly WrittenExport[] {
  const written = writtenExports(value);
  if (all || (names.length === 0 && written.length === 1)) return written;
  return written.filter(({ name }) => names.includes(String(name)));
}

/** What an option sets in the settings. */
interface Patch {
  readonly option: string;
  readonly path: readonly (string | number)[];
  readonly value: unknown;
}

/** What the options set for the selected exports. Adds to `problems` if an option of one service would apply to several. */
function findPatches(
  selected: readonly WrittenExport[],
  options: SettingOptions,
  problems: string[],
): readonly Patch[] {
  const { settings, size, compress } = options;
  const values: Readonly<Record<string, unknown>> = {
    ...options,
    export: settings === undefined ? options.export : undefined,
    size: size && parseWholeNumber(size),
    compress: compress === true ? 'gzip' : undefined,
  };
  const services = [...new Set(selected.map(({ service }) => String(service)))];
  return Object.entries(settingOptions).flatMap(([name, [option, path]]) => {
    if (values[name] === undefined) return [];
    const isOfService = path.startsWith('services.');
    if (isOfService && services.length > 1) {
      // An address or a name of one service must not be used for another.
      const places = listNames(services);
      problems.push(`${option}: the exports belong to different services (${places}); run them separately`);
      return [];
    }
    const places = !path.includes('*') ? [''] : isOfService ? services : selected.map(({ index }) => index);
    return places.map((place) => {
      return { option, path: path.split('.').map((key) => (key === '*' ? place : key)), value: values[name] };
    });
  });
}

/** The settings with the patches. What is wrong with them is described by their options. */
function patched({ value, describe }: SettingsDocument, patches: readonly Patch[]): SettingsDocument {
  return {
    value: patches.reduce((settings, patch) => withValue(settings, patch.path, patch.value), value),
    describe(issues) {
      const patchOf = ({ path }: (typeof issues)[number]) =>
        patches.find((patch) => patch.path.every((key, index) => path[index] === key));
      const written = issues.filter((issue) => patchOf(issue) === undefined);
      return [
        ...(written.length === 0 ? [] : describe(written)),
        ...issues.flatMap((issue) => {
          const patch = patchOf(issue);
          return patch === undefined ? [] : [`${patch.option}: ${describeProblem(issue)}`];
        }),
      ];
    },
  };
}

/** `settings` with `value` at the path. What is no object where there should be one stays: it is a problem of its own. */
function withValue(settings: unknown, [key, ...rest]: Patch['path'], value: unknown): unknown {
  if (key === undefined) return value;
  if (Array.isArray(settings))
    return settings.map((item, index) => (index === key ? withValue(item, rest, value) : item));
  if (settings !== undefined && (typeof settings !== 'object' || settings === null)) return settings;
  const fields = fieldsOf(settings);
  return { ...fields, [key]: withValue(fields[key], rest, value) };
}

/** Why a service that can be deployed cannot be used on this machine. */
function findLocalProblems({ api, tls }: ServiceSettings, place: string, isSimulated: boolean): readonly string[] {
  if (isSimulated) {
    if (api === undefined) return [];
    return [
      `--simulate: ${place} describes another API, and only the Report Export Service is simulated. ` +
        'Without --simulate, the API at its baseUrl is used; plan --request requests two pages and stores nothing',
    ];
  }
  if (tls?.clientCertificateSecret === undefined || tls.clientCertificate !== undefined) return [];
  return [
    `${place}.tls.clientCertificate: is required on this machine, with clientKey; clientCertificateSecret is for AWS only`,
  ];
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
