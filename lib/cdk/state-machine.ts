/**
 * The state machine of an export as CloudFormation gets it: the core's definition, with the functions filled in.
 */

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

const busName = 'default';

export function exportStateMachine(scope: Construct, props: ExportStateMachineProps): StateMachine {
  const machine = new StateMachine(scope, 'StateMachine', {
    comment: `Exports ${props.exportName}`,
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromString(JSON.stringify(exportDefinition(props))),
    definitionSubstitutions: {
      Partition: Aws.PARTITION,
      ...Object.fromEntries(stepNames.map((step) => [`${step}Arn`, props.functions[step].functionArn])),
    },
    tracingEnabled: true,
    logs: {
      destination: historyOfFailures(scope, props.logRetention),
      level: LogLevel.ERROR,
      includeExecutionData: true,
    },
  });
  acknowledge(
    machine,
    'AwsSolutions-SF1',
    'Step Functions keeps the whole history of every execution for 90 days, and each page is logged by its function; ' +
      'logging every event as well would write seven lines a page a second time',
  );
  acknowledgeWildcard(machine, '*', 'X-Ray and the delivery of logs know no resource to name');
  letInvoke(machine, props.functions);
  letContinueItself(scope, machine);
  letAskAboutExecutions(scope, machine, props.functions);
  return machine;
}

/** With a placeholder for each function and for the partition. */
export function exportDefinition({ exportName, limits }: Pick<ExportStateMachineProps, 'exportName' | 'limits'>) {
  return stateMachine({
    exportName,
    functions: byStep((step) => `\${${step}Arn}`),
    eventBus: busName,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: CloudFormation's placeholder
    partition: '${Partition}',
    stepTimeoutSeconds: byStep((step) => limits.seconds[step] + stateGraceSeconds),
    executionTimeoutSeconds: limits.executionSeconds,
  });
}

function historyOfFailures(scope: Construct, retention: RetentionDays): LogGroup {
  return new LogGroup(scope, 'StateMachineLogs', {
    // Under this name the group needs no line of its own in the account's policy for log delivery, which is short.
    logGroupName: `/aws/vendedlogs/states/${Names.uniqueResourceName(scope, { maxLength: 100, separator: '-' })}`,
    retention,
    removalPolicy: RemovalPolicy.DESTROY,
  });
}

function letInvoke(machine: StateMachine, functions: ExportFunctions): void {
  machine.addToRolePolicy(
    new PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: stepNames.map((step) => functions[step].functionArn),
    }),
  );
  EventBus.fromEventBusName(machine, 'Bus', busName).grantPutEventsTo(machine.role);
}

/** A policy apart: in the role's own it would make machine and role wait for each other. */
function letContinueItself(scope: Construct, machine: StateMachine): void {
  new Policy(scope, 'ContinueItself', {
    roles: [machine.role],
    statements: [new PolicyStatement({ actions: ['states:StartExecution'], resources: [machine.stateMachineArn] })],
  });
}

/** Apart as well: begin-run asks whether another execution of this machine lives, and the machine needs begin-run. */
function letAskAboutExecutions(scope: Construct, machine: StateMachine, { BeginRun }: ExportFunctions): void {
  if (BeginRun.role === undefined) return;
  const executions = machine.stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${machine.stateMachineName}:*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  const policy = new Policy(scope, 'AskAboutExecutions', {
    roles: [BeginRun.role],
    statements: [new PolicyStatement({ actions: ['states:DescribeExecution'], resources: [executions] })],
  });
  acknowledgeWildcard(
    policy,
    executions,
    'The executions of this state machine alone; their names are made at run time',
  );
}
