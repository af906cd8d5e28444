/**
 * The bucket for pages and the table for the page log, which several services may share, and the secret for the API key of each
 * service. All are retained when the stack is deleted, the bucket with its policy. Bucket and secret are deleted if their creation is
 * rolled back: otherwise each failed first deployment would leave an empty one. The table is kept, because its deletion protection
 * would block the rollback.
 *
 * What the app provides cannot be changed from here. A warning says what must be added to the policy of its bucket.
 */

import { Annotations, ArnFormat, Duration, RemovalPolicy, Stack, Token } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type ITable, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import { AnyPrincipal, Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, type IBucket, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { type CfnSecret, type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { runObjectsPattern } from '../core/storage/keys.ts';
import { acknowledge } from './nag-suppressions.ts';

/** Except if the creation is rolled back. */
const retained = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE;

/** Creates the bucket for pages and manifests. */
export function createBucket(scope: Construct, id: string, key: IKey | undefined): IBucket {
  const bucket = new Bucket(scope, id, {
    encryption: key === undefined ? BucketEncryption.S3_MANAGED : BucketEncryption.KMS,
    encryptionKey: key,
    bucketKeyEnabled: key && true,
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
    enforceSSL: true,
    minimumTLSVersion: 1.2,
    versioned: true,
    // A function that is killed leaves the parts of its upload, which are invisible but billed.
    lifecycleRules: [{ id: 'unfinished-uploads', abortIncompleteMultipartUploadAfter: Duration.days(2) }],
    removalPolicy: retained,
  });
  bucket.addToResourcePolicy(overwritesStatement(bucket.arnForObjects(runObjectsPattern)));
  // Without it, the retained bucket would accept overwrites, and connections without TLS.
  bucket.policy?.applyRemovalPolicy(retained);
  acknowledge(
    bucket,
    'AwsSolutions-S1',
    'Access is recorded by CloudTrail data events, which are configured per account; ' +
      'for server access logs as well, import an existing bucket that has them',
  );
  return bucket;
}

/**
 * Denies every write of a page or a manifest without If-None-Match, so that none is ever overwritten, whatever a role or the code
 * allows. Only `latest.json` is replaced. The second condition excepts the creation and the parts of a multipart upload, which cannot
 * have the header; its completion has it. Copying an object to such a key is denied as well. In a bucket that is created here, the
 * statement applies to all of it, because services with other prefixes may share it.
 *
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
 */
export function overwritesStatement(objects: string): PolicyStatement {
  return new PolicyStatement({
    sid: statementId,
    effect: Effect.DENY,
    principals: [new AnyPrincipal()],
    actions: ['s3:PutObject'],
    resources: [objects],
    conditions: { Null: { 's3:if-none-match': 'true' }, Bool: { 's3:ObjectCreationOperation': 'true' } },
  });
}

const statementId = 'DenyOverwrites';

/** Warns if nothing in the policy of the bucket, as far as it is known, protects what is exported to `prefix`. */
export function checkBucket(scope: Construct, bucket: IBucket, prefix: string): void {
  const policy = bucket instanceof Bucket ? bucket.policy?.document.toJSON() : undefined;
  if (JSON.stringify(policy ?? {}).includes(`"${statementId}"`)) return;
  const name = Token.isUnresolved(bucket.bucketName) ? '<bucket>' : bucket.bucketName;
  const { partition } = Stack.of(scope);
  const arn = `arn:${Token.isUnresolved(partition) ? 'aws' : partition}:s3:::${name}/${prefix}${runObjectsPattern}`;
  const statement = JSON.stringify(overwritesStatement(arn).toStatementJson());
  Annotations.of(scope).addWarningV2(
    'report-exporter:bucket',
    `Nothing denies overwriting what is exported to the bucket ${name}. Add this statement to its policy: ${statement}. Also add a lifecycle ` +
      'rule that aborts incomplete multipart uploads: docs/bucket.md, "An existing bucket"',
  );
}

/**
 * The table of the page log: partitions of each service and export, and entries that expire. Not TableV2, which is for tables in several
 * regions and, with a customer managed key, needs to know its region before deployment.
 */
export function createPageLogTable(scope: Construct, key: IKey | undefined): ITable {
  return new Table(scope, 'PageLog', {
    partitionKey: { name: 'pk', type: AttributeType.STRING },
    sortKey: { name: 'sk', type: AttributeType.STRING },
    timeToLiveAttribute: 'expiresAt',
    billingMode: BillingMode.PAY_PER_REQUEST,
    encryption: key && TableEncryption.CUSTOMER_MANAGED,
    encryptionKey: key,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    deletionProtection: true,
    removalPolicy: RemovalPolicy.RETAIN,
  });
}

/** `nameOrArn` is the name or the complete ARN of an existing secret. */
export function importSecret(scope: Construct, id: string, nameOrArn: string): ISecret {
  return nameOrArn.startsWith('arn:')
    ? Secret.fromSecretCompleteArn(scope, id, nameOrArn)
    : Secret.fromSecretNameV2(scope, id, nameOrArn);
}

/** Creates an empty secret for the API key of a service. */
export function createApiKeySecret(scope: Construct, id: string, serviceName: string, key: IKey | undefined): ISecret {
  const secret = new Secret(scope, id, {
    description: `API key of service ${serviceName} for Report Exporter. Empty until you set it.`,
    encryptionKey: key,
    removalPolicy: retained,
  });
  // Empty instead of CDK's random value, which the service would reject for no apparent reason.
  (secret.node.defaultChild as CfnSecret).generateSecretString = undefined;
  acknowledge(
    secret,
    'AwsSolutions-SMG4',
    'Only the issuer of the API key can rotate it; the functions read a new key within minutes',
  );
  return secret;
}

/** The key for log groups: `key`, if this app can let CloudWatch Logs use it. */
export function keyOfLogs(scope: Construct, key: IKey | undefined): IKey | undefined {
  const stack = Stack.of(scope);
  const logGroups = stack.formatArn({
    service: 'logs',
    resource: 'log-group',
    resourceName: '*',
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  const statement = new PolicyStatement({
    sid: 'EncryptLogs',
    principals: [new ServicePrincipal(`logs.${stack.region}.amazonaws.com`)],
    actions: ['kms:Decrypt*', 'kms:Describe*', 'kms:Encrypt*', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': logGroups } },
  });
  return key?.addToResourcePolicy(statement).statementAdded === true ? key : undefined;
}
