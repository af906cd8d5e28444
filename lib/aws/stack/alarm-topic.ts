/** The topic of a stack's alarms: whether anyone would receive a notification. */

import { GetTopicAttributesCommand, type SNSClient } from '@aws-sdk/client-sns';
import type { AlarmTopic } from '../../target/target.ts';

/** The name of the stack's output. */
export const alarmTopicOutput = 'AlarmTopicArn';

/** The key of SNS, whose policy cannot allow CloudWatch to use it. */
const keyOfSns = /^(arn:.*:)?alias\/aws\/sns$/;

/** Needs sns:GetTopicAttributes. */
export async function readAlarmTopic(client: SNSClient, TopicArn: string): Promise<AlarmTopic> {
  const { Attributes = {} } = await client.send(new GetTopicAttributesCommand({ TopicArn }));
  const { SubscriptionsConfirmed, SubscriptionsPending, KmsMasterKeyId = '' } = Attributes;
  return {
    topic: TopicArn,
    confirmed: Number(SubscriptionsConfirmed ?? 0),
    pending: Number(SubscriptionsPending ?? 0),
    hasUnusableKey: keyOfSns.test(KmsMasterKeyId),
  };
}
