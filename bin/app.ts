/** The CDK app: creates the stack from the settings in cdk.json under the name in them, and checks it with cdk-nag. */

import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { contextKey, defaultStackName, inContext, readSettings } from '../lib/cdk/settings/read-settings.ts';
import { ReportExporterStack } from '../lib/cdk/stack.ts';
import { acceptFindings } from './accepted-findings.ts';

const app = new App();
try {
  const settings = readSettings(app.node.tryGetContext(contextKey), inContext);
  new ReportExporterStack(app, settings.stackName ?? defaultStackName, { settings });
  acceptFindings(app);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  app.synth();
} catch (error) {
  if (!(error instanceof Error) || error.name !== 'ConfigurationError') throw error;
  // Invalid settings: print the problems without a stack trace.
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
