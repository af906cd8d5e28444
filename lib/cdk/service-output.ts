/** The output of a stack that says which resources a service has. `report-exporter --stack` reads it. */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { CfnStateMachine, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type ServiceOutput, serviceOutputSuffix } from '../settings/stack-output.ts';
import type { ServiceFunctions } from './functions.ts';

/** A `ReportExporter`. */
interface DeployedService extends Construct {
  readonly serviceName: string;
  readonly stateMachine: StateMachine;
  readonly functions: ServiceFunctions;
  readonly table: ITable;
  readonly bucket: IBucket;
  readonly prefix: string;
  readonly secret: ISecret | undefined;
  readonly scheduleGroup: ScheduleGroup | undefined;
}

interface OutputOptions {
  readonly bucketKey?: IKey;
  /** The field of the secret that holds the API key. Absent: the secret is the key. */
  readonly secretField?: string;
  /** Of the function ExportPage. */
  readonly reservedConcurrency?: number;
}

/** Adds the output to the stack. Its name has the name of the service, wherever in the stack that is. */
export function addServiceOutput(service: DeployedService, options: OutputOptions): void {
  const { serviceName, stateMachine, functions, table, bucket, prefix, secret, scheduleGroup } = service;
  const stack = Stack.of(service);
  const output: ServiceOutput = {
    service: serviceName,
    stateMachineArn: stateMachine.stateMachineArn,
    stateMachineId: stack.getLogicalId(stateMachine.node.defaultChild as CfnStateMachine),
    exportPageFunction: functions.ExportPage.functionArn,
    reservedConcurrency: options.reservedConcurrency,
    table: table.tableName,
    bucket: bucket.bucketName,
    prefix,
    bucketKeyArn: options.bucketKey?.keyArn,
    apiKeySecret: secret?.secretFullArn ?? secret?.secretName,
    apiKeyField: options.secretField ?? '',
    scheduleGroup: scheduleGroup?.scheduleGroupName,
  };
  new CfnOutput(service, serviceOutputSuffix, {
    value: stack.toJsonString(output),
    description: `The resources of service ${serviceName}, for report-exporter --stack`,
  }).overrideLogicalId(`${toPascalCase(serviceName)}${serviceOutputSuffix}`);
}

/** `eu-reports` → `EuReports`. The id of an output contains only letters and digits. */
export function toPascalCase(name: string): string {
  return name.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());
}
