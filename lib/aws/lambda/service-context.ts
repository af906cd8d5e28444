/** The context of all invocations of a function: the settings of its service, and the dependencies of every step. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { ExportError } from '../../core/errors.ts';
import type { PageLog, StepDependencies } from '../../core/ports.ts';
import {
  type FunctionEnvironment,
  type FunctionSettings,
  readFunctionEnvironment,
  readVersioned,
  settingsFileName,
} from '../../settings/deployed-settings.ts';
import { exportDefinition, type ExportSettings, sourceOf, type ServiceSettings } from '../../settings/settings.ts';
import { selectExport } from '../../core/start/start-input.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { type Environment, sdkConfig } from '../sdk-config.ts';
import type { Platform } from './platform.ts';
import type { Telemetry } from './telemetry.ts';

export interface ServiceContext {
  readonly environment: FunctionEnvironment;
  readonly service: ServiceSettings;
  readonly dynamoDb: DynamoDBClient;
  /**
   * The dependencies of one invocation, for the export that `input` names, or its bounded run. From here on, telemetry
   * names it.
   * @throws ConfigurationError if the service has no such export
   */
  dependenciesFor(input: unknown): Pick<StepDependencies, 'definition' | 'runtime' | 'emit'> & {
    readonly log: PageLog;
    readonly settings: ExportSettings;
  };
}

/** Returns the settings that the deployment has parsed. */
export type LoadSettings = () => FunctionSettings;

export const settingsIn =
  (directory: string): LoadSettings =>
  () => {
    const file = join(directory, settingsFileName);
    const settings = existsSync(file) ? readVersioned<FunctionSettings>(readFileSync(file, 'utf8')) : undefined;
    if (settings !== undefined) return settings;
    throw new ExportError('ConfigurationError', `Cannot read the settings at ${file}. Deploy the stack again`);
  };

/** @throws ConfigurationError if this version cannot read the environment or the settings */
export function openServiceContext(
  env: Environment,
  loadSettings: LoadSettings,
  telemetry: Telemetry,
  { runtime, createClient }: Platform,
): ServiceContext {
  const environment = readFunctionEnvironment(env);
  const { service, exports, compression } = loadSettings();
  const source = sourceOf(service.baseUrl);
  const definitions = new Map(exports.map((each) => [each.name, exportDefinition(each, source, service, compression)]));
  const settingsOf = new Map(exports.map((each) => [each.name, each]));
  const dynamoDb = createClient(DynamoDBClient, sdkConfig);
  const { deployment, service: name, table } = environment;
  telemetry.setService(deployment, name);
  const logOptions = { client: dynamoDb, table, service: name, runtime };
  const common = { log: createDynamoPageLog(logOptions), runtime, emit: telemetry.emit };
  return {
    environment,
    service,
    dynamoDb,
    dependenciesFor(input) {
      const definition = selectExport(definitions, input);
      telemetry.setExport(definition.name);
      return { definition, settings: settingsOf.get(definition.name) as ExportSettings, ...common };
    },
  };
}
