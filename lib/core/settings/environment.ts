/**
 * What a deployment tells its functions, and how: the one place where both ends of that agree.
 * The deployment writes the environment, the functions read it; settings travel in the form a person wrote them.
 */

import * as z from 'zod/mini';
import { exportSettingsSchema, parseSettings, serviceSettingsSchema } from './settings.ts';

const json = <Schema extends z.ZodMiniType>(schema: Schema) =>
  z.pipe(
    z.pipe(
      z.string(),
      z.transform((text: string, { issues }) => {
        try {
          return JSON.parse(text) as unknown;
        } catch {
          issues.push({ code: 'custom', message: 'must be JSON', input: text });
          return z.NEVER;
        }
      }),
    ),
    schema,
  );

const name = z.string().check(z.minLength(1, 'must not be empty'));

/** By variable: what it holds. Every function is given those it needs. */
export const functionEnvironmentSchema = z.object({
  /** Tells this deployment's metrics from another's: the stack's name. */
  DEPLOYMENT_NAME: name,
  EXPORT_SETTINGS: json(exportSettingsSchema),
  SERVICE_SETTINGS: json(serviceSettingsSchema),
  TABLE_NAME: name,
  BUCKET_NAME: name,
  /** What every key in the bucket begins with: empty, or with a slash at its end. */
  KEY_PREFIX: z.string().check(z.regex(/^$|^[^/].*\/$/, 'must be empty, or end with a slash and not begin with one')),
  /** The secret that holds the API key; never the key itself. */
  API_KEY_SECRET_ID: name,
  /** The field of the secret's JSON that holds the key; empty: the secret is the key. */
  API_KEY_SECRET_FIELD: z.string(),
});
type FunctionEnvironment = z.infer<typeof functionEnvironmentSchema>;
export type FunctionVariable = keyof FunctionEnvironment;

/** The given variables of `env`, the others unread. @throws ConfigurationError that names every problem. */
export function readFunctionEnvironment<Variable extends FunctionVariable>(
  env: Readonly<Record<string, string | undefined>>,
  variables: readonly Variable[],
): Pick<FunctionEnvironment, Variable> {
  const { shape } = functionEnvironmentSchema;
  const schema = z.object(Object.fromEntries(variables.map((variable) => [variable, shape[variable]])));
  return parseSettings(schema, env, "the function's environment") as unknown as Pick<FunctionEnvironment, Variable>;
}
