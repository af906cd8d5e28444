/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any time,
 * and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import { asRunId } from '../../core/model.ts';
import type { RunEnd, StartOptions } from '../../target/target.ts';
import type { Clock, StoreReader } from '../../core/ports.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../core/state-machine/retry-policy.ts';
import { type ExecutionResult, type ExecutionResultDependencies, readExecutionResult } from './execution-result.ts';
import type { IncidentEvent } from './history.ts';
import { recentIncidentEvents } from './incidents.ts';
import { createProgressPoller, type ExportSnapshot, type ProgressPoller } from './progress-poller.ts';
import { pollUntilEnd } from './polling.ts';
import { manifestAddress } from '../../core/storage/keys.ts';

export interface FollowDependencies extends ExecutionResultDependencies {
  readonly store: Pick<StoreReader, 'locate'>;
  readonly clock: Clock;
}

/** All followers together poll five times a second at most: Step Functions allows an account about ten. */
const minPollIntervalMs = 200;

/** Needs states:DescribeExecution and states:GetExecutionHistory. `before` is the export before the execution started. */
export async function followExecution(
  deps: FollowDependencies,
  firstExecution: string,
  before: ExportSnapshot,
  options: StartOptions,
): Promise<RunEnd> {
  const { signal, followers = () => 1 } = options;
  const progress = createProgressPoller(deps, before, options.emit);
  const incidents = createIncidentReporter(deps, options);
  let execution = firstExecution;
  const end = await pollUntilEnd<RunEnd>(
    async () => {
      const result = await poll(deps, execution, progress, incidents);
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

/** The result of the execution, or undefined while it is running. */
async function poll(
  deps: FollowDependencies,
  executionArn: string,
  progress: ProgressPoller,
  incidents: IncidentReporter,
): Promise<ExecutionResult | undefined> {
  // The status is read before the progress, so that no progress before the end is missed.
  const described = await deps.client.send(new DescribeExecutionCommand({ executionArn }));
  const hasProgress = await progress.poll(executionArn);
  if (hasEnded(described)) return await readExecutionResult(deps, described, progress.lastSeen());
  // Histories are long, so they are read only if something seems to hold the run up.
  if (!hasProgress) await incidents.report(executionArn, progress.lastSeen()?.run);
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
      return { status: 'skipped', reason: result.reason };
    case 'failed':
      emit({ event: 'run-failed', ...result.failed });
      return { status: 'failed', failed: result.failed };
  }
}

/** Reports waits and retries, each once, from the execution's history. A wait for a slot is reported while it lasts. */
interface IncidentReporter {
  report(execution: string, run: string | undefined): Promise<void>;
}

function createIncidentReporter(
  { client, exportName }: Pick<ExecutionResultDependencies, 'client' | 'exportName'>,
  { emit, onRetry }: StartOptions,
): IncidentReporter {
  let lastReported = { execution: '', eventId: 0 };

  const reportOne = ({ run, state, attempt, incident }: IncidentEvent, isRetryPending: boolean) => {
    if (incident.kind === 'wait') {
      const { page, seconds } = incident;
      emit({
        event: 'service-asked-to-wait',
        export: exportName,
        run: asRunId(run),
        page: page ?? 0,
        seconds,
        inside: false,
      });
    }
    if (incident.kind === 'failed-attempt') {
      const { error, message } = incident;
      const retrier = findRetrier(error, state);
      if (retrier === undefined || attempt > retrier.MaxAttempts) return;
      const retry = { state, error, message, attempt, maxAttempts: retrier.MaxAttempts };
      // The delay of a retry that has begun is over.
      onRetry(isRetryPending ? { ...retry, maxDelaySeconds: maxRetryDelaySeconds(retrier, attempt) } : retry);
    }
  };

  return {
    async report(execution, run) {
      if (lastReported.execution !== execution) lastReported = { execution, eventId: 0 };
      const { incidentEvents, isRetryPending, slotWait } = await recentIncidentEvents(client, execution, run);
      const last = incidentEvents.at(-1);
      for (const incidentEvent of incidentEvents.filter(({ eventId }) => eventId > lastReported.eventId)) {
        lastReported = { execution, eventId: incidentEvent.eventId };
        reportOne(incidentEvent, isRetryPending && incidentEvent === last);
      }
      if (slotWait !== undefined && slotWait.eventId > lastReported.eventId) {
        const { eventId, page, seconds } = slotWait;
        lastReported = { execution, eventId };
        emit({ event: 'waiting-for-slot', export: exportName, run: asRunId(slotWait.run), page, seconds });
      }
    },
  };
}
