/** Parses the options of the command line into settings. All problems are reported at once, each by its option. */

import { resolve } from 'node:path';
import type * as z from 'zod/mini';
import { systemRuntime } from '../core/clock.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Bounds } from '../core/model.ts';
import { startInputSchema } from '../core/steps/start-input.ts';
import type { StartRequest } from '../target/target.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { apiKeyEnvSchema, defaultApiKeyEnv } from '../settings/deployment-settings.ts';
import { parseWithRules } from '../settings/parse-settings.ts';
import { type ExportSettings, findMismatches, type ServiceSettings } from '../settings/settings.ts';
import { isPem, type TlsSettings } from '../settings/network-settings.ts';
import { describeProblem, formatPath } from '../core/validation-errors.ts';
import { isInFuture } from '../core/timestamps.ts';
import { problemOfVariable } from '../local/service.ts';
import { type LocalExport, type LocalSettingsInput, localSettingsSchema } from '../local/settings.ts';

/** The options that change settings, as the argument parser returns them: text, or absent. */
export interface SettingOptions {
  readonly baseUrl?: string;
  readonly vendor?: string;
  readonly apiKeyEnv?: string;
  readonly overlap?: string;
  readonly size?: string;
  readonly filter?: string;
  readonly format?: string;
  readonly container?: string;
  readonly cursorIn?: string;
  /** True unless `--no-compression` is given. */
  readonly compression?: boolean;
  readonly filterUntil?: string;
  readonly rootElement?: string;
  readonly maxPages?: string;
  readonly maxEmptyPages?: string;
  readonly proxyUrl?: string;
  readonly ca?: string;
  readonly clientCertificate?: string;
  readonly clientKey?: string;
  readonly clientKeyPassphraseEnv?: string;
  /** Each as `Name: value`. */
  readonly header?: readonly string[];
}

/** What a run is started with, as the argument parser returns it. */
export interface RunOptions {
  readonly since?: string;
  readonly until?: string;
  readonly each?: string;
  readonly again?: boolean;
  readonly parallel?: string;
  readonly slice?: string;
  readonly restart?: boolean;
}

/** The options of `local`. All but `out` and `export` may be absent with a settings file, which then decides. */
export interface LocalOptions extends SettingOptions, RunOptions {
  readonly export: string;
  readonly out: string;
  /** A settings file. */
  readonly settings?: string;
  /** Store pages compressed. */
  readonly compress?: boolean;
  /** Use a simulator instead of the service in the settings file. */
  readonly simulate?: boolean;
  /** Every export of the settings file; without one, every export in the directory, with its saved settings. */
  readonly all?: boolean;
  /** How often a step is tried at most. */
  readonly maxAttempts?: string;
  readonly json?: boolean;
  /** Show only warnings, errors and the result. */
  readonly quiet?: boolean;
}

export { defaultApiKeyEnv };

/** Adds what is wrong to `problems`, as BeginRun does: here no execution has to be started for it. */
export function readStartRequest(
  { since, until, each, again, parallel, slice, restart }: RunOptions,
  problems: string[],
): StartRequest {
  // Absent fields must be missing from the start input, not undefined.
  const request = withoutUndefined({
    since: since && fullInstant(since),
    until: until && fullInstant(until),
    each,
    again,
    parallel: parallel === undefined ? undefined : parseWholeNumber(parallel),
    slice,
    restart,
  });
  const { data, error } = startInputSchema.safeParse(request);
  for (const issue of error?.issues ?? []) problems.push(`--${issue.path.join('.')}: ${describeProblem(issue)}`);
  if (data?.since !== undefined && isInFuture(data.since, systemRuntime.now())) {
    problems.push('--since: must not be in the future: it has no reports yet');
  }
  return withoutUndefined({ ...data, slice });
}

/** A date is its first moment in UTC. */
const fullInstant = (text: string): string => (/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);

/** The bounds of a bounded run. Adds to `problems` if there is only one. */
export function readBounds(options: Pick<RunOptions, 'since' | 'until'>, problems: string[]): Bounds | undefined {
  const { since, until } = readStartRequest(options, problems);
  if (since !== undefined && until === undefined)
    problems.push('--since: needs --until: together they name a bounded run');
  return since === undefined || until === undefined ? undefined : { since, until };
}

/**
 * The settings in `options`. `usageErrors` are the problems that
 * were found before.
 * @throws ConfigurationError with one line per problem, including `usageErrors`
 */
export function readLocalSettings(options: LocalOptions, usageErrors: readonly string[]): LocalExport {
  const problems = [...usageErrors];
  const base = { service: {}, export: { name: options.export } };
  const settings = overrideSettings(base, readOverrides(options, problems), problems);
  const { baseUrl, apiKeyEnv = defaultApiKeyEnv } = options;
  if (baseUrl !== undefined) checkVariableName(apiKeyEnv, problems);
  else problems.push(...findUnusedOptions(options));
  if (problems.length > 0 || settings === undefined) {
    throw new ExportError('ConfigurationError', problems.join('\n'));
  }
  // The simulator needs no key. A name that was not checked is not stored: it could be a key.
  const compression = compressionOf(options);
  return { ...settings, apiKeyEnv: baseUrl === undefined ? defaultApiKeyEnv : apiKeyEnv, ...compression };
}

