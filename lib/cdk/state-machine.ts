/** The state machine of a service: the definition from `lib/core`, with the ARNs of the functions. */

import { ArnFormat, Aws, Names } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { LogGroup, type LogGroupProps } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  type CfnStateMachine,
  DefinitionBody,
  LogLevel,
  StateMachine,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { serviceMetadataKey } from '../settings/deployed-settings.ts';
import { byStep, stateMachine, stepNames } from '../core/state-machine/definition.ts';
import { type FunctionLimits, stateGraceSeconds } from './function-limits.ts';
import type { ServiceFunctions } from './functions.ts';

export interface ServiceStateMachineProps {
  readonly functions: ServiceFunctions;
  readonly bucket: IBucket;
  readonly prefix: string;
  readonly limits: FunctionLimits;
  /** For the operator's commands, which read it from the template. */
  readonly metadata: string;
  readonly logs: LogGroupProps;
}

export function createStateMachine(scope: Construct, props: ServiceStateMachineProps): StateMachine {
  const { functions, bucket, prefix, limits, logs } = props;
  // CloudFormation replaces these. It also resolves the partition, as linters expect: to them a placeholder in the ARN
  // of an integration is an error.
  const placeholder = (variable: string) => `\${${variable}}`;
  const definition = stateMachine({
    functions: byStep((step) => placeholder(`${step}Arn`)),
    eventBus: 'default',
    store: { bucket: placeholder('BucketName'), prefix },
    partition: Aws.PARTITION,
    stepTimeoutSeconds: byStep((step) => limits.timeoutSeconds[step] + stateGraceSeconds),
    executionTimeoutSeconds: limits.executionTimeoutSeconds,
  });
  const logGroup = new LogGroup(scope, 'StateMachineLogs', {
    ...logs,
    // Groups with this prefix need no entry in the account's resource policy for log delivery, whose size is limited.
    logGroupName: `/aws/vendedlogs/states/${Names.uniqueResourceName(scope, { maxLength: 100, separator: '-' })}`,
  });
  const machine = new StateMachine(scope, 'StateMachine', {
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(definition)),
    definitionSubstitutions: {
      ...Object.fromEntries(stepNames.map((step) => [`${step}Arn`, functions[step].functionArn])),
      BucketName: bucket.bucketName,
    },
    logs: { destination: logGroup, level: LogLevel.ERROR, includeExecutionData: true },
  });
  (machine.node.defaultChild as CfnStateMachine).addMetadata(serviceMetadataKey, props.metadata);
  grantInvokeAndPutEvents(machine, functions);
  grantStartExecution(scope, machine);
  grantDescribeExecution(scope, machine, functions.BeginRun);
  return machine;
}

function grantInvokeAndPutEvents(machine: StateMachine, functions: ServiceFunctions): void {
  machine.addToRolePolicy(
    new PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: stepNames.map((step) => functions[step].functionArn),
    }),
  );
  EventBus.fromEventBusName(machine, 'Bus', 'default').grantPutEventsTo(machine.role);
}

/** Lets the machine continue a run in a new execution of itself. In the role's own policy, this would be a cycle. */
function grantStartExecution(scope: Construct, machine: StateMachine): void {
  new Policy(scope, 'StartExecutionPolicy', {
    roles: [machine.role],
    statements: [new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] })],
  });
}

/** Lets BeginRun find out whether another execution of the state machine is running. A policy of its own, as above. */
function grantDescribeExecution(scope: Construct, machine: StateMachine, { role }: ServiceFunctions['BeginRun']): void {
  if (role === undefined) return;
  const executions = machine.stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${machine.stateMachineName}:*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  new Policy(scope, 'DescribeExecutionPolicy', {
    roles: [role],
    statements: [new PolicyStatement({ actions: ['states:DescribeExecution'], resources: [executions] })],
  });
}
