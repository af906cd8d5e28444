/**
 * Follows a run in AWS through all its executions, to its end. Following only observes: it can be interrupted at any
 * time, and it survives a temporary outage of AWS's APIs, while the run continues.
 */

import { isDeepStrictEqual } from 'node:util';
import { DescribeExecutionCommand, type DescribeExecutionCommandOutput, type SFNClient } from '@aws-sdk/client-sfn';
import { isServerError, isThrottlingError, isTransientError } from '@smithy/core/retry';
import * as z from 'zod/mini';
import { definitionOfStart } from '../../core/bounded-runs.ts';
import { isExportError } from '../../core/errors.ts';
import { hasTooFewReports } from '../../core/expected-reports.ts';
import {
  type ExportDefinition,
  type FailedRun,
  resultSchema,
  type Run,
  type RunTotals,
  zeroTotals,
  type RunEnd,
} from '../../core/model.ts';
import type { PageLog, Runtime, SliceCounts, StoreReader } from '../../core/ports.ts';
import { readProgress } from '../../core/run-progress.ts';
import { continuationName } from '../../core/state-machine/definition.ts';
import { parseStartInput } from '../../core/start/start-input.ts';
import { manifestAddress } from '../../core/storage/keys.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { parseJson } from '../parse-json.ts';
import { isActive } from './executions.ts';
import { readLastIncident, toFailure } from './history.ts';

export interface FollowDependencies {
  readonly client: SFNClient;
  readonly definition: ExportDefinition;
  readonly log: PageLog;
  readonly store: Pick<StoreReader, 'locate'>;
  readonly runtime: Runtime;
}

/** A run as it was when it was read. */
export interface SeenRun extends Pick<Run, 'export' | 'run' | 'since' | 'until' | 'bounded'>, RunTotals {
  /** Only for a run with several slices. */
  readonly slices?: SliceCounts | undefined;
  /** Whether the execution that is followed has resumed the run, instead of beginning it. */
  readonly isResumed: boolean;
}

export interface FollowOptions {
  /** Receives the run each time it is another one, or has more pages or other slices. */
  readonly onProgress: (run: SeenRun) => void;
  /** Receives other messages for the operator. */
  readonly notify: (text: string) => void;
  /** How many runs are being followed at the moment. The more, the less often each of them is polled. Default: 1. */
  readonly followers?: (() => number) | undefined;
  /** Ends following. The run continues. */
  readonly signal: AbortSignal;
}

/** How a deployed export is started. */
export interface DeployedStartOptions extends FollowOptions {
  /** Whether to wait for the end of the run, across all its executions. */
  readonly follow: boolean;
  /** Called with the ARN of the execution once it has been started. */
  readonly onStarted?: ((execution: string) => void) | undefined;
}

/** All followers together poll five times a second at most: Step Functions allows an account about ten. */
const minPollIntervalMs = 200;
/** After this many failed polls in a row the error is thrown. Each includes the SDK's own retries. */
const maxFailures = 20;
const maxPollDelayMs = 30_000;

/**
 * Follows an execution and those that continue its run.
 * Needs states:DescribeExecution, and states:GetExecutionHistory to report retries and waits.
 */
