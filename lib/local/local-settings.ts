/** Turns the command line's words into settings, and names every mistake at once by its option. */

import { z } from 'zod';
import { ExportError } from '../core/errors.ts';
import { printable, shortened } from '../core/foreign-text.ts';
import { instantSchema } from '../core/instants.ts';
import { placeOf, problemIn } from '../core/problems.ts';
import {
  type ExportSettings,
  exportSettingsSchema,
  type ServiceSettings,
  serviceSettingsSchema,
} from '../core/settings.ts';

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

export interface LocalSettings {
  /** No base URL: the simulator. */
  readonly service: Omit<ServiceSettings, 'baseUrl'> & { readonly baseUrl?: string | undefined };
  readonly export: ExportSettings;
  readonly apiKey?: string | undefined;
  readonly out: string;
  readonly startInput: { readonly since?: string; readonly restart?: boolean };
}

const schema = z.object({
  service: serviceSettingsSchema.partial({ baseUrl: true }),
  export: exportSettingsSchema,
  out: z.string().min(1, 'must name a directory'),
  start: z.object({ since: instantSchema.optional() }),
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
  const parsed = schema.safeParse({
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
    out: options.out,
    start: { since: options.since },
  });
  for (const issue of parsed.error?.issues ?? []) {
    const path = issue.path.map(String);
    const option = optionOf[path.slice(0, 2).join('.')] ?? optionOf[path[0] ?? ''] ?? path.join('.');
    const inside = option === '--filter' ? placeOf(issue.path.slice(2)) : '';
    problems.push(`${option}: ${inside}${inside === '' ? '' : ' '}${problemIn(issue)}`);
  }
  const apiKey = options.baseUrl === undefined ? undefined : readApiKey(options.apiKeyEnv, env, problems);
  if (problems.length > 0 || !parsed.success) throw new ExportError('ConfigurationError', problems.join('\n'));
  const { service, export: settings, out, start } = parsed.data;
  return {
    service,
    export: settings,
    apiKey,
    out,
    startInput: {
      ...(start.since === undefined ? {} : { since: start.since }),
      ...(options.restart === true ? { restart: true } : {}),
    },
  };
}

/** What a person has written, as far as they need to see it to know it again. */
const presentable = (words: string): string => shortened(printable(words), 200);

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
  if (key === undefined || key === '') {
    problems.push(
      '--api-key-env: the environment variable it names (REPORT_EXPORT_API_KEY where it is left out) is not set; ' +
        "put the service's API key into that",
    );
  } else if (!/^[\x21-\x7e]+$/.test(key)) {
    problems.push(
      '--api-key-env: the environment variable it names holds blanks or characters that no API key can have',
    );
  }
  return key;
}
