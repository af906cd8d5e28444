/**
 * The environment variables of the functions. The deployment writes them, the functions and the operator's commands read
 * them. Settings are passed as the JSON that the user wrote.
 */

import * as z from 'zod/mini';
import type { StepName } from '../state-machine/definition.ts';
import { exportSettingsSchema, parseSettings, serviceSettingsSchema } from './settings.ts';

const nonEmpty = z.string().check(z.minLength(1, 'must not be empty'));

export const functionEnvironmentSchema = z.object({
  /** The stack's name, which distinguishes the metrics of this deployment from those of others. */
  DEPLOYMENT_NAME: nonEmpty,
  EXPORT_SETTINGS: json(exportSettingsSchema),
  SERVICE_SETTINGS: json(serviceSettingsSchema),
  TABLE_NAME: nonEmpty,
  BUCKET_NAME: nonEmpty,
  /** The prefix of every key in the bucket. */
  KEY_PREFIX: z.string().check(z.regex(/^$|^[^/].*\/$/, 'must be empty, or end with a slash and not begin with one')),
  /** The secret that holds the API key; never the key itself. */
  API_KEY_SECRET_ID: nonEmpty,
  /** The field of the secret's JSON that holds the key. Empty: the whole secret is the key. */
  API_KEY_SECRET_FIELD: z.string(),
});
export type FunctionEnvironment = z.infer<typeof functionEnvironmentSchema>;
export type FunctionVariable = keyof FunctionEnvironment;

const commonVariables = ['DEPLOYMENT_NAME', 'EXPORT_SETTINGS', 'SERVICE_SETTINGS', 'TABLE_NAME'] as const;
const storeVariables = ['BUCKET_NAME', 'KEY_PREFIX'] as const;
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

function json<Schema extends z.ZodMiniType>(schema: Schema) {
  const parsed = z.transform((text: string, { issues }) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      issues.push({ code: 'custom', message: 'must be JSON', input: text });
      return z.NEVER;
    }
  });
  return z.pipe(z.pipe(z.string(), parsed), schema);
}
