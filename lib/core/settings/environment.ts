/**
 * What the deployment passes to the functions of a service: environment variables, and a settings file beside their code.
 * A file, because the settings of a hundred exports exceed the 4 kB that Lambda allows for environment variables.
 */

import * as z from 'zod/mini';
import type { StepName } from '../state-machine/definition.ts';
import { exportSettingsSchema, parseSettings, serviceSettingsSchema } from './settings.ts';

/** The name of the settings file. It contains the settings as the user wrote them; `functionSettingsSchema` parses it. */
export const settingsFileName = 'settings.json';

export const functionSettingsSchema = z.strictObject({
  service: serviceSettingsSchema,
  exports: z.array(exportSettingsSchema).check(z.minLength(1, 'must have at least one export')),
});
export type FunctionSettingsInput = z.input<typeof functionSettingsSchema>;

const nonEmpty = z.string().check(z.minLength(1, 'must not be empty'));

export const functionEnvironmentSchema = z.object({
  /** The stack's name, which distinguishes the metrics of this deployment from those of others. */
  DEPLOYMENT_NAME: nonEmpty,
  /** The name of the service: its part of the table. */
  SERVICE_NAME: nonEmpty,
  TABLE_NAME: nonEmpty,
  BUCKET_NAME: nonEmpty,
  /** The prefix of every key in the bucket. */
  KEY_PREFIX: z.string().check(z.regex(/^$|^[^/].*\/$/, 'must be empty, or end with a slash and not begin with one')),
  /** The ARN of the KMS key that encrypts every object. Empty: the default encryption of the bucket does. */
  BUCKET_KMS_KEY_ARN: z.string(),
  /** The secret that holds the API key; never the key itself. */
  API_KEY_SECRET_ID: nonEmpty,
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
