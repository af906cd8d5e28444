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
import { type Column, exportTable } from '../output/export-table.ts';
import { type TextStyle, textStyleFor } from '../output/terminal.ts';
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
    const show = async () => {
      const lines = linesOf(runs, options, textStyleFor(stdout, env));
      for (const line of lines) await print(stdout, `${line}\n`);
    };
    try {
      const found = bounded ? listBoundedRuns(store, name) : listPublishedRuns(store, name, after);
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
type ListedRun = RunSummary & { readonly location: string };

function linesOf(runs: readonly ListedRun[], { json, bounded }: RunsOptions, style: TextStyle): readonly string[] {
  if (json === true) return runs.map((run) => JSON.stringify(run));
  if (runs.length === 0) return [bounded === true ? 'No published bounded runs.' : 'No published runs.'];
  const hasUntil = runs.some(({ until }) => until !== undefined);
  const required =
    bounded === true ? boundedColumns : hasUntil ? runColumns : runColumns.filter((each) => each !== until);
  const columns = { required, optional: [], noteOf: () => '' };
  return exportTable(runs, columns, { now: 0, style, columns: Number.POSITIVE_INFINITY });
}

const column = (heading: string, text: (listed: ListedRun) => string, alignRight?: boolean): Column<ListedRun> => ({
  heading,
  alignRight,
  cell: (listed) => ({ text: text(listed) }),
});

const run = column('RUN', (listed) => listed.run);
const since = column('SINCE', (listed) => listed.since);
const until = column('UNTIL', (listed) => listed.until ?? '–');
const amounts = [
  column('PAGES', ({ pages }) => pages.toLocaleString('en'), true),
  column('REPORTS', ({ reports }) => reports?.toLocaleString('en') ?? '–', true),
  column('BYTES', (listed) => bytes(listed.bytes), true),
];
const runColumns = [
  column('SEQUENCE', ({ sequence }) => String(sequence), true),
  run,
  ...amounts,
  since,
  until,
  column('COMPLETED', ({ completedAt }) => completedAt),
  column('TOOK', ({ startedAt, completedAt }) => coarseDuration(epochMsOf(completedAt) - epochMsOf(startedAt))),
];
const boundedColumns = [since, until, run, ...amounts, column('MANIFEST', ({ location }) => location)];
