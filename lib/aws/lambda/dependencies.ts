/** What every step needs, made from the function's environment. Nothing of S3 or the service: most have no use for them. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { systemRuntime } from '../../core/clock.ts';
import type { StepDependencies } from '../../core/ports.ts';
import type { readFunctionEnvironment } from '../../core/settings/environment.ts';
import { exportDefinition, sourceOf } from '../../core/settings/settings.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { sdkConfig } from '../sdk-config.ts';
import type { Telemetry } from './telemetry.ts';

/** The variables that {@link stepNeeds} is made from. */
export const stepVariables = ['DEPLOYMENT_NAME', 'EXPORT_SETTINGS', 'SERVICE_SETTINGS', 'TABLE_NAME'] as const;

/** What every step needs; S3 and the service are for those who use them. */
type CommonDependencies = Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>;

type StepSettings = ReturnType<typeof readFunctionEnvironment<(typeof stepVariables)[number]>>;

/** From here on, `telemetry` is about the export. */
export function stepDependencies(settings: StepSettings, telemetry: Telemetry): CommonDependencies {
  const definition = exportDefinition(settings.EXPORT_SETTINGS, sourceOf(settings.SERVICE_SETTINGS.baseUrl));
  telemetry.about(settings.DEPLOYMENT_NAME, definition.name);
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
