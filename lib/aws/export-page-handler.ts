/** ExportPage as a function: fetches, stores and logs a page, or some, within the time the invocation has. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { Clock, ReportService } from '../core/ports.ts';
import { readFunctionEnvironment } from '../core/settings/environment.ts';
import { type ExportPageOutcome, exportPage } from '../core/steps/export-page.ts';
import type { Turn } from '../core/turn.ts';
import { createReportServiceClient } from '../report-service/client/client.ts';
import { limitsOf } from '../report-service/client/limits.ts';
import { stepNeeds, stepVariables } from './lambda/dependencies.ts';
import { fetchTime } from './lambda/invocation-deadline.ts';
import { type Environment, type StepHandler, stepHandler } from './lambda/step-handler.ts';
import { createS3Client } from './s3/client.ts';
import { createS3PageStore } from './s3/page-store.ts';
import { sdkSettings } from './sdk-config.ts';
import { createSecretApiKey } from './secret-api-key.ts';

const variables = [...stepVariables, 'BUCKET_NAME', 'KEY_PREFIX', 'API_KEY_SECRET_ID', 'API_KEY_SECRET_FIELD'] as const;

export function exportPageHandler(env: Environment): StepHandler<ExportPageOutcome> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, variables);
    const { BUCKET_NAME: bucket, KEY_PREFIX: prefix } = settings;
    const common = stepNeeds(settings, telemetry);
    const { surroundings } = common;
    const { now } = surroundings;
    const needs = {
      ...common,
      service: measured(serviceClient(settings, surroundings), now, (ms) => telemetry.count('ServiceLatency', ms)),
      store: createS3PageStore({ client: createS3Client(env), bucket, prefix, surroundings }),
    };
    return async ({ input, execution }, context) => {
      const turn = input as Turn;
      using time = fetchTime(
        context.getRemainingTimeInMillis(),
        settings.SERVICE_SETTINGS,
        `page ${turn.page} of run ${turn.run}`,
        surroundings,
      );
      return await exportPage(needs, { turn, execution, ...time });
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
      client: new SecretsManagerClient(sdkSettings),
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
      const askedAt = now();
      const page = await service.fetchPage(request, signal);
      tell(now() - askedAt);
      return page;
    },
  };
}
