/** The services of a stack and their exports: outputs have their resources, and template metadata their settings. */

import { type CloudFormationClient, DescribeStackResourceCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { paginateListSchedules, type SchedulerClient } from '@aws-sdk/client-scheduler';
import { ExportError } from '../../core/errors.ts';
import type { RunEnd } from '../../core/model.ts';
import type { Runtime } from '../../core/ports.ts';
import type { StartRequest } from '../../core/start/start-input.ts';
import type { ProbedPeriod } from '../../service/client/probe-service.ts';
import { freshnessSeconds } from '../../settings/schedule-settings.ts';
import { exportDefinition, sourceOf } from '../../settings/settings.ts';
import {
  readVersioned,
  type ServiceMetadata,
  serviceMetadataKey,
  type ServiceOutput,
  serviceOutputSuffix,
} from '../../settings/deployed-settings.ts';
import { hasName } from '../errors.ts';
import { parseJson } from '../parse-json.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { createExecutions, manualName, startExecution } from '../step-functions/executions.ts';
import type { DeployedStartOptions } from '../step-functions/follow-run.ts';
import type { OperatorClients } from './clients.ts';

export function servicesOf({ Outputs = [] }: Stack): readonly ServiceOutput[] {
  return Outputs.flatMap(({ OutputKey = '', OutputValue = '' }) =>
    OutputKey.endsWith(serviceOutputSuffix) ? (readVersioned<ServiceOutput>(OutputValue) ?? []) : [],
  );
}

/** A service as it is deployed: its resources, its settings and its schedules. */
export interface StackService extends ServiceMetadata {
  readonly output: ServiceOutput;
}

/**
 * Needs cloudformation:DescribeStackResource.
 * @throws ConfigurationError if this version cannot read the settings of the service
 */
export async function readService(
  client: CloudFormationClient,
  StackName: string,
  output: ServiceOutput,
): Promise<StackService> {
  const { service, stateMachineId: LogicalResourceId } = output;
  const unreadable = (reason: string, cause?: unknown) =>
    new ExportError(
      'ConfigurationError',
      `This version of report-exporter cannot read the settings of service ${service} in stack ${StackName}: ${reason}. ` +
        'Use the version that deployed the stack, or deploy it with this one',
      { cause },
    );
  const command = new DescribeStackResourceCommand({ StackName, LogicalResourceId });
  const { StackResourceDetail } = await client.send(command).catch((error: unknown) => {
    // CloudFormation reports a missing resource so.
    throw hasName(error, 'ValidationError') ? unreadable(`there is no resource ${LogicalResourceId}`, error) : error;
  });
  const metadata = parseJson(StackResourceDetail?.Metadata) as Readonly<Record<string, unknown>> | null | undefined;
  const text = metadata?.[serviceMetadataKey];
  if (text === undefined) throw unreadable(`resource ${LogicalResourceId} has no metadata ${serviceMetadataKey}`);
  const found = readVersioned<ServiceMetadata>(text);
  if (found === undefined) throw unreadable('they have another version');
  return { output, ...found };
}

/**
 * The exports of the service. Sends no request; the schedules are read once for all of them. What takes long to load,
 * and few commands need, is imported when it is needed.
 */
export function openExports(
  { output, service: serviceSettings, exports }: StackService,
  clients: OperatorClients,
  runtime: Runtime,
) {
  const { service: serviceName, stateMachineArn, table, bucket, prefix, exportPageFunction } = output;
  const { apiKeySecret: secretId } = output;
  const { stepFunctions: client } = clients;
  const readSchedules = readOnce(async () => {
    const { scheduleGroup: group } = output;
    return group === undefined ? undefined : await listSchedules(clients.scheduler, group);
  });
  // The client of the service, and that of Lambda.
  const reach = async () => await import('./service-connection.ts');
  const connection = async () => (await reach()).serviceConnection(serviceSettings, secretId, clients, runtime);
  const deployed = {
    settings: serviceSettings,
    describeNetwork: async () => await (await connection()).describeNetwork(),
    address: sourceOf(serviceSettings.baseUrl),
    maxConcurrentPages: serviceSettings.maxConcurrentPages,
    keySource: secretId === undefined ? 'none is needed' : `secret ${secretId}`,
  };
  return exports.map(({ schedule, ...settings }) => {
    const { name } = settings;
    const log = createDynamoPageLog({ client: clients.dynamoDb, table, service: serviceName, runtime });
    const store = createS3PageStore({ client: clients.s3, bucket, prefix, runtime });
    const definition = exportDefinition(settings, sourceOf(serviceSettings.baseUrl), serviceSettings);
    return {
      name,
      definition,
      service: {
        ...deployed,
        api: settings.api,
        connect: async () => await (await connection()).connect(settings.api),
      },
      serviceName,
      freshnessSeconds: freshnessSeconds(schedule),
      store,
      log,
      loadReportReader: async () =>
        (await import('../../service/formats/values/report-reader.ts')).reportReaderOf(settings.parents),
      executions: createExecutions(client, stateMachineArn),
      async readSchedule() {
        const kind = schedule && (await readSchedules())?.get(name);
        if (schedule === undefined || kind === undefined) return { kind: 'manual' } as const;
        return { kind, expression: schedule.expression, timeZone: schedule.timeZone };
      },
      probeFromFunction: {
        functionArn: exportPageFunction,
        probe: async (period: ProbedPeriod) =>
          await (await reach()).probeFromFunction(clients, exportPageFunction, name, period),
      },
      async lastIncident(execution: string) {
        const { readLastIncident } = await import('../step-functions/history.ts');
        return await readLastIncident(client, execution);
      },
      async start(request: StartRequest, options: DeployedStartOptions): Promise<RunEnd> {
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

/**
 * The states of the schedules of a group, which may have changed since the deployment. None if the group was deleted.
 * Needs scheduler:ListSchedules.
 */
export async function listSchedules(
  client: SchedulerClient,
  GroupName: string,
): Promise<ReadonlyMap<string, 'scheduled' | 'disabled'>> {
  const schedules = new Map<string, 'scheduled' | 'disabled'>();
  try {
    for await (const { Schedules = [] } of paginateListSchedules({ client }, { GroupName, MaxResults: 100 })) {
      for (const { Name = '', State } of Schedules)
        schedules.set(Name, State === 'DISABLED' ? 'disabled' : 'scheduled');
    }
  } catch (error) {
    if (!hasName(error, 'ResourceNotFoundException')) throw error;
  }
  return schedules;
}

/** Reads the value once, and again only after an error. */
export function readOnce<Value>(read: () => Promise<Value>): () => Promise<Value> {
  let reading: Promise<Value> | undefined;
  return async () => {
    reading ??= read();
    return await reading.catch((error: unknown) => {
      reading = undefined;
      throw error;
    });
  };
}
