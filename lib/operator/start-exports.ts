/**
 * Starts exports and says how each start ended: to a person, to a program, and by the exit status. Those of a directory run one after the
 * other, those of a stack at the same time. One that fails does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently, type Release } from '../core/concurrency.ts';
import { zeroTotals } from '../core/model.ts';
import type { ExportTarget, RunEnd, StartRequest, Target } from '../target/target.ts';
import { type BoundableExport, findDone } from './bounded-start.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { countKinds } from './output/table.ts';
import { createProgressDisplay, type ProgressDisplay } from './output/progress.ts';
import { textStyleFor, timestampFor } from './output/terminal.ts';
import { endText, outcomeLabelOf, outcomeLabels, startEnd, type StartEnd } from './start-end.ts';

/** Where exports can be started. */
export interface Startable extends Pick<Target, 'option'> {
  readonly open: (exportName: string) => Promise<BoundableExport & Pick<ExportTarget, 'start'>>;
}

export interface StartSettings {
  readonly request: StartRequest;
  /** Whether to stay until the ends of the runs. */
  readonly follow: boolean;
  readonly json: boolean;
  /** Show only warnings and the ends. */
  readonly quiet?: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
  /** Whether the exports are started at the same time. */
  readonly concurrent?: boolean;
  /** Whose help is offered if the start of a single export is refused. */
  readonly command: string;
}

const startConcurrency = 8;

/** Starts the exports in the given order, and resolves to the exit status. */
export async function startExports(
  startable: Startable,
  names: readonly string[],
  settings: StartSettings,
  context: CommandContext,
): Promise<number> {
  const { json, quiet, concurrent = false, command } = settings;
  const { stdout, stderr, env, program, signal } = context;
  const { now } = systemRuntime;
  const output = json ? stderr : stdout;
  const display = createProgressDisplay(stderr, textStyleFor(stderr, env), now, { quiet });
  const isOnly = names.length === 1;
  const hints = {
    help: isOnly ? `For help: ${program} ${command} --help` : undefined,
    watch: `Watch with: ${program} status ${isOnly ? `${names[0]} ` : ''}${startable.option} --watch`,
  };

  const ends = await mapConcurrently(names, concurrent ? startConcurrency : 1, async (name, release) => {
    const end = await startOne(startable, name, settings, display, signal, release, hints);
    const hasFailed = ['failed', 'interrupted'].includes(end.json.status);
    const stream = hasFailed ? stderr : output;
    stream.write(`${timestampFor(stream, now())}${endText(end, textStyleFor(stream, env))}`);
    if (json) stdout.write(`${JSON.stringify(end.json)}\n`);
    return end;
  });

  if (!isOnly) {
    const counts = countKinds(ends.map(outcomeLabelOf), outcomeLabels);
    output.write(`${timestampFor(output, now())}${counts}\n`);
  }
  for (const hint of new Set(ends.flatMap(({ hint = [] }) => hint))) stderr.write(`${hint}\n`);
  return exitStatusOf(ends, settings);
}

function exitStatusOf(ends: readonly StartEnd[], { follow }: StartSettings): number {
  // A caller that waits for the end of a run must not take a run that is still in progress for one that has ended.
  const all = ends.map(({ json, exitStatus }) =>
    follow && json.status === 'started' ? exitStatuses.interrupted : exitStatus,
  );
  const [first = exitStatuses.ok, ...others] = all;
  if (others.length === 0) return first;
  if (all.includes(exitStatuses.interrupted)) return exitStatuses.interrupted;
  // A wrong setting of one of several exports is a failure of that export, not a wrong usage of the command.
  return all.every((status) => status === exitStatuses.ok) ? exitStatuses.ok : exitStatuses.failed;
}

/** Calls `release` once a run is in progress on AWS: the other starts do not wait for its end. */
async function startOne(
  startable: Startable,
  exportName: string,
  { request, follow, maxAttempts }: StartSettings,
  display: ProgressDisplay,
  signal: AbortSignal,
  release: Release,
  hints: Parameters<typeof startEnd>[1]['hints'],
): Promise<StartEnd> {
  const startedAt = systemRuntime.now();
  const progress = display.begin(exportName);
  const start = async (): Promise<RunEnd> => {
    const opened = await startable.open(exportName);
    const reason = await findDone(opened, request, startedAt);
    if (reason !== undefined) return { status: 'skipped', reason, done: true };
    return await opened.start(request, {
      ...progress,
      follow,
      maxAttempts,
      signal,
      onStarted: release,
      followers: display.count,
      // Without --follow, all there is to say is in the end.
      notify: follow ? progress.notify : () => {},
    });
  };
  /** An error that prevented the start, or the recording of its failure. */
  const failure = (cause: unknown): RunEnd => {
    const { name: error, message } = cause instanceof Error ? cause : new Error(String(cause));
    const resumable = progress.observed().run !== null;
    const unknown = { export: exportName, run: null, since: null, ...zeroTotals };
    return { status: 'failed', failed: { ...unknown, error, message, resumable } };
  };
  const end = signal.aborted ? ({ status: 'not-started' } as const) : await start().catch(failure);
  progress.end();
  const elapsedMs = systemRuntime.now() - startedAt;
  return startEnd(end, { observed: progress.observed(), retries: progress.retries(), elapsedMs, hints });
}
