/** `report-exporter backfill`: exports a period of an export by windows, several at the same time. */

import * as z from 'zod/mini';
import { systemRuntime } from '../../core/clock.ts';
import { planBackfill } from '../../backfill/plan.ts';
import { assertFitsDates, type BackfillRequest, chooseParallel, findBackfillProblem } from '../../backfill/request.ts';
import { type BackfillStatus, readBackfillStatus } from '../../backfill/status.ts';
import type { BackfillProgress } from '../../backfill/window-states.ts';
import type { BackfillEnd, DeployedExport, Deployment, Retry } from '../../target/target.ts';
import type { ExportEvent } from '../../core/ports.ts';
import { describeProblems } from '../../core/validation-errors.ts';
import { windowDefinition } from '../../backfill/window-definition.ts';
import type { Window } from '../../backfill/windows.ts';
import { durationSchema, instantSchema } from '../../core/timestamps.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { backfillLines, backfillOptions, windowText } from '../output/backfill-table.ts';
import { plural, totals } from '../output/format.ts';
import { createStatusLine, retryText } from '../output/progress.ts';
import { type TextStyle, textStyleFor, timestampFor } from '../output/terminal.ts';
import { plannedRequest, requestLines } from '../planned-request.ts';
import { readMaxAttempts, readWholeNumber } from '../run-options.ts';

export interface BackfillCommandOptions extends TargetOptions {
  readonly from?: string;
  readonly to?: string;
  readonly window: string;
  readonly parallel?: string;
  readonly plan?: boolean;
  readonly follow?: boolean;
  readonly maxAttempts?: string;
  readonly quiet?: boolean;
}

export async function backfillCommand(
  exportName: string | undefined,
  options: BackfillCommandOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const problems = [...usageErrors];
  const request = readRequest(options, problems);
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      if (request === undefined) throw new Error('A problem with the options was not reported');
      const deployed = await openExport(deployment, exportName);
      assertFitsDates(request, deployed.service.settings.api);
      const period = { ...request, parallel: chooseParallel(request.parallel, deployed.service) };
      if (options.plan === true) return await printPlan(deployed, period, options, context);
      const follow = options.follow === true || options.stack === undefined;
      return await exportPeriod(deployment, deployed, period, { ...options, follow, maxAttempts }, context);
    },
    { handlesInterruption: true },
  );
}

const maxParallel = 100;

/** Adds what is wrong to `problems`; undefined only then. Without `--parallel`, what the service allows decides. */
function readRequest(options: BackfillCommandOptions, problems: string[]) {
  const before = problems.length;
  const from = readBound('--from', options.from, problems);
  const to = readBound('--to', options.to, problems);
  const window = durationSchema
    .check(z.refine((ms) => ms >= 1_000, 'must be at least a second, PT1S'))
    .safeParse(options.window);
  if (!window.success) problems.push(describeProblems('--window', window.error));
  const parallel =
    options.parallel === undefined
      ? undefined
      : readWholeNumber('--parallel', options.parallel, { min: 1, max: maxParallel }, problems);
  if (problems.length > before || from === undefined || to === undefined || window.data === undefined) return undefined;
  const request = { from, to, windowMs: window.data, parallel };
  const problem = findBackfillProblem(request, systemRuntime.now());
  if (problem !== undefined) problems.push(problem);
  return problem === undefined ? request : undefined;
}

/** A date stands for its beginning in UTC. */
function readBound(option: string, text: string | undefined, problems: string[]) {
  if (text === undefined) {
    problems.push(`${option}: required, such as ${option} 2026-01-01`);
    return undefined;
  }
  const parsed = instantSchema.safeParse(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);
  if (!parsed.success) {
    problems.push(
      `${option}: must be a date, such as 2026-01-01, or an ISO 8601 UTC instant, such as 2026-01-01T02:00:00Z`,
    );
  }
  return parsed.data;
}

