/** `report-exporter status --runs`: the published runs of an export in order, as a table or JSON lines. */

import type { Instant } from '../../core/model.ts';
import type { RunSummary } from '../../core/storage/published-schemas.ts';
import { listBoundedRuns, listPublishedRuns } from '../../core/storage/run-list.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { type Call, exitStatuses, openExport, print, runOnTarget } from '../context.ts';
import { bytes, coarseDuration } from '../output/format.ts';
import { type Column, tableLines } from '../output/table.ts';
import { textStyleFor } from '../output/terminal.ts';
import { parseWholeNumber } from '../arguments.ts';

/** Writes only runs to stdout, in the order of `sequence`, also before it fails at one whose summary was changed. */
export async function listRuns(call: Call): Promise<number> {
  const { names, options, problems, stdout, env } = call;
  const { bounded = false, failed = false, watch = false } = options;
  if (failed || watch) problems.push('--runs: lists runs that do not change; leave out --failed and --watch');
  const after = parseWholeNumber(options.after ?? '0');
  if (bounded && after > 0) problems.push('--after: bounded runs are published in any order; leave it out');
  if (Number.isNaN(after)) problems.push('--after: must be a sequence: a whole number from 0');
  return await runOnTarget(call, async (target) => {
    const { name, store } = await openExport(target, names[0]);
    const runs: ListedRun[] = [];
    try {
      for await (const run of bounded ? listBoundedRuns(store, name) : listPublishedRuns(store, name, after)) {
        runs.push({ ...run, location: store.locate(run.manifest) });
      }
    } finally {
      const table = () =>
        tableLines(runs, columnsOf(bounded), { style: textStyleFor(stdout, env), columns: stdout.columns || 80 });
      const lines = options.json === true ? runs.map((run) => JSON.stringify(run)) : runs.length > 0 ? table() : [];
      for (const line of lines) await print(stdout, `${line}\n`);
    }
    if (runs.length === 0 && options.json !== true) {
      await print(stdout, `No published ${bounded ? 'bounded ' : ''}runs.\n`);
    }
    return exitStatuses.ok;
  });
}

/** `location` is the address of the manifest. */
type ListedRun = RunSummary & { readonly location: string };

const toSeconds = (instant: Instant): Instant => instantOf(Math.floor(epochMsOf(instant) / 1_000) * 1_000);

/** A bounded run is known by its bounds. */
const columnsOf = (bounded: boolean): readonly Column<ListedRun>[] => [
  { heading: 'SEQUENCE', optional: bounded, text: ({ sequence }) => String(sequence), alignRight: true },
  { heading: 'RUN', text: ({ run }) => run },
  { heading: 'COMPLETED', optional: bounded, text: ({ completedAt }) => toSeconds(completedAt) },
  { heading: 'SINCE', optional: !bounded, text: ({ since }) => since },
  { heading: 'UNTIL', optional: !bounded, text: ({ until }) => until ?? '' },
  { heading: 'PAGES', text: ({ pages }) => pages.toLocaleString('en'), alignRight: true },
  {
    heading: 'REPORTS',
    optional: bounded,
    text: ({ reports }) => reports?.toLocaleString('en') ?? '–',
    alignRight: true,
  },
  { heading: 'BYTES', optional: true, text: (run) => bytes(run.bytes), alignRight: true },
  {
    heading: 'TOOK',
    optional: true,
    text: ({ startedAt, completedAt }) => coarseDuration(epochMsOf(completedAt) - epochMsOf(startedAt)),
  },
  { heading: 'MANIFEST', optional: true, text: ({ location }) => location },
];
