/** EventBridge rules for the events of a service. They match the state machine, because export names are not unique in an account. */

import { ArnFormat } from 'aws-cdk-lib';
import { type IEventBus, type IRuleTarget, Match, Rule } from 'aws-cdk-lib/aws-events';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type detailTypes, eventSource } from '../core/state-machine/definition.ts';

export interface EventRuleProps {
  readonly serviceName: string;
  readonly stateMachine: StateMachine;
  readonly detailType: (typeof detailTypes)[keyof typeof detailTypes];
  /** Absent: the events of all exports of the service, and of executions that name none. */
  readonly exportName: string | undefined;
  /** Absent: the default one of the account. */
  readonly eventBus: IEventBus | undefined;
  /** Absent: a rule without a target. */
  readonly target: IRuleTarget | undefined;
}

export function createEventRule(scope: Construct, id: string, props: EventRuleProps): Rule {
  const { serviceName, stateMachine, detailType, exportName, eventBus, target } = props;
  return new Rule(scope, id, {
    description: `${detailType}: ${exportName ?? `all exports of service ${serviceName}`}`,
    eventPattern: {
      source: [eventSource],
      detailType: [detailType],
      detail: {
        execution: Match.prefix(executionArnPrefix(stateMachine)),
        ...(exportName === undefined ? {} : { export: [exportName] }),
      },
    },
    ...(eventBus !== undefined && { eventBus }),
    targets: target === undefined ? [] : [target],
  });
}

/** The prefix of the ARN of every execution of `machine`, and of no other state machine. */
function executionArnPrefix(machine: StateMachine): string {
  return machine.stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${machine.stateMachineName}:`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}
