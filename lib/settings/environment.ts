/**
 * What the deployment passes to the functions of a service: environment variables, and a settings file beside their code.
 * A file, because the settings of a hundred exports exceed the 4 kB that Lambda allows for environment variables.
 */

import * as z from 'zod/mini';
import type { StepName } from '../core/state-machine/definition.ts';
import type { Compression } from '../core/model.ts';
import { text } from './fields.ts';
import { parseSettings } from './parse-settings.ts';
import type { ExportSettings, ServiceSettings } from './settings.ts';

/** The name of the settings file. It contains `FunctionSettings`. */
export const settingsFileName = 'settings.json';

/** All can be read at once. Consumers could not read pages in GLACIER or DEEP_ARCHIVE before they are restored. */
const storageClasses = ['STANDARD', 'STANDARD_IA', 'INTELLIGENT_TIERING', 'ONEZONE_IA', 'GLACIER_IR'] as const;
export type StorageClass = (typeof storageClasses)[number];
export const storageClassSchema = z.enum(
  storageClasses,
  `must be one of ${storageClasses.join(', ')}. To archive pages later, use lifecycle.transitions`,
);

export const compressionSchema = z.enum(
  ['gzip'],
  'must be gzip; leave it out to store pages as the service sends them',
);

const tagCharacters = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
/** Tags by key, within the limits of S3. */
export const objectTagsSchema = z.record(z.string(), z.string()).check(
  z.superRefine((tags, context) => {
    const entries = Object.entries(tags);
    const issue = (message: string, path: string[] = []) => context.addIssue({ code: 'custom', path, message });
    if (entries.length > 10) issue('must have at most 10 tags');
    for (const [key, value] of entries) {
      if (key === '' || key.length > 128) issue('the key must have 1 to 128 characters', [key]);
      if (/^aws:/i.test(key)) issue('the key must not begin with aws:, which AWS reserves', [key]);
      if (value.length > 256) issue('must have at most 256 characters', [key]);
      if (!tagCharacters.test(key + value)) issue('must have only letters, digits, spaces and + - = . _ : / @', [key]);
    }
  }),
);

/** `ERROR` leaves out the lines of pages and runs, which have the level INFO. No line has another level. */
export const logLevelSchema = z.enum(['INFO', 'ERROR'], 'must be INFO or ERROR: no line has another level');
export type LogLevel = z.infer<typeof logLevelSchema>;

/** How objects are stored. */
export interface ObjectSettings {
  /** The storage class of pages. Absent: STANDARD. */
  readonly storageClass?: StorageClass;
  /** The tags of pages and manifests. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Of the parsed settings that functions, template metadata and directories hold. They are read without being parsed again. */
export const settingsVersion = 1;

export interface FunctionSettings {
  readonly version: typeof settingsVersion;
  readonly service: ServiceSettings;
  readonly exports: readonly ExportSettings[];
  readonly objects?: ObjectSettings;
  /** Of the pages of new runs. */
  readonly compression?: Compression;
  readonly logLevel?: LogLevel;
}

const nonEmpty = z.string().check(z.minLength(1, 'must not be empty'));

export const functionEnvironmentSchema = z.object({
  /** The stack's name, which distinguishes the metrics of this deployment from those of others. */
  DEPLOYMENT_NAME: nonEmpty,
  /** The name of the service: its part of the table. */
  SERVICE_NAME: nonEmpty,
  TABLE_NAME: nonEmpty,
  BUCKET_NAME: nonEmpty,
  /** The prefix of every key in the bucket. */
  KEY_PREFIX: text(/^$|^[^/].*\/$/, 'must be empty, or end with a slash and not begin with one'),
  /** The ARN of the KMS key that encrypts every object. Empty: the default encryption of the bucket does. */
  BUCKET_KMS_KEY_ARN: z.string(),
  /** The secret that holds the API key; never the key itself. Empty: the service needs none. */
  API_KEY_SECRET_ID: z.string(),
  /** The field of the secret's JSON that holds the key. Empty: the whole secret is the key. */
  API_KEY_SECRET_FIELD: z.string(),
});
export type FunctionEnvironment = z.infer<typeof functionEnvironmentSchema>;
export type FunctionVariable = keyof FunctionEnvironment;

const commonVariables = ['DEPLOYMENT_NAME', 'SERVICE_NAME', 'TABLE_NAME'] as const;
const storeVariables = ['BUCKET_NAME', 'KEY_PREFIX', 'BUCKET_KMS_KEY_ARN'] as const;
const apiKeyVariables = ['API_KEY_SECRET_ID', 'API_KEY_SECRET_FIELD'] as const;

/** The variables that the function of each step has. */
export const stepVariables = {
  BeginRun: commonVariables,
  ExportPage: [...commonVariables, ...storeVariables, ...apiKeyVariables],
  FinishRun: [...commonVariables, ...storeVariables],
  FailRun: commonVariables,
} as const satisfies Readonly<Record<StepName, readonly FunctionVariable[]>>;

/** The environment of a step's function. */
export type StepEnvironment<Step extends StepName> = Pick<FunctionEnvironment, (typeof stepVariables)[Step][number]>;

/** The given variables of `env`; the others are ignored. @throws ConfigurationError that names every problem */
export function readFunctionEnvironment<Variable extends FunctionVariable>(
  env: Readonly<Record<string, string | undefined>>,
  variables: readonly Variable[],
): Pick<FunctionEnvironment, Variable> {
  const { shape } = functionEnvironmentSchema;
  const schema = z.object(Object.fromEntries(variables.map((variable) => [variable, shape[variable]])));
  return parseSettings(schema, env, "the function's environment") as unknown as Pick<FunctionEnvironment, Variable>;
}

/**
 * The throughput to S3 that timeouts allow for. The deployment sizes the function's timeout by it, and the function
 * reserves the end of its time for the upload.
 */
export const minUploadBytesPerSecond = 20 * 1024 * 1024;
