/** The state machine of an export: the definition from `lib/core`, with the ARNs of the functions. */

import { ArnFormat, Aws, Names, RemovalPolicy } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { DefinitionBody, LogLevel, StateMachine, StateMachineType } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { byStep, stateMachine, stepNames } from '../core/state-machine/definition.ts';
import { type FunctionLimits, stateGraceSeconds } from './function-limits.ts';
import type { ExportFunctions } from './functions.ts';
import { acknowledge, acknowledgeWildcard } from './nag-suppressions.ts';

export interface ExportStateMachineProps {
  readonly exportName: string;
  readonly functions: ExportFunctions;
  readonly limits: FunctionLimits;
  readonly logRetention: RetentionDays;
}

export interface ExportStateMachine {
  readonly stateMachine: StateMachine;
  /** The permissions that refer to the state machine itself. In the roles' own policies they would form a cycle. */
  readonly separatePolicies: readonly Policy[];
}

const eventBusName = 'default';

export function createStateMachine(scope: Construct, props: ExportStateMachineProps): ExportStateMachine {
  const machine = new StateMachine(scope, 'StateMachine', {
    comment: `Runs export ${props.exportName}`,
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(stateMachineTemplate(props))),
    definitionSubstitutions: {
      Partition: Aws.PARTITION,
      ...Object.fromEntries(stepNames.map((step) => [`${step}Arn`, props.functions[step].functionArn])),
    },
    tracingEnabled: true,
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
  acknowledgeWildcard(machine, '*', 'X-Ray and log delivery do not support resource-level permissions');
  grantInvokeAndPutEvents(machine, props.functions);
  return {
    stateMachine: machine,
    separatePolicies: [
      grantStartExecution(scope, machine),
      ...grantDescribeExecution(scope, machine, props.functions.BeginRun),
    ],
  };
}

/** The definition with placeholders for the partition and for the ARN of each function. */
export function stateMachineTemplate({ exportName, limits }: Pick<ExportStateMachineProps, 'exportName' | 'limits'>) {
  return stateMachine({
    exportName,
    functions: byStep((step) => `\${${step}Arn}`),
    eventBus: eventBusName,
    // oxlint-disable-next-line no-template-curly-in-string -- CloudFormation's placeholder
    partition: '${Partition}',
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

function grantInvokeAndPutEvents(machine: StateMachine, functions: ExportFunctions): void {
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
  { role }: ExportFunctions['BeginRun'],
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
