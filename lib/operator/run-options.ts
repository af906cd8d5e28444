/** Turns the command line's words into settings, and names every mistake at once by its option. */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import type { StartRequest } from '../core/operations/deployment.ts';
import { toPrintable, truncate } from '../core/sanitize.ts';
import { formatPath, describeProblem } from '../core/settings/validation-errors.ts';
import { instantSchema } from '../core/timestamps.ts';
import { problemOfApiKey } from '../local/service.ts';
import { type LocalExportInput, localExportSchema } from '../local/settings.ts';

/** As the argument parser leaves them: text, or absent. */
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
  readonly restart?: boolean;
  readonly maxPages?: string;
  readonly json?: boolean;
}

const standardApiKeyEnv = 'REPORT_EXPORT_API_KEY';

export interface LocalSettings {
  /** In the form that it is remembered in. */
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

/** @throws ConfigurationError that names every problem, those given and those found here, a line each. */
export function readLocalSettings(
  options: LocalOptions,
  given: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): LocalSettings {
  const problems = given.map(presentable);
  const filter = readFilter(options.filter, problems);
  const settings = {
    service: { baseUrl: options.baseUrl, vendor: options.vendor, cursorIn: options.cursorIn },
    export: {
      name: options.export,
      since: { overlap: options.overlap },
      filter,
      format: options.format,
      container: options.container,
      size: numberOf(options.size),
      maxPages: numberOf(options.maxPages),
    },
  };
  const parsed = schema.safeParse({
    settings,
    out: options.out,
    start: { since: options.since },
  });
  for (const issue of parsed.error?.issues ?? []) {
    const [, ...inside] = issue.path.map(String);
    const path = issue.path[0] === 'settings' ? inside : issue.path.map(String);
    const option = optionOf[path.slice(0, 2).join('.')] ?? optionOf[path[0] ?? ''] ?? path.join('.');
    const place = option === '--filter' ? formatPath(issue.path.slice(3)) : '';
    problems.push(`${option}: ${place}${place === '' ? '' : ' '}${describeProblem(issue)}`);
  }
  if (options.baseUrl !== undefined) readApiKey(options.apiKeyEnv, env, problems);
  if (problems.length > 0 || !parsed.success) throw new ExportError('ConfigurationError', problems.join('\n'));
  const { out, start } = parsed.data;
  // Without a service there is no key either, and a name that nobody has looked at is not worth remembering.
  const apiKeyEnv = options.baseUrl === undefined ? standardApiKeyEnv : options.apiKeyEnv;
  return {
    settings: { ...settings, apiKeyEnv } as LocalExportInput,
    out,
    start: {
      ...(start.since === undefined ? {} : { since: start.since }),
      ...(options.restart === true ? { restart: true } : {}),
    },
  };
}

/** What a person has written, as far as they need to see it to know it again. */
const presentable = (words: string): string => truncate(toPrintable(words), 200);

const numberOf = (text: string | undefined) => (text === undefined ? undefined : Number(text.trim() || Number.NaN));

function readFilter(text: string | undefined, problems: string[]): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own words quote what it was given.
    const why = error instanceof Error ? error.message : String(error);
    problems.push(`--filter: must be JSON, such as '{"type":"daily"}' (${presentable(why)})`);
    return undefined;
  }
}

/** The key in `variable`. Problems show neither: who puts the key itself for the name must not find it in a log. */
export function readApiKey(
  variable: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(variable)) {
    problems.push(
      '--api-key-env: must be the name of an environment variable (letters, digits, underscores), not the key',
    );
    return undefined;
  }
  const key = env[variable];
  const problem = problemOfApiKey(key);
  if (problem !== undefined) {
    const named = `the environment variable it names (${standardApiKeyEnv} where it is left out)`;
    problems.push(`--api-key-env: ${named} ${problem}`);
  }
  return key;
}
