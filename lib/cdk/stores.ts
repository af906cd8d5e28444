/**
 * The bucket for pages and the table for the page log, which several services may share, and the secret for the API key
 * of each service. All are retained when the stack is deleted, the bucket with its policy. Bucket and secret are
 * deleted if their creation is rolled back: otherwise each failed first deployment would leave an empty one. The table
 * is kept, because its deletion protection would block the rollback.
 */

import { ArnFormat, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type ITable, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import { AnyPrincipal, Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type LogGroupProps, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { BlockPublicAccess, Bucket, BucketEncryption, type IBucket, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { type CfnSecret, type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { ExportError } from '../core/errors.ts';
import { runObjectsPattern } from '../core/storage/keys.ts';
import { needsSecret, renewsSecret } from '../service/api/auth/kinds.ts';
import type { ServiceDeploymentSettings } from '../settings/deployment-settings.ts';
import type { ServiceSettings } from '../settings/settings.ts';

export interface ServiceStores {
  readonly serviceName: string;
  readonly bucket: IBucket;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly table: ITable;
  /** The API key. Undefined: the service needs none. */
  readonly secret: ISecret | undefined;
  /** Whether each use of the secret replaces its refresh token. */
  readonly isSecretRenewed: boolean;
  /** The client certificate, and the credentials for the proxy. */
  readonly networkSecrets: readonly ISecret[];
  readonly keys: StorageKeys;
}

/** The customer managed keys of what a service stores. Undefined: a key that AWS owns or manages. */
interface StorageKeys {
  readonly bucket: IKey | undefined;
  readonly table: IKey | undefined;
  readonly secret: IKey | undefined;
  readonly networkSecrets: IKey | undefined;
}

interface StoreProps {
  readonly bucket?: IBucket;
  readonly table?: ITable;
  readonly secret?: ISecret;
  readonly encryptionKey?: IKey;
}

/** The stores that the props name, and those that are created because they name none. */
export function createStores(
  scope: Construct,
  props: StoreProps,
  { name, prefix, service }: Omit<ServiceDeploymentSettings, 'exports'>,
): ServiceStores {
  const { encryptionKey } = props;
  const bucket = props.bucket ?? createBucket(scope, 'Bucket', encryptionKey);
  const table = props.table ?? createPageLogTable(scope, encryptionKey);
  const secret = secretOf(scope, props, name, service);
  const networkSecrets = Object.entries({
    ClientCertificate: service.tls?.clientCertificateSecret,
    ProxyCredentials: service.proxyCredentialsSecret,
  }).flatMap(([id, secretId]) => (secretId === undefined ? [] : [importSecret(scope, id, secretId)]));
  return {
    serviceName: name,
    bucket,
    prefix,
    table,
    secret,
    isSecretRenewed: renewsSecret(service),
    networkSecrets,
    keys: {
      bucket: bucket.encryptionKey ?? encryptionKey,
      table: table.encryptionKey ?? encryptionKey,
      secret: secret?.encryptionKey ?? encryptionKey,
      networkSecrets: encryptionKey,
    },
  };
}

function secretOf(
  scope: Construct,
  { secret, encryptionKey }: StoreProps,
  serviceName: string,
  service: ServiceSettings,
): ISecret | undefined {
  if (!needsSecret(service)) {
    if (secret === undefined) return undefined;
    const message = `${scope.node.path} secret: has no meaning: service.api.auth is none`;
    throw new ExportError('ConfigurationError', message);
  }
  const { existing } = service.apiKeySecret ?? {};
  if (secret !== undefined) return secret;
  if (existing !== undefined) return importSecret(scope, 'ApiKey', existing);
  return createApiKeySecret(scope, 'ApiKey', serviceName, encryptionKey);
}

/** Except if the creation is rolled back. */
const retained = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE;

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
  return bucket;
}

/**
 * Denies every write of a page or a manifest without If-None-Match, so that none is ever overwritten, whatever a role
 * or the code allows. Only `latest.json` is replaced. The second condition excepts the creation and the parts of a
 * multipart upload, which cannot have the header; its completion has it. Copying an object to such a key is denied as
 * well. In a bucket that is created here, the statement applies to all of it, because services with other prefixes may
 * share it.
 *
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
 */
function overwritesStatement(objects: string): PolicyStatement {
  return new PolicyStatement({
    sid: 'DenyOverwrites',
    effect: Effect.DENY,
    principals: [new AnyPrincipal()],
    actions: ['s3:PutObject'],
    resources: [objects],
    conditions: { Null: { 's3:if-none-match': 'true' }, Bool: { 's3:ObjectCreationOperation': 'true' } },
  });
}

/**
 * The table of the page log: partitions of each service and export, and entries that expire. Not TableV2, which is for
 * tables in several regions and, with a customer managed key, needs to know its region before deployment.
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
function importSecret(scope: Construct, id: string, nameOrArn: string): ISecret {
  return nameOrArn.startsWith('arn:')
    ? Secret.fromSecretCompleteArn(scope, id, nameOrArn)
    : Secret.fromSecretNameV2(scope, id, nameOrArn);
}

/** Creates an empty secret for the API key of a service. */
function createApiKeySecret(scope: Construct, id: string, serviceName: string, key: IKey | undefined): ISecret {
  const secret = new Secret(scope, id, {
    description: `API key of service ${serviceName} for Report Exporter. Empty until you set it.`,
    encryptionKey: key,
    removalPolicy: retained,
  });
  // Empty instead of CDK's random value, which the service would reject for no apparent reason.
  (secret.node.defaultChild as CfnSecret).generateSecretString = undefined;
  return secret;
}

/** The properties of each log group of a service. */
export const logSettings = (
  scope: Construct,
  { logRetention, encryptionKey }: { readonly logRetention?: RetentionDays; readonly encryptionKey?: IKey },
): LogGroupProps => ({
  retention: logRetention ?? RetentionDays.THREE_MONTHS,
  encryptionKey: keyOfLogs(scope, encryptionKey),
  removalPolicy: RemovalPolicy.DESTROY,
});

/** `key`, if this app can let CloudWatch Logs use it. */
function keyOfLogs(scope: Construct, key: IKey | undefined): IKey | undefined {
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
