/**
 * The permissions of a service's functions, action by action. No function may delete anything, or read or write another service's
 * part of the bucket and of the table. Exports of one service are separated by the code, which derives every key from the export.
 */

import { Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { acknowledgeWildcard } from './nag-suppressions.ts';

export interface PermissionsProps {
  readonly serviceName: string;
  readonly bucket: IBucket;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly table: ITable;
  readonly secret: ISecret;
  /** Encrypts those of the three that do not know their own key. */
  readonly encryptionKey?: IKey | undefined;
}

/** Adds permissions to a function's role. */
export type Grant = (role: Role) => void;

export interface Permissions {
  readonly grantPageLog: Grant;
  readonly grantPageStore: Grant;
  readonly grantReadApiKey: Grant;
}

/** What DynamoDB does with the key on behalf of its caller, for reads and writes. */
const tableKeyActions = [
  'kms:Decrypt',
  'kms:DescribeKey',
  'kms:Encrypt',
  'kms:GenerateDataKey',
  'kms:ReEncryptFrom',
  'kms:ReEncryptTo',
];

export function createPermissions(props: PermissionsProps): Permissions {
  const { serviceName, bucket, prefix, table, secret, encryptionKey } = props;
  return {
    grantPageLog(role) {
      role.addToPolicy(
        new PolicyStatement({
          actions: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
          resources: [table.tableArn],
          // Services share the table. The partition keys of each begin with its name.
          conditions: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': [`${serviceName}/*`] } },
        }),
      );
      const key = table.encryptionKey ?? encryptionKey;
      if (key !== undefined) grantKey(role, key, 'dynamodb', tableKeyActions);
    },
    grantPageStore(role) {
      const objects = bucket.arnForObjects(`${prefix}*`);
      grant(role, ['s3:AbortMultipartUpload', 's3:GetObject', 's3:PutObject'], objects);
      acknowledgeWildcard(role, objects, 'The objects of this service; no objects with another prefix are accessible');
      // FinishRun lists the run's folder, and without ListBucket S3 answers 403 instead of 404 for a missing object. A condition
      // on s3:prefix would undo that, because a HEAD request has no prefix. ListBucket reveals the keys, sizes and ETags of all
      // objects, but no content.
      grant(role, ['s3:ListBucket'], bucket.bucketArn);
      const key = bucket.encryptionKey ?? encryptionKey;
      if (key !== undefined) grantKey(role, key, 's3', ['kms:Decrypt', 'kms:GenerateDataKey']);
    },
    grantReadApiKey(role) {
      // An ARN ends with six random characters. They are unknown if only the secret's name is known.
      grant(role, ['secretsmanager:GetSecretValue'], secret.secretFullArn ?? `${secret.secretArn}-??????`);
      const key = secret.encryptionKey ?? encryptionKey;
      if (key !== undefined) grantKey(role, key, 'secretsmanager', ['kms:Decrypt']);
    },
  };
}

function grant(role: Role, actions: string[], resource: string): void {
  role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
}

/** Allows the key's use through `service` only. */
function grantKey(role: Role, key: IKey, service: string, actions: string[]): void {
  const { region } = Stack.of(role);
  role.addToPolicy(
    new PolicyStatement({
      actions,
      resources: [key.keyArn],
      conditions: { StringEquals: { 'kms:ViaService': `${service}.${region}.amazonaws.com` } },
    }),
  );
}
