/** The settings of an export that runs on this machine: the service, the export, and where to find the API key. */

import * as z from 'zod/mini';
import { apiKeyEnvSchema } from '../settings/deployment-settings.ts';
import { compressionSchema } from '../settings/environment.ts';
import { exportSettingsSchema, serviceSettingsSchema } from '../settings/settings.ts';

/** The input form, in which the settings are also stored, has durations as ISO 8601 text. */
export const localExportSchema = z.strictObject({
  /** Without a base URL, a simulator of the service. */
  service: z.partial(serviceSettingsSchema, { baseUrl: true }),
  export: exportSettingsSchema,
  /** The environment variable that contains the API key; never the key itself. */
  apiKeyEnv: apiKeyEnvSchema,
  /** Of the pages of new runs. */
  compression: z.optional(compressionSchema),
  /** The expression of its schedule in the settings file, which only AWS follows. */
  schedule: z.optional(z.string()),
});
export type LocalExport = z.infer<typeof localExportSchema>;
export type LocalExportInput = z.input<typeof localExportSchema>;

/** The settings file of an export's last run, and the options that override it, by their names in camel case. */
const settingsSourceSchema = z.strictObject({
  /** An absolute path. */
  file: z.string(),
  options: z.record(z.string(), z.unknown()),
});
export type SettingsSource = z.infer<typeof settingsSourceSchema>;

/** What a directory keeps: the settings of the last run, and the file that the next one reads again. Absent: there was none. */
export const savedSettingsSchema = z.extend(localExportSchema, { from: z.optional(settingsSourceSchema) });
export type SavedSettings = z.infer<typeof savedSettingsSchema>;
export type SavedSettingsInput = z.input<typeof savedSettingsSchema>;
