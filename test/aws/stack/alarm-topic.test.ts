/** What `doctor` says about the topic of a stack's alarms. */

import { GetTopicAttributesCommand } from '@aws-sdk/client-sns';
import { DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkAlarmTopic } from '../../../lib/operator/health-checks.ts';
import {
  aStack,
  awsError,
  mockAws,
  type MockedAws,
  openMockedStack,
  stackName,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';

const topic = 'arn:aws:sns:eu-central-1:123456789012:Alarms';
const services = [{ name: 'acme', exports: ['nightly'] }];

let aws: MockedAws;
beforeEach(() => {
  stubAwsEnvironment();
  aws = mockAws(services);
  const stack = aStack(services);
  const Outputs = [...(stack.Outputs ?? []), { OutputKey: 'AlarmTopicArn', OutputValue: topic }];
  aws.cloudFormation.on(DescribeStacksCommand, { StackName: stackName }).resolves({ Stacks: [{ ...stack, Outputs }] });
});
afterEach(() => {
  aws.restore();
  vi.unstubAllEnvs();
});

async function check() {
  await using deployment = await openMockedStack();
  return await checkAlarmTopic(deployment);
}

const attributes = (Attributes: Record<string, string>) =>
  aws.sns.on(GetTopicAttributesCommand, { TopicArn: topic }).resolves({ Attributes });

describe('doctor checks that alarms arrive', () => {
  it('is satisfied by a confirmed subscription', async () => {
    attributes({ SubscriptionsConfirmed: '1', SubscriptionsPending: '1', KmsMasterKeyId: '11111111-2222' });
    expect(await check()).toEqual({
      state: 'ok',
      message: `1 confirmed subscription of ${topic}`,
      remedy: null,
    });
  });

  it('warns of a subscription that no one has confirmed', async () => {
    attributes({ SubscriptionsConfirmed: '0', SubscriptionsPending: '2' });
    expect(await check()).toMatchObject({
      state: 'warning',
      message: `no one is notified: 2 subscriptions of ${topic} not confirmed`,
      remedy: expect.stringContaining('Subscription Confirmation'),
    });
  });

  it('warns of a topic without a subscription', async () => {
    attributes({ SubscriptionsConfirmed: '0', SubscriptionsPending: '0' });
    expect(await check()).toMatchObject({
      state: 'warning',
      message: `no one is notified: ${topic} has no subscription`,
      remedy: expect.stringContaining('alarms.email'),
    });
  });

  it.each(['alias/aws/sns', 'arn:aws:kms:eu-central-1:123456789012:alias/aws/sns'])(
    'warns of a key that CloudWatch cannot use: %s',
    async (KmsMasterKeyId) => {
      attributes({ SubscriptionsConfirmed: '3', KmsMasterKeyId });
      expect(await check()).toMatchObject({
        state: 'warning',
        message: expect.stringContaining('every notification is lost'),
      });
    },
  );

  it('warns if it may not read the topic', async () => {
    aws.sns.on(GetTopicAttributesCommand).rejects(awsError('AuthorizationError', 'not authorized'));
    expect(await check()).toMatchObject({
      state: 'warning',
      message: expect.stringContaining('not authorized'),
      remedy: expect.stringContaining('sns:GetTopicAttributes'),
    });
  });

  it('says nothing about a stack without a topic', async () => {
    aws.cloudFormation.on(DescribeStacksCommand, { StackName: stackName }).resolves({ Stacks: [aStack(services)] });
    expect(await check()).toBeUndefined();
    expect(aws.requests()).not.toHaveProperty('GetTopicAttributes');
  });
});
