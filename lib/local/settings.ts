/** The settings of an export that runs on this machine: the service, the export, and where to find the API key. */

import * as z from 'zod/mini';
import type { Compression } from '../core/model.ts';
import type { settingsVersion } from '../settings/environment.ts';
import { exportSettingsSchema, serviceSettingsSchema } from '../settings/settings.ts';

/** What the command line and a settings file say of a service and an export. */
export const localSettingsSchema = z.strictObject({
  /** Without a base URL, a simulator of the service. */
  service: z.partial(serviceSettingsSchema, { baseUrl: true }),
  export: exportSettingsSchema,
});
export type LocalSettingsInput = z.input<typeof localSettingsSchema>;

export interface LocalExport extends z.infer<typeof localSettingsSchema> {
  /** The environment variable that contains the API key; never the key itself. */
  readonly apiKeyEnv: string;
  /** Of the pages of new runs. */
  readonly compression?: Compression;
  /** The expression of its schedule in the settings file, which only AWS follows. */
  readonly schedule?: string;
}

/** The settings file of an export's last run, and the options that override it, by their names in camel case. */
export interface SettingsSource {
  /** An absolute path. */
  readonly file: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** What a directory keeps: the settings of the last run, and the file that the next one reads again. Absent: there was none. */
export interface SavedSettings extends LocalExport {
  readonly version: typeof settingsVersion;
  readonly from?: SettingsSource;
}
