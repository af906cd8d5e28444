/**
 * Watches a run that Step Functions makes, through all its executions, to its end. The watching may be broken off at any
 * time, and that AWS cannot be asked for a moment does not end it: the run goes on regardless.
 */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import { asRunId } from '../../core/model.ts';
import type { RunEnd, StartOptions } from '../../core/operations/deployment.ts';
import type { Clock, StoreReader } from '../../core/ports.ts';
import { stepNames } from '../../core/state-machine/definition.ts';
import { stepRetries } from '../../core/state-machine/retry-policy.ts';
import { type ExecutionEnd, type ExecutionResultDependencies, endOf } from './execution-result.ts';
import type { IncidentEvent } from './history.ts';
import { recentIncidentEvents } from './incidents.ts';
import { type Before, createRunProgress, type RunProgress } from './progress-poller.ts';
import { isPassing, isThrottling } from './retryable.ts';

export interface FollowDependencies extends ExecutionResultDependencies {
  readonly store: Pick<StoreReader, 'locate'>;
  readonly clock: Clock;
}

/** Needs DescribeExecution and GetExecutionHistory. */
export async function followExecution(
  deps: FollowDependencies,
  first: string,
  before: Before,
  watching: StartOptions,
): Promise<RunEnd> {
  const { signal } = watching;
  const progress = createRunProgress(deps, before, watching.emit);
  const beginning = deps.clock.now();
  const trouble = createAttemptReporter(deps, watching);
  let execution = first;
  /** Looks in a row that showed nothing, and how many of them AWS did not merely throttle. */
  let misses = 0;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const end = await lookAt(deps, execution, progress, trouble);
      misses = 0;
      failures = 0;
      if (end?.kind === 'continued') {
        execution = end.execution;
        watching.say(`The run goes on in execution ${execution}`);
        continue;
      }
      if (end !== undefined) return await toldEnd(deps, end, progress, watching);
    } catch (error) {
      misses += 1;
      if (!isThrottling(error)) failures += 1;
      if (!isPassing(error) || failures > maxFailures) {
        watching.say(`It goes on in execution ${execution}, but cannot be watched any more`);
        throw error;
      }
    }
    await sleepThrough(deps.clock, pauseMs(deps.clock.now() - beginning, misses), signal);
  }
  const seen = progress.seen();
  return { status: 'started', execution, run: seen === undefined ? null : asRunId(seen.run) };
}

/** Then a person should know. Each has taken the SDK several attempts; being throttled is none. */
const maxFailures = 20;

/** Soon at first, seldom where it takes long. */
function pauseMs(watchedMs: number, misses: number): number {
  const usual = watchedMs < 60_000 ? 1_000 : watchedMs < 600_000 ? 2_000 : 5_000;
  return Math.min(30_000, usual * (1 + misses));
}

async function sleepThrough(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Resolves to the execution's end, once it has come to one. */
async function lookAt(
  deps: FollowDependencies,
  executionArn: string,
  progress: RunProgress,
  trouble: AttemptReporter,
): Promise<ExecutionEnd | undefined> {
  // First the execution, then its traces: so nothing that it did before its end is missed.
  const described = await deps.client.send(new DescribeExecutionCommand({ executionArn }));
  const isNew = await progress.look(executionArn);
  if (isOver(described)) return await endOf(deps, described, progress.seen());
  // Something keeps it from getting on, and the history says what.
  if (!isNew) await trouble.tell(executionArn, progress.seen()?.run);
  return undefined;
}

function isOver({ status }: DescribeExecutionCommandOutput): boolean {
  return status !== 'RUNNING' && status !== 'PENDING_REDRIVE';
}

async function toldEnd(
  { exportName, store }: FollowDependencies,
  end: Exclude<ExecutionEnd, { readonly kind: 'continued' }>,
  progress: RunProgress,
  { emit, say }: StartOptions,
): Promise<RunEnd> {
  switch (end.kind) {
    case 'completed':
      await progress.completed(end.result);
      if (end.untold !== undefined) {
        const { error, message } = end.untold;
        say(
          `The run is published, but its execution failed behind that (${error}: ${message}); no event may tell of it`,
        );
      }
      return { status: 'completed', result: end.result, manifest: store.locate(end.result.manifest) };
    case 'skipped':
      emit({ event: 'run-skipped', export: exportName, reason: end.reason });
      return { status: 'skipped', reason: end.reason };
    case 'failed':
      emit({ event: 'run-failed', ...end.failed });
      return { status: 'failed', failed: end.failed };
  }
}

// MERGED trouble-teller.ts: Tells a watcher what keeps a run from getting on: the history shows it, and it is read only where nothing else is new.

interface AttemptReporter {
  /** Tells of the waits and failed attempts that have not been told yet. */
  tell(execution: string, run: string | undefined): Promise<void>;
}

function createAttemptReporter(
  { client, exportName }: Pick<ExecutionResultDependencies, 'client' | 'exportName'>,
  { emit, onRetry }: StartOptions,
): AttemptReporter {
  let told = { execution: '', event: 0 };
  return {
    async tell(execution, run) {
      if (told.execution !== execution) told = { execution, event: 0 };
      const { incidentEvents } = await recentIncidentEvents(client, execution, run);
      for (const { event, run: id, state, attempt, incident } of incidentEvents.filter(
        (each) => each.event > told.event,
      )) {
        told = { execution, event };
        if (incident.kind === 'wait') {
          const { page, seconds } = incident;
          const about = { export: exportName, run: asRunId(id), page: page ?? 0 };
          emit({ event: 'service-asked-to-wait', ...about, seconds, inside: false });
        }
        if (incident.kind !== 'failed-attempt') continue;
        const { error, message } = incident;
        const attempts = attemptsAfter(state, error);
        if (attempt <= attempts) onRetry({ state, error, message, attempt, maxAttempts: attempts });
      }
    },
  };
}

/** How often the state is repeated after such an error. */
function attemptsAfter(state: IncidentEvent['state'], error: string): number {
  if (!stepNames.some((step) => step === state)) return 0;
  const retrier = stepRetries.find(
    ({ ErrorEquals }) => ErrorEquals.includes(error) || ErrorEquals.includes('States.ALL'),
  );
  return retrier?.MaxAttempts ?? 0;
}
