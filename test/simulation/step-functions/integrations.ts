/** What the tasks of the state machine call: functions, another execution, and the event bus; and DescribeExecution. */

import { type StepName, stepNames } from '../../../lib/core/state-machine/definition.ts';
import type { Lambda } from '../world/lambda.ts';
import type { Process } from '../world/process.ts';
import type { Command } from '../world/sdk-clients.ts';
import type { World } from '../world/world.ts';
import { type SimulatedExecution, type StepFunctions, type TaskCall, TaskFailure } from './step-functions.ts';

interface Integrations {
  readonly world: World;
  readonly lambda: Lambda;
  readonly stepFunctions: () => StepFunctions;
  /** Receives the runs whose completion is put on the event bus. */
  readonly announcedRuns: Set<string>;
  /** Called when the execution has the outcome that a function itself has returned. */
  readonly onOutcome: (invocation: string, execution: string) => void;
}

interface BusEntry {
  readonly DetailType: string;
  readonly Detail: { readonly result?: { readonly run: string } };
}

/** @throws TaskFailure as the integration would */
export async function performTask(integrations: Integrations, call: TaskCall): Promise<unknown> {
  const { world, lambda, stepFunctions, announcedRuns, onOutcome } = integrations;
  const { execution, state, resource, parameters, attempt, isAwaited } = call;
  const site = `${execution.name}.${state}@${execution.eventCount}#${attempt}`;
  const action = resource.split(':').at(-1);
  const { time } = world;
  const rng = world.rng(site);
  if (action === 'invoke') {
    const { FunctionName, Payload } = parameters as { FunctionName: string; Payload: Process['payload'] };
    const step = stepNames.find((name) => name === FunctionName) as StepName;
    const reportOutcome = () => {
      if (isAwaited()) onOutcome(site, execution.arn);
    };
    try {
      const result = await lambda.invoke(step, Payload, site);
      reportOutcome();
      return { Payload: result };
    } catch (error) {
      const isItsOwn = error instanceof TaskFailure && !/^(Lambda|Runtime|Sandbox)\./.test(error.name);
      if (isItsOwn) reportOutcome();
      throw error;
    }
  }
  await time.sleep(rng.between(10, 200));
  if (action === 'startExecution') {
    if (world.injectFault('request-lost', site)) {
      throw new TaskFailure('StepFunctions.SdkClientException', 'The request was lost');
    }
    const { Name, Input } = parameters as { Name: string; Input: unknown };
    const { arn } = stepFunctions().start(Name, Input);
    // The new execution may complete its first steps before the caller has the response.
    await time.sleep(world.injectFault('request-slow', site) ? rng.between(1_000, 50_000) : rng.between(5, 50));
    if (world.injectFault('response-lost', site)) {
      throw new TaskFailure('StepFunctions.SdkClientException', 'The response was lost');
    }
    return { ExecutionArn: arn };
  }
  if (action === 'putEvents') {
    if (world.injectFault('event-rejected', site)) throw new TaskFailure('EventBridge.InternalException', 'Rejected');
    const [entry] = (parameters as { Entries: readonly BusEntry[] }).Entries;
    const run = entry?.Detail.result?.run;
    if (run !== undefined) announcedRuns.add(run);
    world.log('event bus', () => `${entry?.DetailType} ${run ?? ''}`);
    return { FailedEntryCount: 0 };
  }
  throw new Error(`The simulation does not support ${resource}`);
}

/** How far DescribeExecution may be behind: it is eventually consistent (Step Functions API reference). */
const descriptionLagMs = 5_000;

/** The response of DescribeExecution. */
export function describeExecution(
  world: World,
  process: Process,
  find: (arn: string) => SimulatedExecution | undefined,
  { input }: Command,
): unknown {
  const { executionArn = '' } = input as { executionArn?: string };
  const execution = find(executionArn);
  const isStale = world.injectFault('stale-execution-status', `${process.id}/${executionArn}`);
  const asOf = world.time.now() - (isStale ? descriptionLagMs : 0);
  if (execution === undefined || execution.startedAt > asOf) {
    throw Object.assign(new Error('Execution Does Not Exist'), {
      name: 'ExecutionDoesNotExist',
      $metadata: { httpStatusCode: 400 },
    });
  }
  const { status, endedAt = Number.POSITIVE_INFINITY, redrivenAt = Number.NEGATIVE_INFINITY } = execution;
  // Before its redrive, it had ended in whichever way.
  if (redrivenAt > asOf) return { status: 'FAILED' };
  return { status: endedAt > asOf ? 'RUNNING' : status };
}
