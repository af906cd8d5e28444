/** The exports of a stack, with the settings that their services were deployed with. */

import type { Runtime } from '../../core/ports.ts';
import { exportDefinition, sourceOf } from '../../settings/settings.ts';
import type { ExportTarget, DeployedService } from '../../target/target.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { listSchedules } from '../scheduler/schedules.ts';
import { createExecutions, listRunningExecutions, manualName, startExecution } from '../step-functions/executions.ts';
import { followExecution, readFollowStart } from '../step-functions/follow-run.ts';
import { readLastIncident } from '../step-functions/history.ts';
import type { OperatorClients } from './clients.ts';
import type { StackExport } from './services.ts';

/**
 * Sends no request. What one request can read of several exports is read once: the schedules of a group and, of more than one
 * export, the running executions of a state machine.
 */
export function openExports(
  exports: readonly StackExport[],
  clients: OperatorClients,
  runtime: Runtime,
): readonly ExportTarget[] {
  const schedulesIn = readOnce((group) => listSchedules(clients.scheduler, group));
  const runningOn = readOnce((machine) => listRunningExecutions(clients.stepFunctions, machine));
  return exports.map((each) => {
    const { schedule, service } = each;
    const opened = openExport(each, clients, runtime);
    const { executions } = opened;
    return {
      ...opened,
      executions: {
        ...executions,
        // The list may lack an execution that started just now.
        isRunning: async (execution) =>
          (exports.length > 1 && (await runningOn(service.stateMachineArn)).has(execution)) ||
          (await executions.isRunning(execution)),
      },
      async readSchedule() {
        const kind = schedule && (await schedulesIn(schedule.group)).get(each.name);
        if (schedule === undefined || kind === undefined) return { kind: 'manual' };
        return { kind, expression: schedule.expression, timeZone: schedule.timeZone };
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

function openExport(
  { name, settings, serviceSettings, service, schedule }: StackExport,
  clients: OperatorClients,
  runtime: Runtime,
): Omit<ExportTarget, 'readSchedule'> {
  const { stateMachineArn, table, bucket, prefix, exportPageFunction } = service;
  const { stepFunctions: client } = clients;
  const log = createDynamoPageLog({ client: clients.dynamoDb, table, service: service.service, runtime });
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
      functionArn: exportPageFunction,
      async probe(since) {
        const { probeFromFunction } = await import('./function-probe.ts');
        return await probeFromFunction(clients, exportPageFunction, name, since);
      },
    },
    lastIncident: (execution) => readLastIncident(client, execution),
    async start(request, options) {
      const deps = { client, definition, log, store, runtime };
      const input = { export: name, ...request };
      const start = options.follow ? await readFollowStart(deps, input) : undefined;
      const executionName = manualName(name, runtime.randomHex(16));
      const execution = await startExecution(client, stateMachineArn, executionName, JSON.stringify(input));
      options.notify(`Execution ${execution}`);
      options.onStarted?.(execution);
      if (start === undefined) return { status: 'started', execution, run: null };
      return await followExecution(deps, execution, start, options);
    },
  };
}

function deployedService(
  { serviceSettings: settings, service }: Pick<StackExport, 'serviceSettings' | 'service'>,
  clients: OperatorClients,
  clock: Runtime,
): DeployedService {
  const { apiKeySecret: secretId, apiKeyField: field } = service;
  // The client takes long to load, and most commands do not need it.
  const connection = readOnce(async () => {
    const { serviceConnection } = await import('./service-connection.ts');
    return serviceConnection(settings, { secretId, field }, clients, clock);
  });
  return {
    settings,
    describeNetwork: async () => await (await connection('')).describeNetwork(),
    address: sourceOf(settings.baseUrl),
    maxConcurrentPages: settings.maxConcurrentPages,
    keySource:
      secretId === undefined
        ? 'none is needed'
        : field === ''
          ? `secret ${secretId}`
          : `field ${field} of secret ${secretId}`,
    connect: async () => await (await connection('')).connect(),
  };
}
