/** Where alarms go: a topic of the stack's own, or one that exists. */

import { RemovalPolicy, Stack } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Construct } from 'constructs';

export interface AlarmTopicSettings {
  readonly email?: string | undefined;
  readonly existingTopicArn?: string | undefined;
}

export function alarmTopic(scope: Construct, { email, existingTopicArn }: AlarmTopicSettings): ITopic {
  if (existingTopicArn !== undefined) return Topic.fromTopicArn(scope, 'Alarms', existingTopicArn);
  const topic = new Topic(scope, 'Alarms', {
    displayName: 'Report Exporter alarms',
    enforceSSL: true,
    masterKey: alarmKey(scope),
  });
  // A topic's policy, once it has one, replaces what SNS allows by default: the account's own alarms included.
  topic.addToResourcePolicy(
    new PolicyStatement({
      actions: ['sns:Publish'],
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      resources: [topic.topicArn],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
  if (email !== undefined) topic.addSubscription(new EmailSubscription(email));
  return topic;
}

/** A key of its own: CloudWatch may not use the one that AWS keeps for SNS, and alarms would vanish without a word. */
function alarmKey(scope: Construct): Key {
  const key = new Key(scope, 'AlarmsKey', {
    description: 'Encrypts the alarms of Report Exporter on their way',
    enableKeyRotation: true,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  key.addToResourcePolicy(
    new PolicyStatement({
      actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      resources: ['*'],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
  return key;
}
