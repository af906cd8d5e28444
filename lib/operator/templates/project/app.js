import { App } from 'aws-cdk-lib';
import { ConfigurationError, ReportExporterStack } from 'report-exporter';

const app = new App();
try {
  new ReportExporterStack(app, 'ReportExporter', { settings: app.node.tryGetContext('reportExporter') });
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  // Only what is wrong with the settings, without a stack trace.
  console.error(error.message);
  process.exitCode = 1;
}
