/** The package's main entry point: the constructs for a CDK app, and the types of what consumers read. */

export { type EventRuleOptions, ReportExporter, type ReportExporterProps } from '../cdk/report-exporter.ts';
export { ReportExporterStack, type ReportExporterStackProps } from '../cdk/stack.ts';
export { ConfigurationError } from '../core/errors.ts';
export type { MetricName } from '../core/metrics.ts';
export type { DeploymentSettings, ServiceDeploymentSettings } from '../settings/deployment-settings.ts';
export type * from '../settings/props.ts';
export type {
  CompletedEventDetail,
  FailedEventDetail,
  LatestPointer,
  Manifest,
  ManifestHeader,
  ManifestPage,
  RunSummary,
} from '../core/storage/published-schemas.ts';
