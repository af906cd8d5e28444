/** The schemas of a deployment's settings, and the form that they are parsed into: always a list of services. */

import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { z } from 'zod';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import {
  defaultServiceName,
  type ExportDeploymentSettings,
  exportListSchema,
  keyPrefixSchema,
  type ServiceInput,
  serviceNameSchema,
} from './deployed-export.ts';

const retentions = Object.values(RetentionDays).filter((value) => typeof value === 'number');

const apiKeySecretSchema = z
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
  .default({});

/** The name of the stack that the CDK app deploys, unless the settings have another. */
export const defaultStackName = 'ReportExporter';

const sharedSettings = {
  stackName: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must be letters, digits and hyphens, beginning with a letter')
    .optional(),
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
  /** A customer managed key for bucket, table and secrets. Absent: keys owned or managed by AWS. */
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
      /** Whether failed and waiting runs raise an alarm per export, or one per service. Absent: up to 20 exports, per export. */
      perExport: z.boolean('must be true or false').optional(),
    })
    .refine(({ email, existingTopicArn }) => email === undefined || existingTopicArn === undefined, {
      path: ['email'],
      error: 'must not be set with existingTopicArn: subscribe the address to that topic yourself',
    })
    .default({}),
  logRetentionDays: z
    .literal(retentions, `must be one of ${retentions.join(', ')} (9999: never expire)`)
    .default(RetentionDays.THREE_MONTHS),
};

const invalidType = ({ code }: { readonly code: string }) =>
  code === 'invalid_type' ? 'must be an object with the settings of the deployment' : undefined;

const oneServiceSchema = z.strictObject(
  { ...sharedSettings, service: serviceSettingsSchema, apiKeySecret: apiKeySecretSchema, exports: exportListSchema },
  { error: invalidType },
);

const notWithServices = z.undefined('must not be set with services: move it into an entry of services').optional();

const severalServicesSchema = z.strictObject(
  {
    ...sharedSettings,
    service: notWithServices,
    apiKeySecret: notWithServices,
    exports: notWithServices,
    services: z
      .array(
        z.strictObject({
          name: serviceNameSchema,
          service: serviceSettingsSchema,
          apiKeySecret: apiKeySecretSchema,
          exports: exportListSchema,
        }),
        'must be a list of services',
      )
      .min(1, 'must have at least one service'),
  },
  { error: invalidType },
);

export interface ServiceDeploymentSettings {
  readonly name: string;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly service: ServiceInput;
  readonly apiKeySecret: z.infer<typeof apiKeySecretSchema>;
  readonly exports: readonly ExportDeploymentSettings[];
}

type SharedSettings = Omit<z.infer<typeof oneServiceSchema>, 'service' | 'apiKeySecret' | 'exports'>;

export interface DeploymentSettings extends SharedSettings {
  readonly services: readonly ServiceDeploymentSettings[];
}

export interface ParsedDeployment {
  /** Undefined: there are issues. */
  readonly settings: DeploymentSettings | undefined;
  readonly issues: readonly z.core.$ZodIssue[];
}

export function parseDeployment(context: unknown): ParsedDeployment {
  return hasServices(context) ? parseSeveralServices(context) : parseOneService(context);
}

/** Whether the settings have the form for several services. Accepts any value. */
export const hasServices = (context: unknown): boolean =>
  z.object({ services: z.unknown() }).safeParse(context).data?.services !== undefined;

function parseOneService(context: unknown): ParsedDeployment {
  const { data, error } = oneServiceSchema.safeParse(context);
  if (data === undefined) return { settings: undefined, issues: error.issues };
  const { service: _service, exports: _exports, apiKeySecret, ...shared } = data;
  const written = context as z.input<typeof oneServiceSchema>;
  const { prefix } = shared.bucket;
  const only = { name: defaultServiceName, prefix, service: written.service, apiKeySecret, exports: written.exports };
  return { settings: { ...shared, services: [only] }, issues: [] };
}

function parseSeveralServices(context: unknown): ParsedDeployment {
  const { data, error } = severalServicesSchema.safeParse(context);
  if (data === undefined) return { settings: undefined, issues: error.issues };
  const { services: parsed, service: _service, apiKeySecret: _apiKeySecret, exports: _exports, ...shared } = data;
  const written = context as z.input<typeof severalServicesSchema>;
  const services = written.services.map(({ name, service, exports }, index) => ({
    name,
    prefix: `${shared.bucket.prefix}${name}/`,
    service,
    apiKeySecret: parsed[index]?.apiKeySecret ?? {},
    exports,
  }));
  return { settings: { ...shared, services }, issues: [] };
}
