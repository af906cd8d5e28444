/** The ExportPage function: fetches, stores and logs one page, or several while the invocation has time. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { stepDependencies } from '../lib/aws/lambda/dependencies.ts';
import { startInvocationDeadline } from '../lib/aws/lambda/invocation-deadline.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import { type Environment, sdkConfig } from '../lib/aws/sdk-config.ts';
import { createSecretApiKey } from '../lib/aws/secret-api-key.ts';
import type { LoopState } from '../lib/core/model.ts';
import type { Clock, ReportService } from '../lib/core/ports.ts';
import { readFunctionEnvironment, type StepEnvironment, stepVariables } from '../lib/core/settings/environment.ts';
import { type ExportPageOutcome, exportPage } from '../lib/core/steps/export-page.ts';
import { createReportServiceClient } from '../lib/report-service/client/client.ts';
import { limitsOf } from '../lib/report-service/client/limits.ts';

export function exportPageHandler(env: Environment): StepHandler<ExportPageOutcome> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, stepVariables.ExportPage);
    const common = stepDependencies(settings, telemetry);
    const { runtime } = common;
    const deps = {
      ...common,
      service: withLatency(createService(settings, runtime), runtime.now, (ms) =>
        telemetry.count('ServiceLatency', ms),
      ),
      store: createS3PageStore({
        client: createS3Client(env),
        bucket: settings.BUCKET_NAME,
        prefix: settings.KEY_PREFIX,
        runtime,
      }),
    };
    return async ({ input, execution }, context) => {
      const loop = input as LoopState;
      using deadline = startInvocationDeadline(
        context.getRemainingTimeInMillis(),
        settings.SERVICE_SETTINGS,
        `page ${loop.page} of run ${loop.run}`,
        runtime,
      );
      return await exportPage(deps, { loop, execution, ...deadline });
    };
  });
}

function createService(settings: StepEnvironment<'ExportPage'>, clock: Clock): ReportService {
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

/** The same service, reporting the time until each response begins. */
function withLatency(service: ReportService, now: () => number, report: (ms: number) => void): ReportService {
  return {
    async fetchPage(request, signal) {
      const requestedAt = now();
      const page = await service.fetchPage(request, signal);
      report(now() - requestedAt);
      return page;
    },
  };
}

export const handler = exportPageHandler(process.env);
