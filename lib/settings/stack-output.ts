/**
 * What a deployed stack says about its services. For each service it has an output with the names of its resources, and the
 * settings in the template metadata of its state machine. The deployment writes both; the operator's commands read them.
 */

import * as z from 'zod';
import { functionSettingsSchema } from './environment.ts';

/** The name of the output is the service's name in Pascal case, followed by this suffix: `AcmeService`. */
export const serviceOutputSuffix = 'Service';

const name = z.string().min(1);

/** The value of the output, as JSON. */
export const serviceOutputSchema = z.object({
  service: name,
  stateMachineArn: name,
  /** The logical ID of the state machine in the template, whose metadata has the settings. */
  stateMachineId: name,
  /** The ARN of the function that fetches the pages. */
  exportPageFunction: name,
  /** The concurrency that is reserved for it. Absent: none. */
  reservedConcurrency: z.int().optional(),
  table: name,
  bucket: name,
  /** The prefix of every key of the service in the bucket. */
  prefix: z.string(),
  /** The ARN of the key that encrypts objects in the bucket. Absent: the bucket's default encryption does. */
  bucketKeyArn: name.optional(),
  /** The name or the ARN of the secret that holds the API key; absent if the service needs none. */
  apiKeySecret: name.optional(),
  /** The field of its JSON. Empty: the whole secret. */
  apiKeyField: z.string(),
  /** The group of EventBridge Scheduler with the service's schedules. Each is named after its export. */
  scheduleGroup: name.optional(),
});
export type ServiceOutput = z.infer<typeof serviceOutputSchema>;

/** The key in the state machine's metadata. */
export const serviceMetadataKey = 'report-exporter';

const serviceMetadata = z.object({
  /** As in the functions' settings file. */
  settings: functionSettingsSchema,
  /** By export. An export without a schedule is started manually. */
  schedules: z.record(
    z.string(),
    z.object({
      expression: name,
      timeZone: name,
      enabled: z.boolean(),
      /** The maximum age of the newest completed run; null if there is none. */
      freshnessSeconds: z.number().nullable(),
    }),
  ),
});

/** The JSON text of the value. CloudFormation may return `?` for a character that is not ASCII, so those are escaped. */
export const serviceMetadataText = (metadata: ServiceMetadataInput): string =>
  JSON.stringify(metadata).replaceAll(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/**
 * The value under that key, without references to other resources. The template has it as JSON text: CloudFormation rejects
 * a null in a template, and reads a filter with a field `Ref` as a reference.
 */
export const serviceMetadataSchema = z.preprocess(
  (value) => (typeof value === 'string' ? parseJson(value) : value),
  serviceMetadata,
);
export type ServiceMetadata = z.infer<typeof serviceMetadata>;
export type ServiceMetadataInput = z.input<typeof serviceMetadata>;

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
