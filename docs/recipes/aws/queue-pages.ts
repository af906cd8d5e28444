/**
 * Deploys send-pages.ts, a queue of pages and a worker, process-pages.ts: `queuePages(stack, acme, 'nightly')` in a CDK
 * app. Create alarms on the depth of `failedPages` and `failedEvents`, and on the age of the oldest message of `queue`.
 * Needs the packages report-exporter, aws-cdk-lib, esbuild, and those of the functions.
 */

import { join } from 'node:path';
import { Duration } from 'aws-cdk-lib';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { SqsDestination } from 'aws-cdk-lib/aws-lambda-destinations';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { ReportExporter } from 'report-exporter';

/** `folder` is where this folder is, from the working directory of the CDK app. */
export function queuePages(scope: Construct, acme: ReportExporter, exportName: string, folder = 'aws') {
  const failedPages = new Queue(scope, 'FailedPages', { enforceSSL: true, retentionPeriod: Duration.days(14) });
  const queue = new Queue(scope, 'Pages', {
    enforceSSL: true,
    retentionPeriod: Duration.days(14),
    // Six times the timeout of the worker, as AWS recommends.
    visibilityTimeout: Duration.minutes(6),
    deadLetterQueue: { queue: failedPages, maxReceiveCount: 5 },
  });
  // Events that were not delivered, and those whose pages could not be sent.
  const failedEvents = new Queue(scope, 'FailedEvents', { enforceSSL: true, retentionPeriod: Duration.days(14) });
  const results = new Bucket(scope, 'QueueResults', { enforceSSL: true });
  const common = { runtime: Runtime.NODEJS_24_X, bundling: { bundleAwsSDK: true }, memorySize: 1024 };
  const source = { BUCKET: acme.bucket.bucketName, PREFIX: acme.prefix };

  const sendPages = new NodejsFunction(scope, 'SendPages', {
    ...common,
    entry: join(folder, 'send-pages.ts'),
    timeout: Duration.minutes(15),
    environment: { ...source, QUEUE: queue.queueUrl },
    onFailure: new SqsDestination(failedEvents),
  });
  acme.grantRead(sendPages, exportName);
  queue.grantSendMessages(sendPages);
  const target = new LambdaFunction(sendPages, { deadLetterQueue: failedEvents });
  acme.onCompleted('SendPages', { export: exportName, target });

  const worker = new NodejsFunction(scope, 'ProcessPages', {
    ...common,
    entry: join(folder, 'process-pages.ts'),
    handler: 'fromQueue',
    timeout: Duration.minutes(1),
    environment: { ...source, RESULTS: results.bucketName },
  });
  acme.grantRead(worker, exportName);
  results.grantPut(worker);
  worker.addEventSource(
    new SqsEventSource(queue, { batchSize: 10, reportBatchItemFailures: true, maxConcurrency: 20 }),
  );
  return { queue, failedPages, failedEvents, results, sendPages, worker };
}
