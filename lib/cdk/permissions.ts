/**
 * The permissions of a service's functions, action by action, and those of its consumers. No function may delete anything, or read
 * or write another service's part of the bucket and of the table. Exports of one service are separated by the code, which derives
 * every key from the export.
 */

import { ArnFormat, Stack } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { ISecurityGroup, ISubnet } from 'aws-cdk-lib/aws-ec2';
import {
  AccountPrincipal,
  Effect,
  Grant,
  type IGrantable,
  type IPrincipal,
  PolicyStatement,
  type Role,
} from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct, IConstruct } from 'constructs';
import { acknowledgeWildcard } from './nag-suppressions.ts';

export interface PermissionsProps {
  readonly serviceName: string;
  readonly bucket: IBucket;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly table: ITable;
  /** The API key. Undefined: the service needs none. */
  readonly secret: ISecret | undefined;
  /** The client certificate, and the credentials for the proxy. */
  readonly networkSecrets: readonly ISecret[];
  readonly keys: StorageKeys;
  /** Whether pages and manifests have tags. */
  readonly hasObjectTags: boolean;
}

/** The customer managed keys of what a service stores. Undefined: a key that AWS owns or manages. */
export interface StorageKeys {
  readonly bucket: IKey | undefined;
  readonly table: IKey | undefined;
  /** That of the API key. */
  readonly secret: IKey | undefined;
  /** That of the client certificate and the credentials for the proxy. */
  readonly networkSecrets: IKey | undefined;
}

/** Adds permissions to a function's role. */
export type AddPermissions = (role: Role) => void;

export interface Permissions {
  readonly grantPageLog: AddPermissions;
  readonly grantPageStore: AddPermissions;
  /** The API key, the client certificate and the credentials for the proxy. */
  readonly grantReadSecrets: AddPermissions;
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
  const { serviceName, bucket, prefix, table, secret, networkSecrets, keys, hasObjectTags } = props;
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
      if (keys.table !== undefined) grantKey(role, keys.table, 'dynamodb', tableKeyActions);
    },
    grantPageStore(role) {
      const objects = bucket.arnForObjects(`${prefix}*`);
      grant(
        role,
        ['s3:AbortMultipartUpload', 's3:GetObject', 's3:PutObject', ...(hasObjectTags ? ['s3:PutObjectTagging'] : [])],
        objects,
      );
      acknowledgeWildcard(role, objects, 'The objects of this service; no objects with another prefix are accessible');
      // FinishRun lists the run's folder, and without ListBucket S3 answers 403 instead of 404 for a missing object. A condition
      // on s3:prefix would undo that, because a HEAD request has no prefix. ListBucket reveals the keys, sizes and ETags of all
      // objects, but no content.
      grant(role, ['s3:ListBucket'], bucket.bucketArn);
      if (keys.bucket !== undefined) grantKey(role, keys.bucket, 's3', ['kms:Decrypt', 'kms:GenerateDataKey']);
    },
    grantReadSecrets(role) {
      const all = [
        ...(secret === undefined ? [] : [{ each: secret, key: keys.secret }]),
        ...networkSecrets.map((each) => ({ each, key: keys.networkSecrets })),
      ];
      for (const { each, key } of all) {
        // An ARN ends with six random characters. They are unknown if only the secret's name is known.
        grant(role, ['secretsmanager:GetSecretValue'], each.secretFullArn ?? `${each.secretArn}-??????`);
        if (key !== undefined) grantKey(role, key, 'secretsmanager', ['kms:Decrypt']);
      }
    },
  };
}

/** The part of a bucket that a consumer may read. */
export interface ReadableObjects {
  readonly bucket: IBucket;
  /** The prefix of every readable key: empty, or ending with a slash. */
  readonly prefix: string;
  /** Encrypts the bucket, if it has a customer managed key. */
  readonly key: IKey | undefined;
}

