/** The CDK app: cdk.json's context becomes settings, settings become the stack, and cdk-nag looks it over. */

import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { contextKey, deploymentSettings } from '../lib/cdk/settings/deployment-settings.ts';
import { ReportExporterStack } from '../lib/cdk/stack.ts';

const app = new App();
try {
  new ReportExporterStack(app, deploymentSettings(app.node.tryGetContext(contextKey)));
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  app.synth();
} catch (error) {
  if (!(error instanceof Error) || error.name !== 'ConfigurationError') throw error;
  // A person's mistake: where and what it is, and no stack trace of ours.
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
