/** `report-exporter status`: one export with its newest runs, or all exports; as a table or JSON. */

import type { ExportTarget, Target, UnreadableExport } from '../target.ts';
import { needsAttention, readExports, sortExports } from '../run-view.ts';
import { type Call, exitStatuses, print, runOnTarget } from '../context.ts';
import { statusLines, summarizeStatuses } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { listRuns } from './runs.ts';

export async function statusCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout } = call;
  if (options.runs === true) return await listRuns(call);
  if (options.failed === true && names.length > 0) {
    problems.push('--failed: selects among all exports; leave out the name of the export');
  }
  return await runOnTarget(call, async (target) => {
    const { status, lines } = await readStatus(target, call);
    await print(stdout, `${lines.join('\n')}\n`);
    return status;
  });
}

/** How many of the newest runs of one export are shown. */
const shownRuns = 5;

/** All exports; one, with its runs, if it is named or the only one. */
async function readStatus(
  target: Target,
  { names: [name], options: { json, failed = false }, stdout, env, runtime, program }: Call,
): Promise<{ readonly status: number; readonly lines: readonly string[] }> {
  const exports = name === undefined ? await target.openAll() : [await target.open(name)];
  const now = runtime.now();
  const entries = sortExports(await readExports(exports, failed || exports.length > 1 ? 0 : shownRuns, now));
  const listed = failed ? entries.filter(needsAttention) : entries;
  const isFailure = failed ? listed.length > 0 : entries.some((entry) => 'error' in entry);
  const status = isFailure ? exitStatuses.failed : exitStatuses.ok;
  if (json === true) {
    return { status, lines: [JSON.stringify({ at: new Date(now).toISOString(), exports: listed })] };
  }
  const summary = summarizeStatuses(entries);
  if (failed && listed.length === 0) {
    return { status, lines: [`No export has failed, was interrupted, or is stale or unreadable (${summary})`] };
  }
  const options = {
    now,
    style: textStyleFor(stdout, env),
    program,
    option: target.option,
    problems: new Map(exports.flatMap((each) => problemOf(each))),
    columns: stdout.columns || 80,
  };
  return { status, lines: statusLines(listed, summary, options) };
}

/** Its name, and why it cannot be started. */
function problemOf(each: ExportTarget | UnreadableExport): readonly (readonly [name: string, problem: string])[] {
  const problem = 'error' in each ? undefined : each.settings?.problem?.message;
  return 'error' in each || problem === undefined ? [] : [[each.name, problem]];
}
