/**
 * Starts several exports: those of a directory one after the other, those of a stack at the same time. An export that fails
 * does not stop the others. An interruption stops all.
 */

import { systemRuntime } from '../core/clock.ts';
import { mapConcurrently } from '../core/concurrency.ts';
import { ExportError } from '../core/errors.ts';
import type { DeployedExport, Deployment, Retry, RunEnd, StartOptions, StartRequest } from '../target/target.ts';
import { listNames, toPrintable } from '../core/sanitize.ts';
import { type CommandContext, exitStatuses } from './context.ts';
import { followToSummary, withExitStatus } from './follow-run.ts';
import { bytes, plural, totals } from './output/format.ts';
import { createStatusLine } from './output/progress.ts';
import { type Cell, type TextStyle, tableLines, textStyleFor } from './output/terminal.ts';
import {
  type ObservedRun,
  observe,
  type RunJson,
  type RunSummary,
  type StartOutcome,
  summarizeRun,
  unobservedRun,
} from './run-summary.ts';

export interface StartManyOptions {
  readonly request: StartRequest;
  readonly json: boolean;
  /** Whether to wait for the end of the runs. Those of a directory are always followed. */
  readonly follow: boolean;
  /** How often a step of a local run is tried at most. */
  readonly maxAttempts?: number | undefined;
}

/** @throws ConfigurationError that lists the names which are not exports of the deployment, or are given twice */
export async function assertExportNames(deployment: Deployment, names: readonly string[]): Promise<void> {
  const existing = await deployment.exportNames();
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  const unknown = [...new Set(names.filter((name) => !existing.includes(name)))];
  const problems = [
    ...twice.map((name) => `${name}: given twice`),
    ...unknown.map((name) => `${name}: no such export in ${deployment.name}`),
  ];
  if (problems.length === 0) return;
  const known = unknown.length === 0 ? [] : [`  Its exports: ${listNames(existing)}`];
  throw new ExportError('ConfigurationError', [...problems, ...known].join('\n'));
}

/** Exports that can be started. */
export interface Startable extends Pick<Deployment, 'option'> {
  readonly open: (exportName: string) => Promise<Pick<DeployedExport, 'start'>>;
}

/** Runs the exports in the given order, and resolves to the exit status. */
export async function runOneByOne(
  deployment: Startable,
  names: readonly string[],
  { request, json, maxAttempts }: StartManyOptions,
  context: CommandContext,
): Promise<number> {
  const output = json ? context.stderr : context.stdout;
  const style = textStyleFor(output, context.env);
  const summaries: ExportSummary[] = [];
  for (const [index, name] of names.entries()) {
    if (context.signal.aborted) {
      const summary = notStarted(name);
      if (json) context.stdout.write(`${JSON.stringify(summary.json)}\n`);
      summaries.push(summary);
      continue;
    }
    output.write(`${index === 0 ? '' : '\n'}${style('bold', `Export ${name}`)} (${index + 1} of ${names.length})\n`);
    const next = nextCommands(deployment, name, context.program);
    const options = { exportName: name, follow: true, json, maxAttempts, next };
    const summary = await followToSummary(options, context, async (startOptions) => {
      return await (await deployment.open(name)).start(request, startOptions);
    });
    summaries.push(summary);
  }
  output.write(
    `\n${resultLines(summaries, `${context.program} status --failed ${deployment.option}`, style, output.columns).join('\n')}\n`,
  );
  return exitStatusOf(summaries);
}

/** The object of `--json` for an export that an interruption kept from being started. It may have an unfinished run. */
interface NotStartedJson {
  readonly status: 'not-started';
  readonly export: string;
}

type ExportJson = RunJson | NotStartedJson;

type ExportSummary = Pick<RunSummary, 'exitStatus'> & { readonly json: ExportJson };

const notStarted = (name: string): ExportSummary => ({
  exitStatus: exitStatuses.interrupted,
  json: { status: 'not-started', export: name },
});

const startConcurrency = 8;

