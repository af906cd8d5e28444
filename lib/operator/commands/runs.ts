/** `report-exporter runs`: the published runs of an export in order, as a table or JSON lines. */

import type { RunSummary, WindowSummary } from '../../core/storage/published-schemas.ts';
import { listPublishedRuns, listPublishedWindows } from '../../core/storage/run-list.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import {
  type CommandContext,
  exitStatuses,
  openExport,
  print,
  runOnDeployment,
  type TargetOptions,
} from '../context.ts';
import { bytes, coarseDuration } from '../output/format.ts';
import { type Cell, type TextStyle, tableLines, textStyleFor } from '../output/terminal.ts';
import { parseWholeNumber } from '../run-options.ts';

export interface RunsOptions extends TargetOptions {
  readonly after: string;
  /** The windows of backfills instead of the runs. */
  readonly windows?: boolean;
}

/** Writes only runs to stdout, in the order of `sequence`, also before it fails at one whose summary was changed. */
export async function runsCommand(
  exportName: string | undefined,
  options: RunsOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, env } = context;
  const after = parseWholeNumber(options.after);
  const problems = [...usageErrors];
  if (options.windows === true && after > 0) problems.push('--after: windows are published in any order; leave it out');
  if (Number.isNaN(after)) problems.push('--after: must be a sequence: a whole number from 0');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const { name, store } = await openExport(deployment, exportName);
    const runs: ListedRun[] = [];
    const show = async () => {
      const lines = linesOf(runs, options, textStyleFor(stdout, env));
      for (const line of lines) await print(stdout, `${line}\n`);
    };
    try {
      const found =
        options.windows === true ? listPublishedWindows(store, name) : listPublishedRuns(store, name, after);
      for await (const run of found) {
        runs.push({ ...run, location: store.locate(run.manifest) });
      }
    } catch (error) {
      // A pipe that is closed must not hide the error.
      if (runs.length > 0) await show().catch(() => undefined);
      throw error;
    }
    await show();
    return exitStatuses.ok;
  });
}

/** `location` is the address of the manifest. */
type ListedRun = (RunSummary | WindowSummary) & { readonly location: string };

function linesOf(runs: readonly ListedRun[], { json }: RunsOptions, style: TextStyle): readonly string[] {
  if (json === true) return runs.map((run) => JSON.stringify(run));
  return runs.length === 0 ? ['No published runs.'] : runTable(runs, style);
}

function runTable(runs: readonly ListedRun[], style: TextStyle): string[] {
  const bounds = runs.some((run) => 'until' in run) ? ['SINCE', 'UNTIL'] : ['SINCE'];
  const headings = ['SEQUENCE', 'RUN', 'PAGES', 'REPORTS', 'BYTES', ...bounds, 'COMPLETED', 'TOOK'];
  const heading = headings.map((text, column) => ({ text, style: 'dim' as const, alignRight: isRight(column) }));
  return tableLines([heading, ...runs.map(cellsOf)], style);
}

const isRight = (column: number): boolean => column === 0 || (column >= 2 && column <= 4);

function cellsOf(run: ListedRun): readonly Cell[] {
  const texts = [
    String(run.sequence),
    run.run,
    run.pages.toLocaleString('en'),
    run.reports === null ? '–' : run.reports.toLocaleString('en'),
    bytes(run.bytes),
    run.since,
    ...('until' in run ? [run.until] : []),
    run.completedAt,
    coarseDuration(epochMsOf(run.completedAt) - epochMsOf(run.startedAt)),
  ];
  return texts.map((text, column) => ({ text, alignRight: isRight(column) }));
}
