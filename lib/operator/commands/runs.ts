/** `report-exporter status --runs`: the published runs of an export in order, as a table or JSON lines. */

import type { Instant } from '../../core/model.ts';
import type { RunSummary } from '../../core/storage/published-schemas.ts';
import { listPublishedRuns } from '../../core/storage/run-list.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { type Call, exitStatuses, openExport, print, runOnTarget } from '../context.ts';
import { bytes, coarseDuration } from '../output/format.ts';
import { type Column, tableLines } from '../output/table.ts';
import { textStyleFor } from '../output/terminal.ts';

/** Writes only runs to stdout, in the order of `sequence`, also before it fails at one whose summary was changed. */
export async function listRuns(call: Call): Promise<number> {
  const { names, options, problems, stdout, env } = call;
  const { failed = false, json = false } = options;
  if (failed) problems.push('--runs: lists the runs of one export; leave out --failed');
  return await runOnTarget(call, async (target) => {
    const { name, store } = await openExport(target, names[0]);
    const runs: ListedRun[] = [];
    try {
      for await (const run of listPublishedRuns(store, name)) {
        runs.push({ ...run, location: store.locate(run.manifest) });
      }
    } finally {
      const style = textStyleFor(stdout, env);
      const table = () => tableLines(runs, runColumns, { style, columns: stdout.columns || 80 });
      const lines = json ? runs.map((run) => JSON.stringify(run)) : runs.length > 0 ? table() : [];
      for (const line of lines) await print(stdout, `${line}\n`);
    }
    if (runs.length === 0 && !json) await print(stdout, 'No published runs.\n');
    return exitStatuses.ok;
  });
}

/** `location` is the address of the manifest. */
type ListedRun = RunSummary & { readonly location: string };

const toSeconds = (instant: Instant): Instant => instantOf(Math.floor(epochMsOf(instant) / 1_000) * 1_000);

/** Only a bounded run has an upper bound. */
const runColumns: readonly Column<ListedRun>[] = [
  { heading: 'RUN', text: ({ run }) => run },
  { heading: 'SINCE', text: ({ since }) => since },
  { heading: 'UNTIL', text: ({ until }) => until ?? '' },
  { heading: 'PARENTS OF', optional: true, text: ({ parents }) => parents?.run ?? '' },
  { heading: 'PAGES', text: ({ pages }) => pages.toLocaleString('en'), alignRight: true },
  { heading: 'REPORTS', optional: true, text: ({ reports }) => reports?.toLocaleString('en') ?? '–', alignRight: true },
  { heading: 'SEQUENCE', optional: true, text: ({ sequence }) => String(sequence), alignRight: true },
  { heading: 'COMPLETED', optional: true, text: ({ completedAt }) => toSeconds(completedAt) },
  { heading: 'BYTES', optional: true, text: (run) => bytes(run.bytes), alignRight: true },
  {
    heading: 'TOOK',
    optional: true,
    text: ({ startedAt, completedAt }) => coarseDuration(epochMsOf(completedAt) - epochMsOf(startedAt)),
  },
  { heading: 'MANIFEST', optional: true, text: ({ location }) => location },
];
