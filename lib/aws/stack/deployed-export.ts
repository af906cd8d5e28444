/** A deployed export, with the settings that its service was deployed with. */

import { tmpdir } from 'node:os';
import type { DeployedExport, DeployedService, StartRequest } from '../../target/target.ts';
import type { Runtime } from '../../core/ports.ts';
import { exportDefinition, sourceOf, untilOperatorOf } from '../../settings/settings.ts';
import { fixedApiKey } from '../../service/client/api-key.ts';
import { serviceClient } from '../../service/client/client.ts';
import { describeNetwork } from '../../service/network/network.ts';
import { createDynamoIncidentLog } from '../dynamodb/incident-log.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createDynamoSlotStore } from '../dynamodb/slot-store.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { fileSpool, type Spool } from '../s3/spool.ts';
import { nextStartOf } from '../scheduler/next-start.ts';
import { createSecretApiKey, createSecretNetwork } from '../secrets.ts';
import { manualName } from '../step-functions/execution-names.ts';
import { createExecutions } from '../step-functions/executions.ts';
import { followExecution } from '../step-functions/follow-execution.ts';
import { takeSnapshot } from '../step-functions/progress-poller.ts';
import { readRunIncidents } from '../step-functions/run-incidents.ts';
import { startExecution } from '../step-functions/start-execution.ts';
import type { OperatorClients } from './clients.ts';
import { deployedBackfill } from './deployed-backfill.ts';
import { probeFromFunction } from './function-probe.ts';
import type { StackExport } from './services.ts';

/** Of what a command writes, which is small. */
const spool: Spool = (chunks, use) => fileSpool(tmpdir())(chunks, use, 'Free some space there, and start again');

/** Sends no request. */
export function openDeployedExport(
  { name, settings, serviceSettings, service, spareConcurrency, schedule }: StackExport,
  clients: OperatorClients,
  runtime: Runtime,
): DeployedExport {
  const { stateMachineArn, table, bucket, prefix, bucketKeyArn: kmsKeyArn } = service;
  const { stepFunctions: client } = clients;
  const items = { client: clients.dynamoDb, table, service: service.service, runtime };
  const log = createDynamoPageLog(items);
  const { backfills } = log;
  const incidentLog = createDynamoIncidentLog(items);
  const store = createS3PageStore({ client: clients.s3, bucket, prefix, kmsKeyArn, runtime, spool });
  const definition = exportDefinition(settings, sourceOf(serviceSettings.baseUrl), serviceSettings);
  const reportService = deployedService({ serviceSettings, service, spareConcurrency }, clients, runtime);
  return {
    name,
    definition,
    service: reportService,
    serviceName: service.service,
    freshnessSeconds: schedule?.freshnessSeconds,
    store,
    log,
    backfills,
    executions: createExecutions(client, stateMachineArn),
    probeFromFunction: {
      functionArn: service.exportPageFunction,
      probe: (since) => probeFromFunction(clients.lambda, service.exportPageFunction, name, since),
    },
    nextStart: () =>
      nextStartOf(schedule && { name, group: schedule.group }, {
        client: clients.scheduler,
        now: runtime.now,
        lastScheduledTime: async () => (await log.exportState(name))?.lastScheduledTime,
      }),
    incidents: (run) => readRunIncidents({ log, incidentLog, client, stateMachineArn }, run),
    ...deployedBackfill({
      name,
      definition,
      service: reportService,
      output: service,
      log,
      backfills,
      store,
      clients,
      runtime,
    }),
    async start(request, options) {
      const before = options.follow ? await takeSnapshot(log, incidentLog, name) : undefined;
      const executionName = manualName(name, runtime.randomHex(16));
      const input = JSON.stringify(startInput(name, request));
      const executionArn = await startExecution(client, stateMachineArn, executionName, input);
      options.say(`Execution ${executionArn}`);
      options.onStarted?.(executionArn);
      if (before === undefined) return { status: 'started', execution: executionArn, run: null };
      const slots = serviceSettings.maxConcurrentPages === undefined ? undefined : createDynamoSlotStore(items);
      const deps = { client, exportName: name, log, incidents: incidentLog, slots, store, clock: runtime };
      return await followExecution(deps, executionArn, before, options);
    },
  };
}

function startInput(exportName: string, { since, restart }: StartRequest) {
  return {
    export: exportName,
    ...(since === undefined ? {} : { since }),
    ...(restart === true ? { restart } : {}),
  };
}

function deployedService(
  {
    serviceSettings: settings,
    service,
    spareConcurrency,
  }: Pick<StackExport, 'serviceSettings' | 'service' | 'spareConcurrency'>,
  clients: OperatorClients,
  clock: Runtime,
): DeployedService {
  const { apiKeySecret: secretId, apiKeyField: field } = service;
  const network = createSecretNetwork({ client: clients.secretsManager, settings, now: clock.now });
  return {
    settings,
    describeNetwork: async () => describeNetwork(await network.get()),
    address: sourceOf(settings.baseUrl),
    untilOperator: untilOperatorOf(settings),
    maxConcurrentPages: settings.maxConcurrentPages,
    spareConcurrency,
    keySource:
      secretId === undefined
        ? 'none is needed'
        : field === ''
          ? `secret ${secretId}`
          : `field ${field} of secret ${secretId}`,
    async connect() {
      const apiKey =
        secretId === undefined
          ? fixedApiKey('')
          : createSecretApiKey({ client: clients.secretsManager, secretId, field, now: clock.now });
      // Read first, so that a missing key is not reported as a failed request.
      await apiKey.get();
      return serviceClient(settings, { network, apiKey, clock });
    },
  };
}
