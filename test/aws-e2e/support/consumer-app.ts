/**
 * The CDK app of a team downstream, as docs/consumers.md tells it to build one: two deployments with an export of the same
 * name, and what waits for the runs of the first alone. Its readers may do what the page says, and no more.
 */

import { readFileSync } from 'node:fs';
import { App, CfnOutput, Duration } from 'aws-cdk-lib';
import { LambdaFunction, SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { PolicyStatement, User } from 'aws-cdk-lib/aws-iam';
import { Code, Function as LambdaFunctionResource, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import type { Settings } from './cdk.ts';

/** What the tests hand over, as JSON in a file that the context names. */
export interface ConsumerAppSettings {
  readonly stackNames: readonly string[];
  /** Of each deployment, but for the stack's name. */
  readonly deployment: Omit<Settings, 'stackName'>;
  /** The folder with the function's one file. */
  readonly load: string;
  /** The page's policy for readers, with its placeholders. */
  readonly policy: string;
}

const app = new App();
const given: ConsumerAppSettings = JSON.parse(readFileSync(app.node.getContext('consumers'), 'utf8'));
const { prefix } = given.deployment.bucket;
const stacks = given.stackNames.map(
  (stackName) => new ReportExporterStack(app, deploymentSettings({ ...given.deployment, stackName })),
);
const stack = stacks[0] as ReportExporterStack;
const nightly = stack.exports[0] as ReportExporterStack['exports'][number];
const { bucketName } = stack.bucket;

const ours = new Bucket(stack, 'Ours');
const load = new LambdaFunctionResource(stack, 'Load', {
  runtime: Runtime.NODEJS_24_X,
  handler: 'index.handler',
  code: Code.fromAsset(given.load),
  timeout: Duration.minutes(1),
  environment: { BUCKET: bucketName, PREFIX: prefix, OUR_BUCKET: ours.bucketName },
});
ours.grantPut(load);
const heard = new Queue(stack, 'Heard');
nightly.onCompleted('LoadPages', new LambdaFunction(load));
nightly.onCompleted('TellRun', new SqsQueue(heard));
nightly.onFailed('TellFailure', new SqsQueue(heard));

const reader = new User(stack, 'Reader');
for (const statement of statements()) {
  load.addToRolePolicy(PolicyStatement.fromJson(statement));
  reader.addToPolicy(PolicyStatement.fromJson(statement));
}

for (const [name, value] of Object.entries({
  OurBucket: ours.bucketName,
  LoadFunction: load.functionName,
  HeardUrl: heard.queueUrl,
  ReaderName: reader.userName,
})) {
  new CfnOutput(stack, name, { value });
}
app.synth();

function statements(): object[] {
  const text = given.policy
    .replaceAll('<bucket>', bucketName)
    .replaceAll('<prefix>', prefix)
    .replaceAll('<export>', nightly.exportName);
  return (JSON.parse(text) as { Statement: object[] }).Statement;
}
