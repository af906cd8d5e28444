/** The four functions as the simulated Lambda runs them: the real steps, AWS adapters and service client. */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { startInvocationDeadline } from '../../../lib/aws/lambda/invocation-deadline.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import type { Spool } from '../../../lib/aws/s3/spool.ts';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { exportDefinition, serviceSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { createReportServiceClient } from '../../../lib/report-service/client/client.ts';
import { limitsOf } from '../../../lib/report-service/client/limits.ts';
import type { ExportScenario } from '../histories/scenario.ts';
import { SimulatedNetwork } from './network.ts';
import type { Process } from './process.ts';
import type { SimulatedService } from './report-service.ts';
import { type Command, createDynamoDbClient, createS3Client, createSfnClient } from './sdk-clients.ts';
import type { World } from './world.ts';

export const vendor = 'ACME';
export const apiKey = 'the-key-of-the-simulation';
export const prefix = 'all/';
const baseUrl = 'https://reports.example.com';
export const serviceSettings = serviceSettingsSchema.parse({ baseUrl });
const limits = limitsOf(serviceSettings);

/** The servers that a process sends its requests to. */
export interface Endpoints {
  readonly world: World;
  readonly service: SimulatedService;
  readonly s3: (process: Process, command: Command) => unknown;
  readonly dynamoDb: (process: Process, command: Command) => unknown;
  readonly stepFunctions: (process: Process, command: Command) => unknown;
}

/** Runs the step that the process was invoked for. */
export async function runStep(
  endpoints: Endpoints,
  scenario: ExportScenario,
  process: Process,
  remainingMs: () => number,
): Promise<unknown> {
  const { world } = endpoints;
  const { runtime, step, payload } = process;
  const deps: StepDependencies = {
    definition: exportDefinition(scenario.settings, baseUrl),
    service: createReportServiceClient({
      baseUrl,
      vendor,
      cursorIn: scenario.cursorIn,
      apiKey: fixedApiKey(apiKey),
      limits,
      clock: runtime,
      dispatcher: new SimulatedNetwork(world, process, endpoints.service, limits),
    }),
    store: createS3PageStore({
      client: createS3Client(world, process, (command) => endpoints.s3(process, command)),
      bucket: 'bucket',
      prefix,
      runtime,
      spool: memorySpool,
    }),
    log: createDynamoPageLog({
      client: createDynamoDbClient(world, process, (command) => endpoints.dynamoDb(process, command)),
      table: 'page-log',
      runtime,
    }),
    executions: createExecutions(
      createSfnClient(world, process, (command) => endpoints.stepFunctions(process, command)),
    ),
    runtime,
    emit: ({ event, ...fields }) => world.log(process.id, () => `emits ${event} ${JSON.stringify(fields)}`),
  };
  switch (step) {
    case 'BeginRun':
      return beginRun(deps, payload);
    case 'ExportPage': {
      const loop = payload.input as LoopState;
      const label = `page ${loop.page} of run ${loop.run}`;
      using deadline = startInvocationDeadline(remainingMs(), serviceSettings, label, runtime);
      const { maxInFlight } = scenario;
      return await exportPage(deps, { loop, execution: payload.execution, maxInFlight, ...deadline });
    }
    case 'FinishRun':
      return finishRun(deps, { run: asRunId((payload.input as LoopState).run), execution: payload.execution });
    case 'FailRun':
      return failRun(deps, { failure: payload.input, execution: payload.execution });
  }
}

/** Keeps a body in memory until it is uploaded: virtual time cannot wait for a disk. */
const memorySpool: Spool = async (chunks, use) => {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(Buffer.from(chunk));
  const body = Buffer.concat(all);
  const sha256 = createHash('sha256').update(body).digest('hex');
  return use({ bytes: body.length, sha256, read: () => Readable.from(body.length === 0 ? [] : [body]) });
};
