/** `report-exporter runs`: the published runs of an export in order, as a table or JSON lines. */

import type { BoundedSummary, RunSummary } from '../../core/storage/published-schemas.ts';
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
import { type Cell, type TextStyle, tableLines, textStyleFor } from '../output/terminal.ts';
import { parseWholeNumber } from '../run-options.ts';

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
type ListedRun = (RunSummary | BoundedSummary) & { readonly location: string };

function linesOf(runs: readonly ListedRun[], { json, bounded }: RunsOptions, style: TextStyle): readonly string[] {
  if (json === true) return runs.map((run) => JSON.stringify(run));
  if (runs.length === 0) return [bounded === true ? 'No published bounded runs.' : 'No published runs.'];
  const hasUntil = runs.some(({ until }) => until !== undefined);
  const ofRuns = allColumns.filter(({ heading }) => hasUntil || heading !== 'UNTIL');
  const columns: readonly RunColumn[] = bounded === true ? boundedColumns : ofRuns;
  const headings = columns.map(({ heading, alignRight = false }) => ({
    text: heading,
    style: 'dim' as const,
    alignRight,
  }));
  const rows = runs.map((listed) =>
    columns.map(({ text, alignRight = false }): Cell => ({ text: text(listed), alignRight })),
  );
  return tableLines([headings, ...rows], style);
}

interface RunColumn {
  readonly heading: string;
  readonly alignRight?: true;
  readonly text: (run: ListedRun) => string;
}

const run: RunColumn = { heading: 'RUN', text: (listed) => listed.run };
const amounts: readonly RunColumn[] = [
  { heading: 'PAGES', alignRight: true, text: ({ pages }) => pages.toLocaleString('en') },
  { heading: 'REPORTS', alignRight: true, text: ({ reports }) => reports?.toLocaleString('en') ?? '–' },
  { heading: 'BYTES', alignRight: true, text: (listed) => bytes(listed.bytes) },
];
const bounds: readonly RunColumn[] = [
  { heading: 'SINCE', text: ({ since }) => since },
  { heading: 'UNTIL', text: ({ until = '–' }) => until },
];
const allColumns: readonly RunColumn[] = [
  { heading: 'SEQUENCE', alignRight: true, text: ({ sequence }) => String(sequence) },
  run,
  ...amounts,
  ...bounds,
  { heading: 'COMPLETED', text: ({ completedAt }) => completedAt },
  {
    heading: 'TOOK',
    text: ({ startedAt, completedAt }) => coarseDuration(epochMsOf(completedAt) - epochMsOf(startedAt)),
  },
];
const boundedColumns = [
  ...bounds,
  run,
  ...amounts,
  { heading: 'MANIFEST', text: ({ location }: ListedRun) => location },
];