export async function followExecution(
  { client, definition, log, store, runtime }: FollowDependencies,
  firstExecution: string,
  startInput: unknown,
  { signal, onProgress, notify, followers = () => 1 }: FollowOptions,
): Promise<RunEnd> {
  const startedAt = runtime.now();
  let execution = firstExecution;
  const own = definitionOfStart(definition, parseStartInput(startInput));
  const followed: FollowedRun = { startedBy: firstExecution };
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
    for (;;) {
      // The status is read before the progress, so that no progress before the end is missed.
      const described = await client.send(new DescribeExecutionCommand({ executionArn: execution }));
      const active = (await log.exportState(own.stateName))?.active;
      const seen = active?.execution === execution ? await readRun(log, active, followed) : undefined;
      if (seen !== undefined) onProgress(seen);
      if (isActive(described)) {
        if (seen === undefined) await reportIncident();
        return undefined;
      }
      const end = await readEnd({ definition: own, log, store, notify }, described);
      if (end.status !== 'continued') return end;
      ({ execution } = end);
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
  return { status: 'started', execution, run: followed.seen?.run ?? null };
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

interface FollowedRun {
  readonly startedBy: string;
  /** The run as it was when it was last read. */
  seen?: SeenRun;
}

/**
 * The run, if it is another one than when it was last read, has more pages, or other slices: those of parents are known
 * once they are planned, and some have no page.
 */
async function readRun(log: PageLog, run: Run, followed: FollowedRun): Promise<SeenRun | undefined> {
  const before = followed.seen?.run === run.run ? followed.seen : undefined;
  const progress = await readProgress(log, run);
  const { since, until, bounded } = run;
  const isResumed = before?.isResumed ?? (followed.seen === undefined && run.startedBy !== followed.startedBy);
  const about = { export: run.export, run: run.run, since, until, bounded, isResumed };
  const seen = { ...about, slices: run.slices && progress.counts, ...progress.totals };
  followed.seen = seen;
  if (before === undefined || seen.pages > before.pages) return seen;
  return isDeepStrictEqual(seen.slices, before.slices) ? undefined : seen;
}

/** The outputs with which the state machine succeeds, besides that of a completed run. */
const outputSchema = z.union([
  z.object({ next: z.literal('continue'), run: z.string(), executionNumber: z.int() }),
  z.object({ next: z.literal('skip'), reason: z.string(), done: z.optional(z.literal(true)) }),
  /** An error that was caught. */
  z.object({ next: z.optional(z.undefined()), Error: z.optional(z.string()), Cause: z.optional(z.string()) }),
]);

type EndDependencies = Pick<FollowDependencies, 'definition' | 'log' | 'store'> & Pick<FollowOptions, 'notify'>;

/** The result of an execution that has ended. `continued`: another one has the run. */
async function readEnd(
  deps: EndDependencies,
  ended: DescribeExecutionCommandOutput,
): Promise<RunEnd | { readonly status: 'continued'; readonly execution: string }> {
  const { executionArn = '', status } = ended;
  if (status !== 'SUCCEEDED') return await readFailure(deps, ended);
  const json = parseJson(ended.output);
  const { data: result } = resultSchema.safeParse(json);
  if (result !== undefined) return { status: 'completed', result, manifest: manifestAddress(result, deps.store) };
  const { data: output } = outputSchema.safeParse(json);
  if (output?.next === 'skip') return { status: 'skipped', reason: output.reason, done: output.done };
  if (output?.next === 'continue') {
    // The name under which the state ContinueInNewExecution starts it.
    const name = continuationName({ export: deps.definition.name, ...output });
    return { status: 'continued', execution: siblingExecution(executionArn, name) };
  }
  const { Error: error, Cause: cause } = output ?? {};
  // An earlier attempt had started the next execution, but its response was lost.
  const [named] = /arn:[^\s']+/.exec(cause ?? '') ?? [];
  const isStarted = error === 'StepFunctions.ExecutionAlreadyExistsException' && named !== executionArn;
  if (isStarted && named !== undefined) return { status: 'continued', execution: named };
  return { status: 'skipped', reason: toFailure({ error, cause }).message };
}

/** The ARN of the execution `name` of the same state machine. */
const siblingExecution = (executionArn: string, name: string): string =>
  `${executionArn.slice(0, executionArn.lastIndexOf(':'))}:${name}`;

/**
 * How the execution failed, and what the export state and the page log show of its run, as FailRun reports it.
 */
async function readFailure(
  { definition, log, store, notify }: EndDependencies,
  ended: DescribeExecutionCommandOutput,
): Promise<RunEnd> {
  const { executionArn = '', status } = ended;
  const failure = toFailure(ended, status === 'ABORTED');
  const { active, lastCompleted } = (await log.exportState(definition.stateName)) ?? {};
  if (lastCompleted?.execution === executionArn) {
    // Only the event can have failed after it.
    notify(
      `The run is published, but its execution failed afterwards (${failure.error}: ${failure.message}). ` +
        'The event about its completion may be missing',
    );
    const { result } = lastCompleted;
    return { status: 'completed', result, manifest: manifestAddress(result, store) };
  }
  const failed = (known: Omit<FailedRun, 'export' | 'error' | 'message' | 'resumable'>, resumable: boolean) =>
    ({ status: 'failed', failed: { export: definition.name, ...known, ...failure, resumable } }) as const;
  if (active?.execution === executionArn) {
    const progress = await readProgress(log, active);
    const { run, since, until, bounded } = active;
    const resumable = !hasTooFewReports(definition, active, progress);
    return failed({ run, since, until, bounded, ...progress.totals }, resumable);
  }
  return failed({ run: null, since: null, ...zeroTotals }, active !== undefined);
}
