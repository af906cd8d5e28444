/** A deployed export. Its settings are those of its functions, read when it is opened. */

import { GetFunctionConfigurationCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import { ExportError } from '../../core/errors.ts';
import type { DeployedExport, DeployedService, StartRequest } from '../../core/operations/deployment.ts';
import type { Runtime } from '../../core/ports.ts';
import { readFunctionEnvironment, type StepEnvironment, stepVariables } from '../../core/settings/environment.ts';
import { exportDefinition, sourceOf } from '../../core/settings/settings.ts';
import type { ExportOutput } from '../../core/settings/stack-output.ts';
import { createReportServiceClient } from '../../report-service/client/client.ts';
import { limitsOf } from '../../report-service/client/limits.ts';
import { createDynamoPageLog } from '../dynamodb/page-log.ts';
import { createS3PageStore } from '../s3/page-store.ts';
import { nextStartOf } from '../scheduler/next-start.ts';
import { createSecretApiKey } from '../secret-api-key.ts';
import { createExecutions } from '../step-functions/executions.ts';
import { followExecution } from '../step-functions/follow-execution.ts';
import { incidentsOf, lastIncidentOf } from '../step-functions/incidents.ts';
import { takeSnapshot } from '../step-functions/progress-poller.ts';
import type { OperatorClients } from './clients.ts';

/** @throws ConfigurationError if its function does not exist, or has settings that this version cannot read */
export async function openDeployedExport(
  { export: name, stateMachineArn, exportPageFunction, schedule }: ExportOutput,
  clients: OperatorClients,
  runtime: Runtime,
): Promise<DeployedExport> {
  const settings = await readSettings(clients.lambda, exportPageFunction, name);
  const { stepFunctions: client } = clients;
  const log = createDynamoPageLog({ client: clients.dynamoDb, table: settings.TABLE_NAME, runtime });
  const store = createS3PageStore({
    client: clients.s3,
    bucket: settings.BUCKET_NAME,
    prefix: settings.KEY_PREFIX,
    runtime,
  });
  const incidentDependencies = { client, stateMachineArn, log, now: runtime.now };
  return {
    name,
    definition: exportDefinition(settings.EXPORT_SETTINGS, sourceOf(settings.SERVICE_SETTINGS.baseUrl)),
    service: deployedService(settings, clients, runtime),
    store,
    log,
    executions: createExecutions(client),
    nextStart: () =>
      nextStartOf(schedule, {
        client: clients.scheduler,
        now: runtime.now,
        lastScheduledTime: async () => (await log.exportState(name))?.lastScheduledTime,
      }),
    incidents: (run) => incidentsOf(incidentDependencies, run),
    lastIncident: (run) => lastIncidentOf(incidentDependencies, run),
    async start(request, options) {
      const before = options.follow ? await takeSnapshot(log, name) : undefined;
      const executionName = `manual-${runtime.randomHex(16)}`;
      const input = JSON.stringify(startInput(request));
      const executionArn = await startExecution(client, stateMachineArn, executionName, input);
      options.say(`Execution ${executionArn}`);
      if (before === undefined) return { status: 'started', execution: executionArn, run: null };
      const deps = { client, exportName: name, log, store, clock: runtime };
      return await followExecution(deps, executionArn, before, options);
    },
  };
}

/**
 * Starts an execution under a unique name and returns its ARN. The name makes the start idempotent: if the SDK retries a
 * request whose response was lost, it gets the same execution, or ExecutionAlreadyExists if that has ended.
 */
async function startExecution(
  client: SFNClient,
  stateMachineArn: string,
  name: string,
  input: string,
): Promise<string> {
  try {
    const { executionArn = '' } = await client.send(new StartExecutionCommand({ stateMachineArn, name, input }));
    return executionArn;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'ExecutionAlreadyExists') throw error;
    return `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
  }
}

function startInput({ since, restart }: StartRequest) {
  return { ...(since === undefined ? {} : { since }), ...(restart === true ? { restart } : {}) };
}

async function readSettings(
  client: LambdaClient,
  FunctionName: string,
  exportName: string,
): Promise<StepEnvironment<'ExportPage'>> {
  const unreadable = (reason: string, cause?: unknown) =>
    new ExportError(
      'ConfigurationError',
      `The settings of export ${exportName} cannot be read: ${reason}. Update the stack: npx cdk deploy`,
      { cause },
    );
  try {
    const { Environment } = await client.send(new GetFunctionConfigurationCommand({ FunctionName }));
    if (Environment?.Error !== undefined) {
      throw unreadable(`Lambda does not return the environment of ${FunctionName} (${Environment.Error.Message})`);
    }
    return readFunctionEnvironment(Environment?.Variables ?? {}, stepVariables.ExportPage);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'ResourceNotFoundException') throw error;
    throw unreadable(`there is no function ${FunctionName}`, error);
  }
}

function deployedService(
  settings: StepEnvironment<'ExportPage'>,
  clients: OperatorClients,
  clock: Runtime,
): DeployedService {
  const { baseUrl, vendor, cursorIn, ...limits } = settings.SERVICE_SETTINGS;
  const { API_KEY_SECRET_ID: secretId, API_KEY_SECRET_FIELD: field } = settings;
  return {
    address: sourceOf(baseUrl),
    vendor,
    cursorIn,
    keySource: field === '' ? `secret ${secretId}` : `field ${field} of secret ${secretId}`,
    async connect() {
      const apiKey = createSecretApiKey({ client: clients.secretsManager, secretId, field, now: clock.now });
      // Read first, so that a missing key is not reported as a failed request.
      await apiKey.get();
      const service = createReportServiceClient({ baseUrl, vendor, cursorIn, apiKey, limits: limitsOf(limits), clock });
      return {
        fetchPage: (request, signal) => service.fetchPage(request, signal),
        [Symbol.asyncDispose]: () => service.close(),
      };
    },
  };
}
