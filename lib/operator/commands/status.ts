/** `report-exporter status`: one export with its newest runs, or all exports; as a table or JSON. */

import type { Target } from '../target.ts';
import { needsAttention, readExports, sortExports } from '../run-view.ts';
import { BrokenPipe, type Call, exitStatuses, print, runOnTarget } from '../context.ts';
import { statusLines, summarizeStatuses } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { listRuns } from './runs.ts';

/** Milliseconds between two reads of `--watch`. Each read of a stack costs requests. */
const watchIntervalMs = { directory: 1_000, stack: 5_000 };

export async function statusCommand(call: Call): Promise<number> {
  const { names, options, problems, stdout, stderr, signal, runtime } = call;
  if (options.runs === true) return await listRuns(call);
  if (options.failed === true && names.length > 0) {
    problems.push('--failed: selects among all exports; leave out the name of the export');
  }
  const intervalMs = options.stack === undefined ? watchIntervalMs.directory : watchIntervalMs.stack;
  const clearScreen = stdout.isTTY === true && options.json !== true ? '\x1b[H\x1b[2J' : '';
  const show = async (target: Target, prefix: string) => {
    const { status, lines } = await readStatus(target, call);
    await print(stdout, `${prefix}${lines.join('\n')}\n`);
    return status;
  };
  /** Shows the status until an interruption. A later read that fails is reported, and the next one may succeed. */
  const watch = async (target: Target) => {
    await show(target, '');
    for (;;) {
      await runtime.sleep(intervalMs, signal).catch(() => {});
      if (signal.aborted) return exitStatuses.ok;
      try {
        await show(target, clearScreen);
      } catch (error) {
        if (error instanceof BrokenPipe) throw error;
        const { name, message } = error instanceof Error ? error : new Error(String(error));
        stderr.write(`Error: ${name}: ${message}. Trying again in ${intervalMs / 1_000} s.\n`);
      }
    }
  };
  return options.watch === true
    ? await runOnTarget(call, watch, { handlesInterruption: true })
    : await runOnTarget(call, async (target) => await show(target, ''));
}

/** How many of the newest runs of one export are shown. */
const shownRuns = 5;

/** All exports; one, with its runs, if it is named or the only one. */
async function readStatus(
  target: Target,
  { names: [name], options: { json, watch, failed = false }, stdout, env, runtime, program }: Call,
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
    columns: stdout.columns || 80,
  };
  const lines = statusLines(listed, summary, options);
  // Only the end of what is longer than the screen would stay visible. The cursor stays on the last line.
  const maxLines = (watch === true && stdout.rows) || Number.POSITIVE_INFINITY;
  const more = lines.length - (maxLines - 2);
  return { status, lines: lines.length < maxLines ? lines : [...lines.slice(0, -more), `… and ${more} more lines`] };
}
