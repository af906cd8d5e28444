import { Template } from 'aws-cdk-lib/assertions';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../lib/cdk/deployment-settings.ts';
import { ReportExporterStack } from '../../lib/cdk/report-exporter-stack.ts';
import { anApp, resource, someSettings } from '../support/deployment.ts';
import { executionArn } from '../support/function-machine.ts';

/** Two exports of which one's name begins with the other's. */
const exports = ['nightly', 'nightly-2'].map((name) => ({ name }));
const stack = new ReportExporterStack(anApp(), deploymentSettings(someSettings({ exports })));
const [nightly, other] = stack.exports;
if (nightly === undefined || other === undefined) throw new Error('the stack has no exports');
const completed = nightly.onCompleted('Load', new SfnStateMachine(other.stateMachine));
const failed = nightly.onFailed('Page');
const template = Template.fromStack(stack);
const rule = (id: string) => resource(template, 'AWS::Events::Rule', `Exportsnightly${id}`).Properties;

/** The text that CloudFormation makes of `prefix`, where the machine is called `name`. */
function written(prefix: { 'Fn::Join': [string, (string | { Ref?: string })[]] }, name: string): string {
  const values: Readonly<Record<string, string>> = {
    'AWS::Partition': 'aws',
    'AWS::Region': 'us-east-1',
    'AWS::AccountId': '123456789012',
  };
  const [separator, parts] = prefix['Fn::Join'];
  return parts.map((part) => (typeof part === 'string' ? part : (values[part.Ref ?? ''] ?? name))).join(separator);
}

describe('the rules of an export', () => {
  it('are returned, and lie on the default bus', () => {
    expect([completed, failed].map((each) => stack.resolve(each.ruleName))).toEqual(
      ['Load', 'Page'].map((id) => ({ Ref: resource(template, 'AWS::Events::Rule', `Exportsnightly${id}`).id })),
    );
    for (const id of ['Load', 'Page']) {
      expect(rule(id).EventBusName).toBeUndefined();
      expect(rule(id).State).toBe('ENABLED');
    }
  });

  it('match what this export tells, by the executions of its own machine', () => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'ExportsnightlyStateMachine').id;
    for (const [id, detailType] of [
      ['Load', 'Report Export Completed'],
      ['Page', 'Report Export Failed'],
    ] as const) {
      const { EventPattern } = rule(id);
      const [{ prefix }] = EventPattern.detail.execution;
      expect(EventPattern).toEqual({
        source: ['report-exporter'],
        'detail-type': [detailType],
        detail: { execution: [{ prefix }] },
      });
      expect(JSON.stringify(prefix)).toContain(`{"Fn::GetAtt":["${machine}","Name"]}`);
      expect(executionArn('first').startsWith(written(prefix, 'reports'))).toBe(true);
      // The name of another machine may begin with that of this one.
      expect(executionArn('first').startsWith(written(prefix, 'repo'))).toBe(false);
    }
  });

  it('send to the target, if there is one', () => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'Exportsnightly2StateMachine').id;
    expect(rule('Load').Targets).toMatchObject([{ Arn: { Ref: machine } }]);
    expect(rule('Page').Targets).toBeUndefined();
  });
});
