/** The dependencies that every step has. S3 and the report service are added by the functions that use them. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { systemRuntime } from '../../core/clock.ts';
import type { StepDependencies } from '../../core/ports.ts';
import type { StepEnvironment } from '../../core/settings/environment.ts';
import { exportDefinition, sourceOf } from '../../core/settings/settings.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { sdkConfig } from '../sdk-config.ts';
import type { Telemetry } from './telemetry.ts';

/** Also makes `telemetry` name the export from here on. */
export function stepDependencies(
  settings: StepEnvironment<'BeginRun'>,
  telemetry: Telemetry,
): Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'> {
  const definition = exportDefinition(settings.EXPORT_SETTINGS, sourceOf(settings.SERVICE_SETTINGS.baseUrl));
  telemetry.setExport(settings.DEPLOYMENT_NAME, definition.name);
  return {
    definition,
    log: createDynamoPageLog({
      client: new DynamoDBClient(sdkConfig),
      table: settings.TABLE_NAME,
      runtime: systemRuntime,
    }),
    runtime: systemRuntime,
    emit: telemetry.emit,
  };
}
