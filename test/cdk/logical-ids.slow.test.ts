/** Resources that must not be replaced: with a new logical ID, the old resource is orphaned or deleted. */

import type { Template } from 'aws-cdk-lib/assertions';
import { expect, it } from 'vitest';
import { deploy, deployWith, resourcesOf } from '../support/aws/cdk-deployment.ts';
import { someServices } from '../support/settings.ts';

/** A new bucket, table or secret is empty. A new state machine has no executions, and rules may name the old one. */
const kept = ['S3::Bucket', 'DynamoDB::Table', 'SecretsManager::Secret', 'StepFunctions::StateMachine'];
const idsIn = (template: Template) => kept.flatMap((type) => Object.keys(resourcesOf(template, `AWS::${type}`)));

it('the logical IDs of bucket, table, secrets and state machines do not depend on other settings or services', () => {
  const ids = idsIn(deploy().template);
  expect(ids.map((id) => id.slice(0, -8))).toEqual([
    'Reports',
    'PageLog',
    'ServicesacmeApiKey',
    'ServicesacmeStateMachine',
  ]);
  const exports = [{ name: 'first' }, { name: 'nightly' }];
  expect(idsIn(deploy({ stackName: 'Other', exports, bucket: { prefix: 'a/' } }).template)).toEqual(ids);
  const { services, ...others } = someServices();
  const both = idsIn(deployWith({ ...others, services }).template);
  const eu = { services: { eu: services.eu }, exports: [{ name: 'eu-nightly', service: 'eu' }] };
  expect(both).toEqual(expect.arrayContaining(idsIn(deployWith({ ...others, ...eu }).template)));
});
