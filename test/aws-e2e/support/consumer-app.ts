/** The CDK app of a consumer, built as docs/consumers.md describes: a deployment, and a subscriber to its runs. */

import { readFileSync } from 'node:fs';
import { App, CfnOutput } from 'aws-cdk-lib';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import type { Settings } from './cdk.ts';

const app = new App();
/** Input from the tests: JSON in a file that the CDK context names. */
const settings: Settings = JSON.parse(readFileSync(app.node.getContext('consumers'), 'utf8'));
const stack = new ReportExporterStack(app, settings.stackName, { settings });
const service = stack.services[0] as ReportExporterStack['services'][number];

const events = new Queue(stack, 'Events');
service.onCompleted('SendCompleted', { export: 'nightly', target: new SqsQueue(events) });
service.onFailed('SendFailed', { export: 'nightly', target: new SqsQueue(events) });

new CfnOutput(stack, 'EventsUrl', { value: events.queueUrl });
app.synth();
