/** The checks of `doctor` that concern a stack as a whole: its alarms, and the quota of Lambda. */

import { GetAccountSettingsCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { GetTopicAttributesCommand, SNSClient } from '@aws-sdk/client-sns';
import { type Finding, ok, type Outcome, warning } from './findings.ts';
import type { OperatorClients } from './clients.ts';
import type { StackService } from './exports.ts';

/** Warns about what cannot be read, which prevents no run. `alarmTopic`: undefined if an app removed the output. */
export async function checkStack(
  services: readonly StackService[],
  alarmTopic: string | undefined,
  clients: OperatorClients,
): Promise<readonly Finding[]> {
  const unreadable = (permission: string) => (error: unknown) =>
    warning(`cannot be read: ${error instanceof Error ? error.message : String(error)}`, `allow ${permission}`);
  const [alarms, concurrency] = await Promise.all([
    alarmTopic === undefined
      ? undefined
      : checkAlarmTopic(clients, alarmTopic).catch(unreadable('sns:GetTopicAttributes on the topic')),
    checkConcurrency(clients, services).catch(unreadable('lambda:GetAccountSettings')),
  ]);
  return [
    ...(alarms === undefined ? [] : [{ check: 'alarms', export: null, ...alarms }]),
    { check: 'concurrency', export: null, ...concurrency },
  ];
}

const count = (number: number, noun: string): string =>
  `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

/** The key of SNS, whose policy cannot allow CloudWatch to use it. */
const keyOfSns = /^(arn:.*:)?alias\/aws\/sns$/;

/** Whether anyone would receive a notification of an alarm. */
async function checkAlarmTopic(clients: OperatorClients, topic: string): Promise<Outcome> {
  const client = clients.open((config) => new SNSClient(config));
  const { Attributes = {} } = await client.send(new GetTopicAttributesCommand({ TopicArn: topic }));
  const { SubscriptionsConfirmed, SubscriptionsPending, KmsMasterKeyId = '' } = Attributes;
  const confirmed = Number(SubscriptionsConfirmed ?? 0);
  const pending = Number(SubscriptionsPending ?? 0);
  if (keyOfSns.test(KmsMasterKeyId)) {
    return warning(
      `${topic} is encrypted with alias/aws/sns, which CloudWatch cannot use: every notification is lost`,
      'encrypt it with a customer managed key that CloudWatch may use; docs/aws.md#alarms-that-arrive',
    );
  }
  if (confirmed > 0) return ok(`${count(confirmed, 'confirmed subscription')} of ${topic}`);
  return pending > 0
    ? warning(
        `no one is notified: ${count(pending, 'subscription')} of ${topic} not confirmed`,
        'open the link in the mail "AWS Notification - Subscription Confirmation"',
      )
    : warning(`no one is notified: ${topic} has no subscription`, 'set alarms.email, or subscribe to the topic');
}

/** Whether Lambda runs as many functions at the same time as the schedules may need. */
async function checkConcurrency(clients: OperatorClients, services: readonly StackService[]): Promise<Outcome> {
  const client = clients.open((config) => new LambdaClient(config));
  const { AccountLimit } = await client.send(new GetAccountSettingsCommand());
  const unreserved = AccountLimit?.UnreservedConcurrentExecutions ?? 0;
  const exports = services.flatMap((service) => service.exports);
  const needed = exports.filter(({ schedule }) => schedule?.enabled === true).length;
  const message = `Lambda runs ${count(unreserved, 'function')} at the same time, for ${count(needed, 'scheduled export')}`;
  if (needed <= unreserved) return ok(message);
  return warning(
    `${message}. The others wait for up to ten hours, and then fail`,
    'request a higher quota of concurrent executions, or let them run at different times; ' +
      'docs/aws.md#concurrency-of-lambda',
  );
}
