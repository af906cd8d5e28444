/**
 * Starts exports and says how each start ended: to a person, to a program, and by the exit status. Those of a directory run one after the
 * other, those of a stack at the same time. One that fails does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently, type Release } from '../core/concurrency.ts';
import type { ExportTarget, Retry, RunEnd, StartOptions, StartRequest, Target } from '../target/target.ts';
import { type BoundableExport, findDone } from './bounded-start.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { countKinds } from './output/export-table.ts';
import { observe, unobservedRun } from './output/observed-run.ts';
import { createProgressDisplay, type ProgressDisplay } from './output/progress.ts';
import { type Cell, type TextStyle, textStyleFor, timestampFor } from './output/terminal.ts';
import { notStarted, startEnd, type StartEnd } from './start-end.ts';

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
    const end = signal.aborted
      ? notStarted(name)
      : await startOne(startable, name, { ...settings, signal, display, hints, release });
    const hasFailed = ['failed', 'interrupted'].includes(end.json.status);
    const stream = hasFailed ? stderr : output;
    stream.write(`${timestampFor(stream, now())}${endText(end, textStyleFor(stream, env))}`);
    if (json) stdout.write(`${JSON.stringify(end.json)}\n`);
    return end;
  });

  if (!isOnly) {
    const counts = countKinds(ends.map(labelOf), labels);
    output.write(`${timestampFor(output, now())}${counts}\n`);
  }
  for (const hint of new Set(ends.flatMap(({ hint = [] }) => hint))) stderr.write(`${hint}\n`);
  return exitStatusOf(ends.map(({ exitStatus }) => exitStatus));
}

/** A wrong setting of one of several exports is a failure of that export, not a wrong usage of the command. */
function exitStatusOf([first = exitStatuses.ok, ...others]: readonly number[]): number {
  if (others.length === 0) return first;
  const all = [first, ...others];
  if (all.includes(exitStatuses.interrupted)) return exitStatuses.interrupted;
  return all.every((status) => status === exitStatuses.ok) ? exitStatuses.ok : exitStatuses.failed;
}

interface OneStart extends StartSettings, Pick<StartOptions, 'signal'> {
  readonly display: ProgressDisplay;
  readonly hints: Parameters<typeof startEnd>[1]['hints'];
  /** Called once a run is in progress on AWS: the other starts do not wait for its end. */
  readonly release: Release;
}

async function startOne(
  startable: Startable,
  exportName: string,
  { request, follow, maxAttempts, signal, display, hints, release }: OneStart,
): Promise<StartEnd> {
  const startedAt = systemRuntime.now();
  const shown = display.begin(exportName);
  let observed = unobservedRun(exportName);
  /** The newest retry of the step in progress. */
  let lastRetry: Retry | undefined;
  const options: StartOptions = {
    follow,
    maxAttempts,
    signal,
    onStarted: release,
    followers: display.count,
    // Without --follow, all there is to say is in the end.
    notify: follow ? shown.notify : () => {},
    onRetry(retry) {
      lastRetry = countedOverErrors(retry, lastRetry);
      shown.onRetry(lastRetry);
    },
    emit(event) {
      observed = observe(observed, event);
      if (event.event === 'page-exported' || event.event === 'page-adopted') lastRetry = undefined;
      shown.onEvent(event, observed);
    },
  };
  const start = async (): Promise<RunEnd> => {
    const opened = await startable.open(exportName);
    const reason = await findDone(opened, request, startedAt);
    return reason === undefined ? await opened.start(request, options) : { status: 'skipped', reason, done: true };
  };
  const end = await start().catch((error: unknown) => ({ status: 'error', error }) as const);
  shown.end();
  const result = startEnd(end, { observed, lastRetry, elapsedMs: systemRuntime.now() - startedAt, hints });
  // A caller that waits for the end of a run must not take a run that is still in progress for one that has ended.
  const stoppedWatching = follow && result.json.status === 'started';
  return stoppedWatching ? { ...result, exitStatus: exitStatuses.interrupted } : result;
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

/** How each status is shown, in the order in which they are counted. */
const statusLabels = {
  failed: ['Failed', 'red'],
  interrupted: ['Interrupted', 'yellow'],
  'not-started': ['Not started', 'yellow'],
  started: ['In progress', 'cyan'],
  skipped: ['Skipped', 'yellow'],
  completed: ['Completed', 'green'],
} as const satisfies Record<StartEnd['json']['status'], readonly [string, Cell['style']]>;

const labels = Object.values(statusLabels).map(([label]) => label.toLowerCase());
const labelOf = ({ json }: StartEnd): string => statusLabels[json.status][0].toLowerCase();

/** `Completed: nightly (3 pages, 250 reports, 123.5 kB in 1.2 s)`, and the details below it. */
function endText({ json, text: { about, details } }: StartEnd, style: TextStyle): string {
  const isDone = 'done' in json && json.done === true;
  const [label, color] = isDone ? (['Done', 'green'] as const) : statusLabels[json.status];
  const first = `${style(color, `${label}:`)} ${json.export}${about === undefined ? '' : ` (${about})`}`;
  return [first, ...details.map((line) => `  ${line}`)].map((line) => `${line}\n`).join('');
}
