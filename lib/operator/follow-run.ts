/** Starts a run, shows its progress, and says how it ended: to a person, to a program, and by the exit status. */

import { systemRuntime } from '../core/clock.ts';
import type { Retry, RunEnd, StartOptions } from '../target/target.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { createProgressDisplay } from './output/progress.ts';
import { textStyleFor } from './output/terminal.ts';
import {
  formatSummary,
  type NextCommands,
  observe,
  type RunSummary,
  type StartOutcome,
  summarizeRun,
  unobservedRun,
} from './run-summary.ts';

export interface FollowOptions {
  readonly exportName: string;
  /** Whether to stay until the end of the run. */
  readonly follow: boolean;
  readonly json: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
  readonly next: NextCommands;
}

type Start = (options: StartOptions) => Promise<RunEnd>;

/** Resolves to the exit status of the run. If `start` throws, there was no run. */
export async function followRun(options: FollowOptions, context: CommandContext, start: Start): Promise<number> {
  return (await followToSummary(options, context, start)).exitStatus;
}

/** As `followRun`, but resolves to how the run ended. */
export async function followToSummary(
  { exportName, follow, json, maxAttempts, next }: FollowOptions,
  { stdout, stderr, env, signal }: CommandContext,
  start: Start,
): Promise<RunSummary> {
  const { now } = systemRuntime;
  const progress = createProgressDisplay(stderr, textStyleFor(stderr, env), now, { countsDown: !json });
  const startedAt = now();
  let observed = unobservedRun(exportName);
  let lastRetry: Retry | undefined;
  let outcome: StartOutcome;
  try {
    outcome = await start({
      follow,
      maxAttempts,
      signal,
      say: progress.say,
      onRetry: (retry) => {
        lastRetry = retry;
        progress.onRetry(retry);
      },
      emit: (event) => {
        observed = observe(observed, event);
        progress.onEvent(event);
      },
    });
  } catch (error) {
    outcome = { status: 'error', error };
  }
  progress.end();
  const summary = withExitStatus(summarizeRun(outcome, observed, next, lastRetry, maxAttempts), follow);
  const isFailure = summary.json.status === 'failed' || summary.json.status === 'interrupted';
  const output = json || isFailure ? stderr : stdout;
  output.write(formatSummary(summary, now() - startedAt, textStyleFor(output, env)));
  if (json) stdout.write(`${JSON.stringify(summary.json)}\n`);
  return summary;
}

/** A caller that waits for the end of a run must not take a run that is still in progress for one that has ended. */
export function withExitStatus(summary: RunSummary, follow: boolean): RunSummary {
  const stoppedWatching = follow && summary.json.status === 'started';
  return stoppedWatching ? { ...summary, exitStatus: exitStatuses.interrupted } : summary;
}
