/** The settings of a service and its exports in a deployment: those of `lib/core`, with names, schedules and a key prefix. */

import * as z from 'zod/mini';
import { type FunctionSettingsInput, functionEnvironmentSchema } from '../../core/settings/environment.ts';
import { exportSettingsSchema, type serviceSettingsSchema } from '../../core/settings/settings.ts';
import type { ServiceMetadataInput } from '../../core/settings/stack-output.ts';
import { type ScheduleSettings, scheduleSettingsSchema } from './schedule-settings.ts';

/** CDK looks constructs up in a plain object, so a name such as `constructor` would be found there. */
const isNotReserved = z.refine<string>((name) => !(name in {}), 'is reserved by CDK');

/** Without a schedule, the export is started manually. */
export const exportDeploymentSchema = z.extend(exportSettingsSchema, {
  name: exportSettingsSchema.shape.name.check(isNotReserved),
  schedule: z.optional(scheduleSettingsSchema),
});
/** The form in cdk.json. */
export type ExportDeploymentSettings = z.input<typeof exportDeploymentSchema>;
export type ServiceInput = z.input<typeof serviceSettingsSchema>;

export const exportListSchema = z
  .array(exportDeploymentSchema, {
    error: ({ input }) => (input === undefined ? 'is required' : 'must be a list of exports'),
  })
  .check(z.minLength(1, 'must have at least one export'));

/** The name becomes part of the keys in the table and of the ids of resources and outputs. */
export const serviceNameSchema = z.string().check(
  z.regex(/^[a-z][a-z0-9-]{0,29}$/, {
    error: 'must be 1 to 30 lower-case letters, digits and hyphens, beginning with a letter',
    abort: true,
  }),
  isNotReserved,
);

/** The name of the only service of a deployment. */
export const defaultServiceName = 'default';

/** The functions' own schema, without wildcards: the prefix becomes part of their permissions. */
export const keyPrefixSchema = functionEnvironmentSchema.shape.KEY_PREFIX.check(
  z.regex(/^[A-Za-z0-9!_.'()=/-]*$/, "must contain only letters, digits and !_.'()=/-"),
);

/** A list of alarms per export becomes confusing and expensive, so by default a larger service has common alarms. */
const maxExportsWithOwnAlarms = 20;

/** Whether each of `count` exports of a service has alarms of its own. `setting` is what the settings say. */
export function hasAlarmsPerExport(setting: boolean | undefined, count: number): boolean {
  return setting ?? count <= maxExportsWithOwnAlarms;
}

/** The content of the functions' settings file. The functions do not need the schedules. */
export function functionSettings(
  service: ServiceInput,
  exports: readonly ExportDeploymentSettings[],
): FunctionSettingsInput {
  return { service, exports: exports.map(({ schedule: _schedule, ...settings }) => settings) };
}

/** What the operator's commands read from the template. */
export function serviceMetadata(
  service: ServiceInput,
  exports: readonly ExportDeploymentSettings[],
): ServiceMetadataInput {
  const schedules = exports.flatMap(({ name, schedule }) =>
    schedule === undefined ? [] : [[name, scheduleMetadata(scheduleSettingsSchema.parse(schedule))] as const],
  );
  return { settings: functionSettings(service, exports), schedules: Object.fromEntries(schedules) };
}

function scheduleMetadata({ expression, timeZone, flexibleWindow, enabled, freshness }: ScheduleSettings) {
  return {
    expression,
    timeZone,
    flexible: flexibleWindow !== undefined,
    enabled,
    freshnessSeconds: freshness === 'none' ? null : freshness / 1_000,
  };
}

/** CloudFormation ids have no hyphens or underscores, and names that differ only in case are easily confused. */
const normalizeName = (name: string) => name.replaceAll(/[-_]/g, '').toLowerCase();

/** What is wrong with a name that `findSimilarNames` has found to be too similar to an earlier one, which is at `path`. */
export const describeSimilarity = (name: string, earlier: string, path: string): string =>
  name === earlier
    ? `is the same as ${path}: names must be unique`
    : `is too similar to ${path}: names must differ in more than case, hyphens and underscores`;

/** For each name, the index of an earlier one that is too similar to it; undefined if there is none. */
export function findSimilarNames(names: readonly (string | undefined)[]): readonly (number | undefined)[] {
  const first = new Map<string, number>();
  return names.map((name, index) => {
    if (name === undefined) return undefined;
    const normalized = normalizeName(name);
    const earlier = first.get(normalized);
    if (earlier === undefined) first.set(normalized, index);
    return earlier;
  });
}
