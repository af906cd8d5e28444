/**
 * The CDK app of a consumer, built as docs/consumers.md describes: two deployments that have an export of the same name, and
 * subscribers to the runs of the first.
 */

import { readFileSync } from 'node:fs';
import { App, CfnOutput } from 'aws-cdk-lib';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import type { Settings } from './cdk.ts';

/** Input from the tests: JSON in a file that the CDK context names. */
export interface ConsumerAppSettings {
  readonly stackNames: readonly string[];
  /** The settings of both deployments, without the stack name. */
  readonly deployment: Omit<Settings, 'stackName'>;
}

const app = new App();
const settings: ConsumerAppSettings = JSON.parse(readFileSync(app.node.getContext('consumers'), 'utf8'));
const stacks = settings.stackNames.map(
  (stackName) => new ReportExporterStack(app, stackName, { settings: settings.deployment }),
);
const stack = stacks[0] as ReportExporterStack;
const service = stack.services[0] as ReportExporterStack['services'][number];
const exportName = 'nightly';

const events = new Queue(stack, 'Events');
service.onCompleted('SendCompleted', { export: exportName, target: new SqsQueue(events) });
service.onFailed('SendFailed', { export: exportName, target: new SqsQueue(events) });

new CfnOutput(stack, 'EventsUrl', { value: events.queueUrl });
app.synth();
