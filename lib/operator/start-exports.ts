/**
 * Starts exports: one; several of a directory one after the other; several of a stack at the same time. One that fails
 * does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { toPrintable } from '../core/sanitize.ts';
import type { Deployment, StartRequest } from '../target/target.ts';
import { type ExportToStart, startChecked } from './bounded-start.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { followRun, type RunToStart, observeStart } from './follow-run.ts';
import { countKinds } from './output/export-table.ts';
import { bytes, plural, totals } from './output/format.ts';
import { createStatusLine } from './output/progress.ts';
import { type Cell, type TextStyle, tableLines, textStyleFor, timestampFor } from './output/terminal.ts';
import { placeIn, type RunJson } from './run-summary.ts';

/** Where exports can be started. */
export interface Startable extends Pick<Deployment, 'option'> {
  readonly open: (exportName: string) => Promise<ExportToStart>;
}

export interface StartSettings extends Pick<RunToStart, 'follow' | 'maxAttempts'> {
  readonly request: StartRequest;
  readonly json: boolean;
  /** Show only warnings, errors and the result. */
  readonly quiet?: boolean | undefined;
}

/** Resolves to the exit status of the run. `command` is the one whose help is offered if the start is refused. */
export async function startOne(
  startable: Startable,
  exportName: string,
  { request, json, quiet = false, ...settings }: StartSettings,
  command: string,
  context: CommandContext,
): Promise<number> {
  const opened = await startable.open(exportName);
  const next = {
    ...nextCommands(startable, exportName, context.program),
    help: `${context.program} ${command} --help`,
  };
  const run: RunToStart = { ...settings, exportName, start: (options) => startChecked(opened, request, options), next };
  return (await followRun(run, { json, quiet }, context)).exitStatus;
}

/** Runs the exports in the given order, and resolves to the exit status. */
export async function runOneByOne(
  startable: Startable,
  names: readonly string[],
  { request, json, quiet = false, maxAttempts }: Omit<StartSettings, 'follow'>,
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env, program, signal } = context;
  const output = json ? stderr : stdout;
  const style = textStyleFor(output, env);
  const ends: ExportEnd[] = [];
  for (const [index, name] of names.entries()) {
    if (signal.aborted) {
      const end = notStarted(name);
      if (json) stdout.write(`${JSON.stringify(end.json)}\n`);
      if (quiet) output.write(`${timestampFor(output, systemRuntime.now())}${logLine(end, style)}`);
      ends.push(end);
      continue;
    }
    const heading = `${style('bold', `Export ${name}`)} (${index + 1} of ${names.length})\n`;
    if (!quiet) output.write(`${index === 0 ? '' : '\n'}${heading}`);
    const run = toStart(startable, name, { request, follow: true, maxAttempts }, program);
    ends.push(await followRun(run, { json, quiet, formatEnd: quiet ? logLine : undefined }, context));
  }
  if (quiet) {
    output.write(`${timestampFor(output, systemRuntime.now())}${summarizeResults(ends)}\n`);
    return exitStatusOf(ends);
  }
  const details = `${program} status --failed ${startable.option}`;
  output.write(`\n${resultLines(ends, details, style, output.columns).join('\n')}\n`);
  return exitStatusOf(ends);
}

const startConcurrency = 8;

/** Starts the exports, several at the same time, and resolves to the exit status. */
export async function startConcurrently(
  startable: Startable,
  names: readonly string[],
  settings: StartSettings,
  context: CommandContext,
): Promise<number> {
  const { signal, program } = context;
  const display = createStartDisplay(names.length, settings, context);
  const ends = await mapConcurrently(names, startConcurrency, async (name, release): Promise<ExportEnd> => {
    const end = signal.aborted
      ? notStarted(name)
      : await observeStart(toStart(startable, name, settings, program), {
          signal,
          followers: display.runsInProgress,
          say: () => {},
          onStarted(execution) {
            // The other starts do not wait for the end of this run.
            release();
            display.started(name, execution);
          },
          onRetry: () => {},
          onEvent: (_, { pages }) => display.progressed(name, pages),
        });
    display.ended(end.json);
    return end;
  });
  display.summarize(ends, startable);
  return exitStatusOf(ends);
}

/** An export that cannot be opened has failed, as one whose run fails. */
function toStart(
  startable: Startable,
  exportName: string,
  { request, follow, maxAttempts }: Omit<StartSettings, 'json'>,
  program: string,
): RunToStart {
  const start: RunToStart['start'] = async (options) =>
    await startChecked(await startable.open(exportName), request, options);
  return { exportName, start, follow, maxAttempts, next: nextCommands(startable, exportName, program) };
}

const nextCommands = ({ option }: Startable, name: string, program: string) => ({
  help: `${program} plan ${name} ${option}`,
  watch: `${program} status ${name} ${option} --watch`,
});

/** The object of `--json` for an export that an interruption kept from being started. It may have an unfinished run. */
interface NotStartedJson {
  readonly status: 'not-started';
  readonly export: string;
}

type ExportJson = RunJson | NotStartedJson;

interface ExportEnd {
  readonly exitStatus: number;
  readonly json: ExportJson;
}

const notStarted = (name: string): ExportEnd => ({
  exitStatus: exitStatuses.interrupted,
  json: { status: 'not-started', export: name },
});

