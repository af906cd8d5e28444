/** The logical IDs of resources that must not be replaced: with a new ID, the old resource is orphaned or deleted. */

import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { ReportExporter } from '../../lib/cdk/report-exporter.ts';
import { anApp, aSchedule, deploy, deployWith, resourcesOf, someServices } from '../support/aws/cdk-deployment.ts';

/** A new bucket, table or secret is empty. A new state machine has no executions, and rules may name the old one. */
const kept = [
  'AWS::S3::Bucket',
  'AWS::DynamoDB::Table',
  'AWS::SecretsManager::Secret',
  'AWS::StepFunctions::StateMachine',
];

const idsIn = (template: Template) => kept.flatMap((type) => Object.keys(resourcesOf(template, type)));

// A change of these IDs loses data in every deployed stack. Do not update the lists: change the code.
describe('the logical IDs of bucket, table, secrets and state machines', () => {
  it('are fixed in a stack with one service', () => {
    expect(idsIn(deploy().template)).toEqual([
      'Reports65402A0A',
      'PageLog87FEDB15',
      'ServicesacmeApiKeyDBB6DFD7',
      'ServicesacmeStateMachineC10C9045',
    ]);
  });

  it('are fixed in a stack with several services', () => {
    expect(idsIn(deployWith(someServices()).template)).toEqual([
      'Reports65402A0A',
      'PageLog87FEDB15',
      'ServiceseuApiKeyF47062D0',
      'ServicesusApiKey74F4B800',
      'ServiceseuStateMachine582E357C',
      'ServicesusStateMachine85E08825',
    ]);
  });

  it('are fixed for a construct in another stack', () => {
    const stack = new Stack(anApp(), 'Another');
    const exports = [{ name: 'nightly', schedule: aSchedule() }];
    new ReportExporter(stack, 'Invoices', { service: { baseUrl: 'https://reports.example.com' }, exports });
    expect(idsIn(Template.fromStack(stack))).toEqual([
      'InvoicesBucketB61C805D',
      'InvoicesPageLog882BCB7D',
      'InvoicesApiKey66B1E904',
      'InvoicesStateMachineB19E1027',
    ]);
  });

  it('do not depend on the name of the stack or on the settings of its exports', () => {
    const changed = deploy({ stackName: 'Other', exports: [{ name: 'first' }, { name: 'nightly' }] });
    expect(idsIn(changed.template)).toEqual(idsIn(deploy().template));
  });
});
