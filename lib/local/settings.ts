/** The settings of an export that runs on this machine: the service, the export, and where to find the API key. */

import { join } from 'node:path';
import type { ExportError } from '../core/errors.ts';
import type { Compression } from '../core/model.ts';
import type { Runtime } from '../core/ports.ts';
import type { ExportSettings, ServiceSettings } from '../settings/settings.ts';

export interface LocalExport {
  /** Without a base URL, a simulator of the service. */
  readonly service: Omit<ServiceSettings, 'baseUrl'> & Partial<Pick<ServiceSettings, 'baseUrl'>>;
  /** A local run starts at once, whatever its schedule, which only AWS follows. */
  readonly export: ExportSettings;
  /** The environment variable that contains the API key; never the key itself. */
  readonly apiKeyEnv: string;
  readonly compression?: Compression | undefined;
}

export const defaultDirectory = './exports';
/** For reports of the simulator, which do not belong beside those of a service. */
export const simulatedDirectory = './simulated';

/** The settings file in `out`. The first stored page of a run without a file writes it; people may edit it. */
export const settingsFileIn = (out: string): string => join(out, 'report-exporter.json');

/** This machine, and the directory that runs write to. */
export interface LocalDirectory {
  readonly out: string;
  readonly env: NodeJS.ProcessEnv;
  readonly runtime: Runtime;
}

export interface SettingsOrigin {
  readonly file: string;
  /** Why it cannot be used for this export. Nothing starts then. What is stored can be read. */
  readonly problem?: ExportError | undefined;
}
