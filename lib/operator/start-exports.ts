/**
 * Starts exports and says how each start ended: to a person, to a program, and by the exit status. Those of a directory run one after the
 * other, those of a stack at the same time. One that fails does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { toPrintable } from '../core/sanitize.ts';
import type { Target, Retry, StartOptions, StartRequest } from '../target/target.ts';
import { type ExportToStart, startChecked } from './bounded-start.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { countKinds, type ExportColumns, exportTable } from './output/export-table.ts';
import { bytes, plural, totals } from './output/format.ts';
import { createProgressDisplay, createStatusLine } from './output/progress.ts';
import { type Cell, type TextStyle, textStyleFor, timestampFor } from './output/terminal.ts';
import {
  formatSummary,
  type ObservedRun,
  observe,
  placeIn,
  type RunJson,
  type StartOutcome,
  type StartSummary,
  summarizeRun,
  unobservedRun,
} from './run-summary.ts';

/** Where exports can be started. */
export interface Startable extends Pick<Target, 'option'> {
  readonly open: (exportName: string) => Promise<ExportToStart>;
}

export interface StartSettings {
  readonly request: StartRequest;
  /** Whether to stay until the ends of the runs. */
  readonly follow: boolean;
  readonly json: boolean;
  /** Show only warnings, errors and the result. */
  readonly quiet?: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
  /** Whether the exports are started at the same time. */
  readonly concurrent?: boolean;
  /** Whether there is a line for each export and a summary, also if there is only one. */
  readonly all?: boolean;
  /** Whose help is offered if the start of a single export is refused. */
  readonly command: string;
}

/** The object of `--json` for an export that an interruption kept from being started. It may have an unfinished run. */
interface NotStartedJson {
  readonly status: 'not-started';
  readonly export: string;
}

type ExportJson = RunJson | NotStartedJson;

type ExportEnd = Pick<StartSummary, 'exitStatus' | 'next'> & { readonly json: ExportJson };

const startConcurrency = 8;

/** Starts the exports in the given order, and resolves to the exit status. */
export async function startExports(
  startable: Startable,
  names: readonly string[],
  settings: StartSettings,
  context: CommandContext,
): Promise<number> {
  const { json, quiet = false, concurrent = false, all = false } = settings;
  const { stdout, stderr, env, program, signal } = context;
  const { now } = systemRuntime;
  const isSingle = names.length === 1 && !all;
  const output = json ? stderr : stdout;
  const together = concurrent && !isSingle ? createSharedDisplay(names.length, settings, context) : undefined;

  const end = (ended: ExportEnd, startedAt: number): ExportEnd => {
    const isFailure = ended.json.status === 'failed' || ended.json.status === 'interrupted';
    const stream = isFailure ? stderr : output;
    const style = textStyleFor(stream, env);
    const at = timestampFor(stream, now());
    if (isSingle && ended.json.status !== 'not-started') {
      const { json: run, exitStatus, next } = ended;
      // A refused start is wrong usage, not an event of a run.
      const isUsage = exitStatus === exitStatuses.usage;
      stream.write(`${isUsage ? '' : at}${formatSummary({ json: run, exitStatus, next }, now() - startedAt, style)}`);
    } else if (settings.follow || together === undefined || ended.json.status !== 'started') {
      const run = quiet ? `${('run' in ended.json && ended.json.run) || unknown} ` : '';
      const hasNext = ended.exitStatus === exitStatuses.failed && !quiet && ended.next !== '';
      stream.write(`${at}${run}${endLine(ended.json, style)}\n${hasNext ? `  ${ended.next}\n` : ''}`);
    }
    if (json) stdout.write(`${JSON.stringify(ended.json)}\n`);
    return ended;
  };

  const limit = concurrent ? startConcurrency : 1;
  const ends = await mapConcurrently(names, limit, async (name, release): Promise<ExportEnd> => {
    const startedAt = now();
    if (signal.aborted) {
      const notStarted = { status: 'not-started', export: name } as const;
      return end({ exitStatus: exitStatuses.interrupted, json: notStarted, next: '' }, startedAt);
    }
    const style = textStyleFor(stderr, env);
    const display =
      together?.(name, release) ?? createProgressDisplay(stderr, style, now, { countsDown: !json, quiet });
    const summary = await observeStart(startable, name, settings, { ...display, signal, program });
    display.end();
    return end(summary, startedAt);
  });
  const [only] = ends;
  if (isSingle && only !== undefined) return only.exitStatus;

  const style = textStyleFor(output, env);
  if (quiet) output.write(`${timestampFor(output, now())}${countEnds(ends)}\n`);
  else {
    const isAnyInProgress = ends.some((each) => each.json.status === 'started');
    const hint = isAnyInProgress ? [`Watch them with: ${program} status ${startable.option} --watch`] : [];
    const table = settings.follow ? ['', ...endTable(ends, style, output.columns)] : [];
    const hasFailed = settings.follow && ends.some((each) => each.json.status === 'failed');
    const details = `→ for details: ${program} status --failed ${startable.option}`;
    const lines = [...table, countEnds(ends), ...(hasFailed ? [style('dim', details)] : []), ...hint];
    output.write(`${lines.join('\n')}\n`);
  }
  return exitStatusOf(ends);
}

/** A wrong setting of one of several exports is a failure of that export, not a wrong usage of the command. */
function exitStatusOf(ends: readonly ExportEnd[]): number {
  if (ends.some(({ exitStatus }) => exitStatus === exitStatuses.interrupted)) return exitStatuses.interrupted;
  return ends.every(({ exitStatus }) => exitStatus === exitStatuses.ok) ? exitStatuses.ok : exitStatuses.failed;
}

