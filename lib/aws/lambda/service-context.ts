/** What a function has for all its invocations: the settings of its service, and the dependencies that every step has. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { ExportError } from '../../core/errors.ts';
import type { PageLog, RunHistory, StepDependencies } from '../../core/ports.ts';
import {
  type FunctionSettings,
  type ObjectSettings,
  readFunctionEnvironment,
  type StepEnvironment,
  settingsFileName,
  settingsVersion,
  stepVariables,
} from '../../settings/environment.ts';
import { exportDefinition, sourceOf, type ServiceSettings } from '../../settings/settings.ts';
import type { StepName } from '../../core/state-machine/definition.ts';
import { selectExport } from '../../core/steps/start-input.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { type Environment, sdkConfig } from '../sdk-config.ts';
import type { Platform } from './platform.ts';
import type { Telemetry } from './telemetry.ts';

export interface ServiceContext<Step extends StepName> {
  readonly environment: StepEnvironment<Step>;
  readonly service: ServiceSettings;
  /** How objects are stored in the bucket. */
  readonly objects: ObjectSettings | undefined;
  readonly dynamoDb: DynamoDBClient;
  /**
   * The dependencies of one invocation, for the export that `input` names, or its bounded run. From here on, telemetry names it.
   * @throws ConfigurationError if the service has no such export
   */
  dependenciesFor(
    input: unknown,
  ): Pick<StepDependencies, 'definition' | 'runtime' | 'emit'> & { readonly log: PageLog & RunHistory };
}

/** Returns the settings that the deployment has parsed. */
export type LoadSettings = () => FunctionSettings;

/** Loads the settings file in `directory`. */
export const settingsIn =
  (directory: string): LoadSettings =>
  () => {
    const file = join(directory, settingsFileName);
    const unreadable = (cause?: unknown) =>
      new ExportError('ConfigurationError', `Cannot read the settings at ${file}. Deploy the stack again`, { cause });
    try {
      const settings = JSON.parse(readFileSync(file, 'utf8')) as FunctionSettings;
      if (settings.version === settingsVersion) return settings;
    } catch (cause) {
      throw unreadable(cause);
    }
    throw unreadable();
  };

/** @throws ConfigurationError that names every problem of the environment, or if there are no settings */
export function openServiceContext<Step extends StepName>(
  step: Step,
  env: Environment,
  loadSettings: LoadSettings,
  telemetry: Telemetry,
  { runtime, createClient }: Platform,
): ServiceContext<Step> {
  const environment = readFunctionEnvironment(env, stepVariables[step]) as StepEnvironment<Step>;
  const { service, exports, objects, compression, logLevel } = loadSettings();
  const source = sourceOf(service.baseUrl);
  const definitions = new Map(exports.map((each) => [each.name, exportDefinition(each, source, service, compression)]));
  const dynamoDb = createClient(DynamoDBClient, sdkConfig);
  const { DEPLOYMENT_NAME, SERVICE_NAME, TABLE_NAME } = environment as StepEnvironment<'BeginRun'>;
  telemetry.setService(DEPLOYMENT_NAME, SERVICE_NAME, logLevel);
  const logOptions = { client: dynamoDb, table: TABLE_NAME, service: SERVICE_NAME, runtime };
  const common = { log: createDynamoPageLog(logOptions), runtime, emit: telemetry.emit };
  return {
    environment,
    service,
    objects,
    dynamoDb,
    dependenciesFor(input) {
      const definition = selectExport(definitions, input);
      telemetry.setExport(definition.name);
      return { definition, ...common };
    },
  };
}
