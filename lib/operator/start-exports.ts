/**
 * Starts exports and says how each start ended: to a person, to a program, and by the exit status. Exports of a
 * directory run one after the other, those of a stack at the same time. One that fails does not stop the others. After
 * an interruption none starts any more: it stops a run in a directory, but not those of a stack.
 */

import { definitionOfStart } from '../core/bounded-runs.ts';
import { mapConcurrently, type Release } from '../core/concurrency.ts';
import { type RunEnd, zeroTotals } from '../core/model.ts';
import { exportedParents } from '../core/parents/run-parents.ts';
import type { StartRequest } from '../core/start/start-input.ts';
import { openPublishedRun } from '../core/storage/published-runs.ts';
import { findStarts, type RequestedStart } from './bounded-start.ts';
import type { ExportTarget, Target } from './target.ts';
import { type Call, type CommandContext, exitStatuses } from './context.ts';
import { countKinds } from './output/table.ts';
import { createProgressDisplay } from './output/progress.ts';
import { textStyleFor, timestampFor } from './output/terminal.ts';
import { endText, outcomeLabelOf, outcomeLabels, startEnd, type StartEnd } from './start-end.ts';

export interface StartSettings {
  readonly request: RequestedStart;
  /** Whether to stay until the ends of the runs. */
  readonly follow: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
  readonly concurrent?: boolean;
  /** Whose help is offered if the start of a single export is refused. */
  readonly command: string;
}

type StartContext = CommandContext & Pick<Call, 'options'>;

const startConcurrency = 8;

/**
 * Starts the exports in the given order, and resolves to the exit status. If they run one after the other, each starts
 * after that of its parents.
 */
export async function startExports(
  target: Pick<Target, 'open' | 'option'>,
  names: readonly string[],
  settings: StartSettings,
  context: StartContext,
): Promise<number> {
  const { stdout, stderr, env, options } = context;
  const { now } = context.runtime;
  const output = options.json === true ? stderr : stdout;
  const startExport = createStarter(target, names, settings, context);

  const show = (end: StartEnd) => {
    const stream = ['failed', 'interrupted'].includes(end.json.status) ? stderr : output;
    stream.write(`${timestampFor(stream, now())}${endText(end, textStyleFor(stream, env))}`);
    if (options.json === true) stdout.write(`${JSON.stringify(end.json)}\n`);
  };
  const limit = settings.concurrent === true ? startConcurrency : 1;
  const ordered = limit === 1 && names.length > 1 ? await parentsFirst(target, names) : names;
  const ends = await mapConcurrently(ordered, limit, async (name, release) => {
    const ofExport: StartEnd[] = [];
    for await (const end of startExport(name, release)) {
      show(end);
      ofExport.push(end);
    }
    return ofExport.slice(-1);
  });

  const lastEnds = ends.flat();
  if (names.length !== 1) {
    const counts = countKinds(lastEnds.map(outcomeLabelOf), outcomeLabels);
    output.write(`${timestampFor(output, now())}${counts}\n`);
  }
  for (const hint of new Set(lastEnds.flatMap(({ hint = [] }) => hint))) stderr.write(`${hint}\n`);
  return exitStatusOf(lastEnds, settings.follow);
}

/**
 * Returns what starts an export and yields how the start ended. With `each`, it starts one bounded run after the other,
 * until one does not complete, and yields each end.
 */