/** Starts the exports, several at the same time, and resolves to the exit status. */
export async function startConcurrently(
  deployment: Deployment,
  names: readonly string[],
  options: StartManyOptions,
  context: CommandContext,
): Promise<number> {
  const { follow, request } = options;
  const { signal, program } = context;
  const display = createStartDisplay(names.length, options, context);

  const start = async (name: string, release: () => void): Promise<ExportSummary> => {
    if (signal.aborted) {
      const summary = notStarted(name);
      display.ended(summary.json);
      return summary;
    }
    let observed = unobservedRun(name);
    let lastRetry: Retry | undefined;
    const startOptions: StartOptions = {
      follow,
      followers: display.runsInProgress,
      signal,
      say: () => {},
      onStarted(execution) {
        // The other starts do not wait for the end of this run.
        release();
        display.started(observed, execution);
      },
      onRetry(retry) {
        lastRetry = retry;
      },
      emit(event) {
        observed = observe(observed, event);
        display.progressed(observed);
      },
    };
    const outcome = await outcomeOf(async () => await (await deployment.open(name)).start(request, startOptions));
    const summary = withExitStatus(
      summarizeRun(outcome, observed, nextCommands(deployment, name, program), lastRetry),
      follow,
    );
    display.ended(summary.json);
    return summary;
  };

  const summaries = await mapConcurrently(names, startConcurrency, start);
  display.summarize(summaries, deployment);
  return exitStatusOf(summaries);
}

async function outcomeOf(start: () => Promise<RunEnd>): Promise<StartOutcome> {
  try {
    return await start();
  } catch (error) {
    return { status: 'error', error };
  }
}

/** Shows the starts and the ends of runs that are in progress at the same time. */
function createStartDisplay(
  total: number,
  { json, follow }: StartManyOptions,
  { stdout, stderr, env, program }: CommandContext,
) {
  const output = json ? stderr : stdout;
  const style = textStyleFor(output, env);
  const statusLine = createStatusLine(stderr, systemRuntime.now);
  const inProgress = new Map<string, ObservedRun>();
  const printLine = (stream: typeof output, line: string) => {
    statusLine.clear();
    stream.write(`${line}\n`);
  };
  /** On a terminal only: a log has a line for each start and each end. */
  const showProgress = () => {
    if (stderr.isTTY !== true || inProgress.size === 0) return;
    const pages = [...inProgress.values()].reduce((sum, observed) => sum + observed.pages, 0);
    statusLine.update(`${plural(inProgress.size, 'run')} of ${total} in progress · ${plural(pages, 'page')}`);
  };
  return {
    runsInProgress: () => inProgress.size,
    started(observed: ObservedRun, execution: string) {
      const { export: name } = observed;
      printLine(follow ? stderr : output, `${style('green', 'Started:')} ${name} (${execution})`);
      if (follow) inProgress.set(name, observed);
      showProgress();
    },
    progressed(observed: ObservedRun) {
      if (inProgress.has(observed.export)) inProgress.set(observed.export, observed);
      showProgress();
    },
    ended(result: ExportJson) {
      inProgress.delete(result.export);
      const isFailure = result.status === 'failed';
      // Without following, the start was the end.
      if (follow || isFailure) printLine(isFailure ? stderr : output, resultLine(result, style));
      if (json) printLine(stdout, JSON.stringify(result));
      showProgress();
    },
    summarize(summaries: readonly ExportSummary[], deployment: Deployment) {
      const isAnyInProgress = summaries.some(({ json: { status } }) => status === 'started');
      const hint = isAnyInProgress ? [`Watch them with: ${program} status ${deployment.option} --watch`] : [];
      const lines = follow
        ? ['', ...resultLines(summaries, `${program} status --failed ${deployment.option}`, style, output.columns)]
        : [summarizeResults(summaries)];
      for (const line of [...lines, ...hint]) printLine(output, line);
    },
  };
}

const nextCommands = ({ option }: Startable, name: string, program: string) => ({
  help: `${program} plan ${name} ${option}`,
  watch: `${program} status ${name} ${option} --watch`,
});

