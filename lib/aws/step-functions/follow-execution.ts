/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any time,
 * and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import type { SeriesInput } from '../../core/model.ts';
import type { RunEnd, StartOptions } from '../../target/target.ts';
import type { Clock, StoreReader } from '../../core/ports.ts';
import { nextPartName } from '../../core/state-machine/definition.ts';
import {
  type ExecutionResult,
  type ExecutionResultDependencies,
  readExecutionResult,
  siblingExecution,
} from './execution-result.ts';
import { createEventReporter } from './execution-events.ts';
import { createProgressPoller, type ExportSnapshot, type ProgressPoller } from './progress-poller.ts';
import { pollUntilEnd } from './polling.ts';
import { manifestAddress } from '../../core/storage/keys.ts';

interface FollowDependencies extends ExecutionResultDependencies {
  readonly store: Pick<StoreReader, 'locate'>;
  readonly clock: Clock;
}

/** All followers together poll five times a second at most: Step Functions allows an account about ten. */
const minPollIntervalMs = 200;

/**
 * Needs states:DescribeExecution, and states:GetExecutionHistory to report retries and waits. `before` is the export before the
 * execution started.
 */
async function followExecution(
  deps: FollowDependencies,
  firstExecution: string,
  before: ExportSnapshot,
  options: StartOptions,
): Promise<RunEnd> {
  const { signal, followers = () => 1 } = options;
  const progress = createProgressPoller(deps, before, options.emit);
  const reportEvents = createEventReporter(deps, options);
  let execution = firstExecution;
  const end = await pollUntilEnd<RunEnd>(
    async () => {
      const result = await poll(deps, execution, progress, reportEvents);
      if (result === undefined) return undefined;
      if (result.kind !== 'continued') return { result: await reportEnd(deps, result, progress, options) };
      execution = result.execution;
      options.say(`The run continues in execution ${execution}`);
      return 'again';
    },
    {
      clock: deps.clock,
      signal,
      minIntervalMs: () => followers() * minPollIntervalMs,
      onGiveUp: () => options.say(`Execution ${execution} continues, but its progress can no longer be followed`),
    },
  );
  return end ?? { status: 'started', execution, run: progress.lastSeen()?.run ?? null };
}

/**
 * Follows an execution and, if it exports part of a series, those of the other parts, until one fails. `open` returns what is
 * known of the part that an execution with this start input exports.
 */
export async function followSeries(
  open: (input: SeriesInput, execution: string) => Promise<readonly [FollowDependencies, ExportSnapshot]>,
  firstExecution: string,
  [firstDeps, firstBefore]: readonly [FollowDependencies, ExportSnapshot],
  options: StartOptions,
): Promise<RunEnd> {
  let execution = firstExecution;
  let end = await followExecution(firstDeps, execution, firstBefore, options);
  while (end.status === 'completed' && end.result.rest !== undefined) {
    execution = siblingExecution(execution, nextPartName(end.result));
    const [deps, before] = await open(end.result.rest, execution);
    // The execution may have begun its run already.
    const isBegun = before.active?.execution === execution;
    const next = await followExecution(deps, execution, isBegun ? nothingBefore : before, options);
    // The parts that were left have been exported by another series.
    end =
      next.status === 'skipped' && next.done === true ? { ...end, result: { ...end.result, rest: undefined } } : next;
  }
  return end;
}

const nothingBefore: ExportSnapshot = { active: undefined, progress: undefined };

/** The result of the execution, or undefined while it is running. */
async function poll(
  deps: FollowDependencies,
  executionArn: string,
  progress: ProgressPoller,
  reportEvents: (execution: string) => Promise<void>,
): Promise<ExecutionResult | undefined> {
  // The status is read before the progress, so that no progress before the end is missed.
  const described = await deps.client.send(new DescribeExecutionCommand({ executionArn }));
  const hasProgress = await progress.poll(executionArn);
  if (hasEnded(described)) return await readExecutionResult(deps, described, progress.lastSeen());
  // Read only if something seems to hold the run up.
  if (!hasProgress) await reportEvents(executionArn);
  return undefined;
}

function hasEnded({ status }: DescribeExecutionCommandOutput): boolean {
  return status !== 'RUNNING' && status !== 'PENDING_REDRIVE';
}

async function reportEnd(
  { exportName, store }: FollowDependencies,
  result: Exclude<ExecutionResult, { readonly kind: 'continued' }>,
  progress: ProgressPoller,
  { emit, say }: StartOptions,
): Promise<RunEnd> {
  switch (result.kind) {
    case 'completed':
      await progress.completed(result.result);
      if (result.laterFailure !== undefined) {
        const { error, message } = result.laterFailure;
        say(
          `The run is published, but its execution failed afterwards (${error}: ${message}). ` +
            'The event about its completion may be missing',
        );
      }
      return { status: 'completed', result: result.result, manifest: manifestAddress(result.result, store) };
    case 'skipped':
      emit({ event: 'run-skipped', export: exportName, reason: result.reason });
      return { status: 'skipped', reason: result.reason, done: result.done };
    case 'failed':
      emit({ event: 'run-failed', ...result.failed });
      return { status: 'failed', failed: result.failed };
  }
}
