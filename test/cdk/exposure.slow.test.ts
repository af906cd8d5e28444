/** What of the stack can be reached or used by someone without a permission of IAM: nothing. */

import { describe, expect, it } from 'vitest';
import { deploy, resourcesOf } from '../support/aws/cdk-deployment.ts';

describe('public access', () => {
  const { template } = deploy();

  it('is none for the functions: no URL, no resource policy, and roles for one AWS service each', () => {
    for (const type of ['Lambda::Url', 'Lambda::Permission', 'ApiGateway::RestApi', 'ApiGatewayV2::Api']) {
      template.resourceCountIs(`AWS::${type}`, 0);
    }
    const roles = Object.values(resourcesOf(template, 'AWS::IAM::Role'));
    expect(roles.length).toBeGreaterThanOrEqual(6);
    for (const { Properties } of roles) {
      const trust: readonly { Principal: object }[] = Properties.AssumeRolePolicyDocument.Statement;
      expect(trust.map(({ Principal }) => Principal)).toEqual([
        { Service: expect.stringMatching(/^(lambda|states|scheduler)\.amazonaws\.com$/) },
      ]);
    }
  });

  it('is none for the bucket and the topic: their policies allow only AWS services', () => {
    const policies = ['AWS::S3::BucketPolicy', 'AWS::SNS::TopicPolicy', 'AWS::SQS::QueuePolicy'].flatMap((type) =>
      Object.values(resourcesOf(template, type)),
    );
    expect(policies.length).toBeGreaterThanOrEqual(2);
    const statements: { Effect: string; Principal: object }[] = policies.flatMap(
      ({ Properties }) => Properties.PolicyDocument.Statement,
    );
    const allowed = statements.filter(({ Effect }) => Effect === 'Allow');
    expect(allowed.filter(({ Principal }) => Object.keys(Principal).join() !== 'Service')).toEqual([]);
    expect(statements.map(({ Effect }) => Effect)).toContain('Deny');
  });
});