/** Lets a consumer read objects and list their folders. The same as the policy in docs/consumers.md, "Permissions". */
export function grantReadObjects(grantee: IGrantable, { bucket, prefix, key }: ReadableObjects): Grant {
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
    ...(prefix === '' ? {} : { conditions: { StringLike: { 's3:prefix': `${prefix}*` } } }),
  });
  const objects = read.combine(list);
  if (key === undefined) return objects;
  const decrypt = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['kms:Decrypt'],
    resourceArns: [key.keyArn],
    resource: key,
    resourceSelfArns: ['*'],
    conditions: throughS3(bucket),
  });
  return objects.combine(decrypt);
}

/**
 * Lets accounts read objects and list their folders: the same as `grantReadObjects`, in the policies of the bucket and of the key. In
 * each account, an administrator grants the same to its principals. Returns whether the policy of the bucket could be changed.
 */
export function grantReaderAccounts(
  scope: Construct,
  { bucket, prefix, key }: ReadableObjects,
  accounts: readonly string[],
): boolean {
  const principals = accountPrincipals(accounts);
  const read = new PolicyStatement({
    principals,
    actions: ['s3:GetObject'],
    resources: [bucket.arnForObjects(`${prefix}*`)],
  });
  const list = new PolicyStatement({
    principals,
    actions: ['s3:ListBucket'],
    resources: [bucket.bucketArn],
    ...(prefix === '' ? {} : { conditions: { StringLike: { 's3:prefix': `${prefix}*` } } }),
  });
  const added = [read, list].map((statement) => bucket.addToResourcePolicy(statement).statementAdded);
  key?.addToResourcePolicy(readerKeyStatement(scope, accounts));
  return added.every(Boolean);
}

/** The statement in the policy of a key that lets accounts decrypt with it, through S3 only. `*` is the key itself. */
export function readerKeyStatement(scope: Construct, accounts: readonly string[]): PolicyStatement {
  return new PolicyStatement({
    principals: accountPrincipals(accounts),
    actions: ['kms:Decrypt'],
    resources: ['*'],
    conditions: throughS3(scope),
  });
}

/** A key is used through S3 only, in the region of `scope`. */
function throughS3(scope: IConstruct) {
  const { region, urlSuffix } = Stack.of(scope);
  return { StringEquals: { 'kms:ViaService': `s3.${region}.${urlSuffix}` } };
}

const accountPrincipals = (accounts: readonly string[]): IPrincipal[] =>
  accounts.map((account) => new AccountPrincipal(account) as IPrincipal);

/**
 * Lets Lambda create and delete the network interfaces of a function, in this account and in subnets that another account shares
 * with it. Lambda uses the function's role for that, so the function's own code is denied the same actions.
 */
export function grantNetworkInterfaces(
  role: Role,
  subnets: readonly ISubnet[],
  securityGroups: readonly ISecurityGroup[],
): void {
  const stack = Stack.of(role);
  const arnOf = (resource: string, resourceName: string, account = stack.account) =>
    stack.formatArn({ service: 'ec2', resource, resourceName, account, arnFormat: ArnFormat.SLASH_RESOURCE_NAME });
  // Not network-interface/*: "If you don't specify a resource ID for DeleteNetworkInterface in the execution role, your function may
  // not be able to access the VPC. Either specify a unique resource ID, or include all resource IDs, for example
  // "Resource": "arn:aws:ec2:us-west-2:123456789012:*/*"."
  // https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
  const interfaces = arnOf('*', '*');
  // Another account may own them and share them with this one.
  const network = [
    ...subnets.map(({ subnetId }) => arnOf('subnet', subnetId, '*')),
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
  acknowledgeWildcard(
    role,
    interfaces,
    'Lambda creates and names the network interfaces, and AWS documents this resource for their deletion',
  );
  for (const arn of network) {
    acknowledgeWildcard(role, arn, 'One subnet or security group; the wildcard is the account, which may share it');
  }
}

function grant(role: Role, actions: string[], resource: string): void {
  role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
}

/** Allows the key's use through `service` only. */
export function grantKey(role: Role, key: IKey, service: string, actions: string[]): void {
  const { region, urlSuffix } = Stack.of(role);
  role.addToPolicy(
    new PolicyStatement({
      actions,
      resources: [key.keyArn],
      conditions: { StringEquals: { 'kms:ViaService': `${service}.${region}.${urlSuffix}` } },
    }),
  );
}
