/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any time,
 * and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { DescribeExecutionCommand, type SFNClient } from '@aws-sdk/client-sfn';
import { isServerError, isThrottlingError, isTransientError } from '@smithy/core/retry';
import { isExportError } from '../../core/errors.ts';
import type { ExportDefinition } from '../../core/model.ts';
import type { PageLog, Runtime, StoreReader } from '../../core/ports.ts';
import { readProgress } from '../../core/run-progress.ts';
import { nextPartName } from '../../core/state-machine/definition.ts';
import { definitionFor } from '../../core/steps/begin-run.ts';
import { parseStartInput } from '../../core/steps/start-input.ts';
import type { RunEnd, StartOptions } from '../../target/target.ts';
import { isActive } from './executions.ts';
import { createDelayReporter } from './history.ts';
import { readRunEnd, siblingExecution } from './run-end.ts';
import { difference, readRunView, type RunView, type ViewedRun } from './run-view.ts';

export interface FollowDependencies {
  readonly client: SFNClient;
  readonly definition: ExportDefinition;
  readonly log: PageLog;
  readonly store: Pick<StoreReader, 'locate'>;
  readonly runtime: Runtime;
}

/** What an execution will work on: its state, and the unfinished run in it. */
export interface FollowStart {
  readonly stateName: string;
  readonly before: RunView;
}

/** Read before the execution starts, so that a resumed run is recognized. `execution` is one that may have begun its run already. */
export async function readFollowStart(
  { definition, log, runtime }: Pick<FollowDependencies, 'definition' | 'log' | 'runtime'>,
  startInput: unknown,
  execution = '',
): Promise<FollowStart> {
  const { stateName } = await definitionFor({ definition, log, runtime }, parseStartInput(startInput), execution);
  const active = (await log.exportState(stateName))?.active;
  const run = active?.execution === execution ? undefined : active;
  return { stateName, before: { run, progress: run && (await readProgress(log, run)), isFollowed: false } };
}

/**
 * Follows an execution and, if it exports part of a series, those of the other parts, until one fails. Needs
 * states:DescribeExecution, and states:GetExecutionHistory to report retries and waits.
 */
export async function followExecution(
  deps: FollowDependencies,
  firstExecution: string,
  start: FollowStart,
  options: StartOptions,
): Promise<RunEnd> {
  let execution = firstExecution;
  let end = await followRun(deps, execution, start, options);
  while (end.status === 'completed' && end.result.rest !== undefined) {
    options.emit({ event: 'run-completed', ...end.result });
    execution = siblingExecution(execution, nextPartName(end.result));
    const next = await followRun(deps, execution, await readFollowStart(deps, end.result.rest, execution), options);
    // The parts that were left have been exported by another series.
    end =
      next.status === 'skipped' && next.done === true ? { ...end, result: { ...end.result, rest: undefined } } : next;
  }
  return end;
}

/** All followers together poll five times a second at most: Step Functions allows an account about ten. */
const minPollIntervalMs = 200;
/** After this many failed polls in a row the error is thrown. Each includes the SDK's own retries. */
const maxFailures = 20;
const maxPollDelayMs = 30_000;

async function followRun(
  deps: FollowDependencies,
  firstExecution: string,
  { stateName, before }: FollowStart,
  options: StartOptions,
): Promise<RunEnd> {
  const { client, definition, log, runtime } = deps;
  const { signal, emit, notify, followers = () => 1 } = options;
  const reportDelays = createDelayReporter({ client, exportName: definition.name, clock: runtime }, options);
  const startedAt = runtime.now();
  let execution = firstExecution;
  let view = before;
  const showRun = async (run: ViewedRun): Promise<boolean> => {
    const previous = view;
    view = await readRunView(log, run, previous);
    const events = difference(previous, view);
    for (const event of events) emit(event);
    return events.length > 0;
  };
  /** The end of the run; undefined while it is in progress. */
  const poll = async (): Promise<RunEnd | undefined> => {
    for (;;) {
      // The status is read before the progress, so that no progress before the end is missed.
      const described = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
      const active = (await log.exportState(stateName))?.active;
      const hasNews = active?.execution === execution && (await showRun(active));
      if (isActive(described)) {
        // Read only if something seems to hold the run up.
        if (!hasNews) await reportDelays(execution);
        return undefined;
      }
      const lastSeen = view.isFollowed ? view.run : undefined;
      const end = await readRunEnd({ ...deps, stateName, notify }, described, lastSeen?.run);
      if (end.status === 'completed') {
        // The state no longer has the run. If it was not seen, it is not known whether it has several slices: then no page is found.
        const { result } = end;
        await showRun(lastSeen?.run === result.run ? lastSeen : { ...result, executionNumber: 1 });
      }
      if (end.status !== 'continued') return end;
      execution = end.execution;
      notify(`The run continues in execution ${execution}`);
    }
  };
  let failures = 0;
  while (!signal.aborted) {
    try {
      const end = await poll();
      if (end !== undefined) return end;
      failures = 0;
    } catch (error) {
      failures += 1;
      if (!mayPass(error) || failures > maxFailures) {
        notify(`Execution ${execution} continues, but its progress can no longer be followed`);
        throw error;
      }
    }
    const usualMs = Math.max(usualDelayMs(runtime.now() - startedAt), followers() * minPollIntervalMs);
    const delayMs = Math.max(usualMs, Math.min(maxPollDelayMs, usualMs * (1 + failures)));
    await runtime.sleep(delayMs, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
  return { status: 'started', execution, run: view.isFollowed ? (view.run?.run ?? null) : null };
}

const usualDelayMs = (followedMs: number): number =>
  followedMs < 60_000 ? 1_000 : followedMs < 600_000 ? 2_000 : 5_000;

/** Whether a later request may succeed. A new execution may not be visible everywhere yet. */
function mayPass(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (isExportError(error)) return error.name === 'ServiceUnavailableError';
  const cause = error as Parameters<typeof isTransientError>[0];
  const isTemporary = isThrottlingError(cause) || isTransientError(cause) || isServerError(cause);
  return isTemporary || error.name === 'ExecutionDoesNotExist';
}
