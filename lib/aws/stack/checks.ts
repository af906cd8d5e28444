/** What `doctor` checks of a stack as a whole: its alarms, the quota of Lambda, and the keys of its buckets. */

import { GetAccountSettingsCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { GetBucketEncryptionCommand, type S3Client } from '@aws-sdk/client-s3';
import { GetTopicAttributesCommand, SNSClient } from '@aws-sdk/client-sns';
import type { ServiceOutput } from '../../settings/stack-output.ts';
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
  const [alarms, concurrency, buckets] = await Promise.all([
    alarmTopic === undefined ? undefined : checkAlarmTopic(clients, alarmTopic),
    checkConcurrency(clients, exports),
    checkBuckets(clients.s3, services),
  ]);
  return [
    ...(alarms === undefined ? [] : [{ check: 'alarms', export: null, ...alarms }]),
    { check: 'concurrency', export: null, ...concurrency },
    ...buckets.map((outcome) => ({ check: 'bucket', export: null, ...outcome })),
  ];
}

const unreadable =
  (what: string, remedy: string) =>
  (error: unknown): Outcome =>
    warning(`${what} cannot be read: ${error instanceof Error ? error.message : String(error)}`, remedy);

const count = (number: number, noun: string): string =>
  `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

/** The key of SNS, whose policy cannot allow CloudWatch to use it. */
const keyOfSns = /^(arn:.*:)?alias\/aws\/sns$/;

/** Whether anyone would receive a notification of an alarm. Needs sns:GetTopicAttributes. */
async function checkAlarmTopic(clients: OperatorClients, topic: string): Promise<Outcome> {
  const client = clients.open((config) => new SNSClient(config));
  const remedy = 'allow sns:GetTopicAttributes on it, or check its subscriptions';
  return await client.send(new GetTopicAttributesCommand({ TopicArn: topic })).then(
    ({ Attributes = {} }) => {
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
    },
    unreadable('the topic', remedy),
  );
}

const concurrencyDocs = 'docs/many-exports.md#concurrency-of-lambda';

/** Whether Lambda runs as many functions at the same time as the schedules may need. Needs lambda:GetAccountSettings. */
async function checkConcurrency(clients: OperatorClients, exports: readonly StackExport[]): Promise<Outcome> {
  const client = clients.open((config) => new LambdaClient(config));
  const remedy = `allow lambda:GetAccountSettings, or compare the quota of Lambda yourself; ${concurrencyDocs}`;
  return await client.send(new GetAccountSettingsCommand()).then(
    ({ AccountLimit }) => {
      const unreserved = AccountLimit?.UnreservedConcurrentExecutions ?? 0;
      const shared = exports.filter(({ service }) => service.reservedConcurrency === undefined);
      const needed = shared.filter(({ schedule }) => schedule?.enabled === true).length;
      const needing = `${count(needed, 'scheduled export')} need${needed === 1 ? 's' : ''} ${needed}`;
      const message = `Lambda runs ${count(unreserved, 'function')} at the same time; ${needing}`;
      if (needed <= unreserved) return ok(message);
      return warning(
        `${message}. The others wait for up to ten hours, and then fail`,
        `request a higher quota of concurrent executions, or let them run at different times; ${concurrencyDocs}`,
      );
    },
    unreadable('the quota of concurrent executions', remedy),
  );
}

/** The key that S3 manages, which needs no permission. */
const keyOfS3 = /^(arn:.*:)?alias\/aws\/s3$/;

/**
 * Whether the functions may use the default key of each bucket, unless a setting names it. Needs s3:GetEncryptionConfiguration: without
 * it, the first run shows the problem, with the remedy.
 */
async function checkBuckets(client: S3Client, services: readonly ServiceOutput[]): Promise<readonly Outcome[]> {
  const buckets = new Set(services.flatMap(({ bucket, bucketKeyArn }) => (bucketKeyArn === undefined ? [bucket] : [])));
  const outcomes = await Promise.all(
    [...buckets].map(async (Bucket): Promise<readonly Outcome[]> => {
      const encryption = await client.send(new GetBucketEncryptionCommand({ Bucket })).catch(() => undefined);
      const [rule] = encryption?.ServerSideEncryptionConfiguration?.Rules ?? [];
      const key = rule?.ApplyServerSideEncryptionByDefault?.KMSMasterKeyID ?? '';
      if (key === '' || keyOfS3.test(key)) return [];
      return [
        warning(
          `the bucket ${Bucket} encrypts with the key ${key} by default, which the functions may not use: every write is denied`,
          'set bucket.kmsKeyArn to the key and deploy; nothing to do if it is the AWS managed key aws/s3. docs/bucket.md#an-existing-bucket',
        ),
      ];
    }),
  );
  return outcomes.flat();
}
