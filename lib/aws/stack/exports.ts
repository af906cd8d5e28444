/** The exports of a stack, with the settings that their services were deployed with. */

import type { Runtime } from '../../core/ports.ts';
import { exportDefinition, sourceOf } from '../../settings/settings.ts';
import type { ExportTarget, DeployedService } from '../../target/target.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { listSchedules } from '../scheduler/schedules.ts';
import { createExecutions, manualName, startExecution } from '../step-functions/executions.ts';
import type { OperatorClients } from './clients.ts';
import type { StackExport } from './services.ts';

/**
 * Sends no request. The schedules of a group are read once for all its exports. What takes long to load, and few commands need, is
 * imported when it is needed.
 */
export function openExports(
  exports: readonly StackExport[],
  clients: OperatorClients,
  runtime: Runtime,
): readonly ExportTarget[] {
  const { stepFunctions: client } = clients;
  const schedulesIn = readOnce((group) => listSchedules(clients.scheduler, group));
  return exports.map(({ name, settings, serviceSettings, service, schedule }): ExportTarget => {
    const { stateMachineArn, table, bucket, prefix, exportPageFunction } = service;
    const log = createDynamoPageLog({ client: clients.dynamoDb, table, service: service.service, runtime });
    const store = createS3PageStore({ client: clients.s3, bucket, prefix, runtime });
    const definition = exportDefinition(settings, sourceOf(serviceSettings.baseUrl), serviceSettings);
    return {
      name,
      definition,
      service: deployedService({ serviceSettings, service }, clients, runtime),
      serviceName: service.service,
      freshnessSeconds: typeof schedule?.freshness === 'number' ? schedule.freshness / 1_000 : undefined,
      store,
      log,
      executions: createExecutions(client, stateMachineArn),
      async readSchedule() {
        const kind = schedule && (await schedulesIn(schedule.group)).get(name);
        if (schedule === undefined || kind === undefined) return { kind: 'manual' };
        return { kind, expression: schedule.expression, timeZone: schedule.timeZone };
      },
      probeFromFunction: {
        functionArn: exportPageFunction,
        async probe(since) {
          const { probeFromFunction } = await import('./function-probe.ts');
          return await probeFromFunction(clients, exportPageFunction, name, since);
        },
      },
      async lastIncident(execution) {
        const { readLastIncident } = await import('../step-functions/history.ts');
        return await readLastIncident(client, execution);
      },
      async start(request, options) {
        const input = { export: name, ...request };
        const executionName = manualName(name, runtime.randomHex(16));
        const execution = await startExecution(client, stateMachineArn, executionName, JSON.stringify(input));
        options.notify(`Execution ${execution}`);
        options.onStarted?.(execution);
        if (!options.follow) return { status: 'started', execution, run: null };
        const { followExecution } = await import('../step-functions/follow-run.ts');
        return await followExecution({ client, definition, log, store, runtime }, execution, input, options);
      },
    };
  });
}

/** Reads the value of each key once, and again only after an error. */
export function readOnce<Value>(read: (key: string) => Promise<Value>): (key: string) => Promise<Value> {
  const values = new Map<string, Promise<Value>>();
  return async (key) => {
    const reading = values.get(key) ?? read(key);
    values.set(key, reading);
    try {
      return await reading;
    } catch (error) {
      values.delete(key);
      throw error;
    }
  };
}

function deployedService(
  { serviceSettings: settings, service }: Pick<StackExport, 'serviceSettings' | 'service'>,
  clients: OperatorClients,
  clock: Runtime,
): DeployedService {
  const { apiKeySecret: secretId, apiKeyField: field } = service;
  const secret = field === '' ? `secret ${secretId}` : `field ${field} of secret ${secretId}`;
  const connection = async () => {
    const { serviceConnection } = await import('./service-connection.ts');
    return serviceConnection(settings, { secretId, field }, clients, clock);
  };
  return {
    settings,
    describeNetwork: async () => await (await connection()).describeNetwork(),
    address: sourceOf(settings.baseUrl),
    maxConcurrentPages: settings.maxConcurrentPages,
    keySource: secretId === undefined ? 'none is needed' : secret,
    connect: async () => await (await connection()).connect(),
  };
}