/** The windows, and the first request of the first one. @throws ConfigurationError if a start would be refused */
async function printPlan(
  { name, definition, service, log, backfills, store, settings }: DeployedExport,
  request: BackfillRequest,
  { json }: BackfillCommandOptions,
  { stdout, env }: CommandContext,
): Promise<number> {
  if (settings?.problem !== undefined) throw settings.problem;
  const style = textStyleFor(stdout, env);
  const { untilOperator } = service;
  const deps = { log, backfills, store, runtime: systemRuntime, definition, untilOperator };
  const windows = await planBackfill(deps, request);
  const requestOf = (window: Window) =>
    plannedRequest(service, { ...windowDefinition(definition, window, untilOperator), ...window });
  const [first] = windows;
  if (first === undefined) throw new Error('A backfill has at least one window');
  if (json === true) {
    const all = windows.map((window) => ({ ...window, request: requestOf(window) }));
    stdout.write(`${JSON.stringify({ export: name, ...request, windows: all })}\n`);
    return exitStatuses.ok;
  }
  const shown = windows.length <= 12 ? windows : [...windows.slice(0, 8), undefined, ...windows.slice(-3)];
  const left = windows.filter(({ done }) => !done).length;
  const done = left === windows.length ? '' : `, of which ${windows.length - left} are done`;
  const lines = [
    `A backfill of ${style('bold', name)} has ${plural(windows.length, 'window')}${done}, ${request.parallel} at the same time:`,
    ...shown.map((window) => (window === undefined ? '  …' : `  ${windowText(window)}${window.done ? ' (done)' : ''}`)),
    `At least ${plural(left + 2, 'request')}: one for each page, and two that check whether the service honors the bound.`,
    'Each window begins with a request such as this:',
    ...requestLines(requestOf(first)),
  ];
  stdout.write(`${lines.join('\n')}\n`);
  return exitStatuses.ok;
}

interface PeriodOptions extends TargetOptions {
  readonly follow: boolean;
  readonly quiet?: boolean;
  readonly maxAttempts: number | undefined;
}

async function exportPeriod(
  deployment: Deployment,
  deployed: DeployedExport,
  request: BackfillRequest,
  { follow, maxAttempts, json, quiet = false }: PeriodOptions,
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, env, signal, program } = context;
  const { name } = deployed;
  const output = json === true ? stderr : stdout;
  const style = textStyleFor(output, env);
  const progress = createProgress(context, quiet);
  const end = await deployed.startBackfill(request, {
    follow,
    maxAttempts,
    signal,
    say: (text) => progress.inform(textStyleFor(stderr, env)('dim', text)),
    ...progress,
  });
  progress.clear();
  const recorded = await readBackfillStatus(deployed, name);
  const isSame =
    recorded?.from === request.from && recorded.to === request.to && recorded.windowMs === request.windowMs;
  const status = isSame ? recorded : undefined;
  if (status === undefined) {
    // It ended before the backfill was recorded, another process has not recorded it yet, or another one has begun.
    const reasons = {
      skipped: `Skipped: ${end.status === 'skipped' ? end.reason : ''}`,
      interrupted: 'Interrupted before it began',
      ended: 'Ended: another backfill of the export has begun since',
      started: 'Started: another backfill of the export has begun since',
    };
    output.write(`${style('yellow', reasons[end.status])}\n`);
    if (json === true) stdout.write(`${JSON.stringify({ ...end, backfill: null })}\n`);
    return end.status === 'interrupted' ? exitStatuses.interrupted : exitStatuses.failed;
  }
  const next = {
    again: `${program} backfill ${name} ${backfillOptions(request)} ${deployment.option}`,
    watch: `${program} status ${name} ${deployment.option} --watch`,
  };
  output.write(`${timestampFor(output, systemRuntime.now())}${summaryLines(end, status, next, style).join('\n')}\n`);
  if (json === true) stdout.write(`${JSON.stringify({ ...end, backfill: status })}\n`);
  return exitStatusOf(end, status, signal.aborted);
}

/** Retries and waits of all windows are announced at most this often: in an outage, every window has some. */
const noticeIntervalMs = 10_000;

