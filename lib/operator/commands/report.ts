/** `report-exporter report`: writes an HTML file that shows how a run went; or a folder of them, with an index. */

import { resolve } from 'node:path';
import open from 'open';
import { instantOf } from '../../core/timestamps.ts';
import { readWholeNumber } from '../arguments.ts';
import { type Call, exitStatuses, openExport, runOnTarget } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { writeAllReports, writeReport } from '../run-report/write-reports.ts';

/** Writes the file or the folder, and prints the path of the file to open. */
export async function reportCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, stderr, signal, runtime } = call;
  const maxRuns = readWholeNumber('--max-runs', options.maxRuns ?? '100', { min: 1, max: 1_000 }, problems);
  if (options.all === true && options.run !== undefined) {
    problems.push('--run: selects one run; leave it out with --all');
  }
  if (options.all !== true && options.maxRuns !== undefined) problems.push('--max-runs: applies to --all only');
  return await runOnTarget(call, async (target) => {
    const createdAt = instantOf(runtime.now());
    const origin = { deployment: target.name, deploymentOption: target.option, createdAt };
    const { add: onPage, end } = createPageCounter(stderr, 'Read', runtime.now);
    const directory = resolve(options.to ?? 'run-reports');
    const written =
      options.all === true
        ? await writeAllReports(target, names[0], { origin, directory, maxRuns, onPage, signal })
        : await writeReport(await openExport(target, names[0]), options, { origin, onPage });
    end();
    const exports = 'exports' in written ? written.exports : [];
    const unreadable = exports.flatMap((each) => each.unreadable.map((found) => ({ ...found, export: each.export })));
    for (const { export: name, run, error } of unreadable) {
      const what = run === null ? `export ${name}` : `run ${run} of export ${name}`;
      stderr.write(`Error: cannot read ${what}: ${error.name}: ${error.message}\n`);
    }
    const status = unreadable.length === 0 ? 'ok' : 'failed';
    stdout.write(options.json === true ? `${JSON.stringify({ status, ...written })}\n` : `${written.file}\n`);
    if (options.open === true) await open(written.file);
    return exitStatuses[status];
  });
}
