import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { LambdaFunction, SfnStateMachine, SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Code, Function as LambdaFunctionResource, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { anApp, resource, someSettings } from '../support/aws/cdk-deployment.ts';
import { executionArn } from '../support/export/function-machine.ts';

/** Two exports, of which one name is a prefix of the other. */
const exports = ['nightly', 'nightly-2'].map((name) => ({ name }));
const stack = new ReportExporterStack(anApp(), deploymentSettings(someSettings({ exports })));
const [nightly, other] = stack.exports;
if (nightly === undefined || other === undefined) throw new Error('the stack has no exports');
const completed = nightly.onCompleted('Load', new SfnStateMachine(other.stateMachine));
const failed = nightly.onFailed('RunFailed');
const template = Template.fromStack(stack);
const rule = (id: string) => resource(template, 'AWS::Events::Rule', `ExportsnightlyRules${id}`).Properties;

/** Resolves `prefix` as CloudFormation would for a state machine with the name `machineName`. */
function resolve(prefix: { 'Fn::Join': [string, (string | { Ref?: string })[]] }, machineName: string): string {
  const values: Readonly<Record<string, string>> = {
    'AWS::Partition': 'aws',
    'AWS::Region': 'us-east-1',
    'AWS::AccountId': '123456789012',
  };
  const [separator, parts] = prefix['Fn::Join'];
  return parts
    .map((part) => (typeof part === 'string' ? part : (values[part.Ref ?? ''] ?? machineName)))
    .join(separator);
}

describe('event rules of an export', () => {
  it('are returned, and belong to the default event bus', () => {
    expect([completed, failed].map((each) => stack.resolve(each.ruleName))).toEqual(
      ['Load', 'RunFailed'].map((id) => ({
        Ref: resource(template, 'AWS::Events::Rule', `ExportsnightlyRules${id}`).id,
      })),
    );
    for (const id of ['Load', 'RunFailed']) {
      expect(rule(id).EventBusName).toBeUndefined();
      expect(rule(id).State).toBe('ENABLED');
    }
  });

  it('match the events of executions of its own state machine only', () => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'ExportsnightlyStateMachine').id;
    for (const [id, detailType] of [
      ['Load', 'Report Export Completed'],
      ['RunFailed', 'Report Export Failed'],
    ] as const) {
      const { EventPattern } = rule(id);
      const [{ prefix }] = EventPattern.detail.execution;
      expect(EventPattern).toEqual({
        source: ['report-exporter'],
        'detail-type': [detailType],
        detail: { execution: [{ prefix }] },
      });
      expect(JSON.stringify(prefix)).toContain(`{"Fn::GetAtt":["${machine}","Name"]}`);
      expect(executionArn('first').startsWith(resolve(prefix, 'reports'))).toBe(true);
      // The name of this state machine may be a prefix of another's.
      expect(executionArn('first').startsWith(resolve(prefix, 'repo'))).toBe(false);
    }
  });

  it('send events to the target, if there is one', () => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'Exportsnightly2StateMachine').id;
    expect(rule('Load').Targets).toMatchObject([{ Arn: { Ref: machine } }]);
    expect(rule('RunFailed').Targets).toBeUndefined();
  });

  it('can be created in a consumer’s stack that depends on the deployment', () => {
    const app = anApp();
    const consumer = new Stack(app, 'Consumer');
    const deployment = new ReportExporterStack(
      app,
      deploymentSettings(someSettings({ exports: [{ name: 'nightly' }] })),
    );
    const [reportExport] = deployment.exports;
    const load = new LambdaFunctionResource(consumer, 'Load', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('exports.handler = async () => {}'),
      environment: { BUCKET: deployment.bucket.bucketName },
    });
    reportExport?.onCompleted('LoadRun', new LambdaFunction(load), consumer);
    reportExport?.onFailed('NotifyFailure', new SqsQueue(new Queue(consumer, 'Failures')), consumer);

    app.synth();

    expect(Object.keys(Template.fromStack(consumer).findResources('AWS::Events::Rule'))).toHaveLength(2);
    expect(Object.keys(Template.fromStack(deployment).findResources('AWS::Events::Rule'))).toEqual([]);
  });
});
