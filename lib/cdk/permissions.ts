/**
 * The permissions of a service's functions, action by action, and those of its consumers. No function may delete
 * anything, or read or write another service's part of the bucket and of the table. Exports of one service are
 * separated by the code, which derives every key from the export.
 */

import { ArnFormat, Stack } from 'aws-cdk-lib';
import { Effect, Grant, type IGrantable, PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { IConstruct } from 'constructs';
import type { FunctionNetwork } from './network.ts';
import type { ServiceStores } from './stores.ts';

export function grantPageLog(role: Role, { serviceName, table, keys }: ServiceStores): void {
  role.addToPolicy(
    new PolicyStatement({
      actions: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
      resources: [table.tableArn],
      // Services share the table. The partition keys of each begin with its name.
      conditions: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': [`${serviceName}/*`] } },
    }),
  );
  // What DynamoDB does with the key on behalf of its caller, for reads and writes.
  grantKey(role, keys.table, 'dynamodb', [
    'kms:Decrypt',
    'kms:DescribeKey',
    'kms:Encrypt',
    'kms:GenerateDataKey',
    'kms:ReEncryptFrom',
    'kms:ReEncryptTo',
  ]);
}

export function grantPageStore(role: Role, { bucket, prefix, keys }: ServiceStores): void {
  const objects = bucket.arnForObjects(`${prefix}*`);
  grant(role, ['s3:AbortMultipartUpload', 's3:GetObject', 's3:PutObject'], objects);
  // FinishRun lists the run's folder, and without ListBucket S3 answers 403 instead of 404 for a missing object. A
  // condition on s3:prefix would undo that, because a HEAD request has no prefix. ListBucket reveals the keys, sizes
  // and ETags of all objects, but no content.
  grant(role, ['s3:ListBucket'], bucket.bucketArn);
  grantKey(role, keys.bucket, 's3', ['kms:Decrypt', 'kms:GenerateDataKey']);
}

/** Grants the API key, which may be a refresh token that is replaced, the certificate and the proxy credentials. */
export function grantSecrets(role: Role, { secret, isSecretRenewed, networkSecrets, keys }: ServiceStores): void {
  const grantUse = (each: ISecret, key: IKey | undefined, isRenewed = false) => {
    const actions = ['secretsmanager:GetSecretValue', ...(isRenewed ? ['secretsmanager:PutSecretValue'] : [])];
    // An ARN ends with six random characters. They are unknown if only the secret's name is known.
    grant(role, actions, each.secretFullArn ?? `${each.secretArn}-??????`);
    grantKey(role, key, 'secretsmanager', ['kms:Decrypt', ...(isRenewed ? ['kms:GenerateDataKey'] : [])]);
  };
  if (secret !== undefined) grantUse(secret, keys.secret, isSecretRenewed);
  for (const each of networkSecrets) grantUse(each, keys.networkSecrets);
}

/**
 * Lets a consumer read objects and list their folders. The same as the policy in docs/consumers.md, "Permissions". A
 * principal in another account gets it from the policies of the bucket and of the key.
 */
export function grantReadObjects(grantee: IGrantable, bucket: IBucket, prefix: string, key: IKey | undefined): Grant {
  const read = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [bucket.arnForObjects(`${prefix}*`)],
    resource: bucket,
  });
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
    // Without a prefix, every folder of the bucket is the service's.
    conditions: prefix === '' ? undefined : { StringLike: { 's3:prefix': `${prefix}*` } },
  });
  const objects = read.combine(list);
  if (key === undefined) return objects;
  const decrypt = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['kms:Decrypt'],
    resourceArns: [key.keyArn],
    resource: key,
    resourceSelfArns: ['*'],
    conditions: viaService(bucket, 's3'),
  });
  return objects.combine(decrypt);
}

/**
 * Lets Lambda create and delete the network interfaces of a function, in this account and in subnets that another
 * account shares with it. Lambda uses the function's role for that, so the function's own code is denied the same
 * actions.
 */
export function grantNetworkInterfaces(role: Role, { vpcSubnets, securityGroups = [] }: FunctionNetwork): void {
  const stack = Stack.of(role);
  const arnOf = (resource: string, resourceName: string, account = stack.account) =>
    stack.formatArn({ service: 'ec2', resource, resourceName, account, arnFormat: ArnFormat.SLASH_RESOURCE_NAME });
  // Not network-interface/*: "If you don't specify a resource ID for DeleteNetworkInterface in the execution role, your
  // function may not be able to access the VPC. Either specify a unique resource ID, or include all resource IDs, for
  // example "Resource": "arn:aws:ec2:us-west-2:123456789012:*/*"."
  // https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
  const interfaces = arnOf('*', '*');
  // Another account may own them and share them with this one.
  const network = [
    ...(vpcSubnets?.subnets ?? []).map(({ subnetId }) => arnOf('subnet', subnetId, '*')),
    ...securityGroups.map(({ securityGroupId }) => arnOf('security-group', securityGroupId, '*')),
  ];
  const onInterfaces = [
    'ec2:AssignPrivateIpAddresses',
    'ec2:CreateNetworkInterface',
    'ec2:DeleteNetworkInterface',
    'ec2:UnassignPrivateIpAddresses',
  ];
  const describe = ['ec2:DescribeNetworkInterfaces', 'ec2:DescribeSubnets'];
  role.addToPolicy(new PolicyStatement({ actions: onInterfaces, resources: [interfaces] }));
  role.addToPolicy(new PolicyStatement({ actions: ['ec2:CreateNetworkInterface'], resources: network }));
  role.addToPolicy(new PolicyStatement({ actions: describe, resources: ['*'] }));
  role.addToPolicy(
    new PolicyStatement({
      effect: Effect.DENY,
      actions: [...onInterfaces, ...describe],
      resources: ['*'],
      // Only requests of a function's code have this key.
      conditions: { Null: { 'lambda:SourceFunctionArn': 'false' } },
    }),
  );
}

function grant(role: Role, actions: string[], resource: string): void {
  role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
}

/** Allows the use of the key, if there is one, through `service` only. */
export function grantKey(role: Role, key: IKey | undefined, service: string, actions: string[]): void {
  if (key === undefined) return;
  role.addToPolicy(new PolicyStatement({ actions, resources: [key.keyArn], conditions: viaService(role, service) }));
}

/** A key is used through this service only, in the region of `scope`. */
function viaService(scope: IConstruct, service: string) {
  const { region, urlSuffix } = Stack.of(scope);
  return { StringEquals: { 'kms:ViaService': `${service}.${region}.${urlSuffix}` } };
}
