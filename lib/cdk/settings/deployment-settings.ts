/**
 * The settings of a deployment, under `reportExporter` in cdk.json. They are validated completely before anything is
 * synthesized, and every problem is reported, one line each with its path.
 *
 * Settings for the functions keep the form in which they were written; the functions read them through the same schemas.
 */

import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { z } from 'zod';
import { ExportError } from '../../core/errors.ts';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import { problemLines } from '../../core/settings/validation-errors.ts';
import { findEnvironmentProblem, findLimitProblems } from '../function-limits.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  keyPrefixSchema,
  type ServiceInput,
  settingsVariables,
} from './deployed-export.ts';

/** An export with a schedule has about 34 resources, and a stack at most 500. A test counts them. */
const maxExports = 14;

const retentions = Object.values(RetentionDays).filter((value) => typeof value === 'number');

const deploymentSettingsSchema = z.strictObject(
  {
    stackName: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must be letters, digits and hyphens, beginning with a letter')
      .default('ReportExporter'),
    service: serviceSettingsSchema,
    apiKeySecret: z
      .strictObject({
        /** The name or the complete ARN of an existing secret. Absent: an empty secret is created. */
        existing: z
          .string()
          .regex(
            /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}$/,
            'must be the name or the complete ARN of a secret',
          )
          .optional(),
        /** The field of the secret's JSON that contains the key. Absent: the whole secret is the key. */
        field: z.string().min(1, 'must not be empty').optional(),
      })
      .default({}),
    bucket: z
      .strictObject({
        /** The name of an existing bucket. Absent: a bucket is created. */
        existing: z
          .string()
          .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
          .optional(),
        /** The prefix of all keys. */
        prefix: z._default(keyPrefixSchema, ''),
      })
      .prefault({}),
    /** A customer managed key for bucket, table and secret. Absent: keys owned or managed by AWS. */
    kmsKeyArn: z
      .string()
      .regex(/^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/, 'must be the ARN of a KMS key, not of an alias')
      .optional(),
    alarms: z
      .strictObject({
        email: z.email('must be an email address').optional(),
        /** An existing SNS topic. Absent: a topic is created. */
        existingTopicArn: z
          .string()
          .regex(/^arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$/, 'must be the ARN of an SNS topic')
          .optional(),
      })
      .refine(({ email, existingTopicArn }) => email === undefined || existingTopicArn === undefined, {
        path: ['email'],
        error: 'must not be set with existingTopicArn: subscribe the address to that topic yourself',
      })
      .default({}),
    logRetentionDays: z
      .literal(retentions, `must be one of ${retentions.join(', ')} (9999: never expire)`)
      .default(RetentionDays.THREE_MONTHS),
    exports: z
      .array(exportDeploymentSchema, 'must be a list of exports')
      .min(1, 'must have at least one export')
      .max(
        maxExports,
        `must have at most ${maxExports} exports, because a stack has at most 500 resources: use several stacks`,
      ),
  },
  {
    error: ({ code }) =>
      code === 'invalid_type' ? 'must be an object with the settings of the deployment' : undefined,
  },
);

export interface DeploymentSettings extends Omit<z.infer<typeof deploymentSettingsSchema>, 'service' | 'exports'> {
  readonly service: ServiceInput;
  readonly exports: readonly ExportDeploymentSettings[];
}

/** The key in the context of cdk.json that holds the settings. */
export const contextKey = 'reportExporter';

/**
 * Parses the value of the context key: an object, or JSON text if it was passed on the CDK command line
 * (`-c reportExporter="$(jq -c . production.json)"`, on one line).
 *
 * @throws ConfigurationError with a line for every problem
 */
export function deploymentSettings(value: unknown): DeploymentSettings {
  const context = typeof value === 'string' ? parseJsonIfValid(value) : value;
  const parsed = z.object({ [contextKey]: deploymentSettingsSchema }).safeParse({ [contextKey]: context });
  const issues = [...(parsed.error?.issues ?? []), ...findConflicts(context)];
  if (parsed.success && issues.length === 0) {
    const { service, exports } = context as z.input<typeof deploymentSettingsSchema>;
    return { ...parsed.data[contextKey], service, exports };
  }
  throw new ExportError('ConfigurationError', problemLines('cdk.json', issues).join('\n'));
}

function parseJsonIfValid(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * The problems that no single field shows: names that collide, and exports that Lambda cannot run. Accepts any value, so that
 * they are reported together with all other problems.
 */
function findConflicts(context: unknown): z.core.$ZodIssue[] {
  const { service, exports } = lenientSchema.parse(context);
  const names = exports.map((settings) => normalizeName(namedSchema.safeParse(settings).data?.name));
  return exports.flatMap((settings, index) => [
    ...findNameCollision(names, index).map((message) => issueAt(['exports', index, 'name'], message)),
    ...findMisfits(service, settings).map((message) => issueAt(['exports', index], message)),
  ]);
}

/** Accepts everything and returns the parts that exist. */
const lenientSchema = z
  .object({ service: z.unknown(), exports: z.array(z.unknown()).catch([]) })
  .catch({ service: undefined, exports: [] });
const namedSchema = z.object({ name: z.string() });

const issueAt = (path: (string | number)[], message: string): z.core.$ZodIssue => ({
  code: 'custom',
  path: [contextKey, ...path],
  message,
  input: undefined,
});

/** CloudFormation ids have no hyphens or underscores, and names that differ only in case are easily confused. */
const normalizeName = (name: string | undefined) => name?.replaceAll(/[-_]/g, '').toLowerCase();

function findNameCollision(names: readonly (string | undefined)[], index: number): string[] {
  const name = names[index];
  const first = name === undefined ? index : names.indexOf(name);
  if (first === index) return [];
  return [`is too similar to exports[${first}].name: names must differ in more than case, hyphens and underscores`];
}

/** Why Lambda cannot run the export. Empty if the settings are invalid, which the schemas report. */
function findMisfits(service: unknown, settings: unknown): string[] {
  const parsedService = serviceSettingsSchema.safeParse(service);
  const parsedExport = exportDeploymentSchema.safeParse(settings);
  if (!parsedService.success || !parsedExport.success) return [];
  const variables = settingsVariables(service as ServiceInput, settings as ExportDeploymentSettings);
  const environmentProblem = findEnvironmentProblem(variables);
  return [
    ...findLimitProblems({ service: parsedService.data, settings: parsedExport.data }),
    ...(environmentProblem === undefined ? [] : [environmentProblem]),
  ];
}
