/** `report-exporter runs`: the published runs of an export in order, as a table or JSON lines. */

import type { RunSummary } from '../../core/storage/published-schemas.ts';
import { listBoundedRuns, listPublishedRuns } from '../../core/storage/run-list.ts';
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
import { type Column, type ExportColumns, exportTable } from '../output/export-table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { parseWholeNumber } from '../arguments.ts';

export interface RunsOptions extends TargetOptions {
  readonly after: string;
  /** Bounded runs instead of the others. */
  readonly bounded?: boolean;
}

/** Writes only runs to stdout, in the order of `sequence`, also before it fails at one whose summary was changed. */
export async function runsCommand(
  exportName: string | undefined,
  options: RunsOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, env } = context;
  const { bounded = false } = options;
  const after = parseWholeNumber(options.after);
  const problems = [...usageErrors];
  if (bounded && after > 0) problems.push('--after: bounded runs are published in any order; leave it out');
  if (Number.isNaN(after)) problems.push('--after: must be a sequence: a whole number from 0');
  return await runOnDeployment(options, problems, context, async (deployment) => {
    const { name, store } = await openExport(deployment, exportName);
    const runs: ListedRun[] = [];
    let failure: unknown;
    try {
      for await (const run of bounded ? listBoundedRuns(store, name) : listPublishedRuns(store, name, after)) {
        runs.push({ ...run, location: store.locate(run.manifest) });
      }
    } catch (error) {
      failure = error;
    }
    const style = textStyleFor(stdout, env);
    const lines =
      options.json === true
        ? runs.map((run) => JSON.stringify(run))
        : runs.length > 0
          ? exportTable(runs, columns, { now: 0, style, columns: Number.POSITIVE_INFINITY })
          : [`No published ${bounded ? 'bounded ' : ''}runs.`];
    if (failure === undefined || runs.length > 0) {
      for (const line of lines) await print(stdout, `${line}\n`);
    }
    if (failure !== undefined) throw failure;
    return exitStatuses.ok;
  });
}

/** `location` is the address of the manifest. */
type ListedRun = RunSummary & { readonly location: string };

const column = (heading: string, text: (listed: ListedRun) => string, alignRight?: boolean): Column<ListedRun> => ({
  heading,
  alignRight,
  cell: (listed) => ({ text: text(listed) }),
});

const columns: ExportColumns<ListedRun> = {
  required: [
    column('SEQUENCE', ({ sequence }) => String(sequence), true),
    column('RUN', ({ run }) => run),
    column('SINCE', ({ since }) => since),
    column('UNTIL', ({ until }) => until ?? '–'),
    column('PAGES', ({ pages }) => pages.toLocaleString('en'), true),
    column('REPORTS', ({ reports }) => reports?.toLocaleString('en') ?? '–', true),
    column('BYTES', (listed) => bytes(listed.bytes), true),
    column('COMPLETED', ({ completedAt }) => completedAt),
    column('TOOK', ({ startedAt, completedAt }) => coarseDuration(epochMsOf(completedAt) - epochMsOf(startedAt))),
    column('MANIFEST', ({ location }) => location),
  ],
  optional: [],
  noteOf: () => '',
};
