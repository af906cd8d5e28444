/** What is set about one export: what it asks for, as the core has it, when it starts by itself, and where it stores. */

import * as z from 'zod/mini';
import { functionEnvironmentSchema } from '../../core/settings/environment.ts';
import { exportSettingsSchema, type serviceSettingsSchema } from '../../core/settings/settings.ts';
import { scheduleSettingsSchema } from './schedule-settings.ts';

/** One export, and when it starts by itself; without a schedule, it is started by hand. */
export const exportDeploymentSchema = z.extend(exportSettingsSchema, {
  // CDK finds its constructs by name in a plain object, which has names of its own.
  name: exportSettingsSchema.shape.name.check(z.refine((name) => !(name in {}), 'is a name that CDK keeps to itself')),
  schedule: z.optional(scheduleSettingsSchema),
});
/** As a person writes it. */
export type ExportDeploymentSettings = z.input<typeof exportDeploymentSchema>;
export type ServiceInput = z.input<typeof serviceSettingsSchema>;

/** As the functions have it, and without wildcards: their permissions are cut to it. */
export const keyPrefixSchema = functionEnvironmentSchema.shape.KEY_PREFIX.check(
  z.regex(/^[A-Za-z0-9!_.'()=/-]*$/, "must be letters, digits and !_.'()=/-"),
);

/** What an export tells its functions: what a person wrote, less what only the deployment needs. */
export function functionSettings(
  service: ServiceInput,
  { schedule: _schedule, ...settings }: ExportDeploymentSettings,
) {
  return { EXPORT_SETTINGS: JSON.stringify(settings), SERVICE_SETTINGS: JSON.stringify(service) };
}
