/**
 * What a deployed stack says about its services. For each service it has an output with the names of its resources, and the
 * settings in the template metadata of its state machine. The deployment writes both; the operator's commands read them.
 */

import * as z from 'zod';
import { type FunctionSettings, settingsVersion } from './environment.ts';

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

export interface ServiceMetadata {
  /** As in the functions' settings file. */
  readonly settings: FunctionSettings;
  /** By export. An export without a schedule is started manually. */
  readonly schedules: Readonly<Record<string, ScheduleMetadata>>;
}

interface ScheduleMetadata {
  readonly expression: string;
  readonly timeZone: string;
  readonly enabled: boolean;
  /** The maximum age of the newest completed run; null if there is none. */
  readonly freshnessSeconds: number | null;
}

/**
 * The value under that key: JSON text, because CloudFormation rejects a null in a template, and reads a filter with a field `Ref` as
 * a reference. CloudFormation may return `?` for a character that is not ASCII, so those are escaped.
 */
export const serviceMetadataText = (metadata: ServiceMetadata): string =>
  JSON.stringify(metadata).replaceAll(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** The metadata in that text; undefined if this version cannot read it. */
export function readServiceMetadata(text: unknown): ServiceMetadata | undefined {
  try {
    const metadata = JSON.parse(String(text)) as Partial<ServiceMetadata> | null;
    return metadata?.settings?.version === settingsVersion ? (metadata as ServiceMetadata) : undefined;
  } catch {
    return undefined;
  }
}
