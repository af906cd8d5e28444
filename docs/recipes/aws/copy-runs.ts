/**
 * Deploys copy-run.ts with its bucket: `copyRuns(stack, acme, 'nightly')` in a CDK app. The dead-letter queue gets the
 * events that were not delivered and those whose runs could not be copied: create an alarm on its depth. Needs the
 * packages report-exporter, aws-cdk-lib, esbuild, and those of the function.
 */

import { join } from 'node:path';
import { Duration } from 'aws-cdk-lib';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { SqsDestination } from 'aws-cdk-lib/aws-lambda-destinations';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { ReportExporter } from 'report-exporter';

/** `folder` is where this folder is, from the working directory of the CDK app. */
export function copyRuns(scope: Construct, acme: ReportExporter, exportName: string, folder = 'aws') {
  const copies = new Bucket(scope, 'Copies', { enforceSSL: true });
  const deadLetterQueue = new Queue(scope, 'FailedCopies', { enforceSSL: true, retentionPeriod: Duration.days(14) });
  const copyRun = new NodejsFunction(scope, 'CopyRun', {
    entry: join(folder, 'copy-run.ts'),
    runtime: Runtime.NODEJS_24_X,
    bundling: { bundleAwsSDK: true },
    memorySize: 1024,
    timeout: Duration.minutes(15),
    // Two invocations would copy the same runs.
    reservedConcurrentExecutions: 1,
    environment: { BUCKET: acme.bucket.bucketName, PREFIX: acme.prefix, COPIES: copies.bucketName },
    onFailure: new SqsDestination(deadLetterQueue),
  });
  acme.grantRead(copyRun, exportName);
  copies.grantRead(copyRun);
  copies.grantPut(copyRun);
  acme.onCompleted('CopyRun', { export: exportName, target: new LambdaFunction(copyRun, { deadLetterQueue }) });
  return { copies, copyRun };
}
