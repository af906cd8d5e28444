/** What a deployment derives from the settings of a service and its exports. */

import type { Compression } from '../../core/model.ts';
import type { ExportDeploymentSettings } from '../../settings/deployment-settings.ts';
import {
  type FunctionSettings,
  type LogLevel,
  settingsVersion,
  type StorageClass,
} from '../../settings/environment.ts';
import type { ScheduleSettings } from '../../settings/schedule-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import type { ServiceMetadata } from '../../settings/stack-output.ts';

/** What the functions' settings file contains besides the service and its exports. */
export interface FunctionOptions {
  readonly storageClass?: StorageClass;
  readonly compression?: Compression;
  readonly objectTags?: Readonly<Record<string, string>>;
  readonly logLevel?: LogLevel;
}

/** The content of the functions' settings file. The functions do not need the schedules. */
export function functionSettings(
  service: ServiceSettings,
  exports: readonly ExportDeploymentSettings[],
  { storageClass, compression, objectTags, logLevel }: FunctionOptions = {},
): FunctionSettings {
  const tags = objectTags === undefined || Object.keys(objectTags).length === 0 ? undefined : objectTags;
  return {
    version: settingsVersion,
    service: withoutLocalSettings(service),
    exports: exports.map(({ schedule: _schedule, ...settings }) => settings),
    objects: { storageClass, tags },
    compression,
    logLevel,
  };
}

/** The content of `tls.ca` has been read. What is only for runs on this machine is left out. */
function withoutLocalSettings(service: ServiceSettings): ServiceSettings {
  const { tls, ...others } = service;
  if (tls === undefined) return service;
  const { clientCertificate: _certificate, clientKey: _key, clientKeyPassphraseEnv: _env, ...deployed } = tls;
  return Object.keys(deployed).length === 0 ? others : { ...others, tls: deployed };
}

/** What the operator's commands read from the template. */
export function serviceMetadata(
  service: ServiceSettings,
  exports: readonly ExportDeploymentSettings[],
): ServiceMetadata {
  const schedules = exports.flatMap(({ name, schedule }) =>
    schedule === undefined ? [] : [[name, scheduleMetadata(schedule)] as const],
  );
  return { settings: functionSettings(service, exports), schedules: Object.fromEntries(schedules) };
}

function scheduleMetadata({ expression, timeZone, enabled, freshness }: ScheduleSettings) {
  return {
    expression,
    timeZone,
    enabled,
    freshnessSeconds: freshness === 'none' ? null : freshness / 1_000,
  };
}
