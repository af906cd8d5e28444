/**
 * The permissions of an export's functions, action by action. No function may delete anything, or read or write another export's
 * part of the bucket and of the table.
 */

import { Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { acknowledgeWildcard } from './nag-suppressions.ts';

export interface PermissionsProps {
  readonly exportName: string;
  readonly bucket: IBucket;
  /** The prefix of every key in the bucket. */
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
  const { exportName, bucket, prefix, table, secret, encryptionKey } = props;
  return {
    grantPageLog(role) {
      role.addToPolicy(
        new PolicyStatement({
          actions: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
          resources: [table.tableArn],
          // Exports share the table; each has its own partition key.
          conditions: { 'ForAllValues:StringEquals': { 'dynamodb:LeadingKeys': [exportName] } },
        }),
      );
      const key = table.encryptionKey ?? encryptionKey;
      if (key !== undefined) grantKey(role, key, 'dynamodb', tableKeyActions);
    },
    grantPageStore(role) {
      const objects = bucket.arnForObjects(`${prefix}${exportName}/*`);
      grant(role, ['s3:AbortMultipartUpload', 's3:GetObject', 's3:PutObject'], objects);
      acknowledgeWildcard(role, objects, 'The objects of this export; no other objects in the bucket are accessible');
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
