/** `report-exporter status`: one export with its newest runs, or all exports; as a table or JSON. */

import { systemRuntime } from '../../core/clock.ts';
import type { Target } from '../../target/target.ts';
import { needsAttention, readStatuses, sortStatuses, type StatusEntry } from '../run-status.ts';
import {
  BrokenPipe,
  type CommandContext,
  exitStatuses,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { statusLines, summarizeStatuses } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { readWholeNumber } from '../arguments.ts';

export interface StatusOptions extends TargetOptions {
  readonly watch?: boolean;
  readonly runs: string;
  /** Only the exports that need attention. */
  readonly failed?: boolean;
}

/** Milliseconds between two reads of `--watch`. Each read of a stack costs requests. */
const watchIntervalMs = { directory: 1_000, stack: 5_000 };

export async function statusCommand(
  exportName: string | undefined,
  options: StatusOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const problems = [...usageErrors];
  const maxRuns = readWholeNumber('--runs', options.runs, { min: 1, max: 1_000 }, problems);
  if (options.failed === true && exportName !== undefined) {
    problems.push('--failed: selects among all exports; leave out the name of the export');
  }
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const show = async (prefix: string) => {
        const entries = await readEntries(deployment, exportName, { failed: options.failed === true, maxRuns });
        return await printEntries(entries, options, deployment, context, prefix);
      };
      const exitStatus = await show('');
      return options.watch === true ? await watch(show, options, context) : exitStatus;
    },
    { handlesInterruption: options.watch === true },
  );
}

/** Shows the status again and again, until an interruption. A read that fails is reported, and the next one may succeed. */
async function watch(
  show: (prefix: string) => Promise<unknown>,
  { stack, json }: StatusOptions,
  { stdout, stderr, signal }: CommandContext,
): Promise<number> {
  const intervalMs = stack === undefined ? watchIntervalMs.directory : watchIntervalMs.stack;
  const clearScreen = stdout.isTTY === true && json !== true ? '\x1b[H\x1b[2J' : '';
  for (;;) {
    await systemRuntime.sleep(intervalMs, signal).catch(() => {});
    if (signal.aborted) return exitStatuses.ok;
    try {
      await show(clearScreen);
    } catch (error) {
      if (error instanceof BrokenPipe) throw error;
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      stderr.write(`Error: ${name}: ${message}. Trying again in ${intervalMs / 1_000} s.\n`);
    }
  }
}

/** All exports; one, with its runs, if it is named or the only one. */
async function readEntries(
  deployment: Target,
  exportName: string | undefined,
  { failed, maxRuns }: { readonly failed: boolean; readonly maxRuns: number },
): Promise<readonly StatusEntry[]> {
  const exports = exportName === undefined ? await deployment.openAll() : [await deployment.open(exportName)];
  const isOverview = failed || exports.length > 1;
  return await readStatuses(exports, isOverview ? 0 : maxRuns, systemRuntime.now());
}

async function printEntries(
  entries: readonly StatusEntry[],
  { json, watch: isWatching, failed: failedOnly = false }: StatusOptions,
  { option }: Target,
  { stdout, env, program }: CommandContext,
  prefix: string,
): Promise<number> {
  const now = systemRuntime.now();
  const sorted = sortStatuses(entries);
  const listed = failedOnly ? sorted.filter(needsAttention) : sorted;
  const summary = summarizeStatuses(entries);
  const nothing = `No export has failed, was interrupted, or is stale or unreadable (${summary})`;
  const lines = () => {
    if (json === true) return [JSON.stringify({ at: new Date(now).toISOString(), exports: listed })];
    if (failedOnly && listed.length === 0) return [nothing];
    const style = textStyleFor(stdout, env);
    // Of a table that is longer than the screen, only the end would stay visible.
    const rows = isWatching === true ? stdout.rows : undefined;
    return statusLines(listed, { now, style, program, option, columns: stdout.columns || 80, rows, summary });
  };
  await print(stdout, `${prefix}${lines().join('\n')}\n`);
  const isFailure = failedOnly ? listed.length > 0 : entries.some((entry) => 'error' in entry);
  return isFailure ? exitStatuses.failed : exitStatuses.ok;
}
