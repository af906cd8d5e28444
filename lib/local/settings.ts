/** The settings of an export that runs on this machine: the service, the export, and where to find the API key. */

import type { ExportError } from '../core/errors.ts';
import type { Compression } from '../core/model.ts';
import type { Runtime } from '../core/ports.ts';
import type { settingsVersion } from '../settings/deployed-settings.ts';
import type { ExportSettings, ServiceSettings } from '../settings/settings.ts';

export interface LocalExport {
  /** Without a base URL, a simulator of the service. */
  readonly service: Omit<ServiceSettings, 'baseUrl'> & Partial<Pick<ServiceSettings, 'baseUrl'>>;
  /** A local run starts at once, whatever its schedule, which only AWS follows. */
  readonly export: ExportSettings;
  /** The environment variable that contains the API key; never the key itself. */
  readonly apiKeyEnv: string;
  /** Of the pages of new runs. */
  readonly compression?: Compression | undefined;
}

export const defaultDirectory = './exports';
/** For reports of the simulator, which do not belong beside those of a service. */
export const simulatedDirectory = './simulated';

/** This machine, and the directory that runs write to. */
export interface LocalDirectory {
  readonly out: string;
  readonly env: NodeJS.ProcessEnv;
  readonly runtime: Runtime;
}

/** The settings file of an export's last run, and the options of that run that later ones keep. */
export interface SettingsSource {
  /** An absolute path. */
  readonly file: string;
  readonly simulate?: boolean | undefined;
  readonly compress?: boolean | undefined;
}

/** What a directory keeps: the settings of the last run, and the file that the next one reads again. Absent: there was none. */
export interface SavedSettings extends LocalExport {
  readonly version: typeof settingsVersion;
  readonly from?: SettingsSource;
}

/** Where the settings of the next run come from. */
export interface SettingsOrigin {
  /** The settings file that every start reads again. null: there is none; the options of the last run count. */
  readonly file: string | null;
  /** Why the file cannot be used. Nothing starts then, and what is stored is shown with the settings of the last run. */
  readonly problem?: ExportError | undefined;
}
