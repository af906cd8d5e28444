/** A deployed export, with the settings that its service was deployed with. */

import type { DeployedExport, DeployedService } from '../../target/target.ts';
import type { Runtime } from '../../core/ports.ts';
import { exportDefinition, sourceOf } from '../../settings/settings.ts';
import { fixedApiKey } from '../../service/client/api-key.ts';
import { serviceClient } from '../../service/client/client.ts';
import { describeNetwork } from '../../service/network/network.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { readSchedule } from '../scheduler/schedules.ts';
import { createSecretApiKey, createSecretNetwork } from '../secrets.ts';
import { readLastIncident } from '../step-functions/execution-events.ts';
import { manualName } from '../step-functions/execution-names.ts';
import { createExecutions } from '../step-functions/executions.ts';
import { followSeries } from '../step-functions/follow-execution.ts';
import { takeSnapshot } from '../step-functions/progress-poller.ts';
import { startExecution } from '../step-functions/start-execution.ts';
import { definitionFor } from '../../core/steps/begin-run.ts';
import { parseStartInput } from '../../core/steps/start-input.ts';
import type { OperatorClients } from './clients.ts';
import { probeFromFunction } from './function-probe.ts';
import type { StackExport } from './services.ts';

/** Sends no request. */
export function openDeployedExport(
  { name, settings, serviceSettings, service, schedule }: StackExport,
  clients: OperatorClients,
  runtime: Runtime,
): DeployedExport {
  const { stateMachineArn, table, bucket, prefix } = service;
  const { stepFunctions: client } = clients;
  const items = { client: clients.dynamoDb, table, service: service.service, runtime };
  const log = createDynamoPageLog(items);
  const store = createS3PageStore({ client: clients.s3, bucket, prefix, runtime });
  const definition = exportDefinition(settings, sourceOf(serviceSettings.baseUrl), serviceSettings);
  return {
    name,
    definition,
    service: deployedService({ serviceSettings, service }, clients, runtime),
    serviceName: service.service,
    freshnessSeconds: schedule?.freshnessSeconds,
    store,
    log,
    executions: createExecutions(client, stateMachineArn),
    probeFromFunction: {
      functionArn: service.exportPageFunction,
      probe: (since) => probeFromFunction(clients.lambda, service.exportPageFunction, name, since),
    },
    readSchedule: () => readSchedule(clients.scheduler, schedule && { name, group: schedule.group }),
    lastIncident: (execution) => readLastIncident(client, execution),
    async start(request, options) {
      const input = { export: name, ...request };
      const deps = { client, exportName: name, log, store, clock: runtime };
      const open = async (startInput: unknown, execution = '') => {
        const parsed = parseStartInput(startInput);
        const { stateName } = await definitionFor({ definition, log, runtime }, parsed, execution);
        return [{ ...deps, stateName }, await takeSnapshot(log, stateName)] as const;
      };
      const opened = options.follow ? await open(input) : undefined;
      const executionName = manualName(name, runtime.randomHex(16));
      const executionArn = await startExecution(client, stateMachineArn, executionName, JSON.stringify(input));
      options.say(`Execution ${executionArn}`);
      options.onStarted?.(executionArn);
      if (opened === undefined) return { status: 'started', execution: executionArn, run: null };
      return await followSeries(open, executionArn, opened, options);
    },
  };
}

function deployedService(
  { serviceSettings: settings, service }: Pick<StackExport, 'serviceSettings' | 'service'>,
  clients: OperatorClients,
  clock: Runtime,
): DeployedService {
  const { apiKeySecret: secretId, apiKeyField: field } = service;
  const network = createSecretNetwork({ client: clients.secretsManager, settings, now: clock.now });
  return {
    settings,
    describeNetwork: async () => describeNetwork(await network.get()),
    address: sourceOf(settings.baseUrl),
    maxConcurrentPages: settings.maxConcurrentPages,
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
