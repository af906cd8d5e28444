/**
 * The state machines of a service: the definitions from `lib/core`, with the ARNs of the functions. The second one, which exports the
 * windows of backfills, exists if the service has backfills.
 */

import { ArnFormat, Aws, Names, RemovalPolicy } from 'aws-cdk-lib';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { Policy, PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
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
import { backfillStateMachine, mapLabel } from '../core/state-machine/backfill-definition.ts';
import { byStep, stateMachine, type StepName, stepNames } from '../core/state-machine/definition.ts';
import { type FunctionLimits, stateGraceSeconds } from './function-limits.ts';
import type { ServiceFunctions } from './functions.ts';
import { acknowledge, acknowledgeWildcard } from './nag-suppressions.ts';
import type { Permissions } from './permissions.ts';

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

/** The names of what CloudFormation replaces in the definitions. */
const arnVariable = (step: StepName) => `${step}Arn`;
const stateMachineVariable = 'StateMachineArn';
const bucketVariable = 'BucketName';
const eventBusVariable = 'EventBusArn';
const placeholder = (variable: string) => `\${${variable}}`;

export function createStateMachine(scope: Construct, props: ServiceStateMachineProps): StateMachine {
  const { functions, bucket, prefix, eventBus } = props;
  const machine = createStandardStateMachine(scope, 'StateMachine', {
    ...props,
    definition: stateMachineTemplate(props.limits, { prefix, hasEventBus: eventBus !== undefined }),
    substitutions: {
      ...Object.fromEntries(stepNames.map((step) => [arnVariable(step), functions[step].functionArn])),
      [bucketVariable]: bucket.bucketName,
      ...(eventBus !== undefined && { [eventBusVariable]: eventBus.eventBusArn }),
    },
    reasonForErrorsOnly:
      'Step Functions keeps the full history of each execution for 90 days, and the functions write a log line for each page; ' +
      'logging every event would add seven lines per page with the same information',
  });
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

export interface BackfillStateMachineProps extends Pick<
  ServiceStateMachineProps,
  'limits' | 'logRetention' | 'logKey' | 'tracing'
> {
  /** The state machine of the service, which exports each window. */
  readonly stateMachine: StateMachine;
  readonly bucket: IBucket;
  readonly permissions: Permissions;
}

export function createBackfillStateMachine(scope: Construct, props: BackfillStateMachineProps): StateMachine {
  const { stateMachine: exporter, bucket, permissions } = props;
  const machine = createStandardStateMachine(scope, 'Backfill', {
    ...props,
    definition: backfillTemplate(props.limits),
    substitutions: { [stateMachineVariable]: exporter.stateMachineArn, [bucketVariable]: bucket.bucketName },
    reasonForErrorsOnly:
      'Step Functions keeps the full history of each execution for 90 days, and what happens in a window is logged by its own execution',
  });
  permissions.grantReadWindowLists(machine.role as Role);
  grantExportWindows(machine, exporter);
  grantDistributedMap(scope, machine);
  return machine;
}

/** The definition with placeholders for the bucket and the ARNs. */
export function backfillTemplate(limits: FunctionLimits) {
  return backfillStateMachine({
    bucket: placeholder(bucketVariable),
    stateMachine: placeholder(stateMachineVariable),
    partition: Aws.PARTITION,
    executionTimeoutSeconds: limits.executionTimeoutSeconds,
  });
}

/**
 * Lets the state machine start executions of the service and wait for their ends. It may not stop them: a window that is in progress
 * ends by itself if its backfill is stopped, and one that is being published is not interrupted.
 */
function grantExportWindows(machine: StateMachine, exporter: StateMachine): void {
  const executions = executionArns(exporter, ':*');
  // The rule is managed by Step Functions, in each account one for all state machines.
  const rule = machine.stack.formatArn({
    service: 'events',
    resource: 'rule',
    resourceName: 'StepFunctionsGetEventsForStepFunctionsExecutionRule',
  });
  for (const [actions, resource] of [
    [['states:StartExecution'], exporter.stateMachineArn],
    [['states:DescribeExecution'], executions],
    [['events:DescribeRule', 'events:PutRule', 'events:PutTargets'], rule],
  ] as const) {
    machine.addToRolePolicy(new PolicyStatement({ actions: [...actions], resources: [resource] }));
  }
  acknowledgeWildcard(
    machine,
    executions,
    'The executions of one state machine; their names are generated at run time',
  );
}

/** Lets the Distributed Map start, describe and stop the child executions of its own state machine. */
function grantDistributedMap(scope: Construct, machine: StateMachine): void {
  const executions = [executionArns(machine, ':*'), executionArns(machine, `/${mapLabel}:*`)];
  const policy = new Policy(scope, 'BackfillMapPolicy', {
    roles: [machine.role],
    statements: [
      new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] }),
      new PolicyStatement({ actions: ['states:DescribeExecution', 'states:StopExecution'], resources: executions }),
    ],
  });
  for (const arn of executions) {
    acknowledgeWildcard(
      policy,
      arn,
      'The executions of this state machine only; their names are generated at run time',
    );
  }
}

/** `suffix` follows the name of the state machine. */
function executionArns({ stack, stateMachineName }: StateMachine, suffix: string): string {
  return stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${stateMachineName}${suffix}`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}

interface StandardStateMachineProps extends Pick<ServiceStateMachineProps, 'logRetention' | 'logKey' | 'tracing'> {
  readonly definition: object;
  /** The values of its placeholders. */
  readonly substitutions: Record<string, string>;
  /** Why it logs errors only. */
  readonly reasonForErrorsOnly: string;
}

function createStandardStateMachine(scope: Construct, id: string, props: StandardStateMachineProps): StateMachine {
  const machine = new StateMachine(scope, id, {
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(props.definition)),
    definitionSubstitutions: props.substitutions,
    tracingEnabled: props.tracing,
    logs: {
      destination: createLogGroup(scope, id, props),
      level: LogLevel.ERROR,
      includeExecutionData: true,
    },
  });
  acknowledge(machine, 'AwsSolutions-SF1', props.reasonForErrorsOnly);
  if (!props.tracing) acknowledge(machine, 'AwsSolutions-SF2', 'The settings switch tracing off');
  acknowledgeWildcard(machine, '*', 'X-Ray and log delivery do not support resource-level permissions');
  return machine;
}

function createLogGroup(
  scope: Construct,
  id: string,
  { logRetention, logKey }: Pick<StandardStateMachineProps, 'logRetention' | 'logKey'>,
): LogGroup {
  const name = Names.uniqueResourceName(scope, { maxLength: 100, separator: '-' });
  return new LogGroup(scope, `${id}Logs`, {
    // The account's resource policy for log delivery has a size limit. Groups with this prefix need no entry of their own.
    logGroupName: `/aws/vendedlogs/states/${name}${id === 'StateMachine' ? '' : `-${id}`}`,
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

/** Lets the state machine continue a run in a new execution of itself. In the role's own policy, this would be a cycle. */
function grantStartExecution(scope: Construct, machine: StateMachine): void {
  new Policy(scope, 'StartExecutionPolicy', {
    roles: [machine.role],
    statements: [new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] })],
  });
}

/** Lets BeginRun find out whether another execution of the state machine is running. A policy of its own, as above. */
function grantDescribeExecution(scope: Construct, machine: StateMachine, { role }: ServiceFunctions['BeginRun']): void {
  if (role === undefined) return;
  const executions = executionArns(machine, ':*');
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
