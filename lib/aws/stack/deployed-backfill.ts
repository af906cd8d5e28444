/** Backfills of a deployed export: an execution of the service's second state machine exports the windows. */

import { Readable } from 'node:stream';
import { ExportError } from '../../core/errors.ts';
import type { ExportDefinition } from '../../core/model.ts';
import { assertSameBackfill, beginBackfill } from '../../backfill/plan.ts';
import { type BackfillRequest, chooseParallel } from '../../backfill/request.ts';
import { readWindowStates, remainingWindows } from '../../backfill/window-states.ts';
import type { BackfillEnd, BackfillOptions, DeployedExport, DeployedService } from '../../target/target.ts';
import type { BackfillStore } from '../../backfill/store.ts';
import { windowDefinition } from '../../backfill/window-definition.ts';
import { windowBounds } from '../../backfill/windows.ts';
import type { PageLog, PageStore, Runtime, StoreReader } from '../../core/ports.ts';
import {
  type BackfillInput,
  type WindowInput,
  windowListFolder,
} from '../../core/state-machine/backfill-definition.ts';
import type { ServiceOutput } from '../../settings/stack-output.ts';
import { backfillName } from '../step-functions/execution-names.ts';
import { findRunningBackfill, followBackfill, stopRunningBackfill } from '../step-functions/follow-backfill.ts';
import { startExecution } from '../step-functions/start-execution.ts';
import type { OperatorClients } from './clients.ts';
import { probeWindowFromFunction } from './function-probe.ts';

interface DeployedBackfillDependencies {
  readonly name: string;
  readonly definition: ExportDefinition;
  readonly service: DeployedService;
  readonly output: ServiceOutput;
  readonly log: PageLog;
  readonly backfills: BackfillStore;
  readonly store: StoreReader & Pick<PageStore, 'putDocument'>;
  readonly clients: Pick<OperatorClients, 'stepFunctions' | 'lambda'>;
  readonly runtime: Runtime;
}

/**
 * Needs lambda:InvokeFunction for the probe, states:ListExecutions and states:StartExecution on the state machine of backfills,
 * dynamodb:GetItem, PutItem and Query, s3:ListBucket and s3:GetObject, s3:PutObject on the lists of windows, and
 * states:DescribeExecution to follow.
 */
export function deployedBackfill(
  deps: DeployedBackfillDependencies,
): Pick<DeployedExport, 'startBackfill' | 'stopBackfill'> {
  const { name, output, clients } = deps;
  return {
    startBackfill: (request, options) => startBackfill(deps, request, options),
    async stopBackfill() {
      const { backfillStateMachineArn } = output;
      if (backfillStateMachineArn === undefined) return undefined;
      return await stopRunningBackfill(clients.stepFunctions, backfillStateMachineArn, name);
    },
  };
}

async function startBackfill(
  deps: DeployedBackfillDependencies,
  request: BackfillRequest,
  options: BackfillOptions,
): Promise<BackfillEnd> {
  const { name, definition, service, log, backfills, store, output, clients, runtime } = deps;
  const client = clients.stepFunctions;
  const stateMachineArn = requireStateMachine(deps, request);
  const running = await findRunningBackfill(client, stateMachineArn, name);
  if (running !== undefined) {
    const backfill = await backfills.read(name);
    if (backfill?.abandonedAt !== undefined) {
      return {
        status: 'skipped',
        reason: `execution ${running} of the abandoned backfill is ending. Start again in a minute`,
      };
    }
    assertSameBackfill(backfill, request);
    if (backfill === undefined || !options.follow) {
      return { status: 'skipped', reason: `execution ${running} is exporting the windows of ${name}` };
    }
    options.say(`Following execution ${running}, which is exporting the windows already`);
    const following = { client, backfill, log, backfills, clock: runtime };
    return await followBackfill(following, running, await readWindowStates(backfills, name), options);
  }
  const { from: since, to: until } = request;
  const root = await probeWindowFromFunction(clients.lambda, output.exportPageFunction, name, { since, until });
  const { untilOperator } = service;
  const backfill = await beginBackfill({ log, backfills, store, runtime, definition, untilOperator }, request, root);
  const remaining = await remainingWindows(backfills, backfill);
  if (remaining.length === 0) return { status: 'ended' };
  const before = await readWindowStates(backfills, name);
  const executionName = backfillName(name, runtime.randomHex(16));
  const list = `${windowListFolder}${executionName}.json`;
  const windows = remaining.map((window): WindowInput => ({ export: name, window: windowBounds(window) }));
  await store.putDocument(list, Readable.from([JSON.stringify(windows)]));
  const input: BackfillInput = { parallel: backfill.parallel, windows: `${output.prefix}${list}` };
  const execution = await startExecution(client, stateMachineArn, executionName, JSON.stringify(input));
  options.say(`Execution ${execution}`);
  if (!options.follow) return { status: 'started', execution };
  return await followBackfill({ client, backfill, log, backfills, clock: runtime }, execution, before, options);
}

/** The ARN of the state machine of backfills. @throws ConfigurationError if the deployment does not support this request */
function requireStateMachine(
  { name, definition, service, output }: DeployedBackfillDependencies,
  { from: since, to: until, parallel }: BackfillRequest,
): string {
  windowDefinition(definition, { since, until }, service.untilOperator);
  if (output.backfillStateMachineArn === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Service ${output.service} of export ${name} was deployed without a state machine for backfills. Deploy the stack again`,
    );
  }
  chooseParallel(parallel, service);
  return output.backfillStateMachineArn;
}
