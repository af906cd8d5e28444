/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any time,
 * and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { DescribeExecutionCommand, type SFNClient } from '@aws-sdk/client-sfn';
import { isServerError, isThrottlingError, isTransientError } from '@smithy/core/retry';
import { isExportError } from '../../core/errors.ts';
import { type ExportDefinition, type Run, zeroTotals } from '../../core/model.ts';
import type { ExportEvent, PageLog, Runtime, StoreReader } from '../../core/ports.ts';
import { readProgress, type RunProgress, walkedSlices } from '../../core/run-progress.ts';
import { nextPartName } from '../../core/state-machine/definition.ts';
import { definitionFor } from '../../core/steps/begin-run.ts';
import { parseStartInput } from '../../core/steps/start-input.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { RunEnd, StartOptions } from '../../target/target.ts';
import { isActive } from './executions.ts';
import { readLastIncident } from './history.ts';
import { readRunEnd, siblingExecution } from './run-end.ts';

export interface FollowDependencies {
  readonly client: SFNClient;
  readonly definition: ExportDefinition;
  readonly log: PageLog;
  readonly store: Pick<StoreReader, 'locate'>;
  readonly runtime: Runtime;
}

/**
 * Follows an execution and, if it exports part of a series, those of the other parts, until one fails. Needs
 * states:DescribeExecution, and states:GetExecutionHistory to report retries and waits.
 */
export async function followExecution(
  deps: FollowDependencies,
  firstExecution: string,
  startInput: unknown,
  options: StartOptions,
): Promise<RunEnd> {
  let execution = firstExecution;
  let end = await followRun(deps, execution, startInput, options);
  while (end.status === 'completed' && end.result.rest !== undefined) {
    options.emit({ event: 'run-completed', ...end.result });
    execution = siblingExecution(execution, nextPartName(end.result));
    const next = await followRun(deps, execution, end.result.rest, options);
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
  { client, definition, log, store, runtime }: FollowDependencies,
  firstExecution: string,
  startInput: unknown,
  { signal, emit, notify, followers = () => 1 }: StartOptions,
): Promise<RunEnd> {
  const { name: exportName } = definition;
  const startedAt = runtime.now();
  let execution = firstExecution;
  let stateName: string | undefined;
  let seen: SeenRun | undefined;
  let incidentMs = 0;
  let failures = 0;
  /** Says what seems to hold the run up, once. */
  const reportIncident = async () => {
    const incident = await readLastIncident(client, execution);
    if (incident === undefined || incident.kind === 'failed-run' || epochMsOf(incident.at) <= incidentMs) return;
    incidentMs = epochMsOf(incident.at);
    notify(
      incident.kind === 'wait'
        ? `Waiting ${incident.seconds} s (Retry-After)`
        : `Retrying: ${incident.error}: ${incident.message}`,
    );
  };
  /** The end of the run; undefined while it is in progress. */
  const poll = async (): Promise<RunEnd | undefined> => {
    stateName ??= (await definitionFor({ definition, log, runtime }, parseStartInput(startInput), execution)).stateName;
    for (;;) {
      // The status is read before the progress, so that no progress before the end is missed.
      const described = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
      const active = (await log.exportState(stateName))?.active;
      let events: readonly ExportEvent[] = [];
      if (active?.execution === execution) {
        const previous = seen;
        seen = await readSeenRun(log, active, previous);
        events = eventsBetween(previous, seen, active.startedBy !== firstExecution);
        for (const event of events) emit(event);
      }
      if (isActive(described)) {
        if (events.length === 0) await reportIncident();
        return undefined;
      }
      const end = await readRunEnd({ exportName, stateName, log, store, notify }, described);
      if (end.status !== 'continued') return end;
      execution = end.execution;
      notify(`The run continues in execution ${execution}`);
    }
  };
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
  return { status: 'started', execution, run: seen?.run.run ?? null };
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

/** The followed run at one moment. */
interface SeenRun {
  readonly run: Run;
  readonly progress: RunProgress;
}

/** Slices that were complete before are not read again. */
async function readSeenRun(log: PageLog, run: Run, previous: SeenRun | undefined): Promise<SeenRun> {
  const isKnown = run.slices !== undefined && previous?.run.run === run.run;
  return { run, progress: await readProgress(log, run, isKnown ? walkedSlices(previous.progress) : undefined) };
}

/** What happened between two moments, as the events of the steps. A run that starts over is a new one. Only the newest page is known. */
function eventsBetween(
  previous: SeenRun | undefined,
  { run, progress }: SeenRun,
  isResumed: boolean,
): readonly ExportEvent[] {
  const about = { export: run.export, run: run.run };
  const { totals } = progress;
  const slices = run.slices && progress.counts;
  const known = previous?.run.run === run.run ? previous : undefined;
  const wasBegun = previous === undefined && isResumed;
  const before = known?.progress.totals ?? (wasBegun ? totals : zeroTotals);
  const events: ExportEvent[] = [];
  if (known === undefined) {
    const { since, until, bounded, executionNumber } = run;
    const event = wasBegun ? 'run-resumed' : 'run-started';
    events.push({ event, ...about, since, until, bounded, slices, executionNumber, page: before.pages + 1, ...before });
  }
  const [newest] = progress.slices
    .flatMap(({ last }) => last ?? [])
    .toSorted((one, other) => epochMsOf(other.loggedAt) - epochMsOf(one.loggedAt));
  if (newest !== undefined && totals.pages > before.pages) {
    const { page, slice, bytes, reports, timing } = newest;
    const event = timing === null ? 'page-adopted' : 'page-exported';
    const { pages: totalPages, reports: totalReports, bytes: totalBytes } = totals;
    events.push({ event, ...about, page, slice, slices, bytes, reports, totalPages, totalReports, totalBytes });
  }
  return events;
}
