/** An export as this machine knows it: what it asks for, of which service, and where its API key is found. */

import * as z from 'zod/mini';
import { exportSettingsSchema, serviceSettingsSchema } from '../core/settings/settings.ts';

const apiKeyEnvSchema = z
  .string()
  .check(
    z.regex(
      /^[A-Za-z_][A-Za-z0-9_]{0,99}$/,
      'must be the name of an environment variable (letters, digits, underscores), not the key',
    ),
  );

/** In the form that a person writes; it is kept in that form, too. */
export const localExportSchema = z.strictObject({
  /** No base URL: a simulator of the service. */
  service: z.partial(serviceSettingsSchema, { baseUrl: true }),
  export: exportSettingsSchema,
  /** The environment variable that holds the API key; never the key itself. */
  apiKeyEnv: apiKeyEnvSchema,
});
export type LocalExport = z.infer<typeof localExportSchema>;
export type LocalExportInput = z.input<typeof localExportSchema>;
