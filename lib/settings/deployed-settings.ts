/**
 * The data that a deployment hands on: the parsed settings of a service, in a file beside the functions' code and in
 * the template metadata of the state machine, and the names of its resources, in the functions' environment and in an
 * output. Each is JSON with a version.
 */

import { ExportError } from '../core/errors.ts';
import type { Compression } from '../core/model.ts';
import { asciiJson } from '../service/api/next/cursor-text.ts';
import type { ServiceDeploymentSettings } from './deployment-settings.ts';
import type { ExportSettings, ServiceSettings } from './settings.ts';

export const settingsVersion = 1;

interface Versioned {
  readonly version: typeof settingsVersion;
}

/** The JSON in `text`; undefined if it is none, or has another version. */
export function readVersioned<Content extends Versioned>(text: unknown): Content | undefined {
  try {
    const content = JSON.parse(String(text)) as Content | null;
    return content?.version === settingsVersion ? content : undefined;
  } catch {
    return undefined;
  }
}

/** The file beside the functions' code: the settings of a hundred exports exceed the 4 kB of environment variables. */
export const settingsFileName = 'settings.json';

export interface FunctionSettings extends Versioned {
  readonly service: ServiceSettings;
  readonly exports: readonly ExportSettings[];
  readonly compression?: Compression;
}

type DeployedService = Pick<ServiceDeploymentSettings, 'service' | 'exports'>;

/** A change of a schedule does not change the functions. */
export const functionSettings = (
  { service, exports }: DeployedService,
  compression?: Compression,
): FunctionSettings => ({
  version: settingsVersion,
  service: withoutLocalSettings(service),
  exports: exports.map(({ schedule: _schedule, ...settings }) => settings),
  compression,
});

/** The settings without what is only for runs on this machine. */
function withoutLocalSettings({ tls, apiKeyEnv: _own, ...service }: ServiceSettings): ServiceSettings {
  const { clientCertificate: _certificate, clientKey: _key, clientKeyPassphraseEnv: _env, ...deployed } = tls ?? {};
  return Object.keys(deployed).length === 0 ? service : { ...service, tls: deployed };
}

/** The key in the metadata of the state machine. */
export const serviceMetadataKey = 'report-exporter';

export interface ServiceMetadata extends Versioned {
  readonly service: ServiceSettings;
  readonly exports: readonly ExportSettings[];
}

/**
 * The value under that key: JSON text, because CloudFormation rejects a null in a template, and reads a filter with a
 * field `Ref` as a reference. CloudFormation may return `?` for a character that is not ASCII, so those are escaped.
 */
export function serviceMetadata({ service, exports }: DeployedService): string {
  const metadata: ServiceMetadata = { version: settingsVersion, service: withoutLocalSettings(service), exports };
  return asciiJson(JSON.stringify(metadata));
}

/** The names of what a service uses. */
export interface ServiceResources extends Versioned {
  /** The name of the service: its part of the table. */
  readonly service: string;
  readonly table: string;
  readonly bucket: string;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  /** The ARN of the key that encrypts every object. Absent: the bucket's default encryption does. */
  readonly bucketKeyArn?: string;
  /** The name or the ARN of the secret that holds the API key. Absent: the service needs none. */
  readonly apiKeySecret?: string;
}

/** The environment variable of the functions. */
export const environmentVariable = 'REPORT_EXPORTER';

export interface FunctionEnvironment extends ServiceResources {
  /** The stack's name, which distinguishes the metrics of this deployment from those of others. */
  readonly deployment: string;
}

/** @throws ConfigurationError if another version has deployed the function */
export function readFunctionEnvironment(env: Readonly<Record<string, string | undefined>>): FunctionEnvironment {
  const environment = readVersioned<FunctionEnvironment>(env[environmentVariable]);
  if (environment !== undefined) return environment;
  const message = `Cannot read the environment variable ${environmentVariable} of the function. Deploy the stack again`;
  throw new ExportError('ConfigurationError', message);
}

/** The name of the output is the service's name in Pascal case, followed by this suffix: `AcmeService`. */
export const serviceOutputSuffix = 'Service';

export interface ServiceOutput extends ServiceResources {
  readonly stateMachineArn: string;
  /** The logical ID of the state machine in the template, whose metadata has the settings. */
  readonly stateMachineId: string;
  /** The ARN of the function that fetches the pages. */
  readonly exportPageFunction: string;
  /** The group of EventBridge Scheduler with the service's schedules. Each is named after its export. */
  readonly scheduleGroup?: string;
}

/**
 * The throughput to S3 that timeouts allow for. The deployment sizes the function's timeout by it, and the function
 * reserves the end of its time for the upload.
 */
export const minUploadBytesPerSecond = 20 * 1024 * 1024;
