/**
 * Deploys the state machines in process-run.asl.json and start-once.asl.json, and process-pages.ts, which they invoke:
 * `mapPages(stack, acme, 'nightly')` in a CDK app. Give each of the returned `alarms` an action. Needs the packages
 * report-exporter, aws-cdk-lib, esbuild, and those of the function.
 */

import { join } from 'node:path';
import { ArnFormat, Duration, Stack } from 'aws-cdk-lib';
import { Alarm, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { DefinitionBody, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { ReportExporter } from 'report-exporter';

/** `folder` is where this folder is, from the working directory of the CDK app. */
export function mapPages(scope: Construct, acme: ReportExporter, exportName: string, folder = 'aws') {
  const results = new Bucket(scope, 'MapResults', { enforceSSL: true });
  const processBatch = new NodejsFunction(scope, 'ProcessBatch', {
    entry: join(folder, 'process-pages.ts'),
    handler: 'fromMap',
    runtime: Runtime.NODEJS_24_X,
    bundling: { bundleAwsSDK: true },
    memorySize: 1024,
    timeout: Duration.minutes(5),
    environment: { BUCKET: acme.bucket.bucketName, PREFIX: acme.prefix, RESULTS: results.bucketName },
  });
  acme.grantRead(processBatch, exportName);
  results.grantPut(processBatch);

  const processRun = new StateMachine(scope, 'ProcessRun', {
    definitionBody: DefinitionBody.fromFile(join(folder, 'process-run.asl.json')),
    definitionSubstitutions: {
      Bucket: acme.bucket.bucketName,
      Prefix: acme.prefix,
      Function: processBatch.functionArn,
      Results: results.bucketName,
    },
  });
  processBatch.grantInvoke(processRun);
  acme.grantRead(processRun, exportName);
  results.grantRead(processRun);
  results.grantPut(processRun);
  // A Distributed Map runs its batches as executions of its own state machine.
  const { stateMachineArn, stateMachineName } = processRun;
  const executions = Stack.of(scope).formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${stateMachineName}/*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  new Policy(scope, 'ProcessRunBatches', {
    roles: [processRun.role],
    statements: [
      new PolicyStatement({ actions: ['states:StartExecution'], resources: [stateMachineArn] }),
      new PolicyStatement({
        actions: ['states:DescribeExecution', 'states:StopExecution', 'states:RedriveExecution'],
        resources: [executions],
      }),
    ],
  });

  const startOnce = new StateMachine(scope, 'StartOnce', {
    definitionBody: DefinitionBody.fromFile(join(folder, 'start-once.asl.json')),
    definitionSubstitutions: { StateMachine: processRun.stateMachineArn },
  });
  processRun.grantStartExecution(startOnce);
  const deadLetterQueue = new Queue(scope, 'FailedStarts', { enforceSSL: true, retentionPeriod: Duration.days(14) });
  acme.onCompleted('ProcessRun', { export: exportName, target: new SfnStateMachine(startOnce, { deadLetterQueue }) });

  const alarms = Object.entries({
    StartOnceFailed: startOnce.metricFailed(),
    ProcessRunFailed: processRun.metricFailed(),
    FailedStartsExist: deadLetterQueue.metricApproximateNumberOfMessagesVisible(),
  }).map(([name, metric]) => {
    const treatMissingData = TreatMissingData.NOT_BREACHING;
    return new Alarm(scope, name, { metric, threshold: 1, evaluationPeriods: 1, treatMissingData });
  });
  return { results, processBatch, processRun, startOnce, alarms };
}
