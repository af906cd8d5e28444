/** The four functions as the simulated Lambda runs them: the real steps, AWS adapters and service client. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { createDynamoSlotStore } from '../../../lib/aws/dynamodb/slot-store.ts';
import { startInvocationDeadline } from '../../../lib/aws/lambda/invocation-deadline.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import type { Spool } from '../../../lib/aws/s3/spool.ts';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';
import type { ExportDefinition, LoopState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import { exportDefinition, serviceSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { createPageSlots } from '../../../lib/core/slots/page-slots.ts';
import { selectExport } from '../../../lib/core/steps/select-export.ts';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { createReportServiceClient } from '../../../lib/report-service/client/client.ts';
import { limitsOf } from '../../../lib/report-service/client/limits.ts';
import type { ExportScenario } from '../histories/scenario.ts';
import type { RetryAfterChecks } from '../invariants/retry-after.ts';
import { SimulatedNetwork } from './network.ts';
import type { Process } from './process.ts';
import type { SimulatedService } from './report-service.ts';
import { type Command, createDynamoDbClient, createS3Client, createSfnClient } from './sdk-clients.ts';
import type { ServiceTraffic } from './traffic.ts';
import type { World } from './world.ts';

export const vendor = 'ACME';
const serviceName = 'acme';
export const apiKey = 'the-key-of-the-simulation';
export const prefix = 'all/';
const baseUrl = 'https://reports.example.com';
export const serviceSettings = serviceSettingsSchema.parse({ baseUrl });
const limits = limitsOf(serviceSettings);

/** The servers that a process sends its requests to. */
export interface Endpoints {
  readonly world: World;
  readonly traffic: ServiceTraffic;
  readonly retryAfter: RetryAfterChecks;
  readonly s3: (process: Process, command: Command) => unknown;
  readonly dynamoDb: (process: Process, command: Command) => unknown;
  readonly stepFunctions: (process: Process, command: Command) => unknown;
}

/** What differs from export to export. Each has reports of its own. */
export interface ExportEndpoints {
  readonly scenario: ExportScenario;
  readonly service: SimulatedService;
}

/** Runs the step that the process was invoked for, as the functions of a service do: the payload names the export. */
export async function runStep(
  endpoints: Endpoints,
  exports: ReadonlyMap<string, ExportEndpoints>,
  maxConcurrentPages: number | undefined,
  process: Process,
  remainingMs: () => number,
): Promise<unknown> {
  const { step, payload } = process;
  const definitions = new Map(
    [...exports].map(([name, { scenario }]) => [name, exportDefinition(scenario.settings, baseUrl)]),
  );
  if (step === 'FailRun') {
    const definition = selectExport(definitions, payload.startInput);
    return failRun(commonDependencies(endpoints, process, definition), {
      failure: payload.input,
      execution: payload.execution,
    });
  }
  const definition = selectExport(definitions, payload.input);
  const common = commonDependencies(endpoints, process, definition);
  if (step === 'BeginRun') return beginRun(common, payload);
  const { scenario, service } = exports.get(definition.name) as ExportEndpoints;
  const { runtime } = process;
  const store = createS3PageStore({
    client: createS3Client(endpoints.world, process, (command) => endpoints.s3(process, command)),
    bucket: 'bucket',
    prefix,
    runtime,
    spool: memorySpool,
  });
  const loop = payload.input as LoopState;
  if (step === 'FinishRun') {
    const { publishEmptyRuns } = definition;
    const isChanged = endpoints.world.injectFault('settings-changed', process.id);
    const current = { ...definition, publishEmptyRuns: isChanged ? !publishEmptyRuns : publishEmptyRuns };
    return finishRun(
      { ...common, store, definition: current },
      { run: asRunId(loop.run), execution: payload.execution },
    );
  }
  const client = createReportServiceClient({
    baseUrl,
    vendor,
    cursorIn: scenario.cursorIn,
    apiKey: fixedApiKey(apiKey),
    limits,
    clock: runtime,
    dispatcher: new SimulatedNetwork(endpoints, process, service, limits),
  });
  const slots =
    maxConcurrentPages === undefined
      ? undefined
      : createPageSlots({
          store: createDynamoSlotStore({ ...common.table, service: serviceName, runtime }),
          limit: maxConcurrentPages,
          runtime,
        });
  const label = `page ${loop.page} of run ${loop.run}`;
  using deadline = startInvocationDeadline(remainingMs(), serviceSettings, label, runtime);
  const { maxInFlight } = scenario;
  const deps = { ...common, store, service: client, slots };
  return await exportPage(deps, { loop, execution: payload.execution, maxInFlight, ...deadline });
}

function commonDependencies(
  { world, dynamoDb, stepFunctions }: Endpoints,
  process: Process,
  definition: ExportDefinition,
) {
  const { runtime } = process;
  const table = {
    client: createDynamoDbClient(world, process, (command) => dynamoDb(process, command)),
    table: 'page-log',
  };
  return {
    definition,
    table,
    log: createDynamoPageLog({ ...table, service: serviceName, runtime }),
    executions: createExecutions(
      createSfnClient(world, process, (command) => stepFunctions(process, command)),
      process.payload.execution,
    ),
    runtime,
    emit: ({ event, ...fields }: ExportEvent) =>
      world.log(process.id, () => `emits ${event} ${JSON.stringify(fields)}`),
  };
}

/** Keeps a body in memory until it is uploaded: virtual time cannot wait for a disk. */
const memorySpool: Spool = async (chunks, use) => {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(Buffer.from(chunk));
  const body = Buffer.concat(all);
  const sha256 = createHash('sha256').update(body).digest('hex');
  return use({ bytes: body.length, sha256, read: () => Readable.from(body.length === 0 ? [] : [body]) });
};
