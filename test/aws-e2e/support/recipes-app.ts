/** The CDK app of a consumer, with the constructs in docs/recipes.md as they are written there. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { App, CfnOutput } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { ReportExporter } from '../../../lib/cdk/report-exporter.ts';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import type { Settings } from './cdk.ts';

/** Input from the tests: JSON in a file that the CDK context names. */
export interface RecipesAppSettings {
  readonly deployment: Settings;
  readonly exportName: string;
  /** The folder with the files of the page. */
  readonly folder: string;
}

const app = new App();
const settings: RecipesAppSettings = JSON.parse(readFileSync(app.node.getContext('recipes'), 'utf8'));
const stack = new ReportExporterStack(app, settings.deployment.stackName, { settings: settings.deployment });
const service = stack.services[0] as ReportExporter;

type Recipe<Result> = (scope: Construct, acme: ReportExporter, exportName: string) => Result;
const recipes = {
  ...(await importRecipe<{
    copyRuns: Recipe<{ copies: IBucket; copyRun: IFunction }>;
  }>('copy-runs.ts')),
  ...(await importRecipe<{
    queuePages: Recipe<{ results: IBucket; sendPages: IFunction; worker: IFunction }>;
  }>('queue-pages.ts')),
  ...(await importRecipe<{
    mapPages: Recipe<{ results: IBucket; processRun: StateMachine; startOnce: StateMachine }>;
  }>('map-pages.ts')),
};
const { copies, copyRun } = recipes.copyRuns(stack, service, settings.exportName);
const queue = recipes.queuePages(stack, service, settings.exportName);
const map = recipes.mapPages(stack, service, settings.exportName);

for (const [name, value] of Object.entries({
  Copies: copies.bucketName,
  CopyRun: copyRun.functionName,
  QueueResults: queue.results.bucketName,
  SendPages: queue.sendPages.functionName,
  Worker: queue.worker.functionName,
  MapResults: map.results.bucketName,
  ProcessRun: map.processRun.stateMachineArn,
  StartOnce: map.startOnce.stateMachineArn,
})) {
  // A prefix, because constructs of the stack have some of these names.
  new CfnOutput(stack, `Recipe${name}`, { value });
}
app.synth();

async function importRecipe<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(join(settings.folder, name)).href)) as Module;
}
