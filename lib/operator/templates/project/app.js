import { App } from 'aws-cdk-lib';
import { ConfigurationError, ReportExporterStack } from 'report-exporter';

const app = new App();
try {
  new ReportExporterStack(app, 'ReportExporter', {
    settings: app.node.tryGetContext('reportExporter'),
    // Account and region of the AWS profile. Write them here to deploy to no others.
    env: { account: process.env.CDK_DEFAULT_ACCOUNT, region: process.env.CDK_DEFAULT_REGION },
  });
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  // Only what is wrong with the settings, without a stack trace.
  console.error(error.message);
  process.exitCode = 1;
}
