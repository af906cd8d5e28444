/**
 * The check of `doctor` whether the policy of an existing bucket accepts how the functions write: with or without
 * headers for encryption.
 */

import { GetBucketPolicyCommand, type S3Client } from '@aws-sdk/client-s3';
import type { ServiceResources } from '../../settings/deployed-settings.ts';
import { ok, type Outcome, problem, warning } from './findings.ts';
import { encryptionWith, missingBucket } from '../s3/objects.ts';

/** Checks the bucket of `services`, which share it. Needs s3:GetBucketPolicy. */
export async function checkBucket(
  client: S3Client,
  Bucket: string,
  services: readonly ServiceResources[],
): Promise<Outcome> {
  let statements: readonly Statement[] = [];
  try {
    const { Policy = '{}' } = await client.send(new GetBucketPolicyCommand({ Bucket }));
    statements = listOf((JSON.parse(Policy) as { readonly Statement?: Statement | Statement[] }).Statement);
  } catch (error) {
    const missing = missingBucket(error, { Bucket });
    if (missing !== undefined) return problem(missing, 'deploy again when the bucket is there');
    const { name, message } = error as Error;
    if (name !== 'NoSuchBucketPolicy') {
      return warning(`its policy cannot be read: ${message}`, 'allow s3:GetBucketPolicy on the bucket');
    }
  }
  const refusals = services.flatMap((service) => {
    const found = statements.find((statement) => deniesWrites(statement, service));
    return found === undefined ? [] : { service, sid: found.Sid ?? 'a statement without Sid' };
  });
  const [refusal] = refusals;
  if (refusal === undefined) return ok(`${Bucket} accepts how objects are encrypted`);
  const { service, sid } = refusal;
  const sent = service.bucketKeyArn ?? service.serverSideEncryption;
  const denied = `the policy of ${Bucket} denies every write (${sid})`;
  const message = `${denied}: objects are written ${sent === undefined ? 'without encryption headers' : `with ${sent}`}`;
  const { bucketKeyArn: _key, ...withoutKey } = service;
  const acceptsHeader = !statements.some((each) =>
    deniesWrites(each, { ...withoutKey, serverSideEncryption: 'AES256' }),
  );
  const remedy = acceptsHeader
    ? 'set bucket.serverSideEncryption to AES256, without a kmsKeyArn, and deploy'
    : 'set bucket.kmsKeyArn to the key that the policy requires, and deploy';
  return { state: 'problem', message, remedy };
}

/** A statement of a policy, as far as it is read here. */
interface Statement {
  readonly Sid?: string;
  readonly Effect?: string;
  readonly Principal?: unknown;
  readonly Action?: string | string[];
  readonly Resource?: string | string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | string[]>>>>;
}

const listOf = <Value>(value: Value | Value[] | undefined): Value[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];

/** Whether a text matches a pattern with `*` and `?`. */
const matches = (pattern: string, text: string, flags = ''): boolean => {
  const source = pattern.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${source.replaceAll('*', '.*').replaceAll('?', '.')}$`, flags).test(text);
};

/**
 * Whether it denies everyone to write because of headers for encryption. A condition on anything else is taken to be
 * false.
 */
function deniesWrites(statement: Statement, resources: ServiceResources): boolean {
  const { Effect, Principal, Action, Resource, Condition = {} } = statement;
  const isForAll = Principal === '*' || listOf((Principal as { AWS?: string | string[] })?.AWS).includes('*');
  const object = `:${resources.bucket}/${resources.prefix}any/latest.json`;
  const conditions = Object.entries(Condition).flatMap(([operator, values]) =>
    Object.entries(values).map(([key, value]) => [operator, key.toLowerCase(), listOf(value)] as const),
  );
  const { ServerSideEncryption, SSEKMSKeyId } = encryptionWith(resources);
  const sent = new Map([
    ['s3:x-amz-server-side-encryption', ServerSideEncryption],
    ['s3:x-amz-server-side-encryption-aws-kms-key-id', SSEKMSKeyId],
  ]);
  return (
    Effect === 'Deny' &&
    isForAll &&
    listOf(Action).some((action) => matches(action, 's3:PutObject', 'i')) &&
    listOf(Resource).some((resource) => matches(resource.replace(/^[^:]+:[^:]+:s3::/, ''), object)) &&
    conditions.length > 0 &&
    conditions.every(([operator, key, values]) => sent.has(key) && isMet(operator, values, sent.get(key)))
  );
}

/** Whether the condition applies to a request with this value of the header; undefined: without the header. */
function isMet(operator: string, values: readonly string[], header: string | undefined): boolean {
  const name = operator.toLowerCase().replace(/ifexists$/, '');
  const isListed = header !== undefined && values.some((value) => matches(value, header));
  if (name === 'null') return values.includes(String(header === undefined));
  // A negated operator also applies to a request without the header.
  if (name === 'stringnotequals' || name === 'stringnotlike') return !isListed;
  return (name === 'stringequals' || name === 'stringlike') && isListed;
}
