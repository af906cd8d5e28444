/** The entry point `report-exporter/settings`: the settings of a deployment. */

export { ConfigurationError } from '../core/errors.ts';
export { deploymentSettings } from '../cdk/settings/read-settings.ts';
export type { DeploymentSettings, ServiceDeploymentSettings } from '../settings/deployment-settings.ts';
export type { SettingsFile } from '../settings/props.ts';
export { settingsJsonSchema } from './settings-schema.ts';
