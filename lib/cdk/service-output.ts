/** The output of a stack that says which resources a service has. `report-exporter --stack` reads it. */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { CfnStateMachine, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type ServiceOutput, serviceOutputSuffix } from '../settings/stack-output.ts';

interface ServiceResources {
  readonly serviceName: string;
  readonly stateMachine: StateMachine;
  readonly exportPage: IFunction;
  readonly reservedConcurrency: number | undefined;
  readonly table: ITable;
  readonly bucket: IBucket;
  readonly prefix: string;
  readonly bucketKey: IKey | undefined;
  /** Undefined: the service needs none. */
  readonly secret: ISecret | undefined;
  /** The field of the secret that holds the API key; undefined if the secret is the key. */
  readonly secretField: string | undefined;
  readonly scheduleGroup: ScheduleGroup | undefined;
}

/** Adds the output to the stack. Its name has the name of the service, wherever in the stack `scope` is. */
export function addServiceOutput(scope: Construct, resources: ServiceResources): void {
  const { serviceName, stateMachine, exportPage, reservedConcurrency, table, bucket, prefix } = resources;
  const { bucketKey, secret, secretField, scheduleGroup } = resources;
  const stack = Stack.of(scope);
  const output: ServiceOutput = {
    service: serviceName,
    stateMachineArn: stateMachine.stateMachineArn,
    stateMachineId: stack.getLogicalId(stateMachine.node.defaultChild as CfnStateMachine),
    exportPageFunction: exportPage.functionArn,
    ...(reservedConcurrency === undefined ? {} : { reservedConcurrency }),
    table: table.tableName,
    bucket: bucket.bucketName,
    prefix,
    ...(bucketKey === undefined ? {} : { bucketKeyArn: bucketKey.keyArn }),
    ...(secret === undefined ? {} : { apiKeySecret: secret.secretFullArn ?? secret.secretName }),
    apiKeyField: secretField ?? '',
    ...(scheduleGroup === undefined ? {} : { scheduleGroup: scheduleGroup.scheduleGroupName }),
  };
  new CfnOutput(scope, serviceOutputSuffix, {
    value: stack.toJsonString(output),
    description: `The resources of service ${serviceName}, for report-exporter --stack`,
  }).overrideLogicalId(`${toPascalCase(serviceName)}${serviceOutputSuffix}`);
}

/** `eu-reports` → `EuReports`. The id of an output contains only letters and digits. */
export function toPascalCase(name: string): string {
  return name.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());
}
