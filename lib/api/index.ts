/** The package's main entry point: the constructs for a CDK app, and the types of what consumers read. */

export { type EventRuleOptions, ReportExporter, type ReportExporterProps } from '../cdk/report-exporter.ts';
export type { ExportDeploymentSettings, ServiceInput } from '../cdk/settings/deployed-export.ts';
export type { DeploymentSettings, ServiceDeploymentSettings } from '../cdk/settings/deployment-schema.ts';
export { ReportExporterStack } from '../cdk/stack.ts';
export type {
  CompletedEventDetail,
  FailedEventDetail,
  LatestPointer,
  Manifest,
  ManifestHeader,
  ManifestPage,
} from '../core/storage/published-schemas.ts';