/** What `--compress` sets, or else `given`. */
export const compressionOf = (
  { compress }: Pick<LocalOptions, 'compress'>,
  given?: LocalExport['compression'],
): Pick<LocalExport, 'compression'> => {
  const compression = compress === true ? 'gzip' : given;
  return compression === undefined ? {} : { compression };
};

const unusedBySimulator = [
  'rootElement',
  'proxyUrl',
  'ca',
  'clientCertificate',
  'clientKey',
  'clientKeyPassphraseEnv',
] as const satisfies (keyof SettingOptions)[];

/** A user who sets them expects them to have an effect. */
const findUnusedOptions = (options: SettingOptions): string[] =>
  optionsSet(options, unusedBySimulator).map((option) => `${option}: the simulator does not use it; add --base-url`);

/** Those of `fields` that are set, as options: `--base-url`. */
export const optionsSet = (options: SettingOptions, fields: readonly (keyof SettingOptions)[]): string[] =>
  fields.filter((field) => options[field] !== undefined).map(optionName);

const optionName = (field: string): string => `--${field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** A service and an export, as they are written. */
type Settings = LocalSettingsInput;

/** What the command line says about a service and its exports. Fields that it does not set are absent. */
export interface Overrides {
  readonly service: Partial<Settings['service']>;
  readonly export: Partial<Settings['export']>;
  readonly overlap: string | undefined;
}

/** Adds to `problems` what is wrong. The values are checked by `overrideSettings`. */
export function readOverrides(options: SettingOptions, problems: string[]): Overrides {
  const { baseUrl, vendor, cursorIn, compression, filterUntil, rootElement, format, container, overlap } = options;
  const { proxyUrl, clientKeyPassphraseEnv } = options;
  const tls = withoutUndefined({ ...resolvePaths(options, process.cwd()), clientKeyPassphraseEnv });
  return {
    service: withoutUndefined({
      baseUrl,
      vendor,
      cursorIn,
      compression: compression === false ? false : undefined,
      filterUntil,
      rootElement,
      proxyUrl,
      tls: Object.keys(tls).length === 0 ? undefined : tls,
      headers: parseHeaders(options.header, problems),
    }) as Overrides['service'],
    export: withoutUndefined({
      filter: parseFilter(options.filter, problems),
      format,
      container,
      size: options.size === undefined ? undefined : parseWholeNumber(options.size),
      maxPages: options.maxPages === undefined ? undefined : parseWholeNumber(options.maxPages),
      maxEmptyPages: options.maxEmptyPages === undefined ? undefined : parseWholeNumber(options.maxEmptyPages),
    }) as Overrides['export'],
    overlap,
  };
}

export const withoutUndefined = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** The paths of certificates, made absolute from `directory`: later starts may have another working directory. */
export function resolvePaths(
  { ca, clientCertificate, clientKey }: Pick<TlsSettings, 'ca' | 'clientCertificate' | 'clientKey'>,
  directory: string,
): Pick<TlsSettings, 'ca' | 'clientCertificate' | 'clientKey'> {
  const absolute = (path: string | undefined) =>
    path === undefined || path === '' || isPem(path) ? path : resolve(directory, path);
  return { ca: absolute(ca), clientCertificate: absolute(clientCertificate), clientKey: absolute(clientKey) };
}

/** Without the values in problems: a credential given by mistake must not appear in a log. */
function parseHeaders(headers: readonly string[] | undefined, problems: string[]): unknown {
  if (headers === undefined) return undefined;
  const parsed = new Map<string, string>();
  for (const header of headers) {
    const [, name, value = ''] = /^([^:\s]+):\s*(.*?)\s*$/s.exec(header) ?? [];
    if (name === undefined) problems.push("--header: must be a name and a value, such as 'X-Tenant: acme'");
    else if (parsed.has(name)) problems.push(`--header: ${sanitizeArgument(name)} is given twice`);
    else parsed.set(name, value);
  }
  return Object.fromEntries(parsed);
}

interface ValidSettings {
  readonly service?: Partial<ServiceSettings>;
  readonly export?: Partial<ExportSettings>;
}

/** The settings with the overrides. What is wrong with them is added to `problems`, by the option; they are then undefined. */
export function overrideSettings(base: Settings, overrides: Overrides, problems: string[]) {
  const { since } = base.export;
  const { overlap } = overrides;
  const settings = {
    service: {
      ...base.service,
      ...overrides.service,
      ...mergedField('tls', base, overrides),
      ...mergedField('headers', base, overrides),
    },
    export: {
      ...base.export,
      ...overrides.export,
      ...(overlap === undefined ? {} : { since: { ...since, overlap } }),
    },
  };
  const depths = { service: 2, export: 2 };
  const { data, issues } = parseWithRules(localSettingsSchema, settings, depths, (valid: ValidSettings) =>
    findMismatches({ valid: valid.service ?? {}, written: settings.service }, [
      { valid: valid.export ?? {}, written: settings.export },
    ]).map(({ path: [root = '', ...path], message }) =>
      root === 'service' ? { path: [root, ...path], message } : { path: ['export', ...path.slice(1)], message },
    ),
  );
  for (const issue of issues) problems.push(describeOption(issue));
  return data;
}

/** An option replaces a field of these objects, not the whole object. */
const mergedField = (field: 'tls' | 'headers', base: Settings, overrides: Overrides): object =>
  overrides.service[field] === undefined ? {} : { [field]: { ...base.service[field], ...overrides.service[field] } };

/** The value of `--max-attempts`; undefined if it was not given. Adds to `problems` what is wrong. */
export function readMaxAttempts(text: string | undefined, problems: string[]): number | undefined {
  if (text === undefined) return undefined;
  const attempts = parseWholeNumber(text);
  if (attempts >= 1) return attempts;
  problems.push('--max-attempts: must be a whole number of at least 1, which means no retry');
  return undefined;
}

function parseFilter(text: string | undefined, problems: string[]): unknown {
  if (text === undefined) return undefined;
  try {
    const filter: unknown = JSON.parse(text);
    const repeated = findRepeatedField(text);
    if (repeated !== undefined) {
      problems.push(`--filter: has the field ${sanitizeArgument(repeated)} twice in one object`);
    }
    return filter;
  } catch (error) {
    // The message of the JSON parser quotes its input.
    const message = error instanceof Error ? error.message : String(error);
    problems.push(`--filter: must be JSON, such as '{"type":"daily"}' (${sanitizeArgument(message)})`);
    return undefined;
  }
}

/** A field that an object in valid JSON has twice. JSON.parse ignores the first one. */
function findRepeatedField(json: string): string | undefined {
  const objects: Set<string>[] = [];
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|[{}]/g)) {
    if (token === '{') objects.push(new Set());
    else if (token === '}') objects.pop();
    else if (token.endsWith(':')) {
      const name = JSON.parse(token.slice(0, -1)) as string;
      const names = objects.at(-1);
      if (names?.has(name) === true) return name;
      names?.add(name);
    }
  }
  return undefined;
}

/** The whole number in the value of `option`; adds to `problems` if it is none, or out of range. */
export function readWholeNumber(
  option: string,
  text: string,
  { min = 0, max }: { readonly min?: number; readonly max: number },
  problems: string[],
): number {
  const number = parseWholeNumber(text);
  if (!(number >= min && number <= max)) problems.push(`${option}: must be a whole number from ${min} to ${max}`);
  return number;
}

/** NaN unless `text` is a whole number in decimal digits. Number also accepts blank text, 0x5, 5e0 and 5.0. */
export function parseWholeNumber(text: string): number {
  const number = /^(0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : Number.NaN;
}

/** The options that have another name than the field that they set. */
const otherNames: Readonly<Record<string, string>> = {
  'export.name': '--export',
  'export.since': '--overlap',
  'service.headers': '--header',
};

/** `--size: must be 1 to 10`. Filter and headers are objects, so their problems also say in which field. */
function describeOption(issue: z.core.$ZodIssue): string {
  const [group, field, part] = issue.path.map(String);
  const option = otherNames[`${group}.${field}`] ?? optionName(String(field === 'tls' ? part : field));
  const isObject = option === '--filter' || option === '--header';
  const place = isObject ? formatPath(issue.path.slice(2)) : '';
  return `${option}: ${place === '' ? '' : `${place} `}${describeProblem(issue)}`;
}

/** The result of `action`; undefined if it throws a ConfigurationError, whose lines are added to `problems`. */
export function collectProblems<Result>(action: () => Result, problems: string[]): Result | undefined {
  try {
    return action();
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    problems.push(...error.message.split('\n'));
    return undefined;
  }
}

/** An argument for an error message: long enough to recognize it, printable, and on one line. */
export const sanitizeArgument = (text: string): string => truncate(toPrintable(text), 200);

/** Problems never show the name: it could be the key. */
export function checkVariableName(variable: string, problems: string[]): void {
  const { error } = apiKeyEnvSchema.safeParse(variable);
  for (const { message } of error?.issues ?? []) problems.push(`--api-key-env: ${message}`);
}

/**
 * The API key, or another secret for this kind of authentication, in the environment variable `variable`. Adds to `problems`
 * what is wrong with either, without the key.
 */
export function readApiKey(variable: string, env: NodeJS.ProcessEnv, problems: string[]): string | undefined {
  const before = problems.length;
  checkVariableName(variable, problems);
  if (problems.length > before) return undefined;
  const problem = problemOfVariable(variable, env);
  if (problem !== undefined) problems.push(`--api-key-env: the ${problem}`);
  return env[variable];
}
