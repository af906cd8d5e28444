/** `report-exporter report`: writes the run report, one HTML file that shows how a run went; or a folder of them, with an index. */

import { join, resolve } from 'node:path';
import open from 'open';
import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import type { ExportState } from '../../core/model.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { DeployedExport, Deployment } from '../../target/target.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { parseWholeNumber } from '../run-options.ts';
import { writeAllReports } from '../run-report/all-reports.ts';
import { readRunReportData } from '../run-report/data.ts';
import type { Origin } from '../run-report/page.ts';
import { writeReport } from '../run-report/report-files.ts';
import { readRunHistory } from '../run-report/run-history.ts';
import { renderRunReport } from '../run-report/run-report.ts';
import { findRunStatus, findStateOf, listRuns, noRunError, type RunStatus } from '../run-status.ts';

export interface ReportOptions extends TargetOptions {
  readonly run?: string;
  readonly open?: boolean;
  /** The file to write, or the directory if `all`. */
  readonly to?: string;
  /** All runs of the export, or of every export. */
  readonly all?: boolean;
  /** With `all`: the number of newest runs per export. */
  readonly runs?: string;
}

/** The number of newest runs per export, if `--runs` does not say another. */
const defaultMaxRuns = 100;

/** How many recent runs the report of one run lists. */
const maxRecentRuns = 20;

const defaultDirectory = 'run-reports';

/** Writes the file or the folder, and prints its path. */
export async function reportCommand(
  exportName: string | undefined,
  options: ReportOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const maxRuns = options.runs === undefined ? defaultMaxRuns : parseWholeNumber(options.runs);
  const problems = [...usageErrors, ...problemsOf(options, maxRuns)];
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const origin = {
      deployment: deployment.name,
      deploymentOption: deployment.option,
      createdAt: instantOf(systemRuntime.now()),
    };
    return options.all === true
      ? await reportAll(deployment, exportName, origin, { ...options, maxRuns }, context)
      : await reportOne(await openExport(deployment, exportName), origin, options, context);
  });
}

function problemsOf({ all, run, runs }: ReportOptions, maxRuns: number): string[] {
  const isCount = maxRuns >= 1 && maxRuns <= 1_000;
  return [
    ...(all === true && run !== undefined ? ['--run: selects one run; leave it out with --all'] : []),
    ...(all !== true && runs !== undefined ? ['--runs: applies to --all only'] : []),
    ...(isCount ? [] : ['--runs: must be a whole number from 1 to 1000']),
  ];
}

async function reportOne(
  deployed: DeployedExport,
  origin: Origin,
  options: ReportOptions,
  { stdout, stderr }: CommandContext,
): Promise<number> {
  const { name, log } = deployed;
  const exportState = await log.exportState(name);
  const state = options.run === undefined ? exportState : await findStateOf(deployed, parseRunId(options.run));
  const status = await readRunStatus(deployed, state, options.run);
  const counter = createPageCounter(stderr, 'Read', systemRuntime.now);
  const data = await readRunReportData(deployed, state, status, origin, counter.add);
  counter.end();
  const history = await readRunHistory(deployed, exportState, maxRecentRuns, origin.createdAt);
  const file = resolve(options.to ?? `${name}-${status.run}.html`);
  await writeReport(file, renderRunReport(data, { history }));
  const json = { status: 'ok', export: name, run: status.run, file };
  stdout.write(options.json === true ? `${JSON.stringify(json)}\n` : `${file}\n`);
  if (options.open === true) await open(file);
  return exitStatuses.ok;
}

async function reportAll(
  deployment: Deployment,
  exportName: string | undefined,
  origin: Origin,
  options: ReportOptions & { readonly maxRuns: number },
  { stdout, stderr, signal }: CommandContext,
): Promise<number> {
  const directory = resolve(options.to ?? defaultDirectory);
  const exports = await writeAllReports({
    deployment,
    exportName,
    origin,
    directory,
    maxRuns: options.maxRuns,
    stderr,
    signal,
    now: systemRuntime.now,
  });
  const file = join(directory, 'index.html');
  const isComplete = exports.every((written) => !('error' in written) && written.unreadable.length === 0);
  if (options.json === true) {
    stdout.write(`${JSON.stringify({ status: isComplete ? 'ok' : 'failed', file, exports })}\n`);
  } else {
    for (const written of exports) {
      const unreadable = 'error' in written ? [{ run: null, error: written.error }] : written.unreadable;
      for (const { run, error } of unreadable) {
        const what = run === null ? `export ${written.export}` : `run ${run} of export ${written.export}`;
        stderr.write(`Error: cannot read ${what}: ${error.name}: ${error.message}\n`);
      }
    }
    stdout.write(`${file}\n`);
  }
  if (options.open === true) await open(file);
  return isComplete ? exitStatuses.ok : exitStatuses.failed;
}

/** The run `runId`, or the newest one. @throws ConfigurationError if there is none */
async function readRunStatus(
  deployed: DeployedExport,
  state: ExportState | undefined,
  runId: string | undefined,
): Promise<RunStatus> {
  if (runId !== undefined) {
    const status = await findRunStatus(deployed, state, parseRunId(runId));
    if (status !== undefined) return status;
    throw new ExportError(
      'ConfigurationError',
      `Export ${deployed.name} has no run ${runId}. The status command lists its runs`,
    );
  }
  for await (const newest of listRuns(deployed, state)) return newest;
  throw await noRunError(deployed, 'to report on');
}
