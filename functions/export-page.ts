/** Lambda's door to ExportPage. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { stepDependencies, stepVariables } from '../lib/aws/lambda/dependencies.ts';
import { startInvocationDeadline } from '../lib/aws/lambda/invocation-deadline.ts';
import { type Environment, type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import { sdkConfig } from '../lib/aws/sdk-config.ts';
import { createSecretApiKey } from '../lib/aws/secret-api-key.ts';
import type { LoopState } from '../lib/core/model.ts';
import type { Clock, ReportService } from '../lib/core/ports.ts';
import { readFunctionEnvironment } from '../lib/core/settings/environment.ts';
import { type ExportPageOutcome, exportPage } from '../lib/core/steps/export-page.ts';
import { createReportServiceClient } from '../lib/report-service/client/client.ts';
import { limitsOf } from '../lib/report-service/client/limits.ts';

export const handler = exportPageHandler(process.env);

// MERGED export-page-handler.ts: ExportPage as a function: fetches, stores and logs a page, or some, within the time the invocation has.

const variables = [...stepVariables, 'BUCKET_NAME', 'KEY_PREFIX', 'API_KEY_SECRET_ID', 'API_KEY_SECRET_FIELD'] as const;

export function exportPageHandler(env: Environment): StepHandler<ExportPageOutcome> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, variables);
    const { BUCKET_NAME: bucket, KEY_PREFIX: prefix } = settings;
    const common = stepDependencies(settings, telemetry);
    const { runtime } = common;
    const { now } = runtime;
    const deps = {
      ...common,
      service: measured(serviceClient(settings, runtime), now, (ms) => telemetry.count('ServiceLatency', ms)),
      store: createS3PageStore({ client: createS3Client(env), bucket, prefix, runtime }),
    };
    return async ({ input, execution }, context) => {
      const loop = input as LoopState;
      using time = startInvocationDeadline(
        context.getRemainingTimeInMillis(),
        settings.SERVICE_SETTINGS,
        `page ${loop.page} of run ${loop.run}`,
        runtime,
      );
      return await exportPage(deps, { loop, execution, ...time });
    };
  });
}

type Settings = ReturnType<typeof readFunctionEnvironment<(typeof variables)[number]>>;

function serviceClient(settings: Settings, clock: Clock): ReportService {
  const { baseUrl, vendor, cursorIn, ...limits } = settings.SERVICE_SETTINGS;
  return createReportServiceClient({
    baseUrl,
    vendor,
    cursorIn,
    apiKey: createSecretApiKey({
      client: new SecretsManagerClient(sdkConfig),
      secretId: settings.API_KEY_SECRET_ID,
      field: settings.API_KEY_SECRET_FIELD,
      now: clock.now,
    }),
    limits: limitsOf(limits),
    clock,
  });
}

/** The same service, telling how long its answers take to begin. */
function measured(service: ReportService, now: () => number, tell: (ms: number) => void): ReportService {
  return {
    async fetchPage(request, signal) {
      const requestedAt = now();
      const page = await service.fetchPage(request, signal);
      tell(now() - requestedAt);
      return page;
    },
  };
}
