/** The state machine of a service: the definition from `lib/core`, with the ARNs of the functions. */

import { ArnFormat, Aws, Names, RemovalPolicy } from 'aws-cdk-lib';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  type CfnStateMachine,
  DefinitionBody,
  LogLevel,
  StateMachine,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type ServiceMetadataInput, serviceMetadataKey, serviceMetadataText } from '../settings/stack-output.ts';
import { byStep, stateMachine, type StepName, stepNames } from '../core/state-machine/definition.ts';
import { type FunctionLimits, stateGraceSeconds } from './function-limits.ts';
import type { ServiceFunctions } from './functions.ts';
import { acknowledge, acknowledgeWildcard } from './nag-suppressions.ts';

export interface ServiceStateMachineProps {
  readonly functions: ServiceFunctions;
  readonly bucket: IBucket;
  readonly prefix: string;
  /** Receives the events of runs. */
  readonly eventBus: IEventBus | undefined;
  readonly limits: FunctionLimits;
  /** For the operator's commands, which read it from the template. */
  readonly metadata: ServiceMetadataInput;
  readonly logRetention: RetentionDays;
  /** Undefined: CloudWatch Logs encrypts them with a key of its own. */
  readonly logKey: IKey | undefined;
  /** Whether executions send traces to X-Ray. */
  readonly tracing: boolean;
}

/** The names of what CloudFormation replaces in the definition. */
const arnVariable = (step: StepName) => `${step}Arn`;
const bucketVariable = 'BucketName';
const eventBusVariable = 'EventBusArn';
const placeholder = (variable: string) => `\${${variable}}`;

export function createStateMachine(scope: Construct, props: ServiceStateMachineProps): StateMachine {
  const { functions, bucket, prefix, eventBus, limits, tracing } = props;
  const definition = stateMachineTemplate(limits, { prefix, hasEventBus: eventBus !== undefined });
  const machine = new StateMachine(scope, 'StateMachine', {
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(definition)),
    definitionSubstitutions: {
      ...Object.fromEntries(stepNames.map((step) => [arnVariable(step), functions[step].functionArn])),
      [bucketVariable]: bucket.bucketName,
      ...(eventBus !== undefined && { [eventBusVariable]: eventBus.eventBusArn }),
    },
    tracingEnabled: tracing,
    logs: { destination: createLogGroup(scope, props), level: LogLevel.ERROR, includeExecutionData: true },
  });
  acknowledge(
    machine,
    'AwsSolutions-SF1',
    'Step Functions keeps the full history of each execution for 90 days, and the functions write a log line for each page; ' +
      'logging every event would add seven lines per page with the same information',
  );
  if (!tracing) acknowledge(machine, 'AwsSolutions-SF2', 'The settings switch tracing off');
  acknowledgeWildcard(machine, '*', 'X-Ray and log delivery do not support resource-level permissions');
  (machine.node.defaultChild as CfnStateMachine).addMetadata(serviceMetadataKey, serviceMetadataText(props.metadata));
  grantInvokeAndPutEvents(machine, functions, eventBus);
  grantStartExecution(scope, machine);
  grantDescribeExecution(scope, machine, functions.BeginRun);
  return machine;
}

/**
 * The definition with placeholders for the ARN of each function. CloudFormation resolves the partition, as linters expect: to them a
 * placeholder in the ARN of an integration is an error.
 */
export function stateMachineTemplate(
  limits: FunctionLimits,
  { prefix, hasEventBus }: { readonly prefix: string; readonly hasEventBus: boolean },
) {
  return stateMachine({
    functions: byStep((step) => placeholder(arnVariable(step))),
    eventBus: hasEventBus ? placeholder(eventBusVariable) : 'default',
    store: { bucket: placeholder(bucketVariable), prefix },
    partition: Aws.PARTITION,
    stepTimeoutSeconds: byStep((step) => limits.timeoutSeconds[step] + stateGraceSeconds),
    executionTimeoutSeconds: limits.executionTimeoutSeconds,
  });
}

function createLogGroup(
  scope: Construct,
  { logRetention, logKey }: Pick<ServiceStateMachineProps, 'logRetention' | 'logKey'>,
): LogGroup {
  const name = Names.uniqueResourceName(scope, { maxLength: 100, separator: '-' });
  return new LogGroup(scope, 'StateMachineLogs', {
    // The account's resource policy for log delivery has a size limit. Groups with this prefix need no entry of their own.
    logGroupName: `/aws/vendedlogs/states/${name}`,
    retention: logRetention,
    ...(logKey !== undefined && { encryptionKey: logKey }),
    removalPolicy: RemovalPolicy.DESTROY,
  });
}

function grantInvokeAndPutEvents(
  machine: StateMachine,
  functions: ServiceFunctions,
  eventBus: IEventBus = EventBus.fromEventBusName(machine, 'Bus', 'default'),
): void {
  machine.addToRolePolicy(
    new PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: stepNames.map((step) => functions[step].functionArn),
    }),
  );
  eventBus.grantPutEventsTo(machine.role);
}

/** Lets the state machine continue a run, or a series, in a new execution of itself. In the role's own policy, this would be a cycle. */
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
  const policy = new Policy(scope, 'DescribeExecutionPolicy', {
    roles: [role],
    statements: [new PolicyStatement({ actions: ['states:DescribeExecution'], resources: [executions] })],
  });
  acknowledgeWildcard(
    policy,
    executions,
    'The executions of this state machine only; their names are generated at run time',
  );
}
