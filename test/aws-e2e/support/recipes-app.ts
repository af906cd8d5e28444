/** The CDK app of a consumer, with the constructs in docs/recipes/aws. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, CfnOutput } from 'aws-cdk-lib';
import { copyRuns } from '../../../docs/recipes/aws/copy-runs.ts';
import { queuePages } from '../../../docs/recipes/aws/queue-pages.ts';
import type { ReportExporter } from '../../../lib/cdk/report-exporter.ts';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import type { Settings } from './cdk.ts';

/** Input from the tests: JSON in a file that the CDK context names. */
export interface RecipesAppSettings {
  readonly deployment: Settings;
  readonly exportName: string;
}

// CDK looks for the lock file, and for esbuild, in the working directory and above.
process.chdir(join(import.meta.dirname, '../../..'));
const app = new App();
const settings: RecipesAppSettings = JSON.parse(readFileSync(app.node.getContext('recipes'), 'utf8'));
const stack = new ReportExporterStack(app, settings.deployment.stackName, { settings: settings.deployment });
const service = stack.services[0] as ReportExporter;

const folder = 'docs/recipes/aws';
const { copies, copyRun } = copyRuns(stack, service, settings.exportName, folder);
const queue = queuePages(stack, service, settings.exportName, folder);

for (const [name, value] of Object.entries({
  Copies: copies.bucketName,
  CopyRun: copyRun.functionName,
  QueueResults: queue.results.bucketName,
  SendPages: queue.sendPages.functionName,
  Worker: queue.worker.functionName,
})) {
  // A prefix, because constructs of the stack have some of these names.
  new CfnOutput(stack, `Recipe${name}`, { value });
}
app.synth();
