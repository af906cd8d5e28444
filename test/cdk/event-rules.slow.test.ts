import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { LambdaFunction, SfnStateMachine, SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Code, Function as LambdaFunctionResource, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import { ReportExporterStack } from '../../lib/cdk/stack.ts';
import { anApp, resource, someServices, someSettings } from '../support/aws/cdk-deployment.ts';
import { executionArn } from '../support/export/function-machine.ts';

/** Two services. The first has two exports, of which one name is a prefix of the other. */
const settings = someServices({
  exports: [
    { name: 'nightly', service: 'eu' },
    { name: 'nightly-2', service: 'eu' },
    { name: 'us-nightly', service: 'us' },
  ],
});
const stack = new ReportExporterStack(anApp(), 'ReportExporter', { settings });
const [exporter, other] = stack.services;
if (exporter === undefined || other === undefined) throw new Error('the stack has no services');
exporter.onCompleted('Load', { export: 'nightly', target: new SfnStateMachine(other.stateMachine) });
exporter.onFailed('RunFailed', { export: 'nightly-2' });
exporter.onCompleted('AnyCompleted');
exporter.onFailed('AnyFailed');
const template = Template.fromStack(stack);
const rule = (id: string) => resource(template, 'AWS::Events::Rule', `ServiceseuRules${id}`).Properties;

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

describe('event rules of a service', () => {
  it.each([
    ['Load', 'Report Export Completed', ['nightly']],
    ['RunFailed', 'Report Export Failed', ['nightly-2']],
    ['AnyCompleted', 'Report Export Completed', undefined],
    ['AnyFailed', 'Report Export Failed', undefined],
  ])('match the events of its own state machine, of one export or of all: %s', (id, detailType, exportNames) => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'ServiceseuStateMachine').id;
    const { EventPattern } = rule(id);
    const [{ prefix }] = EventPattern.detail.execution;
    expect(EventPattern).toEqual({
      source: ['report-exporter'],
      'detail-type': [detailType],
      detail: { execution: [{ prefix }], ...(exportNames === undefined ? {} : { export: exportNames }) },
    });
    expect(JSON.stringify(prefix)).toContain(`{"Fn::GetAtt":["${machine}","Name"]}`);
    expect(executionArn('first').startsWith(resolve(prefix, 'reports'))).toBe(true);
    // The name of this state machine may be a prefix of another's.
    expect(executionArn('first').startsWith(resolve(prefix, 'repo'))).toBe(false);
  });

  it('send events to the target, if there is one', () => {
    const machine = resource(template, 'AWS::StepFunctions::StateMachine', 'ServicesusStateMachine').id;
    expect(rule('Load').Targets).toMatchObject([{ Arn: { Ref: machine } }]);
    for (const id of ['RunFailed', 'AnyCompleted', 'AnyFailed']) expect(rule(id).Targets).toBeUndefined();
  });

  it('reject an export that the service does not have, and list those that it has', () => {
    for (const unknown of ['us-nightly', 'Nightly', 'night']) {
      expect(() => exporter.onFailed('Unknown', { export: unknown })).toThrow(
        expect.objectContaining({
          name: 'ConfigurationError',
          message: `ReportExporter/Services/eu has no export "${unknown}". Its exports: nightly, nightly-2`,
        }),
      );
    }
  });

  it('can be created in a consumer’s stack that depends on the deployment', () => {
    const app = anApp();
    const consumer = new Stack(app, 'Consumer');
    const settings = someSettings({ exports: [{ name: 'nightly' }] });
    const deployment = new ReportExporterStack(app, 'ReportExporter', { settings });
    const [reports] = deployment.services;
    const load = new LambdaFunctionResource(consumer, 'Load', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('exports.handler = async () => {}'),
      environment: { BUCKET: deployment.bucket.bucketName },
    });
    reports?.onCompleted('LoadRun', { export: 'nightly', target: new LambdaFunction(load), scope: consumer });
    reports?.onFailed('NotifyFailure', { target: new SqsQueue(new Queue(consumer, 'Failures')), scope: consumer });

    app.synth();

    expect(Object.keys(Template.fromStack(consumer).findResources('AWS::Events::Rule'))).toHaveLength(2);
    expect(Object.keys(Template.fromStack(deployment).findResources('AWS::Events::Rule'))).toEqual([]);
  });
});