function createStarter(
  target: Pick<Target, 'open' | 'option'>,
  names: readonly string[],
  { request, follow, maxAttempts, command }: StartSettings,
  { options, stderr, env, runtime: { now }, program, signal }: StartContext,
) {
  const display = createProgressDisplay(stderr, textStyleFor(stderr, env), now, { quiet: options.quiet });
  const isOnly = names.length === 1;
  const hints = {
    help: isOnly ? `For help: ${program} ${command} --help` : undefined,
    status: `→ to see how it goes: ${program} status ${isOnly ? `${names[0]} ` : ''}${target.option}`,
  };

  /** Calls `release` once a run is in progress on AWS: the other starts do not wait for its end. */
  return async function* startExport(name: string, release: Release): AsyncGenerator<StartEnd> {
    let opened: ExportTarget | undefined;
    let left: readonly StartRequest[] = [];
    for (let isFirst = true; isFirst || left.length > 0; isFirst = false) {
      const startedAt = now();
      const progress = display.begin(name);
      const start = async (): Promise<RunEnd> => {
        if (opened === undefined) {
          opened = await target.open(name);
          await assertParentsPublished(opened, request);
          const starts = await findStarts(opened, request, startedAt);
          if (starts.kind === 'done') return { status: 'skipped', reason: starts.reason, done: true };
          ({ left } = starts);
          if (left.length > 1) progress.notify(seriesNotice(left.length));
        }
        // Without --follow, all there is to say is in the end.
        const notify = follow ? progress.notify : () => {};
        const followers = display.count;
        const common = { ...progress, notify, follow, maxAttempts, signal, onStarted: release, followers };
        return await opened.start(left[0] ?? {}, common);
      };
      const ended: Parameters<typeof startEnd>[0] = signal.aborted
        ? { status: 'not-started' }
        : await start().catch((cause: unknown) => failedStart(name, cause, progress.observed().run !== null));
      progress.end();
      const { observed, retries } = progress;
      const since = opened?.definition.since;
      const end = startEnd(ended, {
        observed: observed(),
        since,
        retries: retries(),
        elapsedMs: now() - startedAt,
        hints,
      });
      // Another process may have exported the bounds in the meantime.
      const isComplete = end.json.status === 'completed' || end.json.done === true;
      if (!isComplete) return yield withRest(end, request, left);
      yield end;
      left = left.slice(1);
    }
  };
}

/** @throws ConfigurationError if the run whose children are to be exported is not published */
async function assertParentsPublished(
  { definition, store }: Pick<ExportTarget, 'definition' | 'store'>,
  { parents: run }: RequestedStart,
): Promise<void> {
  const parents = run === undefined ? undefined : exportedParents(definitionOfStart(definition, { parents: run }));
  if (run === undefined || parents === undefined) return;
  const { pages } = await openPublishedRun(store, parents.export, run);
  // Leaving the loop closes the file.
  for await (const _ of pages) break;
}

/** The names, each after that of the export of its parents: what that publishes now is read afterwards. */
async function parentsFirst(target: Pick<Target, 'open'>, names: readonly string[]): Promise<readonly string[]> {
  const parents = new Map<string, string | undefined>();
  for (const name of names) {
    // The start of an export that cannot be opened says why.
    const opened = await target.open(name).catch(() => undefined);
    parents.set(name, opened && exportedParents(opened.definition)?.export);
  }
  const ordered = new Set<string>();
  const add = (name: string): void => {
    const parent = parents.get(name);
    if (parent !== undefined && names.includes(parent)) add(parent);
    ordered.add(name);
  };
  names.forEach(add);
  return [...ordered];
}

const seriesNotice = (count: number): string =>
  `${count} bounded runs are left. This command starts one after the other, and must stay open until the end. After an interruption, ` +
  'the same command continues';

/** An error that prevented the start, or the recording of its failure. */
function failedStart(name: string, cause: unknown, resumable: boolean): RunEnd {
  const { name: error, message } = cause instanceof Error ? cause : new Error(String(cause));
  const unknown = { export: name, run: null, since: null, ...zeroTotals };
  return { status: 'failed', failed: { ...unknown, error, message, resumable } };
}

/** The end of a start after which bounded runs are left: the person continues. */
function withRest(end: StartEnd, { each, again }: RequestedStart, left: readonly StartRequest[]): StartEnd {
  const [next] = left;
  if (each === undefined || next === undefined) return end;
  const from = again === true ? ` with --since ${next.since}` : '';
  const rest = `Left: ${next.since} to ${left.at(-1)?.until}. To continue, run the same command again${from}.`;
  const exitStatus = end.exitStatus === exitStatuses.ok ? exitStatuses.interrupted : end.exitStatus;
  return { ...end, details: [...end.details, rest], exitStatus };
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
