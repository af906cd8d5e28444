/**
 * The settings of exports that run on this machine: those of a settings file, or of the options of the only export. A problem is
 * described by its line in the file, or by its option.
 */

import { dirname, resolve } from 'node:path';
import { ExportError } from '../core/errors.ts';
import { shellQuote } from '../core/sanitize.ts';
import { describeProblem } from '../core/validation-errors.ts';
import { openLocalDeployment } from '../local/directory.ts';
import { defaultDirectory, type LocalDirectory, type LocalExport, type SettingsSource } from '../local/settings.ts';
import { parseDeployment } from '../settings/deployment-settings.ts';
import { isPem } from '../settings/network-settings.ts';
import { defaultApiKeyEnv, type ExportSettings, type ServiceSettings } from '../settings/settings.ts';
import type { SettingsDocument } from '../settings/settings-document.ts';
import { type ExportTarget, type Target, unreadableExport } from './target.ts';
import { assertNoProblems, parseWholeNumber, selectionProblems } from './arguments.ts';
import type { Options } from './option-table.ts';
import { collectProblems } from './run-options.ts';

/**
 * The exports of the file that `names` select; without names the only one, or every one with `all`. Without a file, the export of
 * the options, against a simulator unless there is a base URL. Of what only AWS uses, the schedule is kept to be shown.
 * All that is wrong is added to `problems`. Keys are not read.
 */
export async function readExports(
  options: Options,
  names: readonly string[],
  problems: string[],
): Promise<readonly LocalExport[]> {
  const { settings: file, all = false } = options;
  const exports = await findExports(options, problems);
  if (exports === undefined) return [];
  const isClear = file === undefined || all || (names.length === 0 && exports.length === 1);
  const selected = isClear
    ? exports
    : [...new Set(names)].flatMap((name) => exports.filter((each) => nameOf(each) === name));
  if (!isClear) problems.push(...selectionProblems(file, names, exports.map(nameOf)));
  problems.push(...new Set(selected.flatMap(({ problem }) => problem ?? [])));
  return selected.map(({ settings }) => settings);
}

interface FoundExport {
  readonly settings: LocalExport;
  /** Why it cannot run on this machine. */
  readonly problem: string | undefined;
}

const nameOf = ({ settings }: FoundExport): string => settings.export.name;

/** Every export of the file, or that of the options. Undefined if there are problems, which are added to `problems`. */
async function findExports(options: Options, problems: string[]): Promise<readonly FoundExport[] | undefined> {
  const { settings: file, compress } = options;
  const isSimulated = file === undefined ? options.baseUrl === undefined : options.simulate === true;
  // The parser takes long to load, and most runs have no settings file.
  const document =
    file === undefined
      ? optionsDocument(options)
      : await import('../settings/settings-document.ts').then(({ fileDocument }) =>
          collectProblems(() => fileDocument(file), problems),
        );
  const parsed = document && collectProblems(() => parseDeployment(document), problems);
  return parsed?.services.flatMap(({ name, service: written, exports }) => {
    const { apiKeyEnv, ...service } = written;
    const local = {
      service: {
        ...service,
        baseUrl: isSimulated ? undefined : service.baseUrl,
        tls: withResolvedPaths(service.tls, dirname(file ?? '')),
      },
      // The simulator needs no key, and what is not checked by a use is not stored: it could be the key itself.
      apiKeyEnv: (isSimulated ? undefined : apiKeyEnv) ?? defaultApiKeyEnv,
      compression: compress === true ? ('gzip' as const) : parsed.bucket.compression,
    };
    return exports.map((each) => ({
      settings: { ...local, export: each },
      problem: findLocalProblem(service, each, { place: `${file} services.${name}`, isSimulated }),
    }));
  });
}

/**
 * The exports of a settings file, with the state that they have in the directory `out`: as `local` with the same options would run them.
 * @throws ConfigurationError with a line for every problem of the file, or if the state cannot be read
 */
export async function openSettings(
  file: string,
  out: string | undefined,
  machine: Omit<LocalDirectory, 'out'>,
): Promise<Target> {
  const problems: string[] = [];
  const exports = (await findExports({ settings: file }, problems)) ?? [];
  assertNoProblems(problems);
  const directory = openLocalDeployment({
    ...machine,
    out: out ?? defaultDirectory,
    given: { exports: exports.map(({ settings }) => settings) },
  });
  const names = exports.map(nameOf);
  const open = async (name: string): Promise<ExportTarget> => {
    const found = exports.find((each) => nameOf(each) === name);
    const problem = found === undefined ? selectionProblems(file, [name], names).join('\n') : found.problem;
    if (found === undefined || problem !== undefined) throw new ExportError('ConfigurationError', problem ?? '');
    return { ...(await directory.open(name)), settings: { file } };
  };
  return {
    ...directory,
    name: `settings file ${file}`,
    option: `--settings ${shellQuote(file)}${out === undefined ? '' : ` --out ${shellQuote(out)}`}`,
    exportNames: async () => names,
    open,
    openAll: async () =>
      await Promise.all(
        names.map(async (name) => await open(name).catch((error: unknown) => unreadableExport(name, null, error))),
      ),
  };
}

/** The export as its file has it now. @throws ConfigurationError with a line for every problem */
export async function readAgain({ file, ...options }: SettingsSource, exportName: string): Promise<LocalExport> {
  const problems: string[] = [];
  const [found] = await readExports({ ...options, settings: file }, [exportName], problems);
  assertNoProblems(problems);
  return found as LocalExport;
}

/** Settings without a file. The address stands for that of a simulator, which has none before it is started. */
function optionsDocument(options: Options): SettingsDocument {
  const { baseUrl = 'http://127.0.0.1', vendor, cursorIn, filterUntil, export: name = 'reports', size } = options;
  return {
    value: {
      services: { service: { baseUrl, vendor, cursorIn, filterUntil } },
      exports: [{ name, size: size && parseWholeNumber(size) }],
    },
    describe: (issues) => issues.map((issue) => `--${optionOfPath(issue.path)}: ${describeProblem(issue)}`),
  };
}

function optionOfPath(path: readonly PropertyKey[]): string {
  const field = String(path.findLast((key) => typeof key === 'string'));
  return field === 'name' ? 'export' : optionOf(field);
}

/** `base-url` for `baseUrl`. */
export const optionOf = (field: string): string => field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

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
