/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any time,
 * and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import type { RunId, SeriesInput } from '../../core/model.ts';
import { type Incident, type IncidentLog, totalOf } from '../../target/incidents.ts';
import type { RunEnd, StartOptions } from '../../target/target.ts';
import type { Clock, StoreReader } from '../../core/ports.ts';
import { nextPartName } from '../../core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../core/state-machine/retry-policy.ts';
import {
  type ExecutionResult,
  type ExecutionResultDependencies,
  readExecutionResult,
  siblingExecution,
} from './execution-result.ts';
import { createFirstStepReporter } from './first-step.ts';
import { createProgressPoller, type ExportSnapshot, type ProgressPoller } from './progress-poller.ts';
import { pollUntilEnd } from './polling.ts';
import type { SlotStore } from '../../core/slots/page-slots.ts';
import { manifestAddress } from '../../core/storage/keys.ts';
import { epochMsOf } from '../../core/timestamps.ts';

interface FollowDependencies extends ExecutionResultDependencies {
  readonly incidents: Pick<IncidentLog, 'read'>;
  /** The slots of the service. Absent: it has none. */
  readonly slots?: Pick<SlotStore, 'read'> | undefined;
  readonly store: Pick<StoreReader, 'locate'>;
  readonly clock: Clock;
}

/** All followers together poll five times a second at most: Step Functions allows an account about ten. */
const minPollIntervalMs = 200;

/**
 * Needs states:DescribeExecution, and states:GetExecutionHistory to report retries of the first step. `before` is the export
 * before the execution started.
 */
async function followExecution(
  deps: FollowDependencies,
  firstExecution: string,
  before: ExportSnapshot,
  options: StartOptions,
): Promise<RunEnd> {
  const { signal, followers = () => 1 } = options;
  const progress = createProgressPoller(deps, before, options.emit);
  const incidents = createIncidentReporter(deps, before, options);
  const reportFirstStep = createFirstStepReporter(deps, options.onRetry);
  let execution = firstExecution;
  const end = await pollUntilEnd<RunEnd>(
    async () => {
      const result = await poll(deps, execution, progress, incidents, reportFirstStep);
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

const nothingBefore: ExportSnapshot = { active: undefined, progress: undefined, incidents: 0 };

/** The result of the execution, or undefined while it is running. */
async function poll(
  deps: FollowDependencies,
  executionArn: string,
  progress: ProgressPoller,
  incidents: IncidentReporter,
  reportFirstStep: (execution: string) => Promise<void>,
): Promise<ExecutionResult | undefined> {
  // The status is read before the progress, so that no progress before the end is missed.
  const described = await deps.client.send(new DescribeExecutionCommand({ executionArn }));
  const hasProgress = await progress.poll(executionArn);
  if (hasEnded(described)) return await readExecutionResult(deps, described, progress.lastSeen());
  // Read only if something seems to hold the run up.
  if (!progress.hasBegun(executionArn)) await reportFirstStep(executionArn);
  else if (!hasProgress) await incidents.report(progress.lastSeen()?.run, progress.nextPage());
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

/** Reports waits and retries, each once, and each wait for a slot while it lasts. */
interface IncidentReporter {
  /** `page` is the page to export next. */
  report(run: RunId | undefined, page: number): Promise<void>;
}

function createIncidentReporter(
  { exportName, stateName, incidents, slots, clock }: FollowDependencies,
  before: ExportSnapshot,
  { emit, onRetry, say }: StartOptions,
): IncidentReporter {
  let reported = { run: before.active?.run, count: before.incidents };
  let reportedCheck = 0;

  const reportOne = (run: RunId, incident: Incident, isNewest: boolean) => {
    if (incident.kind === 'wait') {
      const { page, slice, seconds } = incident;
      const about = { export: exportName, run, page: page ?? 0, slice, seconds };
      emit({ event: 'service-asked-to-wait', ...about, inside: false });
    }
    if (incident.kind !== 'failed-attempt') return;
    const { error, message, retry } = incident;
    if (retry === undefined) return say(`${error}: ${message}`);
    const retrier = findRetrier(error, retry.state);
    const maxDelaySeconds = retrier && maxRetryDelaySeconds(retrier, retry.attempt);
    // The delay of a retry that has begun is over.
    const isPending = isNewest && clock.now() < epochMsOf(incident.at) + (maxDelaySeconds ?? 0) * 1_000;
    onRetry({ error, message, ...retry, ...(isPending ? { maxDelaySeconds } : {}) });
  };

  return {
    async report(run, page) {
      if (run === undefined) return;
      const record = await incidents.read({ export: exportName, run });
      const count = totalOf(record);
      const known = reported.run === run ? reported.count : 0;
      reported = { run, count };
      const added = count === known ? [] : record.newest.slice(known - count);
      for (const incident of added) reportOne(run, incident, incident === record.newest.at(-1));

      // Each slice of a run waits for a slot of its own.
      const isOwn = (waiter: string) => waiter === stateName || waiter.startsWith(`${stateName}#`);
      const waiting = (await slots?.read())?.queue.find((waiter) => isOwn(waiter.export));
      const seconds = Math.ceil((waiting?.checkAt ?? 0) - clock.now() / 1_000);
      if (waiting === undefined || seconds <= 0 || waiting.checkAt === reportedCheck) return;
      reportedCheck = waiting.checkAt;
      emit({ event: 'waiting-for-slot', export: exportName, run, page, seconds });
    },
  };
}
