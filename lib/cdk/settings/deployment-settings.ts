/**
 * What a person sets in cdk.json, under `reportExporter`, checked whole before anything is synthesized: every mistake
 * named at once, a line each, with its place.
 *
 * Settings that travel to the functions stay as a person wrote them; the functions read them through the same schemas.
 */

import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { z } from 'zod';
import { ExportError } from '../../core/errors.ts';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import { problemLines } from '../../core/settings/validation-errors.ts';
import { problemOfEnvironment, problemsOfLimits } from '../function-limits.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  functionSettings,
  keyPrefixSchema,
  type ServiceInput,
} from './deployed-export.ts';

/** A scheduled one has some 34 resources; a test counts them. */
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
        /** The name or the whole ARN of a secret that exists; left out: one is created, and stays empty until you fill it. */
        existing: z
          .string()
          .regex(
            /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}$/,
            'must be the name or the whole ARN of a secret',
          )
          .optional(),
        /** The field of the secret's JSON that holds the key; left out: the secret is the key. */
        field: z.string().min(1, 'must not be empty').optional(),
      })
      .default({}),
    bucket: z
      .strictObject({
        /** A bucket that exists; left out: one is created. */
        existing: z
          .string()
          .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
          .optional(),
        /** What every key begins with. */
        prefix: z._default(keyPrefixSchema, ''),
      })
      .prefault({}),
    /** Encrypts bucket, table and secret; left out: the keys that AWS keeps for them. */
    kmsKeyArn: z
      .string()
      .regex(/^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/, 'must be the ARN of a KMS key (no alias)')
      .optional(),
    alarms: z
      .strictObject({
        email: z.email('must be an e-mail address').optional(),
        /** An SNS topic that exists; left out: one is created. */
        existingTopicArn: z
          .string()
          .regex(/^arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$/, 'must be the ARN of an SNS topic')
          .optional(),
      })
      .refine(({ email, existingTopicArn }) => email === undefined || existingTopicArn === undefined, {
        path: ['email'],
        error: 'is subscribed to the topic that is created; subscribe it to your own topic yourself',
      })
      .default({}),
    logRetentionDays: z
      .literal(retentions, `must be one of ${retentions.join(', ')} (9999: for ever)`)
      .default(RetentionDays.THREE_MONTHS),
    exports: z
      .array(exportDeploymentSchema, 'must be a list of exports')
      .min(1, 'must hold at least one export')
      .max(maxExports, `must hold at most ${maxExports} exports, as a stack takes 500 resources: use several stacks`),
  },
  { error: ({ code }) => (code === 'invalid_type' ? 'must be the settings of the deployment, an object' : undefined) },
);

export interface DeploymentSettings extends Omit<z.infer<typeof deploymentSettingsSchema>, 'service' | 'exports'> {
  readonly service: ServiceInput;
  readonly exports: readonly ExportDeploymentSettings[];
}

/** The key of cdk.json's context that holds the settings. */
export const contextKey = 'reportExporter';

/**
 * The settings in `value`, which stands under that key: an object, or its JSON where the CDK command line was given one
 * (`-c reportExporter="$(jq -c . production.json)"`: it takes one line). @throws ConfigurationError with a line for every problem.
 */
export function deploymentSettings(value: unknown): DeploymentSettings {
  const context = typeof value === 'string' ? parsedOrText(value) : value;
  const parsed = z.object({ [contextKey]: deploymentSettingsSchema }).safeParse({ [contextKey]: context });
  const issues = [...(parsed.error?.issues ?? []), ...contradictionsIn(context, contextKey)];
  if (parsed.success && issues.length === 0) {
    const { service, exports } = context as z.input<typeof deploymentSettingsSchema>;
    return { ...parsed.data[contextKey], service, exports };
  }
  throw new ExportError('ConfigurationError', problemLines('cdk.json', issues).join('\n'));
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// MERGED contradictions.ts: What no part of the settings shows by itself: names that collide, and exports that Lambda could not hold or run. Looked for in whatever is there, so that it is named together with every other mistake.

/** Zod's issues, with their places below `root`. `context` is what a person wrote, whatever it is. */
function contradictionsIn(context: unknown, root: string): z.core.$ZodIssue[] {
  const { service, exports } = partsSchema.parse(context);
  // CloudFormation's names know neither hyphens nor underscores, and people take one case for the other.
  const names = exports.map((each) => nameSchema.safeParse(each).data?.name.replaceAll(/[-_]/g, '').toLowerCase());
  return exports.flatMap((each, place) => [
    ...collisionsOf(names, place).map((message) => issueAt([root, 'exports', place, 'name'], message)),
    ...misfitsOf(service, each).map((message) => issueAt([root, 'exports', place], message)),
  ]);
}

/** The parts, as far as there are any. */
const partsSchema = z
  .object({ service: z.unknown(), exports: z.array(z.unknown()).catch([]) })
  .catch({ service: undefined, exports: [] });
const nameSchema = z.object({ name: z.string() });

const issueAt = (path: (string | number)[], message: string): z.core.$ZodIssue => ({
  code: 'custom',
  path,
  message,
  input: undefined,
});

function collisionsOf(names: readonly (string | undefined)[], place: number): string[] {
  const mine = names[place];
  const twin = mine === undefined ? place : names.indexOf(mine);
  return twin === place ? [] : [`is too like exports[${twin}].name`];
}

/** Only for what is right by itself; anything else has been named already. */
function misfitsOf(service: unknown, each: unknown): string[] {
  const parsedService = serviceSettingsSchema.safeParse(service);
  const parsedExport = exportDeploymentSchema.safeParse(each);
  if (!parsedService.success || !parsedExport.success) return [];
  const environment = problemOfEnvironment(functionSettings(service as ServiceInput, each as ExportDeploymentSettings));
  return [
    ...problemsOfLimits({ service: parsedService.data, settings: parsedExport.data }),
    ...(environment === undefined ? [] : [environment]),
  ];
}
