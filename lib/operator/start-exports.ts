/**
 * Starts exports and says how each start ended: to a person, to a program, and by the exit status. Those of a directory run one after the
 * other, those of a stack at the same time. One that fails does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently, type Release } from '../core/concurrency.ts';
import { type ExportDefinition, zeroTotals, type RunEnd } from '../core/model.ts';
import type { StartRequest } from '../core/steps/start-input.ts';
import type { Target } from './target.ts';
import { findDone } from './bounded-start.ts';
import { type Call, type CommandContext, exitStatuses } from './context.ts';
import { countKinds } from './output/table.ts';
import { createProgressDisplay } from './output/progress.ts';
import { textStyleFor, timestampFor } from './output/terminal.ts';
import { endText, outcomeLabelOf, outcomeLabels, startEnd, type StartEnd } from './start-end.ts';

export interface StartSettings {
  readonly request: StartRequest;
  /** Whether to stay until the ends of the runs. */
  readonly follow: boolean;
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
  target: Pick<Target, 'open' | 'option'>,
  names: readonly string[],
  { request, follow, maxAttempts, concurrent = false, command }: StartSettings,
  { options: { json = false, quiet }, stdout, stderr, env, program, signal }: CommandContext & Pick<Call, 'options'>,
): Promise<number> {
  const { now } = systemRuntime;
  const output = json ? stderr : stdout;
  const display = createProgressDisplay(stderr, textStyleFor(stderr, env), now, { quiet });
  const isOnly = names.length === 1;
  const hints = {
    help: isOnly ? `For help: ${program} ${command} --help` : undefined,
    watch: `Watch with: ${program} status ${isOnly ? `${names[0]} ` : ''}${target.option} --watch`,
  };

  /** Calls `release` once a run is in progress on AWS: the other starts do not wait for its end. */
  const startOne = async (name: string, release: Release): Promise<StartEnd> => {
    const startedAt = now();
    const progress = display.begin(name);
    let since: ExportDefinition['since'] | undefined;
    const start = async (): Promise<RunEnd> => {
      const opened = await target.open(name);
      since = opened.definition.since;
      const reason = await findDone(opened, request, startedAt);
      if (reason !== undefined) return { status: 'skipped', reason, done: true };
      // Without --follow, all there is to say is in the end.
      const notify = follow ? progress.notify : () => {};
      const followers = display.count;
      return await opened.start(request, {
        ...progress,
        notify,
        follow,
        maxAttempts,
        signal,
        onStarted: release,
        followers,
      });
    };
    /** An error that prevented the start, or the recording of its failure. */
    const failure = (cause: unknown): RunEnd => {
      const { name: error, message } = cause instanceof Error ? cause : new Error(String(cause));
      const resumable = progress.observed().run !== null;
      const unknown = { export: name, run: null, since: null, ...zeroTotals };
      return { status: 'failed', failed: { ...unknown, error, message, resumable } };
    };
    const end = signal.aborted ? ({ status: 'not-started' } as const) : await start().catch(failure);
    progress.end();
    const { observed, retries } = progress;
    return startEnd(end, { observed: observed(), since, retries: retries(), elapsedMs: now() - startedAt, hints });
  };

  const ends = await mapConcurrently(names, concurrent ? startConcurrency : 1, async (name, release) => {
    const end = await startOne(name, release);
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
  return exitStatusOf(ends, follow);
}

function exitStatusOf(ends: readonly StartEnd[], follow: boolean): number {
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
