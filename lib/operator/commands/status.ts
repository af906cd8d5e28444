/**
 * `report-exporter status`: one export and its newest runs, or an overview of all exports; as a table, tab-separated values or
 * JSON.
 */

import { systemRuntime } from '../../core/clock.ts';
import type { Deployment, OverviewEntry } from '../../target/target.ts';
import { readExportStatus } from '../run-status.ts';
import {
  BrokenPipe,
  type CommandContext,
  exitStatuses,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import {
  needsAttention,
  nothingFailed,
  overviewLines,
  overviewValues,
  sortOverview,
} from '../output/overview-table.ts';
import { type ExportStatusJson, statusLines, statusValues } from '../output/status-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { parseWholeNumber } from '../run-options.ts';

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
  const maxRuns = parseWholeNumber(options.runs);
  const problems = [...usageErrors];
  if (!(maxRuns >= 1 && maxRuns <= 1_000)) problems.push('--runs: must be a whole number from 1 to 1000');
  if (options.failed === true && exportName !== undefined) {
    problems.push('--failed: selects among all exports; leave out the name of the export');
  }
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const isOverview =
        options.failed === true || (exportName === undefined && (await deployment.exportNames()).length > 1);
      const show = async (prefix: string) =>
        isOverview
          ? await printOverview(await deployment.overview(), options, deployment, context, prefix)
          : await printStatuses(
              await readStatuses(deployment, exportName, maxRuns),
              options,
              deployment,
              context,
              prefix,
            );
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
      const { name, message } = toError(error);
      stderr.write(`Error: ${name}: ${message}. Trying again in ${intervalMs / 1_000} s.\n`);
    }
  }
}

async function readStatuses(
  deployment: Deployment,
  exportName: string | undefined,
  maxRuns: number,
): Promise<ExportStatusJson[]> {
  const names = exportName === undefined ? await deployment.exportNames() : [exportName];
  const statuses: ExportStatusJson[] = [];
  for (const name of names) {
    try {
      statuses.push(await readExportStatus(await deployment.open(name), maxRuns, systemRuntime.now()));
    } catch (error) {
      // An export whose state is damaged must not hide the others.
      if (exportName !== undefined) throw error;
      const { name: errorName, message } = toError(error);
      statuses.push({ export: name, error: { name: errorName, message } });
    }
  }
  return statuses;
}

const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

async function printStatuses(
  statuses: readonly ExportStatusJson[],
  { json }: StatusOptions,
  { option }: Deployment,
  { stdout, env, program }: CommandContext,
  prefix: string,
): Promise<number> {
  const now = systemRuntime.now();
  const lines =
    json === true
      ? [JSON.stringify({ at: new Date(now).toISOString(), exports: statuses })]
      : stdout.isTTY === true
        ? statusLines(statuses, { now, style: textStyleFor(stdout, env), program, option })
        : statusValues(statuses, now);
  await print(stdout, `${prefix}${lines.join('\n')}\n`);
  return statuses.some((status) => 'error' in status) ? exitStatuses.failed : exitStatuses.ok;
}

async function printOverview(
  entries: readonly OverviewEntry[],
  { json, watch: isWatching, failed: failedOnly = false }: StatusOptions,
  { option }: Deployment,
  { stdout, stderr, env, program }: CommandContext,
  prefix: string,
): Promise<number> {
  const now = systemRuntime.now();
  const isTerminal = stdout.isTTY === true;
  const listed = sortOverview(entries).filter((entry) => !failedOnly || needsAttention(entry));
  const table = () =>
    overviewLines(entries, {
      now,
      style: textStyleFor(stdout, env),
      program,
      option,
      columns: stdout.columns || 80,
      // Of a table that is longer than the screen, only the end would stay visible.
      rows: isWatching === true ? stdout.rows : undefined,
      failedOnly,
    });
  const lines =
    json === true
      ? [JSON.stringify({ at: new Date(now).toISOString(), exports: listed })]
      : isTerminal
        ? table()
        : overviewValues(listed, now);
  await print(stdout, `${prefix}${lines.join('\n')}\n`);
  if (listed.length === 0 && failedOnly && !isTerminal) stderr.write(`${nothingFailed(entries)}\n`);
  return entries.some((entry) => 'error' in entry) ? exitStatuses.failed : exitStatuses.ok;
}
