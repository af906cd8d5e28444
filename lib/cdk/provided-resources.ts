/** What the app provides and cannot be changed from here: the bucket and the key. Warnings say what must be added to them. */

import { Annotations, ArnFormat, Stack, Token } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { runObjectsPattern } from '../core/storage/keys.ts';
import { isProtected, overwritesStatement } from './storage/stores.ts';

/** Warns if nothing in the policy of the bucket, as far as it is known, protects what is exported to `prefix`. */
export function checkBucket(scope: Construct, bucket: IBucket, prefix: string): void {
  if (isProtected(bucket)) return;
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
 * The key for log groups: `key`, if CloudWatch Logs may use it. The policy of a key of this app gets the statement; that of another one
 * cannot be changed, so `isAllowed` says whether it has it.
 */
export function keyOfLogs(scope: Construct, key: IKey | undefined, isAllowed: boolean | undefined): IKey | undefined {
  if (key === undefined || isAllowed === false) return undefined;
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
  if (key.addToResourcePolicy(statement).statementAdded || isAllowed === true) return key;
  Annotations.of(scope).addWarningV2(
    'report-exporter:log-encryption',
    'The log groups are not encrypted with the key, whose policy cannot be changed here and may not let CloudWatch Logs use it. Add the ' +
      'statement in docs/security.md, "Encryption of logs", to the policy, and set encryptLogs to true; or set it to false',
  );
  return undefined;
}
