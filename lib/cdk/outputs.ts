/** The names of a service's resources: for its functions, and in an output for `report-exporter --stack`. */

import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { ScheduleGroup } from 'aws-cdk-lib/aws-scheduler';
import type { CfnStateMachine, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import {
  type FunctionEnvironment,
  type ServiceOutput,
  serviceOutputSuffix,
  type ServiceResources,
  settingsVersion,
} from '../settings/deployed-settings.ts';
import type { ServiceFunctions } from './functions.ts';
import type { ServiceStores } from './stores.ts';

export const serviceResources = ({
  serviceName,
  bucket,
  prefix,
  table,
  secret,
  keys,
}: ServiceStores): ServiceResources => ({
  version: settingsVersion,
  service: serviceName,
  table: table.tableName,
  bucket: bucket.bucketName,
  prefix,
  bucketKeyArn: keys.bucket?.keyArn,
  // The name if the complete ARN is unknown: a partial ARN may match another secret.
  apiKeySecret: secret?.secretFullArn ?? secret?.secretName,
});

export function functionEnvironment(scope: Construct, resources: ServiceResources): string {
  const stack = Stack.of(scope);
  const environment: FunctionEnvironment = { ...resources, deployment: stack.stackName };
  return stack.toJsonString(environment);
}

interface DeployedService extends Construct {
  readonly serviceName: string;
  readonly functions: ServiceFunctions;
  readonly stateMachine: StateMachine;
  readonly scheduleGroup: ScheduleGroup | undefined;
}

export function createServiceOutput(service: DeployedService, resources: ServiceResources): void {
  const { serviceName, functions, stateMachine, scheduleGroup } = service;
  const stack = Stack.of(service);
  const output: ServiceOutput = {
    ...resources,
    stateMachineArn: stateMachine.stateMachineArn,
    stateMachineId: stack.getLogicalId(stateMachine.node.defaultChild as CfnStateMachine),
    exportPageFunction: functions.ExportPage.functionArn,
    scheduleGroup: scheduleGroup?.scheduleGroupName,
  };
  new CfnOutput(service, serviceOutputSuffix, {
    value: stack.toJsonString(output),
    description: `The resources of service ${serviceName}, for report-exporter --stack`,
    // The output is named after the service, wherever in the stack that is.
  }).overrideLogicalId(`${toPascalCase(serviceName)}${serviceOutputSuffix}`);
}

/** `eu-reports` → `EuReports`. The id of an output contains only letters and digits. */
export const toPascalCase = (name: string): string =>
  name.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());