/** A line that changes while windows are exported, and a line for each one that has failed. */
function createProgress({ stderr, env }: CommandContext, quiet: boolean) {
  const { now } = systemRuntime;
  const style = textStyleFor(stderr, env);
  const statusLine = createStatusLine(stderr, now, { quiet });
  let progress: BackfillProgress | undefined;
  let noticedAt = Number.NEGATIVE_INFINITY;
  /** The pages of runs that are not completed, and whose pages are announced one by one: those of a directory. */
  const inProgress = new Map<string, number>();
  const show = () => {
    if (progress === undefined) return;
    const { done, windows } = progress;
    const pages = [...inProgress.values()].reduce((sum, count) => sum + count, progress.pages);
    statusLine.update(`${done} of ${plural(windows, 'window')} done · ${plural(pages, 'page')}`);
  };
  const notice = (text: string) => {
    if (now() - noticedAt < noticeIntervalMs) return;
    noticedAt = now();
    statusLine.print(style('yellow', text));
  };
  return {
    inform: statusLine.inform,
    clear: statusLine.clear,
    onProgress(newest: BackfillProgress) {
      progress = newest;
      show();
    },
    onRetry: (retry: Retry) => notice(retryText(retry)),
    emit(event: ExportEvent) {
      if (event.event === 'run-resumed') inProgress.set(event.run, event.pages);
      if (event.event === 'run-restarted') inProgress.delete(event.abandoned);
      if (event.event === 'page-exported' || event.event === 'page-adopted') inProgress.set(event.run, event.page);
      // Its pages are in the progress that follows. Without that, they would be missing in between.
      if (event.event === 'run-completed') {
        const pages = inProgress.get(event.run) ?? 0;
        inProgress.delete(event.run);
        progress &&= { ...progress, pages: progress.pages + pages };
      }
      if (event.event === 'service-asked-to-wait') notice(`Waiting ${event.seconds} s (Retry-After)`);
      if (event.event === 'run-failed') {
        const { since, until, error, message } = event;
        const window = since === null || until === undefined ? 'a window' : windowText({ since, until });
        statusLine.print(style('red', `Failed: ${window}: ${error}: ${message}`));
      }
      show();
    },
  };
}

const titles = {
  completed: ['green', 'Completed:'],
  left: ['yellow', 'Unfinished:'],
  interrupted: ['yellow', 'Interrupted:'],
  abandoned: ['yellow', 'Abandoned:'],
  started: ['cyan', 'Started:'],
  skipped: ['yellow', 'Skipped:'],
} as const;

function summaryLines(
  end: BackfillEnd,
  status: BackfillStatus,
  next: { readonly again: string; readonly watch: string },
  style: TextStyle,
): readonly string[] {
  const { counts, windows } = status;
  const isAbandoned = status.state === 'abandoned' && end.status !== 'skipped';
  const ended = counts.done === windows.length ? 'completed' : 'left';
  const title = isAbandoned ? 'abandoned' : end.status === 'ended' ? ended : end.status;
  const [color, label] = titles[title];
  const amounts = `${counts.done.toLocaleString('en')} of ${plural(windows.length, 'window')} done (${totals(status)})`;
  const heading = `${style(color, label)} the backfill of ${style('bold', status.export)}: ${amounts}`;
  switch (title) {
    case 'completed':
    case 'abandoned':
      return [heading];
    case 'skipped':
      return [`${heading}`, `  ${end.status === 'skipped' ? end.reason : ''}`, `  → ${next.watch}`];
    case 'started':
      return [heading, `  → ${next.watch}`];
    case 'left':
    case 'interrupted':
      return [heading, ...backfillLines(status, style), `  → to export the rest: ${next.again}`];
  }
}

function exitStatusOf(end: BackfillEnd, { counts, windows }: BackfillStatus, isInterrupted: boolean): number {
  if (end.status === 'interrupted' || isInterrupted) return exitStatuses.interrupted;
  return end.status !== 'started' && counts.done < windows.length ? exitStatuses.failed : exitStatuses.ok;
}
