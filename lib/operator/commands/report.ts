/** `report-exporter report`: writes an HTML file that shows how a run went. */

import { instantOf } from '../../core/timestamps.ts';
import { type Call, exitStatuses, openExport, runOnTarget } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { writeReport } from '../run-report/write-report.ts';

/** Writes the file, and prints its path. */
export async function reportCommand(call: Call): Promise<number> {
  const { names, options, stdout, stderr, runtime } = call;
  return await runOnTarget(call, async (target) => {
    const createdAt = instantOf(runtime.now());
    const origin = { deployment: target.name, deploymentOption: target.option, createdAt };
    const { add: onPage, end } = createPageCounter(stderr, 'Read', runtime.now);
    const written = await writeReport(await openExport(target, names[0]), options, { origin, onPage });
    end();
    stdout.write(options.json === true ? `${JSON.stringify({ status: 'ok', ...written })}\n` : `${written.file}\n`);
    return exitStatuses.ok;
  });
}
