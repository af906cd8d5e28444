/**
 * A rule for what the state machine of one export tells the event bus. By its executions, as another stack of the account
 * may have an export of the same name.
 */

import { ArnFormat } from 'aws-cdk-lib';
import { type IRuleTarget, Match, Rule } from 'aws-cdk-lib/aws-events';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { type detailTypes, eventSource } from '../core/state-machine/definition.ts';

type Announcing = Construct & { readonly exportName: string; readonly stateMachine: StateMachine };
type DetailType = (typeof detailTypes)[keyof typeof detailTypes];

export function announcementRule(
  scope: Construct,
  id: string,
  from: Announcing,
  detailType: DetailType,
  target: IRuleTarget | undefined,
): Rule {
  return new Rule(scope, id, {
    description: `${detailType}: ${from.exportName}`,
    eventPattern: {
      source: [eventSource],
      detailType: [detailType],
      detail: { execution: Match.prefix(executionsOf(from.stateMachine)) },
    },
    targets: target === undefined ? [] : [target],
  });
}

/** What the ARN of every execution of `machine` begins with, and that of no other. */
function executionsOf(machine: StateMachine): string {
  return machine.stack.formatArn({
    service: 'states',
    resource: 'execution',
    resourceName: `${machine.stateMachineName}:`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}
