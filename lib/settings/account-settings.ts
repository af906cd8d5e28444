/**
 * The settings with which a stack fits the rules of an AWS account: where it is, its network, its limits, how long objects
 * are kept, and who reads them. Runs on this machine ignore them.
 */

import * as z from 'zod/mini';
import { listNames } from '../core/sanitize.ts';
import { field, optionalField, type SettingsProblem, text, wholeNumber, withoutProblems } from './fields.ts';

const accountIdSchema = text(/^\d{12}$/, 'must be an account ID of 12 digits');

/** Where the stack is deployed. Absent: where the credentials of the deployment are valid. */
export const envSchema = z.strictObject({
  account: optionalField(
    'The ID of the account. Credentials for another one are rejected. Without it, that of the credentials.',
    accountIdSchema,
    { example: '111122223333' },
  ),
  region: optionalField(
    'The region. Without it, that of the credentials.',
    text(/^[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}$/, 'must be a region, such as eu-central-1'),
    { example: 'eu-central-1' },
  ),
});

const unique = (values: readonly string[]) => new Set(values).size === values.length;

/** A list of 1 to `max` different identifiers. */
const listOf = <Schema extends z.ZodMiniType<string>>(schema: Schema, max: number) =>
  z
    .array(schema)
    .check(
      z.minLength(1, 'must have at least one'),
      z.maxLength(max, `must have at most ${max}`),
      z.refine(unique, 'must not have a value twice'),
    );

const resourceIdSchema = (prefix: string, name: string) =>
  text(new RegExp(`^${prefix}-[0-9a-f]{8,17}$`), `must be the ID of ${name}, such as ${prefix}-0abc1234`);

export const networkSchema = z.strictObject({
  vpcId: field('The ID of the VPC.', resourceIdSchema('vpc', 'a VPC'), { example: 'vpc-0abc1234' }),
  // Lambda's own limits.
  subnetIds: field(
    'The IDs of the subnets of the functions: private ones, with a route to the service.',
    listOf(resourceIdSchema('subnet', 'a subnet'), 16),
    { example: ['subnet-0abc1234'] },
  ),
  securityGroupIds: optionalField(
    'The IDs of the security groups of the functions. Without it, one is created for each service.',
    listOf(resourceIdSchema('sg', 'a security group'), 5),
    { example: ['sg-0abc1234'] },
  ),
});
export type VpcSettings = z.infer<typeof networkSchema>;

const daysSchema = wholeNumber(1, 36_500, 'must be a whole number of days');

const transitionClasses = [
  'STANDARD_IA',
  'INTELLIGENT_TIERING',
  'ONEZONE_IA',
  'GLACIER_IR',
  'GLACIER',
  'DEEP_ARCHIVE',
] as const;

/** What S3 does with pages and manifests as they grow old. S3 itself rejects transitions that it does not have. */
export const lifecycleSchema = z
  .strictObject({
    expireAfterDays: optionalField('The age at which they are deleted. Without it, they are kept.', daysSchema, {
      unit: 'days',
      example: 3650,
    }),
    deleteNoncurrentAfterDays: optionalField(
      'How many days later they can no longer be restored, because their earlier versions are deleted, too. Without it, `30`.',
      daysSchema,
      { unit: 'days' },
    ),
    transitions: optionalField(
      'The storage classes to which they are moved, in the order of their age. Without it, they are not moved.',
      z
        .array(
          field(
            'A move to another storage class.',
            z.strictObject({
              storageClass: field(
                'Where they are moved. Objects in GLACIER and DEEP_ARCHIVE must be restored before they can be read.',
                z.enum(transitionClasses, `must be one of ${listNames(transitionClasses)}`),
              ),
              afterDays: field('The age at which they are moved.', daysSchema, { unit: 'days', example: 30 }),
            }),
          ),
        )
        .check(z.minLength(1, 'must have at least one'), z.maxLength(transitionClasses.length)),
    ),
  })
  .check(
    withoutProblems(function* ({ expireAfterDays, deleteNoncurrentAfterDays, transitions }) {
      if (expireAfterDays === undefined && transitions === undefined) {
        yield { path: [], message: 'must have expireAfterDays or transitions' };
      }
      if (deleteNoncurrentAfterDays !== undefined && expireAfterDays === undefined) {
        yield { path: ['deleteNoncurrentAfterDays'], message: 'must not be set without expireAfterDays' };
      }
    }),
  );
export type LifecycleSettings = z.infer<typeof lifecycleSchema>;

/** For the function that requests pages. */
export const exportPageSchema = z.strictObject({
  memoryMebibytes: optionalField(
    'Its memory. Lambda allocates CPU in proportion to it. Without it, `512`.',
    wholeNumber(512, 10_240),
    { unit: 'MiB', example: 1024 },
  ),
  reservedConcurrency: optionalField(
    "How many invocations may run at the same time, reserved for this function from the concurrency of the account. At least the number of the service's exports; each bounded run beside them takes one more. Without it, none is reserved.",
    wholeNumber(1, 1_000),
    { unit: 'invocations', page: 'many-exports.md#concurrency-of-lambda' },
  ),
});
export type ExportPageSettings = z.infer<typeof exportPageSchema>;

/**
 * A run takes one invocation of the function at a time, also with many slices, and whether it requests pages or waits for a slot. With
 * a lower concurrency, Lambda would throttle exports that run at the same time.
 */
export function findConcurrencyProblems(
  { reservedConcurrency }: ExportPageSettings,
  exportCount: number,
): SettingsProblem[] {
  if (reservedConcurrency === undefined || reservedConcurrency >= exportCount) return [];
  return [
    {
      path: ['reservedConcurrency'],
      message:
        `must be at least ${exportCount}: the number of exports of the service, each of which may need an invocation at the same time, ` +
        'also while it waits because of maxConcurrentPages',
    },
  ];
}

/** Accounts whose administrators may let their principals read what a service exported. */
export const readerAccountsSchema = listOf(accountIdSchema, 50);