/** A wrong setting of one export is a failure of that export, not a wrong usage of the command. */
function exitStatusOf(summaries: readonly ExportSummary[]): number {
  const statuses = new Set(summaries.map(({ exitStatus }) => exitStatus));
  if (statuses.has(exitStatuses.interrupted)) return exitStatuses.interrupted;
  return statuses.size === 0 || (statuses.size === 1 && statuses.has(exitStatuses.ok))
    ? exitStatuses.ok
    : exitStatuses.failed;
}

const statusOrder = [
  'failed',
  'interrupted',
  'not-started',
  'started',
  'skipped',
  'completed',
] as const satisfies ExportJson['status'][];

const statusStyles = {
  failed: 'red',
  interrupted: 'yellow',
  'not-started': 'yellow',
  started: 'cyan',
  skipped: 'yellow',
  completed: 'green',
} as const satisfies Record<ExportJson['status'], Cell['style']>;

const endLabels = {
  failed: 'Failed',
  interrupted: 'Interrupted',
  'not-started': 'Not started',
  started: 'In progress',
  skipped: 'Skipped',
  completed: 'Completed',
} as const satisfies Record<ExportJson['status'], string>;

/** What a person reads when one of several runs ends. */
function resultLine(json: ExportJson, style: TextStyle): string {
  const { status, export: name } = json;
  const label = style(statusStyles[status], `${endLabels[status]}:`);
  const details = status === 'completed' ? totals(json) : status === 'started' ? (json.execution ?? '') : noteOf(json);
  return `${label} ${name}${details === '' ? '' : ` (${details})`}`;
}

function noteOf(json: ExportJson): string {
  if (json.status === 'not-started') return '';
  const { status, pages, error, reason = '' } = json;
  if (status === 'failed') {
    const place = pages === 0 ? '' : `after page ${pages}: `;
    return toPrintable(`${place}${error?.name}: ${error?.message}`);
  }
  return status === 'started' ? 'still in progress' : toPrintable(reason);
}

/** A table of all runs, the failed ones first, and their count. */
function resultLines(
  summaries: readonly ExportSummary[],
  detailsCommand: string,
  style: TextStyle,
  columns: number | undefined,
): string[] {
  const heading = ['EXPORT', 'STATUS', 'PAGES', 'REPORTS', 'BYTES', 'NOTE'].map((text, column) => ({
    text,
    style: 'dim' as const,
    alignRight: column >= 2 && column <= 4,
  }));
  const rankOf = ({ json }: ExportSummary) => statusOrder.indexOf(json.status);
  const rows = summaries
    .toSorted((one, other) => rankOf(one) - rankOf(other))
    .map(({ json }): Cell[] => [
      { text: json.export, style: 'bold' },
      { text: statusText(json.status), style: statusStyles[json.status] },
      ...totalsOf(json).map((text) => ({ text, alignRight: true })),
      { text: noteOf(json) },
    ]);
  const hasFailed = summaries.some(({ json }) => json.status === 'failed');
  const hint = hasFailed ? [style('dim', `→ for details: ${detailsCommand}`)] : [];
  return [...tableLines([heading, ...rows], style, columns), '', summarizeResults(summaries), ...hint];
}

const unknown = '–';

/** Its pages, reports and bytes. */
function totalsOf(json: ExportJson): readonly string[] {
  if (json.status === 'not-started') return [unknown, unknown, unknown];
  return [json.pages.toLocaleString('en'), json.reports?.toLocaleString('en') ?? unknown, bytes(json.bytes)];
}

const statusText = (status: ExportJson['status']) => status.replace('-', ' ');

/** `100 exports: 2 failed, 98 started`. */
function summarizeResults(summaries: readonly ExportSummary[]): string {
  const counts = statusOrder.flatMap((status) => {
    const count = summaries.filter(({ json }) => json.status === status).length;
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${statusText(status)}`];
  });
  return `${plural(summaries.length, 'export')}: ${counts.join(', ')}`;
}
