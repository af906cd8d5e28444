/** Starts a run, shows how it gets on, and tells how it ended: to a person, to a program, and by the exit status. */

import { systemRuntime } from '../core/clock.ts';
import type { RunEnd, StartOptions } from '../core/operations/deployment.ts';
import type { ExportEvent } from '../core/ports.ts';
import type { CommandContext } from './context.ts';
import { exitStatuses } from './context.ts';
import { createProgress } from './output/progress.ts';
import { type NextCommands, type Report, reportOf, type Seen, seenNothing, summaryOf } from './run-summary.ts';

export interface FollowOptions {
  readonly exportName: string;
  readonly follow: boolean;
  readonly json: boolean;
  readonly next: NextCommands;
}

/** Resolves to the exit status, which is the run's. `start` may throw what keeps the run from being made. */
export async function followRun(
  { exportName, follow, json, next }: FollowOptions,
  { stdout, stderr, signal }: CommandContext,
  start: (watching: StartOptions) => Promise<RunEnd>,
): Promise<number> {
  const { now } = systemRuntime;
  const progress = createProgress(stderr, now);
  const startedAt = now();
  let seen = seenNothing(exportName);
  let report: Report;
  let leftEarly = false;
  try {
    const end = await start({
      follow,
      signal,
      say: progress.say,
      onRetry: progress.onRetry,
      emit: (event) => {
        seen = seenWith(seen, event);
        progress.onEvent(event);
      },
    });
    report = reportOf(end, seen, next);
    leftEarly = follow && end.status === 'started';
  } catch (error) {
    report = reportOf({ status: 'error', error }, seen, next);
  }
  progress.end();
  (json ? stderr : stdout).write(summaryOf(report, now() - startedAt));
  if (json) stdout.write(`${JSON.stringify(report.json)}\n`);
  // Whoever waits for the run's end must not go on as if it had come.
  return leftEarly ? exitStatuses.interrupted : report.exitStatus;
}

/** What is known of the run after `event`. */
function seenWith(seen: Seen, event: ExportEvent): Seen {
  switch (event.event) {
    case 'run-started':
    case 'run-resumed': {
      const { run, since, pages, reports, bytes } = event;
      return { ...seen, run, since, pages, reports, bytes };
    }
    case 'run-restarted':
      return { ...seen, run: event.run, pages: 0, reports: 0, bytes: 0 };
    case 'page-exported':
    case 'page-adopted':
      return { ...seen, pages: event.page, reports: event.totalReports, bytes: event.totalBytes };
    case 'service-asked-to-wait':
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return seen;
  }
}
