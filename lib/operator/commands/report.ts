/** `report-exporter report`: writes an HTML file that shows how a run went; or a folder of them, with an index. */

import { resolve } from 'node:path';
import open from 'open';
import { systemRuntime } from '../../core/clock.ts';
import { instantOf } from '../../core/timestamps.ts';
import { readWholeNumber } from '../arguments.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import type { ListedExport } from '../run-report/render-page.ts';
import { writeAllReports, writeReport } from '../run-report/write-reports.ts';

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
  return await runOnDeployment(options, problems, context, async (target) => {
    const createdAt = instantOf(systemRuntime.now());
    const origin = { deployment: target.name, deploymentOption: target.option, createdAt };
    const { add: onPage, end } = createPageCounter(stderr, 'Read', systemRuntime.now);
    const written =
      options.all === true
        ? await writeAllReports(target, exportName, {
            origin,
            directory: resolve(options.to ?? 'run-reports'),
            maxRuns,
            onPage,
            signal,
          })
        : await writeReport(await openExport(target, exportName), options, { origin, onPage });
    end();
    const result = 'exports' in written ? { file: written.file, exports: written.exports.map(summarize) } : written;
    const unreadable = 'exports' in result ? result.exports.flatMap(errorsOf) : [];
    const status = unreadable.length === 0 ? 'ok' : 'failed';
    for (const error of unreadable) stderr.write(`Error: ${error}\n`);
    stdout.write(options.json === true ? `${JSON.stringify({ status, ...result })}\n` : `${result.file}\n`);
    if (options.open === true) await open(result.file);
    return exitStatuses[status];
  });
}

/** `unreadable` are the runs without a page; null stands for all of the export. */
function summarize({ name, error, runs }: ListedExport) {
  const unreadable = runs.flatMap(({ run, page }) => ('error' in page ? [{ run, error: page.error }] : []));
  return { export: name, runs: runs.length, unreadable: error === null ? unreadable : [{ run: null, error }] };
}

const errorsOf = ({ export: name, unreadable }: ReturnType<typeof summarize>): readonly string[] =>
  unreadable.map(({ run, error }) => {
    const what = run === null ? `export ${name}` : `run ${run} of export ${name}`;
    return `cannot read ${what}: ${error.name}: ${error.message}`;
  });