/** A wrong setting of one export is a failure of that export, not a wrong usage of the command. */
function exitStatusOf(ends: readonly ExportEnd[]): number {
  if (ends.some(({ exitStatus }) => exitStatus === exitStatuses.interrupted)) return exitStatuses.interrupted;
  return ends.every(({ exitStatus }) => exitStatus === exitStatuses.ok) ? exitStatuses.ok : exitStatuses.failed;
}

/** Shows the starts and the ends of runs that are in progress at the same time. */
function createStartDisplay(
  total: number,
  { json, follow }: StartSettings,
  { stdout, stderr, env, program }: CommandContext,
) {
  const output = json ? stderr : stdout;
  const style = textStyleFor(output, env);
  const statusLine = createStatusLine(stderr, systemRuntime.now);
  /** The pages of each run. */
  const inProgress = new Map<string, number>();
  const printLine = (stream: typeof output, line: string) => {
    statusLine.clear();
    stream.write(`${line}\n`);
  };
  /** Without following, all lines are the result. */
  const printEvent = (stream: typeof output, line: string) =>
    printLine(stream, `${follow ? timestampFor(stream, systemRuntime.now()) : ''}${line}`);
  /** On a terminal only: a log has a line for each start and each end. */
  const showProgress = () => {
    if (stderr.isTTY !== true || inProgress.size === 0) return;
    const pages = [...inProgress.values()].reduce((sum, count) => sum + count, 0);
    statusLine.update(`${plural(inProgress.size, 'run')} of ${total} in progress · ${plural(pages, 'page')}`);
  };
  return {
    runsInProgress: () => inProgress.size,
    started(name: string, execution: string) {
      printEvent(follow ? stderr : output, `${style('green', 'Started:')} ${name} (${execution})`);
      if (follow) inProgress.set(name, 0);
      showProgress();
    },
    progressed(name: string, pages: number) {
      if (inProgress.has(name)) inProgress.set(name, pages);
      showProgress();
    },
    ended(result: ExportJson) {
      inProgress.delete(result.export);
      const isFailure = result.status === 'failed';
      // Without following, the start was the end.
      if (follow || isFailure) printEvent(isFailure ? stderr : output, resultLine(result, style));
      if (json) printLine(stdout, JSON.stringify(result));
      showProgress();
    },
    summarize(ends: readonly ExportEnd[], { option }: Startable) {
      const isAnyInProgress = ends.some(({ json: { status } }) => status === 'started');
      const hint = isAnyInProgress ? [`Watch them with: ${program} status ${option} --watch`] : [];
      const lines = follow
        ? ['', ...resultLines(ends, `${program} status --failed ${option}`, style, output.columns)]
        : [summarizeResults(ends)];
      for (const line of [...lines, ...hint]) printLine(output, line);
    },
  };
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

/** What a person reads when one of several runs ends. */
function resultLine(json: ExportJson, style: TextStyle): string {
  const { status, export: name } = json;
  const [label, color] = statusLabels[status];
  const details = status === 'completed' ? totals(json) : status === 'started' ? (json.execution ?? '') : noteOf(json);
  return `${style(color, `${label}:`)} ${name}${details === '' ? '' : ` (${details})`}`;
}

/** The end of an export after its time, in the log of several: `20261120T110243Z-f59183 Completed: nightly (3 pages)`. */
function logLine({ json }: Pick<ExportEnd, 'json'>, style: TextStyle): string {
  const run = 'run' in json ? json.run : null;
  return `${run ?? unknown} ${resultLine(json, style)}\n`;
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

/** A table of all runs, the failed ones first, and their count. */
function resultLines(
  ends: readonly ExportEnd[],
  detailsCommand: string,
  style: TextStyle,
  columns: number | undefined,
): string[] {
  const heading = ['EXPORT', 'STATUS', 'PAGES', 'REPORTS', 'BYTES', 'NOTE'].map((text, column) => ({
    text,
    style: 'dim' as const,
    alignRight: column >= 2 && column <= 4,
  }));
  const rankOf = ({ json }: ExportEnd) => statusOrder.indexOf(json.status);
  const rows = ends
    .toSorted((one, other) => rankOf(one) - rankOf(other))
    .map(({ json }): Cell[] => [
      { text: json.export, style: 'bold' },
      { text: statusText(json.status), style: statusLabels[json.status][1] },
      ...totalsOf(json).map((text) => ({ text, alignRight: true })),
      { text: noteOf(json) },
    ]);
  const hasFailed = ends.some(({ json }) => json.status === 'failed');
  const hint = hasFailed ? [style('dim', `→ for details: ${detailsCommand}`)] : [];
  return [...tableLines([heading, ...rows], style, columns), '', summarizeResults(ends), ...hint];
}

const unknown = '–';

/** Its pages, reports and bytes. */
function totalsOf(json: ExportJson): readonly string[] {
  if (json.status === 'not-started') return [unknown, unknown, unknown];
  return [json.pages.toLocaleString('en'), json.reports?.toLocaleString('en') ?? unknown, bytes(json.bytes)];
}

const statusText = (status: ExportJson['status']) => status.replace('-', ' ');

/** `100 exports: 2 failed, 98 started`. */
function summarizeResults(ends: readonly ExportEnd[]): string {
  return countKinds(
    ends.map(({ json }) => statusText(json.status)),
    statusOrder.map(statusText),
  );
}
