/** What the states of a machine ask for: a function, another execution, an event on the bus; and what asks about executions. */

import { type StepName, stepNames } from '../../../lib/core/state-machine/definition.ts';
import type { Lambda } from '../world/lambda.ts';
import type { Process } from '../world/process.ts';
import type { Command } from '../world/sdk-clients.ts';
import type { World } from '../world/world.ts';
import { type SimulatedExecution, type StepFunctions, type TaskCall, TaskFailure } from './step-functions.ts';

interface Services {
  readonly world: World;
  readonly lambda: Lambda;
  readonly machine: () => StepFunctions;
  /** Takes the runs whose completion is told. */
  readonly announced: Set<string>;
}

interface Announcement {
  readonly DetailType: string;
  readonly Detail: { readonly result?: { readonly run: string } };
}

/** @throws TaskFailure as the integration would */
export async function performTask({ world, lambda, machine, announced }: Services, call: TaskCall): Promise<unknown> {
  const { execution, state, resource, parameters, attempt } = call;
  const about = `${execution.name}.${state}@${execution.events}#${attempt}`;
  const service = resource.split(':').at(-1);
  const { time } = world;
  const dice = world.dice(about);
  if (service === 'invoke') {
    const { FunctionName, Payload } = parameters as { FunctionName: string; Payload: Process['payload'] };
    const step = stepNames.find((name) => name === FunctionName) as StepName;
    return { Payload: await lambda.invoke(step, Payload, about) };
  }
  await time.sleep(dice.between(10, 200));
  if (service === 'startExecution') {
    if (world.strikes('request-lost', about)) throw new TaskFailure('StepFunctions.SdkClientException', 'no answer');
    const { Name, Input } = parameters as { Name: string; Input: unknown };
    const started = machine().start(Name, Input);
    // The one that goes on may be done with its first steps before the one that started it hears of it.
    await time.sleep(world.strikes('slow', about) ? dice.between(1_000, 50_000) : dice.between(5, 50));
    if (world.strikes('answer-lost', about))
      throw new TaskFailure('StepFunctions.SdkClientException', 'the answer was lost');
    return { ExecutionArn: started.arn };
  }
  if (service === 'putEvents') {
    if (world.strikes('event-refused', about)) throw new TaskFailure('EventBridge.InternalException', 'refused');
    const [entry] = (parameters as { Entries: readonly Announcement[] }).Entries;
    const run = entry?.Detail.result?.run;
    if (run !== undefined) announced.add(run);
    world.tell('event bus', () => `${entry?.DetailType} ${run ?? ''}`);
    return { FailedEntryCount: 0 };
  }
  throw new Error(`the simulation knows no ${resource}`);
}

/** Step Functions' own description lags behind at times (API reference, DescribeExecution: "eventually consistent"). */
const lagMs = 5_000;

export function describeExecution(
  world: World,
  process: Process,
  find: (arn: string) => SimulatedExecution | undefined,
  { input }: Command,
): unknown {
  const { executionArn = '' } = input as { executionArn?: string };
  const execution = find(executionArn);
  const lags = world.strikes('stale-description', `${process.id}/${executionArn}`);
  const at = world.time.now() - (lags ? lagMs : 0);
  if (execution === undefined || execution.startedAt > at) {
    throw Object.assign(new Error('Execution Does Not Exist'), {
      name: 'ExecutionDoesNotExist',
      $metadata: { httpStatusCode: 400 },
    });
  }
  return { status: (execution.endedAt ?? Number.POSITIVE_INFINITY) > at ? 'RUNNING' : execution.status };
}