interface StartDisplay extends Pick<StartOptions, 'notify' | 'onRetry' | 'onStarted' | 'followers'> {
  readonly onEvent: (event: Parameters<StartOptions['emit']>[0], observed: ObservedRun) => void;
  readonly end: () => void;
}

/** Starts the export, and resolves to how that ended. If the start throws, there was no run. */
async function observeStart(
  startable: Startable,
  exportName: string,
  { request, follow, maxAttempts, command }: StartSettings,
  { onEvent, program, ...listeners }: StartDisplay & Pick<CommandContext, 'signal' | 'program'>,
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
  const outcome = await startable
    .open(exportName)
    .then(async (opened) => await startChecked(opened, request, options))
    .catch((error: unknown): StartOutcome => ({ status: 'error', error }));
  const next = {
    help: `${program} ${command} --help`,
    watch: `${program} status ${exportName} ${startable.option} --watch`,
  };
  const summary = summarizeRun(outcome, observed, next, lastRetry);
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

/** Shows the starts of runs that are in progress at the same time and, on a terminal, how many there are. */
function createSharedDisplay(total: number, { json, follow }: StartSettings, { stdout, stderr, env }: CommandContext) {
  const statusLine = createStatusLine(stderr, systemRuntime.now);
  /** The pages of each run in progress. */
  const inProgress = new Map<string, number>();
  const showProgress = () => {
    if (stderr.isTTY !== true || inProgress.size === 0) return;
    const pages = [...inProgress.values()].reduce((sum, count) => sum + count, 0);
    statusLine.update(`${plural(inProgress.size, 'run')} of ${total} in progress · ${plural(pages, 'page')}`);
  };
  return (name: string, release: () => void): StartDisplay => ({
    notify: () => {},
    onRetry: () => {},
    followers: () => inProgress.size,
    onStarted(execution) {
      // The other starts do not wait for the end of this run.
      release();
      statusLine.clear();
      const stream = follow || json ? stderr : stdout;
      const label = textStyleFor(stream, env)('green', 'Started:');
      stream.write(`${timestampFor(stream, systemRuntime.now())}${label} ${name} (${execution})\n`);
      if (follow) inProgress.set(name, 0);
      showProgress();
    },
    onEvent(_, { pages }) {
      if (inProgress.has(name)) inProgress.set(name, pages);
      showProgress();
    },
    end() {
      inProgress.delete(name);
      statusLine.clear();
    },
  });
}

/** How each status is shown, in the order of the table. */
const statusLabels = {
  failed: ['Failed', 'red'],
  interrupted: ['Interrupted', 'yellow'],
  'not-started': ['Not started', 'yellow'],
  started: ['In progress', 'cyan'],
  skipped: ['Skipped', 'yellow'],
  completed: ['Completed', 'green'],
} as const satisfies Record<ExportJson['status'], readonly [string, Cell['style']]>;

const statusOrder = Object.keys(statusLabels) as readonly ExportJson['status'][];

const statusText = (status: ExportJson['status']) => status.replace('-', ' ');

/** One of several ends: `Completed: nightly (3 pages, 250 reports, 123.5 kB)`. */
function endLine(json: ExportJson, style: TextStyle): string {
  const { status, export: name } = json;
  const [label, color] = statusLabels[status];
  const details = status === 'completed' ? totals(json) : status === 'started' ? (json.execution ?? '') : noteOf(json);
  return `${style(color, `${label}:`)} ${name}${details === '' ? '' : ` (${details})`}`;
}

function noteOf(json: ExportJson): string {
  if (json.status === 'not-started') return '';
  const { status, error, reason = '' } = json;
  if (status === 'failed') {
    const place = json.pages === 0 ? '' : `${placeIn(json)}: `;
    return toPrintable(`${place}${error?.name}: ${error?.message}`);
  }
  return status === 'started' ? 'still in progress' : toPrintable(reason);
}

const unknown = '–';

/** A number of a run; of an export that was not started, it is not known. */
const numberCell = (text: (run: RunJson) => string) => (json: ExportJson) => ({
  text: json.status === 'not-started' ? unknown : text(json),
});

const columns: ExportColumns<ExportJson> = {
  required: [
    { heading: 'EXPORT', cell: (json) => ({ text: json.export, style: 'bold' }) },
    { heading: 'STATUS', cell: ({ status }) => ({ text: statusText(status), style: statusLabels[status][1] }) },
    { heading: 'PAGES', alignRight: true, cell: numberCell(({ pages }) => pages.toLocaleString('en')) },
  ],
  optional: [
    {
      heading: 'REPORTS',
      alignRight: true,
      cell: numberCell(({ reports }) => reports?.toLocaleString('en') ?? unknown),
    },
    { heading: 'BYTES', alignRight: true, cell: numberCell((run) => bytes(run.bytes)) },
  ],
  noteOf,
};

/** The failed ones first. */
function endTable(ends: readonly ExportEnd[], style: TextStyle, width: number | undefined): readonly string[] {
  const rankOf = ({ status }: ExportJson) => statusOrder.indexOf(status);
  const sorted = ends.map(({ json }) => json).toSorted((one, other) => rankOf(one) - rankOf(other));
  return [...exportTable(sorted, columns, { now: systemRuntime.now(), style, columns: width || 80 }), ''];
}

/** `100 exports: 2 failed, 98 started`. */
const countEnds = (ends: readonly ExportEnd[]): string =>
  countKinds(
    ends.map(({ json }) => statusText(json.status)),
    statusOrder.map(statusText),
  );
