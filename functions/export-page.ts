/** The ExportPage function: fetches, stores and logs one page, or several while the invocation has time. */

import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { createDynamoSlotStore } from '../lib/aws/dynamodb/slot-store.ts';
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
import { exportPage } from '../lib/core/steps/export-page.ts';
import type { ExportPageOutcome } from '../lib/core/steps/loop-outcome.ts';
import { type ProbeResult, probeSchema, probeService } from '../lib/service/client/probe-service.ts';
import { maxParallel } from '../lib/core/slices.ts';
import { createPageSlots } from '../lib/core/slots/page-slots.ts';
import { renewsSecret } from '../lib/service/api/auth/kinds.ts';
import { createServiceClient, type ServiceClient } from '../lib/service/client/client.ts';

type Outcome = ExportPageOutcome | ProbeResult;

export function exportPageHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<Outcome> {
  const createStep = (telemetry: Telemetry): StepHandler<Outcome> => {
    const context = openServiceContext(env, loadSettings, telemetry, platform);
    const { environment, service: settings, dynamoDb } = context;
    const { runtime, maxInFlight } = platform;
    let remainingMs = () => 0;
    const client = createService(context, platform, () => remainingMs());
    const store = functionPageStore(context, env, platform);
    const { table, service: name } = environment;
    const { maxConcurrentPages: limit } = settings;
    const slotStore = createDynamoSlotStore({ client: dynamoDb, table, service: name, runtime });
    const slots = limit === undefined ? undefined : createPageSlots({ store: slotStore, limit, runtime });
    return async ({ input, execution, retries, probe }, { getRemainingTimeInMillis }) => {
      remainingMs = getRemainingTimeInMillis;
      if (probe !== undefined) {
        const { export: name, ...period } = probeSchema.parse(probe);
        const { definition, log, api } = context.dependenciesFor({ export: name });
        const service = client.describedBy(api);
        return await probeService({ definition, service, log, runtime }, period);
      }
      const { api, ...common } = context.dependenciesFor(input);
      const deps = { ...common, service: client.describedBy(api), store, slots };
      const loop = input as LoopState;
      const label = `page ${loop.page} of run ${loop.run}`;
      const slices = loop.slices === undefined ? 1 : maxParallel;
      const invocation = { remainingMs: getRemainingTimeInMillis(), label, slices };
      using deadline = startInvocationDeadline(invocation, settings, runtime);
      return await exportPage(deps, { loop, execution, retries, maxInFlight, ...deadline });
    };
  };
  return stepHandler(createStep, platform, { acceptsProbe: true });
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
