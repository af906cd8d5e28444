/** The ExportPage function: fetches, stores and logs one page, or several while the invocation has time. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { sharedRecordKey } from '../lib/aws/dynamodb/items.ts';
import { createDynamoSharedRecord } from '../lib/aws/dynamodb/shared-record.ts';
import { startInvocationDeadline } from '../lib/aws/lambda/invocation-deadline.ts';
import { functionPageStore } from '../lib/aws/lambda/page-store.ts';
import { lambdaPlatform, type Platform } from '../lib/aws/lambda/platform.ts';
import {
  type LoadSettings,
  openServiceContext,
  type ServiceContext,
  settingsIn,
} from '../lib/aws/lambda/service-context.ts';
import { createRenewedSecret } from '../lib/aws/lambda/renewed-secret.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { type Environment, sdkConfig } from '../lib/aws/sdk-config.ts';
import { createSecretApiKey, createSecretNetwork } from '../lib/aws/secrets.ts';
import type { Telemetry } from '../lib/aws/lambda/telemetry.ts';
import type { LoopState } from '../lib/core/model.ts';
import { firstParent } from '../lib/core/parents/read-parents.ts';
import type { StepDependencies } from '../lib/core/ports.ts';
import { exportPage } from '../lib/core/steps/export-page.ts';
import type { ExportPageOutcome } from '../lib/core/steps/loop-outcome.ts';
import { type ProbeResult, probeSchema, probeService } from '../lib/service/client/probe-service.ts';
import { maxParallel } from '../lib/core/slices.ts';
import { createPageSlots, slotsRecord } from '../lib/core/slots/page-slots.ts';
import { atRate, createRequestRate, rateRecord } from '../lib/core/slots/request-rate.ts';
import { renewsSecret } from '../lib/service/api/auth/kinds.ts';
import { createServiceClient, type ServiceClient } from '../lib/service/client/client.ts';
import { pageReaderOf, reportReaderOf } from '../lib/service/formats/values/report-reader.ts';
import { rateLimitOf } from '../lib/settings/settings.ts';

type Outcome = ExportPageOutcome | ProbeResult;

export function exportPageHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<Outcome> {
  const createStep = (telemetry: Telemetry): StepHandler<Outcome> => {
    const context = openServiceContext(env, loadSettings, telemetry, platform);
    const { runtime, maxInFlight } = platform;
    // The client outlives the invocation, and asks for the remaining time of the current one.
    let remainingMs = () => 0;
    const client = createService(context, platform, () => remainingMs());
    const store = functionPageStore(context, env, platform);
    const limits = createServiceLimits(context, platform);
    return async ({ input, execution, retries, probe }, { getRemainingTimeInMillis }) => {
      remainingMs = getRemainingTimeInMillis;
      if (probe !== undefined) {
        const { export: name, ...period } = probeSchema.parse(probe);
        const { definition, log, settings: exportSettings } = context.dependenciesFor({ export: name });
        const service = { fetch: atRate(client.describedBy(exportSettings.api).fetch, limits.rate) };
        const parent = await firstParent({ store, reportReader: reportReaderOf(exportSettings.parents) }, definition);
        return await probeService({ definition, parent, service, log, runtime }, period);
      }
      const { settings: exportSettings, ...common } = context.dependenciesFor(input);
      const readers = {
        reportReader: reportReaderOf(exportSettings.parents),
        pageReader: pageReaderOf(exportSettings.api),
      };
      const deps = { ...common, service: client.describedBy(exportSettings.api), store, ...readers, ...limits };
      const loop = input as LoopState;
      const label = `page ${loop.page} of run ${loop.run}`;
      // The run may get its parents, and with them its slices, in this invocation.
      const slices = loop.slices === undefined && exportSettings.parents === undefined ? 1 : maxParallel;
      const invocation = { remainingMs: getRemainingTimeInMillis(), label, slices };
      using deadline = startInvocationDeadline(invocation, context.service, runtime);
      return await exportPage(deps, { loop, execution, retries, maxInFlight, ...deadline });
    };
  };
  return stepHandler(createStep, platform, { acceptsProbe: true });
}

/** What limits the requests of all exports of the service. */
function createServiceLimits(
  { environment, service, dynamoDb }: Pick<ServiceContext, 'environment' | 'service' | 'dynamoDb'>,
  { runtime }: Pick<Platform, 'runtime'>,
): Pick<StepDependencies, 'slots' | 'rate'> {
  const { maxConcurrentPages: limit } = service;
  const rate = rateLimitOf(service);
  const options = { client: dynamoDb, table: environment.table, runtime };
  const slots = () => createDynamoSharedRecord(sharedRecordKey(environment.service, 'slots'), slotsRecord, options);
  const rates = () => createDynamoSharedRecord(sharedRecordKey(environment.service, 'rate'), rateRecord, options);
  return {
    slots: limit === undefined ? undefined : createPageSlots({ record: slots(), limit, runtime }),
    rate: rate === undefined ? undefined : createRequestRate({ record: rates(), limit: rate, runtime }),
  };
}

function createService(
  { environment, service, dynamoDb }: Pick<ServiceContext, 'environment' | 'service' | 'dynamoDb'>,
  { runtime: clock, createClient, createPool, createGunzip }: Platform,
  remainingMs: () => number,
): ServiceClient {
  const client = createClient(SecretsManagerClient, sdkConfig);
  const { apiKeySecret: secretId = '', table, service: name } = environment;
  const secret = createSecretApiKey({ client, secretId, now: clock.now });
  const renewed = { source: secret, secretsManager: client, secretId, client: dynamoDb, table, service: name };
  return createServiceClient(service, {
    network: createSecretNetwork({ client, settings: service, now: clock.now }),
    apiKey: renewsSecret(service) ? createRenewedSecret({ ...renewed, remainingMs, runtime: clock }) : secret,
    clock,
    createPool,
    createGunzip,
  });
}

export const handler = exportPageHandler(process.env, settingsIn(import.meta.dirname));
