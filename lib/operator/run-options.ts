/** Parses the options of the command line into settings. All problems are reported at once, each by its option. */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import type { StartRequest } from '../core/operations/deployment.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { apiKeyEnvSchema, defaultApiKeyEnv } from '../core/settings/deployment-settings.ts';
import { describeProblem, formatPath } from '../core/settings/validation-errors.ts';
import { instantSchema } from '../core/timestamps.ts';
import { problemOfApiKey } from '../local/service.ts';
import { type LocalExportInput, localExportSchema } from '../local/settings.ts';

/** As the argument parser returns them: text, or absent. */
export interface LocalOptions {
  readonly baseUrl?: string;
  readonly vendor: string;
  readonly apiKeyEnv: string;
  readonly export: string;
  readonly since?: string;
  readonly overlap: string;
  readonly size?: string;
  readonly filter?: string;
  readonly format: string;
  readonly container: string;
  readonly cursorIn: string;
  readonly out: string;
  /** Every export in the directory, with its saved settings. */
  readonly all?: boolean;
  readonly restart?: boolean;
  readonly maxPages?: string;
  readonly json?: boolean;
}

export { defaultApiKeyEnv };

export interface LocalSettings {
  /** In the form in which they are stored for later starts. */
  readonly settings: LocalExportInput;
  readonly out: string;
  readonly start: StartRequest;
}

const schema = z.object({
  settings: z.omit(localExportSchema, { apiKeyEnv: true }),
  out: z.string().check(z.minLength(1, 'must name a directory')),
  start: z.object({ since: z.optional(instantSchema) }),
});

const optionOf: Readonly<Record<string, string>> = {
  'service.baseUrl': '--base-url',
  'service.vendor': '--vendor',
  'service.cursorIn': '--cursor-in',
  'export.name': '--export',
  'export.since': '--overlap',
  'export.size': '--size',
  'export.filter': '--filter',
  'export.format': '--format',
  'export.container': '--container',
  'export.maxPages': '--max-pages',
  'start.since': '--since',
  out: '--out',
};

/**
 * The settings in `options`. `usageErrors` are the problems that the argument parser found.
 * @throws ConfigurationError with one line per problem, including `usageErrors`
 */
export function readLocalSettings(
  options: LocalOptions,
  usageErrors: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): LocalSettings {
  const problems = usageErrors.map(sanitizeArgument);
  const settings = {
    service: { baseUrl: options.baseUrl, vendor: options.vendor, cursorIn: options.cursorIn },
    export: {
      name: options.export,
      since: { overlap: options.overlap },
      filter: parseFilter(options.filter, problems),
      format: options.format,
      container: options.container,
      size: parseNumber(options.size),
      maxPages: parseNumber(options.maxPages),
    },
  };
  const parsed = schema.safeParse({ settings, out: options.out, start: { since: options.since } });
  for (const issue of parsed.error?.issues ?? []) problems.push(describeOption(issue));
  if (options.baseUrl !== undefined) readApiKey(options.apiKeyEnv, env, problems);
  if (problems.length > 0 || !parsed.success) throw new ExportError('ConfigurationError', problems.join('\n'));
  const { out, start } = parsed.data;
  // The simulator needs no key. A name that was not checked is not stored: it could be a key.
  const apiKeyEnv = options.baseUrl === undefined ? defaultApiKeyEnv : options.apiKeyEnv;
  return {
    settings: { ...settings, apiKeyEnv } as LocalExportInput,
    out,
    start: {
      ...(start.since === undefined ? {} : { since: start.since }),
      ...(options.restart === true ? { restart: true } : {}),
    },
  };
}

function parseFilter(text: string | undefined, problems: string[]): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    // The message of the JSON parser quotes its input.
    const message = error instanceof Error ? error.message : String(error);
    problems.push(`--filter: must be JSON, such as '{"type":"daily"}' (${sanitizeArgument(message)})`);
    return undefined;
  }
}

/** NaN for blank text, which Number takes for 0. */
const parseNumber = (text: string | undefined) => (text === undefined ? undefined : Number(text.trim() || Number.NaN));

/** `--size: must be 1 to 10`. The filter is an object, so its problems also say in which field. */
function describeOption(issue: z.core.$ZodIssue): string {
  const path = issue.path[0] === 'settings' ? issue.path.slice(1) : issue.path;
  const option = optionOf[path.slice(0, 2).join('.')] ?? optionOf[String(path[0])] ?? path.join('.');
  const field = option === '--filter' ? formatPath(path.slice(2)) : '';
  return `${option}: ${field === '' ? '' : `${field} `}${describeProblem(issue)}`;
}

/** An argument for an error message: long enough to recognize it, printable, and on one line. */
export const sanitizeArgument = (text: string): string => truncate(toPrintable(text), 200);

/**
 * The API key in the environment variable `variable`; adds to `problems` what is wrong with either. Problems show neither:
 * if the key itself was given as the name, it must not appear in a log.
 */
export function readApiKey(
  variable: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): string | undefined {
  const name = apiKeyEnvSchema.safeParse(variable);
  if (!name.success) {
    problems.push(...name.error.issues.map(({ message }) => `--api-key-env: ${message}`));
    return undefined;
  }
  const key = env[variable];
  const problem = problemOfApiKey(key);
  if (problem !== undefined) {
    problems.push(`--api-key-env: the environment variable it names (default ${defaultApiKeyEnv}) ${problem}`);
  }
  return key;
}
