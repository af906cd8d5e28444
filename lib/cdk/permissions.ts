/**
 * What the functions of an export may do, spelled out action by action: nothing is ever deleted, and nothing outside
 * the export's own part of the bucket is touched.
 */

import { Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { acknowledgeWildcard } from './nag-suppressions.ts';

export interface Stores {
  readonly exportName: string;
  readonly bucket: IBucket;
  /** What every key in the bucket begins with. */
  readonly prefix: string;
  readonly table: ITable;
  readonly secret: ISecret;
  /** Encrypts what of the three has no key of its own. */
  readonly encryptionKey?: IKey | undefined;
}

/** What DynamoDB does with the key in its caller's name, for reads and writes. */
const tableKeyActions = [
  'kms:Decrypt',
  'kms:DescribeKey',
  'kms:Encrypt',
  'kms:GenerateDataKey',
  'kms:ReEncryptFrom',
  'kms:ReEncryptTo',
];

/** Lets a function's role do one kind of thing. */
export type Grant = (role: Role) => void;
export type Grants = Readonly<Record<'pageLog' | 'pageStore' | 'apiKey', Grant>>;

export function grantsOf({ exportName, bucket, prefix, table, secret, encryptionKey }: Stores): Grants {
  return {
    /** Never deletes: what is logged stays logged until its time to live is up. */
    pageLog(role) {
      role.addToPolicy(
        new PolicyStatement({
          actions: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
          resources: [table.tableArn],
          // Other exports lie in the same table, each under a partition key of its own.
          conditions: { 'ForAllValues:StringEquals': { 'dynamodb:LeadingKeys': [exportName] } },
        }),
      );
      const key = table.encryptionKey ?? encryptionKey;
      if (key !== undefined) {
        allowKey(role, key, 'dynamodb', tableKeyActions);
      }
    },
    pageStore(role) {
      const objects = bucket.arnForObjects(`${prefix}${exportName}/*`);
      allow(role, ['s3:AbortMultipartUpload', 's3:GetObject', 's3:PutObject'], objects);
      acknowledgeWildcard(
        role,
        objects,
        "These are the export's own objects; nothing else in the bucket is within reach",
      );
      // By it FinishRun sees whether every page is still there, and without it S3 answers 403, not 404, for a page that is
      // not there yet. A condition on s3:prefix would spoil that: a HEAD carries no prefix. It shows the names, sizes and
      // ETags of objects, never what they hold.
      allow(role, ['s3:ListBucket'], bucket.bucketArn);
      const key = bucket.encryptionKey ?? encryptionKey;
      if (key !== undefined) allowKey(role, key, 's3', ['kms:Decrypt', 'kms:GenerateDataKey']);
    },
    apiKey(role) {
      // Where only the name is known, six random characters that AWS has added to it are not.
      allow(role, ['secretsmanager:GetSecretValue'], secret.secretFullArn ?? `${secret.secretArn}-??????`);
      const key = secret.encryptionKey ?? encryptionKey;
      if (key !== undefined) allowKey(role, key, 'secretsmanager', ['kms:Decrypt']);
    },
  };
}

function allow(role: Role, actions: string[], resource: string): void {
  role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
}

/** Only for what comes by way of `service`: the key opens nothing by itself. */
function allowKey(role: Role, key: IKey, service: string, actions: string[]): void {
  const { region } = Stack.of(role);
  role.addToPolicy(
    new PolicyStatement({
      actions,
      resources: [key.keyArn],
      conditions: { StringEquals: { 'kms:ViaService': `${service}.${region}.amazonaws.com` } },
    }),
  );
}
