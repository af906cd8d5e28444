/** What `doctor` says of a stack as a whole. */

import { DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetAccountSettingsCommand } from '@aws-sdk/client-lambda';
import { GetTopicAttributesCommand } from '@aws-sdk/client-sns';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type AService,
  aStack,
  awsError,
  mockAws,
  type MockedAws,
  nightly,
  openMockedStack,
  stackName,
  stubAwsEnvironment,
} from '../../support/aws/mocked-stack.ts';

const topic = 'arn:aws:sns:eu-central-1:123456789012:Alarms';

let aws: MockedAws | undefined;
beforeEach(() => stubAwsEnvironment());
afterEach(() => {
  aws?.restore();
  vi.unstubAllEnvs();
});

interface Account {
  readonly services?: readonly AService[];
  /** The attributes of the topic. Absent: the stack has none. */
  readonly attributes?: Readonly<Record<string, string>> | Error;
  readonly unreserved?: number | Error;
}

/** The findings of the check with this name. */
async function check(
  name: string,
  { services = [{ name: 'acme', exports: ['nightly'] }], attributes, unreserved = 10 }: Account,
) {
  aws = mockAws(services);
  const stack = aStack(services);
  const output = attributes === undefined ? [] : [{ OutputKey: 'AlarmTopicArn', OutputValue: topic }];
  const Outputs = [...(stack.Outputs ?? []), ...output];
  aws.cloudFormation.on(DescribeStacksCommand, { StackName: stackName }).resolves({ Stacks: [{ ...stack, Outputs }] });
  const topicRequest = aws.sns.on(GetTopicAttributesCommand, { TopicArn: topic });
  if (attributes instanceof Error) topicRequest.rejects(attributes);
  else topicRequest.resolves({ Attributes: attributes });
  const quotaRequest = aws.lambda.on(GetAccountSettingsCommand);
  if (unreserved instanceof Error) quotaRequest.rejects(unreserved);
  else {
    const AccountLimit = { ConcurrentExecutions: 1_000, UnreservedConcurrentExecutions: unreserved };
    quotaRequest.resolves({ AccountLimit });
  }
  await using opened = await openMockedStack();
  return ((await opened.check?.()) ?? []).filter((each) => each.check === name);
}

describe('doctor checks that alarms arrive', () => {
  it.each([
    [
      'is satisfied by a confirmed subscription',
      { SubscriptionsConfirmed: '1', SubscriptionsPending: '1' },
      'ok',
      /^1 confirmed subscription of arn/,
    ],
    [
      'warns of one that no one has confirmed',
      { SubscriptionsPending: '2' },
      'warning',
      /^no one is notified: 2 subscriptions of .* not confirmed$/,
    ],
    ['warns of a topic without a subscription', {}, 'warning', /^no one is notified: .* has no subscription$/],
    [
      'warns of a key that CloudWatch cannot use',
      { SubscriptionsConfirmed: '3', KmsMasterKeyId: 'alias/aws/sns' },
      'warning',
      /every notification is lost$/,
    ],
    [
      'warns if it may not read the topic',
      awsError('AuthorizationError', 'not authorized'),
      'warning',
      /not authorized/,
    ],
  ] as const)('%s', async (_, attributes, state, message) => {
    expect(await check('alarms', { attributes })).toMatchObject([
      { check: 'alarms', export: null, state, message: expect.stringMatching(message) },
    ]);
  });

  it('says nothing about a stack without a topic', async () => {
    expect(await check('alarms', {})).toEqual([]);
  });
});

describe('doctor checks the concurrent executions of Lambda', () => {
  /** A service whose exports are all due in the same night. */
  const aService = (count: number, name = 'acme'): AService => {
    const exports = Array.from({ length: count }, (_, index) => `${name}-${index}`);
    return { name, exports, schedules: Object.fromEntries(exports.map((each) => [each, nightly()])) };
  };
  const disabled: AService = { name: 'off', exports: ['a'], schedules: { a: nightly({ enabled: false }) } };
  const manual: AService = { name: 'manual', exports: ['b'] };

  it.each([
    ['all exports could run at the same time', [aService(10)], 'ok', /10 functions .* for 10 scheduled exports$/],
    [
      'more exports may be due than that',
      [aService(5), aService(6, 'globex')],
      'warning',
      /for 11 scheduled exports\. The others wait/,
    ],
    ['others are disabled, or manual', [aService(1), disabled, manual], 'ok', /for 1 scheduled export$/],
  ] as const)('if %s', async (_, services, state, message) => {
    expect(await check('concurrency', { services })).toMatchObject([
      { state, message: expect.stringMatching(message) },
    ]);
  });

  it('warns if it may not read the quota', async () => {
    const remedy = expect.stringContaining('lambda:GetAccountSettings');
    expect(await check('concurrency', { unreserved: awsError('AccessDenied') })).toMatchObject([
      { state: 'warning', remedy },
    ]);
  });
});
