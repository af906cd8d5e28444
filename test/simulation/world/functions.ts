/** The four steps as functions of the simulated Lambda: the real steps over the real adapters and the real client. */

import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { startInvocationDeadline } from '../../../lib/aws/lambda/invocation-deadline.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { createExecutions } from '../../../lib/aws/step-functions/executions.ts';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { ExportEvent, StepDependencies } from '../../../lib/core/ports.ts';
import { exportDefinition, serviceSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { fixedApiKey } from '../../../lib/report-service/client/api-key.ts';
import { createReportServiceClient } from '../../../lib/report-service/client/client.ts';
import { limitsOf } from '../../../lib/report-service/client/limits.ts';
import type { ExportSetting } from '../histories/scenario.ts';
import { memorySpool } from './memory-spool.ts';
import { SimulatedNetwork } from './network.ts';
import type { Process } from './process.ts';
import type { SimulatedService } from './report-service.ts';
import { type Command, dynamoDbClientOf, s3ClientOf, sfnClientOf } from './sdk-clients.ts';
import type { World } from './world.ts';

export const vendor = 'ACME';
export const apiKey = 'the-key-of-the-simulation';
export const prefix = 'all/';
const baseUrl = 'https://reports.example.com';
const { baseUrl: _, vendor: __, cursorIn: ___, ...patience } = serviceSettingsSchema.parse({ baseUrl });
const limits = limitsOf(patience);

/** How the outside answers, each for the process that asks. */
export interface Outside {
  readonly world: World;
  readonly service: SimulatedService;
  readonly s3: (process: Process, command: Command) => unknown;
  readonly dynamoDb: (process: Process, command: Command) => unknown;
  readonly stepFunctions: (process: Process, command: Command) => unknown;
}

/** Does what the process is for. */
export async function runStep(
  outside: Outside,
  setting: ExportSetting,
  process: Process,
  remainingMs: () => number,
): Promise<unknown> {
  const { world } = outside;
  const { runtime, step, payload } = process;
  const deps: StepDependencies = {
    definition: exportDefinition(setting.settings, baseUrl),
    service: createReportServiceClient({
      baseUrl,
      vendor,
      cursorIn: setting.cursorIn,
      apiKey: fixedApiKey(apiKey),
      limits,
      clock: runtime,
      dispatcher: new SimulatedNetwork(world, process, outside.service, limits),
    }),
    store: createS3PageStore({
      client: s3ClientOf(world, process, (command) => outside.s3(process, command)),
      bucket: 'bucket',
      prefix,
      runtime,
      spool: memorySpool,
    }),
    log: createDynamoPageLog({
      client: dynamoDbClientOf(world, process, (command) => outside.dynamoDb(process, command)),
      table: 'page-log',
      runtime,
    }),
    executions: createExecutions(sfnClientOf(world, process, (command) => outside.stepFunctions(process, command))),
    runtime,
    emit: (event) => world.tell(process.id, () => `says ${wordsOf(event)}`),
  };
  switch (step) {
    case 'BeginRun':
      return beginRun(deps, payload);
    case 'ExportPage': {
      const loop = payload.input as LoopState;
      using time = startInvocationDeadline(remainingMs(), patience, `page ${loop.page} of run ${loop.run}`, runtime);
      const { maxInFlight } = setting;
      return await exportPage(deps, { loop, execution: payload.execution, maxInFlight, ...time });
    }
    case 'FinishRun':
      return finishRun(deps, { run: asRunId((payload.input as LoopState).run), execution: payload.execution });
    case 'FailRun':
      return failRun(deps, { failure: payload.input, execution: payload.execution });
  }
}

const wordsOf = ({ event, ...facts }: ExportEvent): string => `${event} ${JSON.stringify(facts)}`;
