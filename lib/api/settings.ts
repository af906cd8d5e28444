/** The entry point `report-exporter/settings`: the settings of a deployment. */

export type { DeploymentSettings, ServiceDeploymentSettings } from '../cdk/settings/deployment-schema.ts';
export { deploymentSettings } from '../cdk/settings/deployment-settings.ts';
