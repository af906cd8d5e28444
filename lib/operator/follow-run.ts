/** Starts a run, shows its progress, and says how it ended: to a person, to a program, and by the exit status. */

import { systemRuntime } from '../core/clock.ts';
import type { ExportEvent } from '../core/ports.ts';
import type { Retry, RunEnd, StartOptions } from '../target/target.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { createProgressDisplay } from './output/progress.ts';
import { textStyleFor } from './output/terminal.ts';
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

/** Shows the progress of one run on stderr, and its summary at the end. */
export async function followRun(
  run: RunToStart,
  json: boolean,
  { stdout, stderr, env, signal }: CommandContext,
): Promise<StartSummary> {
  const { now } = systemRuntime;
  const { end, ...progress } = createProgressDisplay(stderr, textStyleFor(stderr, env), now, { countsDown: !json });
  const startedAt = now();
  const summary = await observeStart(run, { ...progress, signal });
  end();
  const isFailure = summary.json.status === 'failed' || summary.json.status === 'interrupted';
  const output = json || isFailure ? stderr : stdout;
  output.write(formatSummary(summary, now() - startedAt, textStyleFor(output, env)));
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
  let lastRetry: Retry | undefined;
  const options: StartOptions = {
    ...listeners,
    follow,
    maxAttempts,
    onRetry(retry) {
      lastRetry = retry;
      listeners.onRetry(retry);
    },
    emit(event) {
      observed = observe(observed, event);
      onEvent(event, observed);
    },
  };
  const outcome = await start(options).catch((error: unknown): StartOutcome => ({ status: 'error', error }));
  const summary = summarizeRun(outcome, observed, next, lastRetry, maxAttempts);
  // A caller that waits for the end of a run must not take a run that is still in progress for one that has ended.
  const stoppedWatching = follow && summary.json.status === 'started';
  return stoppedWatching ? { ...summary, exitStatus: exitStatuses.interrupted } : summary;
}
