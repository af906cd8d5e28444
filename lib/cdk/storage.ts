/**
 * What all exports of a stack share: the bucket with the pages, the table with the page log, the secret with the API key.
 * All three outlive the stack.
 *
 * CDK's classes say `| undefined` where its interfaces do not, which our compiler minds: hence the assertions.
 */

import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type ITable, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  BlockPublicAccess,
  Bucket,
  BucketEncryption,
  type CfnBucket,
  type IBucket,
  ObjectOwnership,
} from 'aws-cdk-lib/aws-s3';
import { type CfnSecret, type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { acknowledge } from './nag-suppressions.ts';

export function reportBucket(scope: Construct, existing: string | undefined, key: IKey | undefined): IBucket {
  if (existing !== undefined) return Bucket.fromBucketName(scope, 'Reports', existing);
  const bucket = new Bucket(scope, 'Reports', {
    ...(key === undefined
      ? { encryption: BucketEncryption.S3_MANAGED }
      : { encryption: BucketEncryption.KMS, encryptionKey: key, bucketKeyEnabled: true }),
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
    enforceSSL: true,
    minimumTLSVersion: 1.2,
    versioned: true,
    // A function that is cut off leaves the parts of its upload behind; nobody sees them, but they cost.
    lifecycleRules: [{ id: 'unfinished-uploads', abortIncompleteMultipartUploadAfter: Duration.days(2) }],
    removalPolicy: RemovalPolicy.RETAIN,
  });
  // Consumers are told of each new object. CDK's own switch for this deploys a function; CloudFormation's does not.
  (bucket.node.defaultChild as CfnBucket).notificationConfiguration = {
    eventBridgeConfiguration: { eventBridgeEnabled: true },
  };
  acknowledge(
    bucket,
    'AwsSolutions-S1',
    'Who reads and writes is recorded by the data events of CloudTrail, which are switched on for an account, not for one bucket; ' +
      'where access logs are wanted as well, bring a bucket of your own that has them',
  );
  return bucket as IBucket;
}

/**
 * As the DynamoDB page log has it: one partition an export, and entries that expire. CDK's newer TableV2 is for tables
 * in several regions, and with a customer's key would have to know its region before it is deployed.
 */
export function pageLogTable(scope: Construct, key: IKey | undefined): ITable {
  return new Table(scope, 'PageLog', {
    partitionKey: { name: 'pk', type: AttributeType.STRING },
    sortKey: { name: 'sk', type: AttributeType.STRING },
    timeToLiveAttribute: 'expiresAt',
    billingMode: BillingMode.PAY_PER_REQUEST,
    ...(key === undefined ? {} : { encryption: TableEncryption.CUSTOMER_MANAGED, encryptionKey: key }),
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    deletionProtection: true,
    removalPolicy: RemovalPolicy.RETAIN,
  }) as ITable;
}

/** `existing` is a name or a whole ARN. */
export function apiKeySecret(scope: Construct, existing: string | undefined, key: IKey | undefined): ISecret {
  if (existing?.startsWith('arn:')) return Secret.fromSecretCompleteArn(scope, 'ApiKey', existing);
  if (existing !== undefined) return Secret.fromSecretNameV2(scope, 'ApiKey', existing);
  const secret = new Secret(scope, 'ApiKey', {
    description: 'API key of the Report Export Service, for Report Exporter. Empty until you put the key in.',
    ...(key === undefined ? {} : { encryptionKey: key }),
    removalPolicy: RemovalPolicy.RETAIN,
  });
  // Empty, not random: a made-up key would be sent to the service, and refused for a reason nobody could see.
  (secret.node.defaultChild as CfnSecret).generateSecretString = undefined;
  acknowledge(
    secret,
    'AwsSolutions-SMG4',
    'Only whoever issues the key can rotate it; a new one is read within minutes',
  );
  return secret as ISecret;
}
