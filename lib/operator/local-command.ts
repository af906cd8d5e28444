/**
 * `report-exporter local`: one run on this machine, told to a person or to a program.
 * Exit status: 0 completed or skipped, 1 the run failed, 2 wrong usage or settings, 130 interrupted.
 */

import type { RunEnd } from '../core/installation.ts';
import type { EventSink, ExportEvent } from '../core/ports.ts';
import { directoryExport } from '../local/directory-installation.ts';
import { realSurroundings } from '../local/run-locally.ts';
import { type LocalOptions, type LocalSettings, readLocalSettings } from './local-settings.ts';
import { createProgress, type Terminal } from './progress.ts';
import { type Report, reportOf, type Seen, seenNothing, summaryOf } from './summary.ts';

export interface CommandWorld {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
}

/** Makes the run, tells how it went, and resolves to the exit status. `problems` are those found before, in the usage. */
export async function localCommand(
  options: LocalOptions,
  problems: readonly string[],
  world: CommandWorld,
): Promise<number> {
  const { stdout, stderr } = world;
  const { now } = realSurroundings;
  const progress = createProgress(stderr, now);
  const startedAt = now();
  let seen = seenNothing(String(options.export));
  let report: Report;
  try {
    const settings = readLocalSettings(options, problems, world.env);
    const outcome = await runWith(settings, world, progress, (event) => {
      seen = seenWith(seen, event);
    });
    report = reportOf(outcome, seen);
  } catch (error) {
    report = reportOf({ status: 'error', error }, seen);
  }
  progress.end();
  const summary = summaryOf(report, now() - startedAt);
  (options.json === true ? stderr : stdout).write(summary);
  if (options.json === true) stdout.write(`${JSON.stringify(report.json)}\n`);
  return report.exitStatus;
}

async function runWith(
  { settings, out, start }: LocalSettings,
  { env, signal }: CommandWorld,
  progress: ReturnType<typeof createProgress>,
  onEvent: EventSink,
): Promise<RunEnd> {
  const installed = directoryExport({ out, env, surroundings: realSurroundings }, settings);
  return await installed.start(start, {
    follow: true,
    signal,
    say: progress.say,
    onRetry: progress.onRetry,
    emit: (event) => {
      onEvent(event);
      progress.onEvent(event);
    },
  });
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
