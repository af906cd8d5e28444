/** What a deployment derives from the settings of a service and its exports. */

import type { Compression } from '../../core/model.ts';
import type { AsText, ExportProps, ServiceProps } from '../../settings/props.ts';
import type { FunctionSettingsInput, LogLevel, StorageClass } from '../../settings/environment.ts';
import { type ScheduleSettings, scheduleSettingsSchema } from '../../settings/schedule-settings.ts';
import type { ServiceMetadataInput } from '../../settings/stack-output.ts';
import { withoutLocalSettings } from './service-network.ts';

/** What the functions' settings file contains besides the service and its exports. */
export interface FunctionOptions {
  readonly storageClass?: StorageClass | undefined;
  readonly compression?: Compression | undefined;
  readonly objectTags?: Readonly<Record<string, string>> | undefined;
  readonly logLevel?: LogLevel | undefined;
}

/** The content of the functions' settings file. The functions do not need the schedules. What is absent has no field. */
export function functionSettings(
  service: AsText<ServiceProps>,
  exports: readonly AsText<ExportProps>[],
  { storageClass, compression, objectTags, logLevel }: FunctionOptions = {},
): FunctionSettingsInput {
  const objects = {
    ...(storageClass === undefined ? {} : { storageClass }),
    ...(objectTags === undefined || Object.keys(objectTags).length === 0 ? {} : { tags: { ...objectTags } }),
  };
  return {
    service: withoutLocalSettings(service),
    exports: exports.map(({ schedule: _schedule, ...settings }) => settings),
    ...(Object.keys(objects).length === 0 ? {} : { objects }),
    ...(compression === undefined ? {} : { compression }),
    ...(logLevel === undefined ? {} : { logLevel }),
  };
}

/** What the operator's commands read from the template. */
export function serviceMetadata(
  service: AsText<ServiceProps>,
  exports: readonly AsText<ExportProps>[],
): ServiceMetadataInput {
  const schedules = exports.flatMap(({ name, schedule }) =>
    schedule === undefined ? [] : [[name, scheduleMetadata(scheduleSettingsSchema.parse(schedule))] as const],
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
