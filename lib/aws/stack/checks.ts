/** What `doctor` checks of a stack as a whole: its alarms, the quota of Lambda, and the keys of its buckets. */

import { GetAccountSettingsCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { GetBucketEncryptionCommand, type S3Client } from '@aws-sdk/client-s3';
import { GetTopicAttributesCommand, SNSClient } from '@aws-sdk/client-sns';
import type { ServiceOutput } from '../../settings/deployed-settings.ts';
import { type Finding, ok, type Outcome, warning } from '../../target/findings.ts';
import type { OperatorClients } from './clients.ts';
import type { StackExport } from './services.ts';

interface CheckedStack {
  readonly services: readonly ServiceOutput[];
  readonly exports: readonly StackExport[];
  /** The ARN of the topic of its alarms. Undefined: an app has removed the output. */
  readonly alarmTopic: string | undefined;
}

/** What cannot be read prevents no run. */
export async function checkStack(
  { services, exports, alarmTopic }: CheckedStack,
  clients: OperatorClients,
): Promise<readonly Finding[]> {
  // A bucket whose key a setting names is not checked.
  const buckets = new Set(services.flatMap(({ bucket, bucketKeyArn }) => (bucketKeyArn === undefined ? [bucket] : [])));
  const checks: readonly (readonly [check: string, outcome: Promise<Outcome | undefined>, permission: string])[] = [
    ...(alarmTopic === undefined
      ? []
      : [['alarms', checkAlarmTopic(clients, alarmTopic), 'sns:GetTopicAttributes on the topic'] as const]),
    ['concurrency', checkConcurrency(clients, exports), 'lambda:GetAccountSettings'],
    // Without the permission, the first run shows the problem, with the remedy.
    ...[...buckets].map((bucket) => ['bucket', checkBucket(clients.s3, bucket).catch(() => undefined), ''] as const),
  ];
  const findings = checks.map(async ([check, reading, permission]): Promise<readonly Finding[]> => {
    const outcome = await reading.catch((error: unknown) =>
      warning(`cannot be read: ${error instanceof Error ? error.message : String(error)}`, `allow ${permission}`),
    );
    return outcome === undefined ? [] : [{ check, export: null, ...outcome }];
  });
  return (await Promise.all(findings)).flat();
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
      'encrypt it with a customer managed key that CloudWatch may use; docs/alarms.md#alarms-that-arrive',
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
async function checkConcurrency(clients: OperatorClients, exports: readonly StackExport[]): Promise<Outcome> {
  const client = clients.open((config) => new LambdaClient(config));
  const { AccountLimit } = await client.send(new GetAccountSettingsCommand());
  const unreserved = AccountLimit?.UnreservedConcurrentExecutions ?? 0;
  const needed = exports.filter(({ schedule }) => schedule?.enabled === true).length;
  const needing = `${count(needed, 'scheduled export')} need${needed === 1 ? 's' : ''} ${needed}`;
  const message = `Lambda runs ${count(unreserved, 'function')} at the same time; ${needing}`;
  if (needed <= unreserved) return ok(message);
  return warning(
    `${message}. The others wait for up to ten hours, and then fail`,
    'request a higher quota of concurrent executions, or let them run at different times; ' +
      'docs/many-exports.md#concurrency-of-lambda',
  );
}

/** The key that S3 manages, which needs no permission. */
const keyOfS3 = /^(arn:.*:)?alias\/aws\/s3$/;

/** Whether the functions may use the default key of the bucket. Needs s3:GetEncryptionConfiguration. */
async function checkBucket(client: S3Client, Bucket: string): Promise<Outcome | undefined> {
  const encryption = await client.send(new GetBucketEncryptionCommand({ Bucket }));
  const [rule] = encryption.ServerSideEncryptionConfiguration?.Rules ?? [];
  const key = rule?.ApplyServerSideEncryptionByDefault?.KMSMasterKeyID ?? '';
  if (key === '' || keyOfS3.test(key)) return undefined;
  return warning(
    `the bucket ${Bucket} encrypts with the key ${key} by default, which the functions may not use: every write is denied`,
    'set bucket.kmsKeyArn to the key and deploy; nothing to do if it is the AWS managed key aws/s3. docs/bucket.md#an-existing-bucket',
  );
}
