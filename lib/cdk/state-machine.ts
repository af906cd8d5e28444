/** The state machine of a service: the definition from `lib/core`, with the ARNs of the functions. */

import { ArnFormat, Aws, Names, RemovalPolicy } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  type CfnStateMachine,
  DefinitionBody,
  LogLevel,
  StateMachine,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type ServiceMetadataInput, serviceMetadataKey } from '../core/settings/stack-output.ts';
import { byStep, stateMachine, stepNames } from '../core/state-machine/definition.ts';
import { type FunctionLimits, stateGraceSeconds } from './function-limits.ts';
import type { ServiceFunctions } from './functions.ts';
import { acknowledge, acknowledgeWildcard } from './nag-suppressions.ts';

export interface ServiceStateMachineProps {
  readonly functions: ServiceFunctions;
  readonly limits: FunctionLimits;
  /** For the operator's commands, which read it from the template. */
  readonly metadata: ServiceMetadataInput;
  readonly logRetention: RetentionDays;
  /** Whether executions send traces to X-Ray. */
  readonly tracing: boolean;
}

export interface ServiceStateMachine {
  readonly stateMachine: StateMachine;
  /** The permissions that refer to the state machine itself. In the roles' own policies they would form a cycle. */
  readonly separatePolicies: readonly Policy[];
}

const eventBusName = 'default';

export function createStateMachine(scope: Construct, props: ServiceStateMachineProps): ServiceStateMachine {
  const machine = new StateMachine(scope, 'StateMachine', {
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(stateMachineTemplate(props.limits))),
    definitionSubstitutions: Object.fromEntries(
      stepNames.map((step) => [`${step}Arn`, props.functions[step].functionArn]),
    ),
    tracingEnabled: props.tracing,
    logs: {
      destination: createLogGroup(scope, props.logRetention),
      level: LogLevel.ERROR,
      includeExecutionData: true,
    },
  });
  acknowledge(
    machine,
    'AwsSolutions-SF1',
    'Step Functions keeps the full history of each execution for 90 days, and the functions write a log line for each page; ' +
      'logging every event would add seven lines per page with the same information',
  );
  if (!props.tracing) acknowledge(machine, 'AwsSolutions-SF2', 'The settings switch tracing off');
  acknowledgeWildcard(machine, '*', 'X-Ray and log delivery do not support resource-level permissions');
  (machine.node.defaultChild as CfnStateMachine).addMetadata(serviceMetadataKey, JSON.stringify(props.metadata));
  grantInvokeAndPutEvents(machine, props.functions);
  return {
    stateMachine: machine,
    separatePolicies: [
      grantStartExecution(scope, machine),
      ...grantDescribeExecution(scope, machine, props.functions.BeginRun),
    ],
  };
}

/**
 * The definition with placeholders for the ARN of each function. CloudFormation resolves the partition, as linters expect: to them a
 * placeholder in the ARN of an integration is an error.
 */
export function stateMachineTemplate(limits: FunctionLimits) {
  return stateMachine({
    functions: byStep((step) => `\${${step}Arn}`),
    eventBus: eventBusName,
    partition: Aws.PARTITION,
    stepTimeoutSeconds: byStep((step) => limits.timeoutSeconds[step] + stateGraceSeconds),
    executionTimeoutSeconds: limits.executionTimeoutSeconds,
  });
}

function createLogGroup(scope: Construct, retention: RetentionDays): LogGroup {
  return new LogGroup(scope, 'StateMachineLogs', {
    // The account's resource policy for log delivery has a size limit. Groups with this prefix need no entry of their own.
    logGroupName: `/aws/vendedlogs/states/${Names.uniqueResourceName(scope, { maxLength: 100, separator: '-' })}`,
    retention,
    removalPolicy: RemovalPolicy.DESTROY,
  });
}

function grantInvokeAndPutEvents(machine: StateMachine, functions: ServiceFunctions): void {
  machine.addToRolePolicy(
    new PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: stepNames.map((step) => functions[step].functionArn),
    }),
  );
  EventBus.fromEventBusName(machine, 'Bus', eventBusName).grantPutEventsTo(machine.role);
}

/** Lets the state machine continue a run in a new execution of itself. */
function grantStartExecution(scope: Construct, machine: StateMachine): Policy {
  return new Policy(scope, 'StartExecutionPolicy', {
    roles: [machine.role],
    statements: [new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] })],
  });
}

/** Lets BeginRun find out whether another execution of the state machine is running. */
function grantDescribeExecution(
  scope: Construct,
  machine: StateMachine,
  { role }: ServiceFunctions['BeginRun'],
): readonly Policy[] {
  if (role === undefined) return [];
  const executions = machine.stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${machine.stateMachineName}:*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  const policy = new Policy(scope, 'DescribeExecutionPolicy', {
    roles: [role],
    statements: [new PolicyStatement({ actions: ['states:DescribeExecution'], resources: [executions] })],
  });
  acknowledgeWildcard(
    policy,
    executions,
    'The executions of this state machine only; their names are generated at run time',
  );
  return [policy];
}
