/** Starts a run, shows its progress, and says how it ended: to a person, to a program, and by the exit status. */

import { systemRuntime } from '../core/clock.ts';
import type { ExportEvent } from '../core/ports.ts';
import type { Retry, RunEnd, StartOptions } from '../target/target.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { createProgressDisplay } from './output/progress.ts';
import { type TextStyle, textStyleFor, timestampFor } from './output/terminal.ts';
import {
  formatSummary,
  type NextCommands,
  type ObservedRun,
  observe,
  type StartSummary,
  type StartOutcome,
  summarizeRun,
  unobservedRun,
} from './run-summary.ts';

export interface RunToStart {
  readonly exportName: string;
  readonly start: (options: StartOptions) => Promise<RunEnd>;
  /** Whether to stay until the end of the run. */
  readonly follow: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
  readonly next: NextCommands;
}

export interface FollowOptions {
  readonly json: boolean;
  /** Show only warnings, errors and the end. */
  readonly quiet: boolean;
  /** What is shown of its end. Absent: the summary of a single run, in several lines. */
  readonly formatEnd?: ((summary: StartSummary, style: TextStyle) => string) | undefined;
}

/** Shows the progress of one run on stderr, and its summary at the end. */
export async function followRun(
  run: RunToStart,
  { json, quiet, formatEnd }: FollowOptions,
  { stdout, stderr, env, signal }: CommandContext,
): Promise<StartSummary> {
  const { now } = systemRuntime;
  const display = { countsDown: !json, quiet };
  const { end, ...progress } = createProgressDisplay(stderr, textStyleFor(stderr, env), now, display);
  const startedAt = now();
  const summary = await observeStart(run, { ...progress, signal });
  end();
  const isFailure = summary.json.status === 'failed' || summary.json.status === 'interrupted';
  const output = json || isFailure ? stderr : stdout;
  const style = textStyleFor(output, env);
  const endedAt = now();
  // A refused start of a single export is wrong usage, not an event of a run.
  const isUsage = summary.exitStatus === exitStatuses.usage && formatEnd === undefined;
  const text = formatEnd?.(summary, style) ?? formatSummary(summary, endedAt - startedAt, style);
  output.write(`${isUsage ? '' : timestampFor(output, endedAt)}${text}`);
  if (json) stdout.write(`${JSON.stringify(summary.json)}\n`);
  return summary;
}

type Listeners = Pick<StartOptions, 'signal' | 'say' | 'onRetry' | 'onStarted' | 'followers'> & {
  readonly onEvent: (event: ExportEvent, observed: ObservedRun) => void;
};

/** Starts the run, and resolves to how it ended. If `start` throws, there was no run. */
export async function observeStart(
  { exportName, start, follow, maxAttempts, next }: RunToStart,
  { onEvent, ...listeners }: Listeners,
): Promise<StartSummary> {
  let observed = unobservedRun(exportName);
  /** The newest retry of the step in progress. */
  let lastRetry: Retry | undefined;
  const options: StartOptions = {
    ...listeners,
    follow,
    maxAttempts,
    onRetry(retry) {
      lastRetry = countedOverErrors(retry, lastRetry);
      listeners.onRetry(lastRetry);
    },
    emit(event) {
      observed = observe(observed, event);
      if (event.event === 'page-exported' || event.event === 'page-adopted') lastRetry = undefined;
      onEvent(event, observed);
    },
  };
  const outcome = await start(options).catch((error: unknown): StartOutcome => ({ status: 'error', error }));
  const summary = summarizeRun(outcome, observed, next, lastRetry, maxAttempts);
  // A caller that waits for the end of a run must not take a run that is still in progress for one that has ended.
  const stoppedWatching = follow && summary.json.status === 'started';
  return stoppedWatching ? { ...summary, exitStatus: exitStatuses.interrupted } : summary;
}

/**
 * The retry, with its number among all of the same page: each sends a request, whatever the error. `maxAttempts` is how many
 * there are if this error stays.
 */
function countedOverErrors(retry: Retry, previous: Retry | undefined): Retry {
  const attempt = (previous?.state === retry.state ? previous.attempt : 0) + 1;
  const remaining = retry.hasProgressed === true ? retry.maxAttempts : retry.maxAttempts - retry.attempt;
  return { ...retry, attempt, maxAttempts: attempt + remaining };
}
