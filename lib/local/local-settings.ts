/** Turns the command line's words into settings, and names every mistake at once by its option. */

import { z } from 'zod';
import { ExportError } from '../core/errors.ts';
import { instantSchema } from '../core/instants.ts';
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
  const problems = [...given];
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
    const inside = option === '--filter' ? path.slice(2).join('.') : '';
    problems.push(`${option}: ${inside}${inside === '' ? '' : ' '}${issue.message}`);
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

const numberOf = (text: string | undefined) => (text === undefined ? undefined : Number(text.trim() || Number.NaN));

function readFilter(text: string | undefined, problems: string[]): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    problems.push(
      `--filter: must be JSON, such as '{"type":"daily"}' (${error instanceof Error ? error.message : String(error)})`,
    );
    return undefined;
  }
}

/** The key in `variable`, which is never shown: problems name the variable only. */
export function readApiKey(
  variable: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): string | undefined {
  const key = env[variable];
  if (key === undefined || key === '') {
    problems.push(`--api-key-env: the environment variable ${variable} is not set; put the service's API key into it`);
  } else if (!/^[\x21-\x7e]+$/.test(key)) {
    problems.push(`--api-key-env: the environment variable ${variable} holds blanks or characters no API key can have`);
  }
  return key;
}
