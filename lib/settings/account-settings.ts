/**
 * The settings with which a stack fits the rules of an AWS account: where it is, its network, its tags and limits, how long
 * objects are kept, and who reads them. Runs on this machine ignore them.
 */

import * as z from 'zod/mini';
import { listNames } from '../core/sanitize.ts';
import type { StorageClass } from './environment.ts';

const accountIdSchema = z.string().check(z.regex(/^\d{12}$/, 'must be an account ID of 12 digits'));

/** Where the stack is deployed. Absent: where the credentials of the deployment are valid. */
export const envSchema = z.strictObject({
  account: z.optional(accountIdSchema),
  region: z.optional(
    z.string().check(z.regex(/^[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}$/, 'must be a region, such as eu-central-1')),
  ),
});

export const permissionsBoundarySchema = z
  .string()
  .check(
    z.regex(
      /^(arn:[a-z-]+:iam::(\d{12}|aws):policy\/[\w+=,.@/-]{1,512}|[\w+=,.@/-]{1,512})$/,
      'must be the name or the ARN of a managed policy',
    ),
  );

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
  z
    .string()
    .check(z.regex(new RegExp(`^${prefix}-[0-9a-f]{8,17}$`), `must be the ID of ${name}, such as ${prefix}-0abc1234`));

/** With an IPv4 network of /8 to /28, so that an endpoint is never open to everyone. */
const cidrSchema = z
  .string()
  .check(
    z.regex(
      /^((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)\/([89]|1\d|2[0-8])$/,
      'must be an IPv4 network from /8 to /28, such as 10.0.0.0/16',
    ),
  );

/** The AWS services that the functions use, by the kind of their endpoints. */
const endpointKinds = {
  s3: 'gateway',
  dynamodb: 'gateway',
  secretsmanager: 'interface',
  states: 'interface',
} as const;
export type EndpointName = keyof typeof endpointKinds;
const endpointNames = Object.keys(endpointKinds) as EndpointName[];

export const networkSchema = z
  .strictObject({
    vpcId: resourceIdSchema('vpc', 'a VPC'),
    // Lambda's own limits.
    subnetIds: listOf(resourceIdSchema('subnet', 'a subnet'), 16),
    /** Absent: one is created for each service. */
    securityGroupIds: z.optional(listOf(resourceIdSchema('sg', 'a security group'), 5)),
    createEndpoints: z.optional(listOf(z.enum(endpointNames, `must be one of ${listNames(endpointNames)}`), 4)),
    /** Gateway endpoints are routes in these tables. */
    routeTableIds: z.optional(listOf(resourceIdSchema('rtb', 'a route table'), 50)),
    /** Interface endpoints accept connections from these networks. */
    vpcCidrs: z.optional(listOf(cidrSchema, 5)),
  })
  .check(
    z.superRefine(({ createEndpoints = [], routeTableIds, vpcCidrs }, context) => {
      const issue = (field: string, message: string) =>
        context.addIssue({ code: 'custom', path: [field], message, input: undefined });
      const needs = [
        { kind: 'gateway', field: 'routeTableIds', value: routeTableIds, what: 'the route tables of the subnets' },
        {
          kind: 'interface',
          field: 'vpcCidrs',
          value: vpcCidrs,
          what: 'the networks of the VPC, which may then connect',
        },
      ] as const;
      for (const { kind, field, value, what } of needs) {
        const names = endpointNames.filter((name) => endpointKinds[name] === kind);
        const created = createEndpoints.filter((name) => names.includes(name));
        if (created.length > 0 && value === undefined) {
          issue(field, `is required to create an endpoint of ${listNames(created)}: ${what}`);
        }
        if (created.length === 0 && value !== undefined) {
          issue(field, `must not be set unless createEndpoints has ${names.join(' or ')}`);
        }
      }
    }),
  );
export type VpcSettings = z.infer<typeof networkSchema>;

const maxDays = 36_500;
const daysSchema = z
  .int('must be a whole number of days')
  .check(z.minimum(1, 'must be at least 1'), z.maximum(maxDays, `must be at most ${maxDays}`));

/** In the order in which objects may pass through them. */
const transitionClasses = [
  'STANDARD_IA',
  'INTELLIGENT_TIERING',
  'ONEZONE_IA',
  'GLACIER_IR',
  'GLACIER',
  'DEEP_ARCHIVE',
] as const;
type TransitionClass = (typeof transitionClasses)[number];

/** What S3 does with pages and manifests as they grow old. */
export const lifecycleSchema = z.strictObject({
  expireAfterDays: z.optional(daysSchema),
  /** How much longer S3 keeps what has expired, or was replaced or deleted. */
  deleteNoncurrentAfterDays: z.optional(daysSchema),
  transitions: z.optional(
    z
      .array(
        z.strictObject({
          storageClass: z.enum(transitionClasses, `must be one of ${listNames(transitionClasses)}`),
          afterDays: daysSchema,
        }),
      )
      .check(z.minLength(1, 'must have at least one'), z.maxLength(transitionClasses.length)),
  ),
});
export type LifecycleSettings = z.infer<typeof lifecycleSchema>;

/** What is wrong with a combination of settings. The path is relative to the settings that are checked. */
export interface CombinationProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** How many days old an object must be to enter these classes, and how long a transition must leave it there. */
const minDays = 30;
const hasMinDays = (storageClass: string): boolean => storageClass === 'STANDARD_IA' || storageClass === 'ONEZONE_IA';

/**
 * Why S3 would reject a lifecycle, or never apply it to pages that are stored in `storageClass`.
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-transition-general-considerations.html
 */
export function findLifecycleProblems(
  { expireAfterDays, deleteNoncurrentAfterDays, transitions = [] }: LifecycleSettings,
  storageClass: StorageClass | undefined,
): CombinationProblem[] {
  const problems: CombinationProblem[] = [];
  if (expireAfterDays === undefined && transitions.length === 0) {
    problems.push({ path: [], message: 'must have expireAfterDays or transitions' });
  }
  if (deleteNoncurrentAfterDays !== undefined && expireAfterDays === undefined) {
    problems.push({ path: ['deleteNoncurrentAfterDays'], message: 'must not be set without expireAfterDays' });
  }
  let previous: { readonly storageClass: string; readonly afterDays: number } = {
    storageClass: storageClass ?? 'STANDARD',
    afterDays: 0,
  };
  for (const [index, transition] of transitions.entries()) {
    const at = (field: string, message: string) => problems.push({ path: ['transitions', index, field], message });
    if (!mayFollow(previous.storageClass, transition.storageClass)) {
      at('storageClass', `cannot follow ${previous.storageClass}: S3 has no such transition`);
    }
    const earliest = Math.max(
      hasMinDays(transition.storageClass) ? minDays : 1,
      index === 0 ? 1 : previous.afterDays + (hasMinDays(previous.storageClass) ? minDays : 1),
    );
    if (transition.afterDays < earliest) {
      at('afterDays', `must be at least ${earliest}: S3 does not move objects to ${transition.storageClass} earlier`);
    }
    previous = transition;
  }
  if (expireAfterDays !== undefined && expireAfterDays <= previous.afterDays) {
    problems.push({
      path: ['expireAfterDays'],
      message: `must be after the last transition, so more than ${previous.afterDays}`,
    });
  }
  return problems;
}

function mayFollow(from: string, to: TransitionClass): boolean {
  if (from === 'ONEZONE_IA' && to === 'GLACIER_IR') return false;
  return transitionClasses.indexOf(to) > transitionClasses.findIndex((each) => each === from);
}

/** For the function that requests pages. */
export const exportPageSchema = z.strictObject({
  /** More memory is more CPU. */
  memoryMebibytes: z.optional(
    z
      .int('must be a whole number')
      .check(z.minimum(512, 'must be at least 512'), z.maximum(10_240, 'must be at most 10240')),
  ),
  reservedConcurrency: z.optional(
    z.int('must be a whole number').check(z.minimum(1, 'must be at least 1'), z.maximum(1_000, 'must be at most 1000')),
  ),
});
export type ExportPageSettings = z.infer<typeof exportPageSchema>;

/**
 * A running export, or a window of a backfill, takes one invocation of the function at a time, whether it requests pages or waits for a
 * slot. With a lower concurrency, Lambda would throttle exports that run at the same time.
 */
export function findConcurrencyProblems(
  { reservedConcurrency }: ExportPageSettings,
  exportCount: number,
  hasBackfills: boolean,
): CombinationProblem[] {
  const min = exportCount + (hasBackfills ? 1 : 0);
  if (reservedConcurrency === undefined || reservedConcurrency >= min) return [];
  return [
    {
      path: ['reservedConcurrency'],
      message:
        `must be at least ${min}: the number of exports of the service, each of which may need an invocation at the same time, ` +
        'also while it waits because of maxConcurrentPages' +
        (hasBackfills ? ', and one for a window of a backfill (filterUntil)' : ''),
    },
  ];
}

/** Accounts whose administrators may let their principals read what a service exported. */
export const readerAccountsSchema = listOf(accountIdSchema, 50);
/** In all. The policy of a bucket has at most 20 KB, and each account takes about 70 bytes of it for each service. */
export const maxReaderAccounts = 150;
