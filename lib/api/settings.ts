/** The entry point `report-exporter/settings`: the settings of a deployment. */

export { deploymentSettings } from '../cdk/settings/deployment-settings.ts';
export type { DeploymentSettings, ServiceDeploymentSettings, SettingsFile } from '../settings/deployment-settings.ts';
export { settingsJsonSchema } from '../settings/published-settings.ts';
