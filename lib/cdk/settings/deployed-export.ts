/** The settings of one export in a deployment: those of `lib/core`, and its schedule. */

import * as z from 'zod/mini';
import { functionEnvironmentSchema } from '../../core/settings/environment.ts';
import { exportSettingsSchema, type serviceSettingsSchema } from '../../core/settings/settings.ts';
import { scheduleSettingsSchema } from './schedule-settings.ts';

/** Without a schedule, the export is started manually. */
export const exportDeploymentSchema = z.extend(exportSettingsSchema, {
  // CDK looks constructs up in a plain object, so a name such as `constructor` would be found there.
  name: exportSettingsSchema.shape.name.check(z.refine((name) => !(name in {}), 'is reserved by CDK')),
  schedule: z.optional(scheduleSettingsSchema),
});
/** The form in cdk.json. */
export type ExportDeploymentSettings = z.input<typeof exportDeploymentSchema>;
export type ServiceInput = z.input<typeof serviceSettingsSchema>;

/** The functions' own schema, without wildcards: the prefix becomes part of their permissions. */
export const keyPrefixSchema = functionEnvironmentSchema.shape.KEY_PREFIX.check(
  z.regex(/^[A-Za-z0-9!_.'()=/-]*$/, "must contain only letters, digits and !_.'()=/-"),
);

/** The environment variables with the settings that the functions read. The schedule is not among them. */
export function settingsVariables(
  service: ServiceInput,
  { schedule: _schedule, ...settings }: ExportDeploymentSettings,
) {
  return { EXPORT_SETTINGS: JSON.stringify(settings), SERVICE_SETTINGS: JSON.stringify(service) };
}
