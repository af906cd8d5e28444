/** `report-exporter report`: writes an HTML file that shows how a run went; or a folder of them, with an index. */

import { join, resolve } from 'node:path';
import open from 'open';
import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { ExportTarget } from '../../target/target.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { readWholeNumber } from '../arguments.ts';
import { indexFile, runFile, writeAllReports, writePage, type WrittenExport } from '../run-report/all-reports.ts';
import { type Origin, renderPage } from '../run-report/render-page.ts';
import { readRunData } from '../run-report/run-data.ts';
import { findRunStatus, findStateOf, listRuns, noRunError } from '../run-status.ts';

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

type OnPage = (bytes: number) => void;

/** Writes the file or the folder, and prints the path of the file to open. */
export async function reportCommand(
  exportName: string | undefined,
  options: ReportOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr, signal } = context;
  const problems = [...usageErrors];
  const maxRuns = readWholeNumber('--runs', options.runs ?? '100', { min: 1, max: 1_000 }, problems);
  if (options.all === true && options.run !== undefined) {
    problems.push('--run: selects one run; leave it out with --all');
  }
  if (options.all !== true && options.runs !== undefined) problems.push('--runs: applies to --all only');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const createdAt = instantOf(systemRuntime.now());
    const origin = { deployment: deployment.name, deploymentOption: deployment.option, createdAt };
    const { add: onPage, end } = createPageCounter(stderr, 'Read', systemRuntime.now);
    const directory = resolve(options.to ?? 'run-reports');
    const result =
      options.all === true
        ? {
            exports: await writeAllReports(deployment, exportName, { origin, directory, maxRuns, onPage, signal }),
            file: join(directory, indexFile),
          }
        : await reportOne(await openExport(deployment, exportName), origin, options, onPage);
    end();
    const unreadable = 'exports' in result ? result.exports.flatMap(errorsOf) : [];
    const status = unreadable.length === 0 ? 'ok' : 'failed';
    for (const error of unreadable) stderr.write(`Error: ${error}\n`);
    stdout.write(options.json === true ? `${JSON.stringify({ status, ...result })}\n` : `${result.file}\n`);
    if (options.open === true) await open(result.file);
    return exitStatuses[status];
  });
}

async function reportOne(deployed: ExportTarget, origin: Origin, options: ReportOptions, onPage: OnPage) {
  const { name } = deployed;
  const { state, status } = await findRun(deployed, options.run);
  const run = await readRunData(deployed, state, status, origin.createdAt, onPage);
  const file = resolve(options.to ?? runFile(status));
  writePage(file, renderPage({ ...origin, run }));
  return { export: name, run: status.run, file };
}

/** The run `runId`, or the newest one. @throws ConfigurationError if there is none */
async function findRun(deployed: ExportTarget, runId: string | undefined) {
  const { name, log } = deployed;
  if (runId === undefined) {
    const state = await log.exportState(name);
    for await (const status of listRuns(deployed, state)) return { state, status };
    throw await noRunError(deployed, 'to report on');
  }
  const run = parseRunId(runId);
  const state = await findStateOf(deployed, run);
  const status = await findRunStatus(deployed, state, run);
  if (status !== undefined) return { state, status };
  const message = `Export ${name} has no run ${runId}. The status command lists its runs`;
  throw new ExportError('ConfigurationError', message);
}

const errorsOf = ({ export: name, unreadable }: WrittenExport): readonly string[] =>
  unreadable.map(({ run, error }) => {
    const what = run === null ? `export ${name}` : `run ${run} of export ${name}`;
    return `cannot read ${what}: ${error.name}: ${error.message}`;
  });
